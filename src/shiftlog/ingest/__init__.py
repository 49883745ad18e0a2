"""Ingest: other tools' transcripts and hook events become facts for the journal.

Readers are sans-I/O; finding files, running an import and reading hook events are separate packages.
"""
