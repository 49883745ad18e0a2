"""A generated corpus for redaction: contexts × names × values × encodings, drawn anew from every seed."""
