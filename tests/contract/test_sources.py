"""What imports ask of a store: files read, origins of facts, entries packed for bulk, projects of paths."""

from dataclasses import replace

import pytest

from shiftlog.journal.encoding import prepare, salt_from
from shiftlog.model.canonical import entry_hash, first_prev_hash
from shiftlog.model.entry import Kind
from shiftlog.model.search import parse
from shiftlog.model.times import precise
from shiftlog.store.protocol import Filter, Store, Writer
from shiftlog.store.sources import Origin, Packed, Source
from tests.contract import builders as b

SOURCE = Source(
    path="/t/a.jsonl",
    agent="Codex",
    device=1,
    inode=2,
    size=300,
    mtime_ns=4,
    head="aa",
    head_bytes=200,
    cursor=250,
    tail="bb",
    settle_at=b.START,
    sessions=("s1", "s2"),
    counts={"mapped": 3, "unknown/x": 1},
    state=b"\x00state",
)
READ = replace(SOURCE, state=None)
ONE = b.session_id("one")


async def test_a_source_comes_back_as_it_was_put_and_a_list_leaves_states_out(store: Store) -> None:
    await store.write(lambda writer: writer.put_source(SOURCE))
    await store.write(lambda writer: writer.put_source(replace(SOURCE, path="/t/b.jsonl", settle_at=None)))
    assert await store.read(lambda reader: reader.source("/t/a.jsonl")) == READ
    assert await store.read(lambda reader: reader.source_state("/t/a.jsonl")) == SOURCE.state
    assert await store.read(lambda reader: reader.source("/t/c.jsonl")) is None
    assert await store.read(lambda reader: reader.source_state("/t/c.jsonl")) is None
    listed = await store.read(lambda reader: reader.sources())
    assert [source.path for source in listed] == ["/t/a.jsonl", "/t/b.jsonl"]
    assert listed[0] == READ


async def test_a_source_that_is_put_again_is_replaced_and_one_that_is_forgotten_is_gone(store: Store) -> None:
    def work(writer: Writer) -> None:
        writer.put_source(SOURCE)
        writer.put_source(replace(READ, cursor=300))
        writer.put_source(replace(SOURCE, path="/t/b.jsonl"))
        writer.forget_source("/t/b.jsonl")
        writer.forget_source("/t/never.jsonl")

    await store.write(work)
    assert [source.cursor for source in await store.read(lambda reader: reader.sources())] == [300]
    assert await store.read(lambda reader: reader.source_state(SOURCE.path)) == SOURCE.state
    assert await store.read(lambda reader: reader.source_state("/t/b.jsonl")) is None


async def test_origins_are_found_many_at_once_and_those_unknown_are_left_out(store: Store) -> None:
    await b.stored(store)
    made = {
        n.to_bytes(16, "big"): Origin(session_id=ONE, turn=f"t{n}" if n % 2 else None, doc={"n": n} if n % 3 else None)
        for n in range(700)
    }
    await store.write(lambda writer: writer.put_origins(made))
    unknown = (10_000).to_bytes(16, "big")
    assert await store.read(lambda reader: reader.origins([*made, unknown, *made])) == made
    few = list(made)[:3]
    assert await store.read(lambda reader: reader.origins([*few, unknown])) == {key: made[key] for key in few}


async def test_an_origin_that_is_put_again_is_replaced(store: Store) -> None:
    await b.stored(store)
    key = b"k" * 16
    await store.write(lambda writer: writer.put_origins({key: Origin(session_id=ONE)}))
    changed = Origin(session_id=ONE, turn="t", doc={"a": [1, 2]})
    await store.write(lambda writer: writer.put_origins({key: changed}))
    assert await store.read(lambda reader: reader.origins([key])) == {key: changed}


async def test_what_a_failed_work_put_of_an_import_is_not_there(store: Store) -> None:
    await b.stored(store)

    def work(writer: Writer) -> None:
        writer.put_source(SOURCE)
        writer.put_origins({b"k" * 16: Origin(session_id=ONE)})
        writer.put_imported(ONE, {"a": 1})
        writer.put_project_path("/a", "p")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await store.write(work)
    assert await store.read(lambda reader: reader.sources()) == []
    assert await store.read(lambda reader: reader.origins([b"k" * 16])) == {}
    assert await store.read(lambda reader: reader.imported(ONE)) is None
    assert await store.read(lambda reader: reader.project_of("/a")) is None


