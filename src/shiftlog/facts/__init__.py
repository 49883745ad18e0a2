"""What readers of transcripts and hooks found: the structs that ingest hands to the journal, without logic."""
