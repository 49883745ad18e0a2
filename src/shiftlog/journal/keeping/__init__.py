"""Legal holds and retention: they decide how long sessions are kept."""
