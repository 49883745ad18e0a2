"""Ingest: other tools' transcripts and hook events become facts, and facts become entries.

Readers (one file a format) are sans-I/O; finding files, deciding and storing live beside them.
"""
