"""Figures, never asserted: every one beside its floor or its peer, measured in the same run."""
