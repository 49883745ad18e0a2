"""How much of an output is shown, and which part."""
