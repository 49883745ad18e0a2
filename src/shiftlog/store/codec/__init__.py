"""How a noun becomes bytes: msgspec documents, long texts as blobs, zstd with a dictionary. One encode/decode pair;
nobody else looks at marks.
"""
