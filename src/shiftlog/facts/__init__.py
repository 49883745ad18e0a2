"""What readers of transcripts and hooks found, masked or not: the vocabulary that ingest hands to the journal (msgspec
structs, no logic).
"""
