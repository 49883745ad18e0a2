"""Texts that wait for the full-text index.

Indexing one text costs a small write a third of its pages, so it leaves the text in `unindexed` and is done. The texts
are taken up together: before any larger work ends, before anybody searches, or a moment later. They are part of the
file, so it matters little when a process ends in between.
"""

from collections.abc import Sequence

import apsw

# More is indexed at once: long texts are not worth writing twice.
LEFT_CHARS = 2_000


class IndexBehind(Exception):
    """A search that would miss texts which wait for the index."""


def are_waiting(db: apsw.Connection) -> bool:
    """Tell whether texts wait for the index."""
    return db.execute("SELECT 1 FROM unindexed LIMIT 1").fetchone() is not None


def leave(db: apsw.Connection, texts: Sequence[tuple[int, str]]) -> bool:
    """Let texts of entries wait for the index; say no where they are too long for that."""
    if sum(len(text) for _, text in texts) > LEFT_CHARS:
        return False
    db.executemany("INSERT INTO unindexed VALUES (?, ?)", texts)
    return True


def take_up(db: apsw.Connection) -> None:
    """Index the texts that wait."""
    if are_waiting(db):
        db.execute("INSERT INTO found (rowid, text) SELECT id, text FROM unindexed")
        db.execute("DELETE FROM unindexed")
