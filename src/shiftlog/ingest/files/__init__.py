"""Transcript files: finding them, comparing them with earlier readings, and reading their lines."""
