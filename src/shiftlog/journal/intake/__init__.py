"""Facts recorded elsewhere become entries: transcripts in batches, hook events one by one."""