def packed(texts: list[str]) -> list[Packed]:
    """Return dialog entries as a bulk import hands them over."""
    head = first_prev_hash(ONE)
    made: list[Packed] = []
    for seq, text in enumerate(texts, 1):
        at = precise(b.at(seq))
        ready = prepare(Kind.DIALOG, {"role": "user", "category": "observation", "content": text}, salt_from("x", text))
        shown = "sha256:" + ready.body_hash.hex()
        head = entry_hash(head, seq=seq, kind="dialog", at=at, turn=None, hash_of_body=shown)
        made.append(
            Packed(
                seq, "dialog", at, None, ready.facet, ready.document, ready.salt, ready.body_hash,
                bytes.fromhex(head[7:]), ready.text, ready.long_texts,
            )
        )  # fmt: skip
    return made


async def test_packed_entries_read_as_any_others(store: Store) -> None:
    long = "A long tale about wombats. " * 400
    texts = ["short", "middle " * 90, long, long]

    def work(writer: Writer) -> None:
        entries = packed(texts)
        writer.append(ONE, entries)
        head = "sha256:" + entries[-1].hash.hex()
        writer.put_session(replace(b.session(), head_seq=len(entries), head_hash=head))

    await store.write(work)
    entries = await store.read(lambda reader: reader.entries(ONE))
    assert [entry.facts["content"] for entry in entries] == texts
    assert all(entry.body_is_intact() for entry in entries)
    prev = first_prev_hash(ONE)
    for entry in entries:
        assert entry.expected_hash(prev) == entry.hash
        prev = entry.hash
    expr = parse("wombats")
    found = await store.read(lambda r: r.search(expr, Filter(), unit="entry", limit=10, most=100))
    assert sorted(hit.seq for hit in found.hits) == [3, 4]


async def test_erasing_a_packed_entry_takes_its_text_with_it(store: Store) -> None:
    long = "A long tale about wombats. " * 400

    def work(writer: Writer) -> None:
        entries = packed(["short", long])
        writer.append(ONE, entries)
        writer.put_session(replace(b.session(), head_seq=2, head_hash="sha256:" + entries[-1].hash.hex()))

    await store.write(work)
    await store.write(lambda writer: writer.erase_body(ONE, 2))
    kept, erased = await store.read(lambda reader: reader.entries(ONE))
    assert (kept.facts["content"], erased.body, erased.salt) == ("short", None, None)


async def test_packed_entries_must_follow_the_head(store: Store) -> None:
    from shiftlog.model.errors import StorageError

    with pytest.raises(StorageError):
        await store.write(lambda writer: writer.append(ONE, packed(["a", "b"])[1:]))


async def test_paths_are_aliases_of_a_project(store: Store) -> None:
    def work(writer: Writer) -> None:
        for path, project in {"/b": "p", "/a": "p", "/c": "q"}.items():
            writer.put_project_path(path, project)
        writer.put_project_path("/c", "p")

    await store.write(work)
    assert await store.read(lambda reader: reader.paths_of("p")) == ["/a", "/b", "/c"]
    assert await store.read(lambda reader: reader.project_of("/c")) == "p"
    assert await store.read(lambda reader: reader.paths_of("q")) == []


async def test_work_that_need_not_last_is_there_for_the_next_reader_and_work_that_must_last_follows(
    store: Store,
) -> None:
    await store.write(lambda writer: writer.put_source(SOURCE), lasting=False)
    assert await store.read(lambda reader: reader.source(SOURCE.path)) == READ
    await store.write(lambda writer: writer.forget_source(SOURCE.path))
    assert await store.read(lambda reader: reader.sources()) == []


async def test_bulk_work_is_one_transaction_too(store: Store) -> None:
    def fail(writer: b.Writer) -> None:
        writer.put_source(SOURCE)
        raise LookupError("refused")

    with pytest.raises(LookupError):
        await store.write_bulk(fail)
    assert await store.read(lambda reader: reader.sources()) == []
    await store.write_bulk(lambda writer: writer.put_source(SOURCE))
    await store.sync()
    assert await store.read(lambda reader: reader.source(SOURCE.path)) == READ
