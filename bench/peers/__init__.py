"""Other tools beside ours, in one run on one machine: `python -m bench.peers`. The product imports nothing of this."""
