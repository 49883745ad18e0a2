"""Decides how much of an output is shown, and which part. Doors: `spec` (the budget), `shape`, `text` (applying it)."""
