"""Checks text before it is stored, shown or run: `secrets`, `budgets`, `bash` and `policy`.

Nothing here keeps state between calls or knows about sessions. Only `policy.files` and `directories` read the disk.
"""
