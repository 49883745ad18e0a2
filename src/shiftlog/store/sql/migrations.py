"""Numbered SQL files that bring a database to the schema of this version: forward only, and recognised by checksums."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

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


def shipped_in(package: str) -> list[Migration]:
    """List the migrations of a store in order."""
    folder = resources.files(package) / "migrations"
    found: list[Migration] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.name.endswith(".sql"):
            number, _, name = item.name.removesuffix(".sql").partition("_")
            found.append(Migration(number=int(number), name=name, sql=item.read_text(encoding="utf-8")))
    return found


def check(applied: Mapping[int, str], wanted: list[Migration]) -> None:
    """Refuse a database of a newer version, and one whose migrations were others."""
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
