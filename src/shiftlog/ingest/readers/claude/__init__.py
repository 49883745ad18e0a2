"""The reader of Claude Code transcripts, one module per kind of record."""
