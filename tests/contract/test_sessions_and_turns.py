"""Sessions and turns as they stand: put, replaced, found by their names, listed in order."""

from dataclasses import replace

import pytest

from shiftlog.model.moves import RunStatus, SessionState, Succession, TurnStatus
from shiftlog.model.nouns import Amendment, Closing, Session, Turn, Usage
from shiftlog.store.protocol import Store
from tests.contract import builders as b

ONE = b.session_id("one")
UUID = "8F14E45F-ceea-467f-a8f2-0123456789ab"


def full_session() -> Session:
    return b.session(
        model="opus",
        workspace="/home/kim/work/shiftlog",
        cwd="/home/kim/work/shiftlog/src",
        tags=("a", "b"),
        exclusive=True,
        parent_session_id=b.session_id("parent"),
        vendor_session_id=UUID,
        state=SessionState.CLOSED,
        run=b.run(7, status=RunStatus.OK, pid=99, total_cost_usd=0.25, ended=b.at(5), returncode=0),
        closing=Closing(at=b.at(5), reason="done", reason_class="other", note="bye", policy=Succession.ALLOWED),
        usage=Usage(input_tokens=10, output_tokens=3, cost_usd=0.5),
        fence=3,
        turns_total=2,
        head_seq=1,
    )


def full_turn() -> Turn:
    return b.turn(
        1,
        status=TurnStatus.COMPLETED,
        finished_at=b.at(9),
        response="Grüße 🚀 " * 2_000,
        interpretation="short",
        tags=("x", "y"),
        files_modified=("src/a.py",),
        commits=({"sha": "abc", "filesChanged": ["a"]},),
        files={"src/a.py": b.touch(2, "edit", 4), "README.md": b.touch(1, "create", 5)},
        usage=Usage(input_tokens=1),
        amendments=(Amendment(at=b.at(10), source="import", fields={"tags": ["z"]}, seq=8),),
        seal="sha256:" + "a" * 64,
    )


async def test_a_session_comes_back_as_it_was_put(store: Store) -> None:
    await b.stored(store, of=full_session())
    read = await store.read(lambda reader: reader.session(ONE))
    assert read is not None
    assert replace(read, head_hash="") == full_session()


async def test_a_turn_comes_back_as_it_was_put(store: Store) -> None:
    await b.stored(store, turns=[full_turn()])
    assert await store.read(lambda reader: reader.turn(ONE, b.request_id(1))) == full_turn()


async def test_a_session_that_does_not_exist_is_none(store: Store) -> None:
    assert await store.read(lambda reader: reader.session(ONE)) is None
    assert await store.read(lambda reader: reader.turn(ONE, b.request_id(1))) is None
    assert await store.read(lambda reader: reader.turns(ONE)) == []


async def test_a_session_put_again_replaces_the_first(store: Store) -> None:
    await b.stored(store)
    await store.write(lambda writer: writer.put_session(b.session(title="New", state=SessionState.SUSPENDED)))
    read = await store.read(lambda reader: reader.session(ONE))
    assert read == b.session(title="New", state=SessionState.SUSPENDED)


async def test_a_turn_put_again_replaces_the_first(store: Store) -> None:
    await b.stored(store, turns=[full_turn()])
    changed = replace(full_turn(), tags=("y", "z"), files={"README.md": b.touch(2, "edit", 6)}, response="short")
    await store.write(lambda writer: writer.put_turn(ONE, changed))
    assert await store.read(lambda reader: reader.turns(ONE)) == [changed]


async def test_a_session_or_turn_cannot_be_put_before_its_first_entry(store: Store) -> None:
    with pytest.raises(LookupError):
        await store.write(lambda writer: writer.put_session(b.session()))
    with pytest.raises(LookupError):
        await store.write(lambda writer: writer.put_turn(ONE, b.turn()))
    assert await store.read(lambda reader: reader.session(ONE)) is None


async def test_turns_are_listed_by_their_ordinal(store: Store) -> None:
    await b.stored(store, turns=[b.turn(n) for n in (3, 1, 4, 2)])

    async def ordinals(**choice: int) -> list[int]:
        return await store.read(lambda reader: [turn.ordinal for turn in reader.turns(ONE, **choice)])

    assert await ordinals() == [1, 2, 3, 4]
    assert await ordinals(after=2) == [3, 4]
    assert await ordinals(after=1, limit=2) == [2, 3]


async def test_turns_of_two_sessions_may_have_the_same_request_id(store: Store) -> None:
    await b.stored(store, turns=[b.turn(1, query_title="mine")])
    await b.stored(store, of=b.session("two"), turns=[b.turn(1, query_title="other")])
    turn = await store.read(lambda reader: reader.turn(ONE, b.request_id(1)))
    assert turn is not None
    assert turn.query_title == "mine"


async def test_a_session_is_found_by_the_alias_of_its_run(store: Store) -> None:
    await b.stored(store, of=b.session(run=b.run(12)))
    await b.stored(store, of=b.session("two", run=b.run(13)))
    assert await store.read(lambda reader: reader.session_id_of_alias(13)) == b.session_id("two")
    assert await store.read(lambda reader: reader.session_id_of_alias(14)) is None


async def test_aliases_grow_and_are_never_given_twice(store: Store) -> None:
    first = await store.write(lambda writer: writer.next_alias())
    second, third = await store.write(lambda writer: (writer.next_alias(), writer.next_alias()))
    assert 0 < first < second < third


async def test_a_session_is_found_by_its_vendors_id_in_any_case(store: Store) -> None:
    await b.stored(store, of=b.session(vendor_session_id=UUID))
    for spelling in (UUID, UUID.lower(), UUID.upper()):
        assert await store.read(lambda reader, spelling=spelling: reader.session_ids_of_vendor(spelling)) == [ONE]
    assert await store.read(lambda reader: reader.session_ids_of_vendor(UUID[:-1] + "0")) == []


async def test_all_sessions_with_a_vendors_id_are_named_except_hidden_ones(store: Store) -> None:
    await b.stored(store, of=b.session("two", vendor_session_id=UUID))
    await b.stored(store, of=b.session("one", vendor_session_id=UUID))
    await b.stored(store, of=b.session("three", vendor_session_id=UUID, hidden=True))
    found = await store.read(lambda reader: reader.session_ids_of_vendor(UUID))
    assert found == [b.session_id("two"), ONE]


async def test_agent_ids_are_listed_once_each_in_the_order_of_their_keys(store: Store) -> None:
    for name, agent_id in {"a": "Zoe", "b": "zoe", "c": "Ada", "d": "50%_off", "e": "Hidden"}.items():
        await b.stored(store, of=b.session(name, agent_id=agent_id, hidden=agent_id == "Hidden"))

    async def agents(like: str | None = None, limit: int = 1000) -> list[tuple[str, str]]:
        return await store.read(lambda reader: reader.agent_ids(like=like, limit=limit))

    assert await agents() == [("50%_off", "50%_off"), ("ada", "Ada"), ("zoe", "Zoe")]
    assert await agents(limit=1) == [("50%_off", "50%_off")]
    assert await agents(like="zo") == [("zoe", "Zoe")]
    assert await agents(like="%") == [("50%_off", "50%_off")]
    assert await agents(like="a_a") == []


async def test_names_of_sessions_are_listed_with_their_vendors_without_hidden_ones(store: Store) -> None:
    await b.stored(store, of=full_session())
    await b.stored(store, of=b.session("two"))
    await b.stored(store, of=b.session("three", hidden=True))
    named = [(ONE, UUID.lower()), (b.session_id("two"), None)]
    assert await store.read(lambda reader: reader.session_names()) == named
