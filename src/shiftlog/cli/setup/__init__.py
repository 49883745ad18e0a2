"""Connecting agents: which files, which entry, and taking it back."""
