"""Finds and masks secrets. Doors: `redactor` (texts, JSON), `scan` (text in pieces) and `blobs` (encoded data)."""
