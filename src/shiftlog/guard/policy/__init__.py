"""The command policy: which programs a command would start, and whether they may.

Doors: `judge` (verdicts), `operator` (the operator's settings), `explain` and `suggest`; `files`, `found` and `lists`
hold what these take and return. Nothing here runs a program, and only `files` reads the disk.
"""
