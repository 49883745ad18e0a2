"""One reader a format, sans-I/O: bytes in, facts out. formats.py is the table."""
