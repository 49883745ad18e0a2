"""Reads bash text into a syntax tree, or reports why it cannot; knows no policy.

Doors: `script` (reading), `tree` (the result) and `words` (a command's arguments).
"""
