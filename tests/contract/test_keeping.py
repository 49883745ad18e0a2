"""Holds, archives and bytes of sessions, on every store."""

from dataclasses import replace

from shiftlog.store.keeping import Archived, Hold
from shiftlog.store.protocol import Store
from tests.contract import builders as b

HOLD = Hold(scope="project", name="webshop", reason="case 1", by="ada", at=b.at(1))


async def test_a_hold_is_in_force_until_it_is_lifted_and_stays_in_the_record(store: Store) -> None:
    other = Hold(scope="session", name=b.session_id("one"), reason="case 2", by="ada", at=b.at(2))
    await store.write(lambda writer: (writer.put_hold(other), writer.put_hold(HOLD)))
    assert await store.read(lambda reader: reader.holds()) == [HOLD, other]
    lifted = replace(HOLD, lifted_at=b.at(3), lifted_by="bob", lifted_because="over")
    await store.write(lambda writer: writer.put_hold(lifted))
    assert await store.read(lambda reader: reader.holds()) == [other]
    assert await store.read(lambda reader: reader.holds(lifted=True)) == [lifted, other]


async def test_a_work_sees_the_hold_that_it_has_put(store: Store) -> None:
    def work(writer: object) -> list[Hold]:
        writer.put_hold(HOLD)  # type: ignore[attr-defined]
        return writer.holds()  # type: ignore[attr-defined]

    assert await store.write(work) == [HOLD]


async def test_an_archived_session_is_remembered_until_it_is_forgotten(store: Store) -> None:
    archived = Archived(session=b.session(tags=("x",)), file="/a/b.zst", digest="sha256:0", at=b.at(1))
    await store.write(lambda writer: writer.put_archived(archived))
    assert await store.read(lambda reader: reader.archived(b.session_id("one"))) == archived
    assert await store.read(lambda reader: reader.archived_ids()) == [b.session_id("one")]
    await store.write(lambda writer: writer.forget_archived(b.session_id("one")))
    assert await store.read(lambda reader: reader.archived(b.session_id("one"))) is None


async def test_bytes_of_a_session_count_its_entries_long_texts_and_projections(store: Store) -> None:
    await b.stored(store, "short", of=b.session("one"))
    await b.stored(store, "short", "x" * 100_000, of=b.session("two"))
    one, two = b.session_id("one"), b.session_id("two")
    found = await store.read(lambda reader: reader.bytes_of([one, two, "unknown"]))
    assert found[one].texts == 0 < found[two].texts < 100_000
    assert 0 < found[one].entries < found[two].entries
    assert found[one].projections > 0
    assert found["unknown"].total == 0


async def test_erasable_entries_have_a_body_and_are_not_notes_of_an_erasure(store: Store) -> None:
    await b.stored(store, "one", "two", "three")
    await store.write(lambda writer: writer.erase_body(b.session_id("one"), 2))
    assert await store.read(lambda reader: reader.erasable(b.session_id("one"))) == [1, 3]
