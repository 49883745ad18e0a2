"""Other tools beside ours, in one run on one machine: `python -m bench.peers`. Nothing here is imported by the product."""
