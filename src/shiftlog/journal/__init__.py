"""The journal: one way to write entries and what follows from them (history, runs, usage, continuity, intake)."""
