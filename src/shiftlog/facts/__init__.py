"""Facts that readers found in transcripts and hook events: structs for the journal, without logic."""
