"""Erasing bodies, and making the projections and the text index again from the entries."""

from dataclasses import replace

from shiftlog.model.entry import Entry
from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter, Indexed, Page, Store, Writer
from tests.contract import builders as b

ONE = b.session_id("one")
ALL = Page(limit=100)


async def entries(store: Store, name: str = "one") -> list[Entry]:
    return await store.read(lambda reader: reader.entries(b.session_id(name)))


async def matches(store: Store, text: str) -> int:
    expr = parse(text)
    return (await store.read(lambda reader: reader.search(expr, Filter(), unit="entry", limit=9, most=99))).total


async def test_an_erased_entry_keeps_its_place_and_hash_but_has_neither_body_nor_salt(store: Store) -> None:
    chain = await b.stored(store, "first", "secret", "third")
    await store.write(lambda writer: writer.erase_body(ONE, 2))
    assert await entries(store) == [chain.made[0], b.erased(chain.made[1]), chain.made[2]]
    assert await store.read(lambda reader: reader.head(ONE)) == (3, chain.hash)


async def test_an_erased_entry_is_not_found_by_its_text(store: Store) -> None:
    await b.stored(store, "the secret word", "the other word")
    await store.write(lambda writer: writer.erase_body(ONE, 1))
    assert await matches(store, "secret") == 0
    assert await matches(store, "word") == 1
    assert await matches(store, "!absent") == 1


async def test_an_entry_appended_and_erased_in_one_transaction_is_not_found(store: Store) -> None:
    def work(writer: Writer) -> None:
        b.put(writer, "the secret word")
        writer.erase_body(ONE, 1)

    await store.write(work)
    assert await matches(store, "word") == 0


async def test_an_erased_entry_has_no_facet(store: Store) -> None:
    def work(writer: Writer) -> None:
        writer.append(ONE, [b.Chain().indexed("decide", facet="decision")])
        writer.put_session(b.session(head_seq=1))

    await store.write(work)
    await store.write(lambda writer: writer.erase_body(ONE, 1))
    assert await store.read(lambda reader: reader.count("entry", Filter(), ["decision"])) == 0


async def test_erasing_one_of_two_entries_with_the_same_long_text_leaves_the_other_whole(store: Store) -> None:
    long = "the same long text " * 1_000
    chain = await b.stored(store, long, long)
    await store.write(lambda writer: writer.erase_body(ONE, 1))
    assert await entries(store) == [b.erased(chain.made[0]), chain.made[1]]
    await store.write(lambda writer: writer.erase_body(ONE, 2))
    await b.stored(store, long, of=b.session("two"))
    assert (await entries(store, "two"))[0].facts["content"] == long


async def test_erasing_twice_or_beyond_the_journal_changes_nothing_more(store: Store) -> None:
    chain = await b.stored(store, "first", "second")
    await b.stored(store, "other", of=b.session("two"))
    for seq in (1, 1, 0, 99):
        await store.write(lambda writer, seq=seq: writer.erase_body(ONE, seq))
    assert await entries(store) == [b.erased(chain.made[0]), chain.made[1]]
    assert await matches(store, "other") == 1


async def test_a_failed_erasure_leaves_body_and_text(store: Store) -> None:
    chain = await b.stored(store, "the secret word")

    def work(writer: Writer) -> None:
        writer.erase_body(ONE, 1)
        raise RuntimeError("changed my mind")

    try:
        await store.write(work)
    except RuntimeError:
        pass
    assert await entries(store) == chain.made
    assert await matches(store, "secret") == 1


async def test_a_forgotten_projection_is_gone_and_the_journal_stays(store: Store) -> None:
    turn = b.turn(tags=("bug",), files={"a.py": b.touch()})
    chain = await b.stored(store, "word", turns=[turn])
    await b.stored(store, of=b.session("two"), turns=[turn])
    await store.write(lambda writer: writer.forget_projection(ONE))
    assert await store.read(lambda reader: reader.session(ONE)) is None
    assert await store.read(lambda reader: reader.turns(ONE)) == []
    for what in ("session", "turn", "file"):
        assert await store.read(lambda reader, what=what: reader.count(what, Filter())) == 1
    assert await store.read(lambda reader: reader.count("turn", Filter(tag="bug"))) == 1
    assert await entries(store) == chain.made
    assert await store.read(lambda reader: reader.head(ONE)) == (1, chain.hash)


async def test_forgetting_the_projection_of_a_session_that_has_none_changes_nothing(store: Store) -> None:
    await store.write(lambda writer: writer.forget_projection(ONE))
    assert await store.read(lambda reader: reader.session_ids()) == []


async def test_a_projection_made_again_stands_where_it_stood(store: Store) -> None:
    turns = {
        name: [b.turn(n, begun_at=b.at(10 * n + offset), files={f"{name}{n}": b.touch()}) for n in (1, 2)]
        for offset, name in enumerate("abc")
    }
    for name, of_session in turns.items():
        await b.stored(store, of=b.session(name), turns=of_session)

    async def lists() -> list[object]:
        return [
            await store.read(lambda reader: reader.find_sessions(Filter(), ALL)),
            await store.read(lambda reader: reader.find_turns(Filter(), ALL)),
            await store.read(lambda reader: reader.find_files(Filter(), ALL)),
            await store.read(lambda reader: reader.find_entries(Filter(), ALL, None)),
        ]

    def rebuild(writer: Writer) -> None:
        session = writer.session(b.session_id("a"))
        assert session is not None
        writer.forget_projection(session.id)
        writer.put_session(session)
        for turn in reversed(turns["a"]):
            writer.put_turn(session.id, turn)

    before = await lists()
    await store.write(rebuild)
    assert await lists() == before


async def test_reindexing_replaces_text_and_facet(store: Store) -> None:
    chain = await b.stored(store, "old words", "kept words")
    first = chain.made[0]
    again = Indexed(entry=first, text="new words", facet="decision")
    await store.write(lambda writer: writer.reindex(ONE, iter([again])))
    assert await matches(store, "old") == 0
    assert await matches(store, "new") == 1
    assert await matches(store, "words") == 2
    rows = await store.read(lambda reader: reader.find_entries(Filter(), ALL, ["decision"]))
    assert [row.entry for row in rows] == [first]


async def test_reindexing_without_text_makes_an_entry_unfindable(store: Store) -> None:
    chain = await b.stored(store, "old words")
    item = Indexed(entry=chain.made[0], text="", facet=None)
    await store.write(lambda writer: writer.reindex(ONE, [item]))
    assert await matches(store, "words") == 0
    assert await entries(store) == chain.made


async def test_reindexing_changes_no_entry(store: Store) -> None:
    chain = await b.stored(store, "words")
    changed = replace(chain.made[0], body={"content": "other"})
    await store.write(lambda writer: writer.reindex(ONE, [Indexed(entry=changed, text="other", facet=None)]))
    assert await entries(store) == chain.made
