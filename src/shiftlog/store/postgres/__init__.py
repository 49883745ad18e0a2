"""The team's store: PostgreSQL through psycopg 3, for any number of processes at once."""

from shiftlog.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
