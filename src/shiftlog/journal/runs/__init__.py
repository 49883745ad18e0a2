"""Runs, the process side of sessions: how each ended and what it cost."""
