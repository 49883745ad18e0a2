"""A copy of the database to try things on: what is written there never reaches the original."""

from pathlib import Path

import apsw


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of a database that others may be using to a new file of mode 0600."""
    target.touch(mode=0o600)
    db = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(60_000)
        db.execute("VACUUM INTO ?", (str(target),))
    finally:
        db.close()
