"""What a session is: its entries, turns, history, continuity and runs, and the rules that they keep."""
