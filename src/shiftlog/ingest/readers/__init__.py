"""Readers, one per format, sans-I/O: bytes in, facts out. `formats` is the table of them."""
