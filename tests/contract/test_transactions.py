"""Transactions: all or nothing, one consistent state for a reader, works beside each other, opening and closing."""

from dataclasses import replace

import anyio
import pytest

from shiftlog.model.errors import ShiftlogError, StorageError, TurnNotFound
from shiftlog.model.search import parse
from shiftlog.store.protocol import Answer, Filter, Indexed, Reader, Store, Writer
from tests.contract import builders as b

ONE = b.session_id("one")


def everything(reader: Reader) -> list[object]:
    """Read every kind of thing that a work can change."""
    return [
        reader.session_ids(),
        reader.head(ONE),
        reader.entries(ONE),
        reader.session(ONE),
        reader.turns(ONE),
        reader.leases(),
        reader.grant(ONE, "client-1"),
        reader.answer("scope", "key"),
        reader.outcome("client", "call"),
        reader.receipts(ONE),
        replace(reader.counts(), bytes=0),  # a work that failed may have made files longer
        reader.search(parse("word"), Filter(), unit="entry", limit=9, most=9),
        [reader.count(what, Filter()) for what in ("session", "turn", "file", "entry")],
    ]


def change_everything(writer: Writer, chain: b.Chain) -> None:
    writer.append(ONE, [chain.indexed("a new word")])
    writer.put_session(b.session(title="changed", head_seq=chain.seq))
    writer.put_turn(ONE, b.turn(1, tags=("changed",), files={"new.py": b.touch()}))
    writer.put_turn(ONE, b.turn(2))
    writer.put_lease(b.lease())
    writer.renew_leases(["client-1"], b.at(50))
    writer.put_answer("scope", "key", Answer(request_hash="x", answer={"session_id": ONE}, at=b.at(0)))
    writer.put_outcome("client", "call", {"code": "persisted"}, b.at(0))
    writer.put_receipt(b.receipt())
    writer.erase_body(ONE, 1)


async def test_a_failing_work_stores_nothing_and_its_error_reaches_the_caller(store: Store) -> None:
    chain = await b.stored(store, "word", turns=[b.turn(1, files={"old.py": b.touch()})])
    before = await store.read(everything)

    def work(writer: Writer) -> None:
        change_everything(writer, chain)
        raise TurnNotFound("no such turn")

    with pytest.raises(TurnNotFound, match="no such turn"):
        await store.write(work)
    assert await store.read(everything) == before


async def test_a_failing_work_takes_back_what_it_removed(store: Store) -> None:
    chain = await b.stored(store, "word", turns=[b.turn(1, tags=("kept",), files={"old.py": b.touch()})])
    await store.write(lambda writer: change_everything(writer, chain))
    before = await store.read(everything)

    def work(writer: Writer) -> None:
        writer.end_lease(ONE)
        writer.forget_answers(session_id=ONE, before=b.at(100))
        writer.forget_outcomes(b.at(100))
        writer.reindex(ONE, [Indexed(entry=chain.made[1], text="other", facet="decision")])
        writer.forget_projection(ONE)
        raise KeyError("gone")

    with pytest.raises(KeyError):
        await store.write(work)
    assert await store.read(everything) == before


async def test_the_first_work_of_a_session_leaves_no_trace_when_it_fails(store: Store) -> None:
    def work(writer: Writer) -> None:
        b.put(writer, "word")
        raise ValueError("too early")

    with pytest.raises(ValueError, match="too early"):
        await store.write(work)
    assert await store.read(lambda reader: reader.session_ids()) == []
    await b.stored(store, "word")
    assert await store.read(lambda reader: reader.session_ids()) == [ONE]


async def test_a_failing_work_does_not_disturb_those_beside_it(store: Store) -> None:
    results: dict[str, object] = {}

    async def write(name: str) -> None:
        def work(writer: Writer) -> str:
            b.put(writer, f"word {name}", of=b.session(name))
            if name.startswith("bad"):
                raise ValueError(name)
            return name

        try:
            results[name] = await store.write(work)
        except ValueError as error:
            results[name] = error

    names = [f"{'bad' if n % 3 == 1 else 'good'}-{n}" for n in range(30)]
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(write, name)
    good = {name for name in names if name.startswith("good")}
    assert {name for name, result in results.items() if result == name} == good
    stored = await store.read(lambda reader: reader.session_ids())
    assert set(stored) == {b.session_id(name) for name in good}
    for word, total in {"word": len(good), "good": len(good), "bad": 0}.items():
        found = await store.read(
            lambda reader, word=word: reader.search(parse(word), Filter(), unit="entry", limit=99, most=99)
        )
        assert found.total == total


async def test_a_work_sees_what_it_has_written_so_far(store: Store) -> None:
    def work(writer: Writer) -> list[object]:
        chain = b.put(writer, "one", turns=[b.turn()])
        writer.append(ONE, [chain.indexed("two")])
        return [len(writer.entries(ONE)), writer.head(ONE), writer.turn(ONE, b.request_id(1))]

    seen = await store.write(work)
    assert (seen[0], seen[2]) == (2, b.turn())


async def test_what_a_work_returns_comes_back_to_its_caller(store: Store) -> None:
    assert await store.write(lambda writer: 41 + 1) == 42
    assert await store.read(lambda reader: {"an": "answer"}) == {"an": "answer"}


async def test_an_error_of_a_reading_work_reaches_the_caller_and_the_store_goes_on(store: Store) -> None:
    def work(reader: Reader) -> None:
        raise ShiftlogError("odd")

    with pytest.raises(ShiftlogError, match="odd"):
        await store.read(work)
    assert await store.read(lambda reader: reader.session_ids()) == []


async def test_many_writers_of_one_session_never_write_the_same_entry_twice(store: Store) -> None:
    await b.stored(store, "start")

    async def append(n: int) -> None:
        def work(writer: Writer) -> None:
            head = writer.head(ONE)
            assert head is not None
            chain = b.Chain(seq=head[0], hash=head[1])
            writer.append(ONE, [chain.indexed(f"word {n}")])

        await store.write(work)

    async with anyio.create_task_group() as group:
        for n in range(50):
            group.start_soon(append, n)
    entries = await store.read(lambda reader: reader.entries(ONE))
    assert [entry.seq for entry in entries] == list(range(1, 52))
    assert len({str(entry.facts["content"]) for entry in entries}) == 51


async def test_a_cancelled_caller_leaves_a_store_that_works(store: Store) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await b.stored(store, "word")
    assert await store.read(lambda reader: len(reader.entries(ONE))) in (0, 1)
    await b.stored(store, "word", of=b.session("two"))
    assert b.session_id("two") in await store.read(lambda reader: reader.session_ids())


async def test_a_store_that_is_not_open_refuses_to_work(store: Store) -> None:
    await store.__aexit__(None, None, None)
    with pytest.raises(StorageError):
        await store.write(lambda writer: writer.next_alias())
    with pytest.raises(StorageError):
        await store.read(lambda reader: reader.session_ids())
    await store.__aenter__()


async def test_a_store_opened_again_holds_what_it_held(store: Store) -> None:
    chain = await b.stored(store, "word", turns=[b.turn()])
    await store.__aexit__(None, None, None)
    await store.__aenter__()
    assert await store.read(lambda reader: reader.entries(ONE)) == chain.made
    assert await store.read(lambda reader: reader.turns(ONE)) == [b.turn()]
