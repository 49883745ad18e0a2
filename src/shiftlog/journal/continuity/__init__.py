"""Ending, resuming, holding and handing over sessions. Door: Continuity."""
