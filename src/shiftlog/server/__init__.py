"""The team's server: the journal over HTTP for many machines, as any number of equal processes on one PostgreSQL.

It has no shells, no hooks and no state of its own: any request may reach any replica.
"""
