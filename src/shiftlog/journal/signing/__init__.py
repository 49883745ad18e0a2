"""The key of a state directory and what it signs: receipts and recovery tokens."""
