"""Checkpoints of a working tree: saving its state before it changes, showing what changed, and going back.

`checkpoints` is the service; `ports` says what it needs from others: a runner on the target and a log for its records.
"""
