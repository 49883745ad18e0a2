"""Migrations of a PostgreSQL database, applied one after another under an advisory lock, all in one transaction."""

from typing import Any

import psycopg

from shiftlog.model.errors import StorageError
from shiftlog.store.sql.migrations import Migration, check, shipped_in

# Any number, as long as every version of Shiftlog takes the same one.
LOCK = 7_437_000_015
WAIT_S = 60

Connection = psycopg.Connection[tuple[Any, ...]]


def shipped() -> list[Migration]:
    """List the migrations of this version in order."""
    return shipped_in("shiftlog.store.postgres")


def applied(db: Connection) -> dict[int, str]:
    """Return the numbers and checksums of the migrations that a database has; none for an empty one."""
    if db.execute("SELECT to_regclass('migrations')").fetchone() == (None,):
        return {}
    return {int(number): str(checksum) for number, checksum in db.execute("SELECT number, checksum FROM migrations")}


def pending(db: Connection, migrations: list[Migration] | None = None) -> list[Migration]:
    """List the migrations that a database lacks; refuse one from a newer version."""
    wanted = shipped() if migrations is None else migrations
    done = applied(db)
    check(done, wanted)
    return [migration for migration in wanted if migration.number not in done]


def migrate(db: Connection, migrations: list[Migration] | None = None) -> list[Migration]:
    """Bring a database to this version's schema and return what was applied; refuse one from a newer version.

    Of several processes that start at once, one migrates and the others wait for it.
    """
    if not pending(db, migrations):
        return []
    db.execute("BEGIN")
    try:
        db.execute(f"SET LOCAL lock_timeout = '{WAIT_S}s'".encode())
        db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        db.execute(
            "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL,"
            " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        missing = pending(db, migrations)
        for migration in missing:
            db.execute(migration.sql.encode())
            db.execute(
                "INSERT INTO migrations (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    except BaseException:
        if not db.closed:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return missing


def has_trigrams(db: Connection) -> bool:
    """Return True if a database has its indexes of trigrams, which need the extension pg_trgm."""
    row = db.execute(
        "SELECT to_regclass('turn_files_by_path') IS NOT NULL AND to_regclass('grams_by_text') IS NOT NULL"
    ).fetchone()
    return row == (True,)


def make_trigrams(db: Connection) -> bool:
    """Make the indexes of trigrams if the role may; return True if they are there."""
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        return db.execute("SELECT make_trigram_indexes()").fetchone() == (True,)


def require_current(db: Connection) -> None:
    """Refuse a database that lacks migrations of this version."""
    missing = pending(db)
    if missing:
        names = ", ".join(f"{each.number} ({each.name})" for each in missing)
        raise StorageError(
            "Storage error",
            details={"reason": f"the database lacks the migrations {names}"},
            hint="Run shiftlog store migrate, or set store.migrate = true",
        )
