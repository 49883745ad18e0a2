"""Tallies: days without usage, and filling them once from the sessions of an older version."""

from pathlib import Path

import apsw

from shiftlog.model.nouns import Usage
from shiftlog.store.protocol import Filter
from shiftlog.store.sqlite import SqliteStore
from shiftlog.store.tallies import on_days
from tests.contract import builders as b


async def test_sessions_of_an_older_version_are_counted_when_the_store_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "shiftlog.db"
    async with SqliteStore(path, durability="process") as store:
        await b.stored(store, of=b.session("a", usage=Usage(input_tokens=7)))
        before = await store.read(lambda reader: reader.tallies(Filter(), ("day",)))
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM tallies; INSERT INTO unbuilt VALUES ('tallies')")
    db.close()
    async with SqliteStore(path, durability="process") as store:
        assert await store.read(lambda reader: reader.tallies(Filter(), ("day",))) == before
    db = apsw.Connection(str(path))
    assert db.execute("SELECT * FROM unbuilt").fetchall() == []
    db.close()


def test_a_later_day_on_which_nothing_was_used_is_left_out() -> None:
    used = Usage(input_tokens=5)
    session = b.session(usage=used, later_days={"2026-07-02": {"": Usage()}, "2026-07-03": {"": Usage(input_tokens=2)}})
    first = session.started.date().isoformat()
    assert on_days(session, None, used) == [(first, Usage(input_tokens=3)), ("2026-07-03", Usage(input_tokens=2))]
