"""Which files there are, what changed in them, and their lines."""
