"""Files below an open directory: looked at, changed, and pipes among them; knows nothing of checkpoints or git."""
