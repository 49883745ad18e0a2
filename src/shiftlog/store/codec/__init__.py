"""Encode nouns and bodies as bytes, and decode them: JSON, long texts as blobs, short documents compressed."""
