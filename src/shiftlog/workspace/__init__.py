"""Checkpoints of a working tree: saves its state before it changes, shows what changed, and goes back.

Doors: `checkpoints` (the service) and `ports` (the runner and the log that it needs).
"""
