"""Pages: newest first, each row once, also while another writer adds and changes rows between two pages."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from shiftlog.store.protocol import EntryRow, FileRow, Filter, Page, Reader, SessionRow, Store, TurnRow
from tests.contract import builders as b

Row = TypeVar("Row", SessionRow, TurnRow, FileRow, EntryRow)
Find = Callable[[Reader, Page], list[Row]]


async def walk(store: Store, find: Find[Row], between: Callable[[int], Awaitable[object]] | None = None) -> list[Row]:
    """Read all pages of two rows; `between` runs after each."""
    rows: list[Row] = []
    after: tuple[int, int] | None = None
    while page := await store.read(lambda reader, after=after: find(reader, Page(limit=2, after=after))):
        rows.extend(page)
        after = page[-1].at
        if between is not None and len(rows) < 20:
            await between(len(rows))
    return rows


async def test_sessions_come_newest_start_first(store: Store) -> None:
    for name, minutes in {"early": 0, "late": 9, "middle": 5, "also-late": 9}.items():
        await b.stored(store, of=b.session(name, started=b.at(minutes), last_activity=b.at(20 - minutes)))
    rows = await walk(store, lambda reader, page: reader.find_sessions(Filter(), page))
    assert [row.session.title for row in rows] == [
        f"Session {name}" for name in ("also-late", "late", "middle", "early")
    ]


async def test_sessions_come_newest_activity_first_where_that_is_asked(store: Store) -> None:
    for name, minutes in {"a": 3, "b": 8, "c": 5}.items():
        await b.stored(store, of=b.session(name, last_activity=b.at(minutes)))
    rows = await walk(store, lambda reader, page: reader.find_sessions(Filter(), page, by_activity=True))
    assert [row.session.id[-1] for row in rows] == ["b", "c", "a"]


async def test_turns_come_newest_begin_first_whatever_session_they_are_of(store: Store) -> None:
    await b.stored(store, turns=[b.turn(n, begun_at=b.at(n)) for n in (1, 4, 5)])
    await b.stored(store, of=b.session("two"), turns=[b.turn(n, begun_at=b.at(n)) for n in (2, 3)])
    rows = await walk(store, lambda reader, page: reader.find_turns(Filter(), page))
    assert [row.turn.ordinal for row in rows] == [5, 4, 3, 2, 1]


async def test_turns_begun_in_the_same_moment_are_all_listed(store: Store) -> None:
    await b.stored(store, turns=[b.turn(n, begun_at=b.START) for n in range(1, 6)])
    rows = await walk(store, lambda reader, page: reader.find_turns(Filter(), page))
    assert [row.turn.ordinal for row in rows] == [5, 4, 3, 2, 1]


async def test_entries_come_newest_session_first_and_then_newest_first(store: Store) -> None:
    for name in ("a", "b"):
        await b.stored(store, *"123", of=b.session(name))
    rows = await walk(store, lambda reader, page: reader.find_entries(Filter(), page, None))
    assert [(row.session_id[-1], row.entry.seq) for row in rows] == [(name, seq) for name in "ba" for seq in (3, 2, 1)]


async def test_files_of_a_turn_come_last_touched_first(store: Store) -> None:
    for name in ("a", "b"):
        files = {f"{name}{n}.py": b.touch() for n in range(3)}
        await b.stored(store, of=b.session(name), turns=[b.turn(files=files)])
    rows = await walk(store, lambda reader, page: reader.find_files(Filter(), page))
    assert [row.path for row in rows] == ["b2.py", "b1.py", "b0.py", "a2.py", "a1.py", "a0.py"]


async def test_every_list_comes_in_the_opposite_order_where_the_oldest_is_asked_for_first(store: Store) -> None:
    for name, minutes in {"a": 0, "b": 9, "c": 5}.items():
        turns = [b.turn(n, begun_at=b.at(minutes + n), files={f"{name}{n}.py": b.touch()}) for n in (1, 2)]
        await b.stored(store, *"123", of=b.session(name, started=b.at(minutes)), turns=turns)

    async def both_ways(find: Find[Row]) -> None:
        def around(reader: Reader, page: Page) -> list[Row]:
            return find(reader, replace(page, oldest_first=True))

        newest = [row.at for row in await walk(store, find)]
        oldest = [row.at for row in await walk(store, around)]
        assert oldest == newest[::-1]
        assert len(set(oldest)) == len(oldest) > 2

    await both_ways(lambda reader, page: reader.find_sessions(Filter(), page))
    await both_ways(lambda reader, page: reader.find_turns(Filter(), page))
    await both_ways(lambda reader, page: reader.find_files(Filter(), page))
    await both_ways(lambda reader, page: reader.find_entries(Filter(), page, None))


async def test_paging_shows_each_session_once_while_others_are_opened(store: Store) -> None:
    for n in range(7):
        await b.stored(store, of=b.session(f"old-{n}", started=b.at(n)))

    async def open_one_and_touch_one(seen: int) -> None:
        for minutes in (100, -100):
            started = b.START + timedelta(minutes=minutes)
            await b.stored(store, of=b.session(f"new-{seen}-{abs(minutes)}-{minutes > 0}".lower(), started=started))
        touched = b.session("old-3", started=b.at(3), last_activity=b.at(500 + seen))
        await store.write(lambda writer: writer.put_session(touched))

    rows = await walk(store, lambda reader, page: reader.find_sessions(Filter(), page), open_one_and_touch_one)
    old = [row.session.id[-1] for row in rows if "old" in row.session.id]
    assert old == list("6543210")
    assert len({row.session.id for row in rows}) == len(rows)


async def test_paging_shows_each_turn_and_file_once_while_turns_are_added_and_changed(store: Store) -> None:
    one = b.session_id("one")
    turns = [b.turn(n, files={f"{n}.py": b.touch()}) for n in range(1, 8)]
    await b.stored(store, turns=turns)

    async def add_and_change(seen: int) -> None:
        n = 100 + seen
        changed = replace(turns[2], last_seq=n, files={**turns[2].files, "3.py": b.touch(seen)})
        await store.write(lambda writer: writer.put_turn(one, b.turn(n, files={f"{n}.py": b.touch()})))
        await store.write(lambda writer: writer.put_turn(one, changed))

    found = await walk(store, lambda reader, page: reader.find_turns(Filter(), page), add_and_change)
    assert [row.turn.ordinal for row in found if row.turn.ordinal < 100] == [7, 6, 5, 4, 3, 2, 1]
    files = await walk(store, lambda reader, page: reader.find_files(Filter(), page), add_and_change)
    assert [row.path for row in files if len(row.path) == 4] == [f"{n}.py" for n in (7, 6, 5, 4, 3, 2, 1)]


async def test_paging_shows_each_entry_once_while_entries_are_appended(store: Store) -> None:
    chain = await b.stored(store, *"12345")

    async def append(seen: int) -> None:
        await store.write(lambda writer: writer.append(b.session_id("one"), [chain.indexed(f"later {seen}")]))

    rows = await walk(store, lambda reader, page: reader.find_entries(Filter(), page, None), append)
    assert [row.entry.seq for row in rows] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("what", ["session", "turn", "file", "entry"])
async def test_count_counts_all_pages(store: Store, what: str) -> None:
    for n in range(5):
        await b.stored(store, of=b.session(f"s{n}"), turns=[b.turn(1, files={"a.py": b.touch()})])
    assert await store.read(lambda reader: reader.count(what, Filter())) == 5
