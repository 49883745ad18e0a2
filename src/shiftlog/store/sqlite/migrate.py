"""Forward-only numbered migrations, applied under the database's own write lock and checksummed."""

import hashlib
from dataclasses import dataclass
from importlib import resources

import apsw

from shiftlog.model.errors import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered SQL file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Return the hash by which an applied migration is recognised."""
        return hashlib.sha256(self.sql.encode("utf-8")).hexdigest()


def shipped() -> list[Migration]:
    """List the migrations of this version in order."""
    folder = resources.files("shiftlog.store.sqlite") / "migrations"
    found: list[Migration] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.name.endswith(".sql"):
            number, _, name = item.name.removesuffix(".sql").partition("_")
            found.append(Migration(number=int(number), name=name, sql=item.read_text(encoding="utf-8")))
    return found


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
        _check(applied, wanted)
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


def _check(applied: dict[int, str], wanted: list[Migration]) -> None:
    known = {migration.number: migration for migration in wanted}
    for number, checksum in applied.items():
        migration = known.get(number)
        if migration is None:
            raise StorageError(
                "Storage error",
                details={"reason": f"the database has migration {number}, which this version does not know"},
                hint="Install the newer Shiftlog that made it",
            )
        if migration.checksum != checksum:
            raise StorageError(
                "Storage error",
                details={"reason": f"migration {number} ({migration.name}) was changed after it was applied"},
                hint="Restore the migration file; write a new one instead of changing it",
            )
