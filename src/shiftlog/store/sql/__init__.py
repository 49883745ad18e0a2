"""The parts that stores in SQL databases share: conditions, rows, columns, and facets whose statements are the same.

A store adds what its database does in its own way: connections, search, locks, compression of pages.
"""
