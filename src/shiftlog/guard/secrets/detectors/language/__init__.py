"""Data about random text, common words and other languages, for the detectors; it decides nothing."""
