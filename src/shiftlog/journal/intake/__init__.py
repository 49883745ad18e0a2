"""Facts recorded elsewhere become entries: transcripts in batches, hook events one by one. The only second user of the
chain.
"""
