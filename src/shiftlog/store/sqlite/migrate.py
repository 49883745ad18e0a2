"""Migrations of the SQLite file, applied under its own write lock."""

import apsw

from shiftlog.store.sql.migrations import Migration, check, shipped_in


def shipped() -> list[Migration]:
    """List the migrations of this version in order."""
    return shipped_in("shiftlog.store.sqlite")


def migrate(db: apsw.Connection, migrations: list[Migration] | None = None) -> int:
    """Bring a database to this version's schema and return its number; refuse one from a newer version."""
    wanted = shipped() if migrations is None else migrations
    if is_current(db, wanted):
        return wanted[-1].number
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(
            "CREATE TABLE IF NOT EXISTS migrations"
            " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT"
        )
        applied = _applied(db)
        check(applied, wanted)
        for migration in wanted:
            if migration.number not in applied:
                db.execute(migration.sql)
                db.execute(
                    "INSERT INTO migrations VALUES (?, ?, ?)",
                    (migration.number, migration.name, migration.checksum),
                )
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return wanted[-1].number


def _applied(db: apsw.Connection) -> dict[int, str]:
    return {int(number): str(checksum) for number, checksum in db.execute("SELECT number, checksum FROM migrations")}


def is_current(db: apsw.Connection, migrations: list[Migration] | None = None) -> bool:
    """Return True if a database has this version's schema."""
    wanted = shipped() if migrations is None else migrations
    exists = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    return exists is not None and _applied(db) == {m.number: m.checksum for m in wanted}
