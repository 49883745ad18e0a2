"""Finds and masks secrets. Doors: `redactor` (texts, JSON), `scan` (text in pieces), `blobs` (encoded data) and
`off_loop` (long texts)."""
