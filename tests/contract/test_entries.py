"""Appending entries and reading them back: order, ranges, choices, and long or unusual text."""

from typing import Any

import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Store
from tests.contract import builders as b

ONE = b.session_id("one")


async def seqs(store: Store, name: str = "one", **choice: Any) -> list[int]:
    return await store.read(lambda reader: [entry.seq for entry in reader.entries(b.session_id(name), **choice)])


async def test_entries_are_read_in_the_order_they_were_appended(store: Store) -> None:
    chain = await b.stored(store, "first", "second")
    await store.write(lambda writer: writer.append(ONE, [chain.indexed("third")]))
    assert await store.read(lambda reader: reader.entries(ONE)) == chain.made


async def test_every_part_of_an_entry_comes_back_as_it_was_given(store: Store) -> None:
    chain = b.Chain()
    body: dict[str, object] = {
        "text": "Grüße, 世界 🚀",
        "number": 9007199254740991,
        "share": 0.1,
        "flag": False,
        "nothing": None,
        "list": [1, [2, {"deep": "er"}]],
        "empty": {},
    }
    made = chain.entry(kind=Kind.ACTION, turn=b.request_id(1), body=body, when=b.at(3.14159))
    await store.write(lambda writer: writer.append(ONE, [b.packed(made)]))
    (read,) = await store.read(lambda reader: reader.entries(ONE))
    assert (read.seq, read.kind, read.turn, read.body) == (1, Kind.ACTION, b.request_id(1), body)
    assert (read.salt, read.body_hash, read.hash) == (made.salt, made.body_hash, made.hash)
    assert read.body_is_intact()
    assert read.expected_hash(b.first_prev_hash(ONE)) == made.hash


async def test_a_session_that_was_never_written_has_no_entries_and_no_head(store: Store) -> None:
    assert await seqs(store) == []
    assert await store.read(lambda reader: reader.head(ONE)) is None


async def test_after_leaves_out_what_was_read_before(store: Store) -> None:
    await b.stored(store, *"abcde")
    assert await seqs(store, after=3) == [4, 5]


async def test_until_ends_with_the_entry_it_names(store: Store) -> None:
    await b.stored(store, *"abcde")
    assert await seqs(store, until=2) == [1, 2]
    assert await seqs(store, after=1, until=3) == [2, 3]


async def test_limit_keeps_the_oldest(store: Store) -> None:
    await b.stored(store, *"abcde")
    assert await seqs(store, limit=2) == [1, 2]
    assert await seqs(store, after=2, limit=2) == [3, 4]
    assert await seqs(store, limit=0) == []


async def test_a_position_outside_the_journal_never_shows_another_sessions_entries(store: Store) -> None:
    for name in ("one", "two", "three"):
        await b.stored(store, name, of=b.session(name))
    assert await seqs(store, "two", after=-5) == [1]
    assert await seqs(store, "two", after=10**12) == []
    assert await seqs(store, "two", until=10**12) == [1]
    assert await seqs(store, "two", until=-1) == []


async def test_turn_chooses_the_entries_of_one_turn(store: Store) -> None:
    chain = b.Chain()
    items = [chain.indexed(turn=turn) for turn in (None, b.request_id(1), b.request_id(2), b.request_id(1))]
    await store.write(lambda writer: writer.append(ONE, items))
    assert await seqs(store, turn=b.request_id(1)) == [2, 4]
    assert await seqs(store, turn=b.request_id(1), after=2) == [4]


async def test_kinds_chooses_by_kind_and_no_kinds_means_none(store: Store) -> None:
    chain = b.Chain()
    items = [chain.indexed(kind=kind) for kind in (Kind.SESSION_OPENED, Kind.DIALOG, Kind.ACTION, Kind.DIALOG)]
    await store.write(lambda writer: writer.append(ONE, items))
    assert await seqs(store, kinds=[Kind.DIALOG]) == [2, 4]
    assert await seqs(store, kinds=[Kind.DIALOG, Kind.ACTION], limit=2) == [2, 3]
    assert await seqs(store, kinds=[]) == []


async def test_the_head_is_the_last_entry(store: Store) -> None:
    chain = await b.stored(store, "a", "b")
    assert await store.read(lambda reader: reader.head(ONE)) == (2, chain.hash)
    await store.write(lambda writer: writer.append(ONE, [chain.indexed("c")]))
    assert await store.read(lambda reader: reader.head(ONE)) == (3, chain.hash)


async def test_sessions_are_listed_in_the_order_their_journals_began(store: Store) -> None:
    for name in ("zebra", "ant", "moth"):
        await b.stored(store, of=b.session(name))
    expected = [b.session_id(name) for name in ("zebra", "ant", "moth")]
    assert await store.read(lambda reader: reader.session_ids()) == expected


async def test_appending_nothing_changes_nothing(store: Store) -> None:
    await store.write(lambda writer: writer.append(ONE, []))
    assert await store.read(lambda reader: reader.session_ids()) == []


@pytest.mark.parametrize(("stored", "seq"), [(0, 2), (2, 2), (2, 4)])
async def test_an_entry_that_does_not_follow_the_head_is_refused(store: Store, stored: int, seq: int) -> None:
    if stored:
        await b.stored(store, *"ab")
    wrong = b.Chain(seq=seq - 1, hash="sha256:" + "0" * 64).indexed("wrong")
    with pytest.raises(StorageError, match="Storage error"):
        await store.write(lambda writer: writer.append(ONE, [wrong]))
    assert await seqs(store) == list(range(1, stored + 1))


@pytest.mark.parametrize("chars", [1_024, 1_025, 4_096, 4_097, 200_000])
async def test_long_text_comes_back_whole(store: Store, chars: int) -> None:
    text = ("0123456789abcdef" * (chars // 16 + 1))[:chars]
    chain = await b.stored(store, text)
    (read,) = await store.read(lambda reader: reader.entries(ONE))
    assert read == chain.made[0]
    assert read.body_is_intact()


async def test_long_text_beyond_the_basic_plane_comes_back_whole(store: Store) -> None:
    text = "🦊𝔘𐍈" * 2_000
    await b.stored(store, text)
    (read,) = await store.read(lambda reader: reader.entries(ONE))
    assert read.facts["content"] == text
    assert read.body_is_intact()


async def test_long_texts_inside_lists_and_objects_come_back_whole(store: Store) -> None:
    long = "many words " * 1_000
    body: dict[str, object] = {"set": {"response": long}, "add": {"blockers": ["short", long]}}
    made = b.Chain().entry(body=body)
    await store.write(lambda writer: writer.append(ONE, [b.packed(made)]))
    (read,) = await store.read(lambda reader: reader.entries(ONE))
    assert read.body == body


async def test_an_entry_whose_body_was_erased_elsewhere_can_be_stored(store: Store) -> None:
    made = b.erased(b.Chain().entry("gone"))
    await store.write(lambda writer: writer.append(ONE, [b.packed(made)]))
    (read,) = await store.read(lambda reader: reader.entries(ONE))
    assert (read.body, read.salt, read.hash) == (None, None, made.hash)


async def test_counts_say_how_much_there_is(store: Store) -> None:
    await b.stored(store, "a", "b", turns=[b.turn(1), b.turn(2)])
    await b.stored(store, "c", of=b.session("two"), turns=[b.turn(1)])
    counts = await store.read(lambda reader: reader.counts())
    assert (counts.sessions, counts.turns, counts.entries) == (2, 3, 3)
