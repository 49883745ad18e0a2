"""How nouns and bodies become bytes, and back: JSON, long texts as blobs, short documents compressed."""
