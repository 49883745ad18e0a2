"""One view a page: data first, its JSON twin is the same data."""
