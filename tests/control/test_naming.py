"""Names as a person types them: whole ids, numbers, `last`, or the beginning of an id."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from shiftlog.control.naming import named_request, named_session, named_turn
from shiftlog.model.errors import InvalidParameter, InvalidSessionId, SessionNotFound, TurnNotFound
from shiftlog.model.ids import is_alias, short_id
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Store
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

CODEX = "019f5500-0feb-79c0-a61c-f45ef5610725"
OTHER = "019f5501-0feb-79c0-a61c-f45ef5610725"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with SqliteStore(tmp_path / "shiftlog.db", durability="process") as made:
        await b.stored(made, of=b.session("fix-the-login", run=b.run(12)), turns=[b.turn(1), b.turn(2)])
        await b.stored(made, of=b.session("fix-the-page", vendor_session_id=OTHER, last_activity=b.at(5)))
        await b.stored(made, of=b.session(CODEX, vendor_session_id=CODEX))
        parent = b.session_id(CODEX)
        await b.stored(made, of=b.session(f"{CODEX[:8]}-agent-scout", parent_session_id=parent))
        yield made


async def named(store: Store, typed: str) -> str:
    return (await store.read(lambda reader: named_session(reader, typed))).id


async def test_a_session_is_named_by_the_beginning_of_any_of_its_ids(store: Store) -> None:
    login = b.session_id("fix-the-login")
    for typed in (login, "12", short_id(login), short_id(login)[:6], "fix-the-l", "Fix-The-Login", f"{login[:-3]}"):
        assert await named(store, typed) == login, typed
    assert await named(store, "019f5501") == b.session_id("fix-the-page")
    assert await named(store, "last") == b.session_id("fix-the-page")


async def test_the_beginning_of_a_session_and_its_subagents_means_the_session(store: Store) -> None:
    assert await named(store, "019f5500") == b.session_id(CODEX)
    assert await named(store, "019f5500-agent") == b.session_id(f"{CODEX[:8]}-agent-scout")


async def test_a_beginning_that_fits_several_names_them(store: Store) -> None:
    with pytest.raises(InvalidParameter, match="'fix-the' fits 2 sessions") as refused:
        await named(store, "fix-the")
    candidates = cast("list[dict[str, str]]", refused.value.details["candidates"])
    assert [item["title"] for item in candidates] == ["Session fix-the-page", "Session fix-the-login"]
    assert candidates[0]["id"] == short_id(b.session_id("fix-the-page"))


async def test_what_fits_nothing_is_not_found_and_what_can_be_no_id_is_invalid(store: Store) -> None:
    for typed in ("zzzz", "fix", "99", "019f5502"):
        with pytest.raises(SessionNotFound, match="Session not found"):
            await named(store, typed)
    for typed in ("no id", "", "--json", "fix_the", "ﬁx-the"):
        with pytest.raises(InvalidSessionId):
            await named(store, typed)


async def test_a_turn_is_named_by_number_beginning_or_last(store: Store) -> None:
    session = await store.read(lambda reader: named_session(reader, "12"))

    async def turn(typed: str, of: Session = session) -> str:
        return (await store.read(lambda reader: named_turn(reader, of, typed))).request_id

    assert [await turn(typed) for typed in ("2", "last", "0002", b.request_id(2))] == [b.request_id(2)] * 4
    with pytest.raises(InvalidParameter, match="'req-2026' fits 2 turns"):
        await turn("req-2026")
    for typed in ("3", "0", "000", "zzzz"):
        with pytest.raises(TurnNotFound):
            await turn(typed)


def test_a_turn_among_known_ones_is_found_by_its_beginning() -> None:
    known = ["req-20260301T090000Z-fix-a", "req-20260301T090100Z-fix-b", "req-20260301T090000Z-fix-a"]
    assert named_request("fix-a", known) == known[0]
    assert named_request("req-20260301T0901", known) == known[1]
    assert named_request("elsewhere", known) == "elsewhere"
    with pytest.raises(InvalidParameter, match="'fix-' fits 2 turns"):
        named_request("fix-", known)


def test_a_short_id_is_never_taken_for_the_number_of_a_run() -> None:
    made = [short_id(b.session_id(f"n{n}")) for n in range(2_000)]
    assert not any(map(is_alias, made))
    assert len(set(made)) == 2_000
    assert max(map(len, made)) <= 16
