"""Keeping facts: the Store protocol and the stores that fulfil it. What the facts mean is the journal's."""
