"""Kernel rules for local shells on Linux: launcher, exec broker, Landlock and seccomp. Door: `sandbox`.

`kernel` and `launcher` use the standard library only, because they run before every sandboxed shell. A judge,
supplied by the caller, decides which programs may start.
"""
