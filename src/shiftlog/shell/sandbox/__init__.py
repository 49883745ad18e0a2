"""Kernel rules for local shells on Linux: launcher, exec broker, Landlock and seccomp plans, and what a machine offers.

`kernel`, `plan` and `launcher` are the standard library alone, since they run before every sandboxed shell. Nothing is
imported here; what programs may start is decided by a judge that others bring.
"""
