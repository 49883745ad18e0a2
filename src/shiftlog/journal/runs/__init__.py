"""The ledger of runs: how each ended, what it cost."""
