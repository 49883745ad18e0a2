"""Keeping facts: the Store protocol and the stores that implement it. What the facts mean is decided in `journal`."""
