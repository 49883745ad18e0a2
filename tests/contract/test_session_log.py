"""What the session log's clients ask of a store: pointers, history by offset, tags and files of a session."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.model.nouns import Amendment
from shiftlog.store.protocol import Filter, Page, Store, Writer
from tests.contract import builders as b

ONE = b.session_id("one")
SECOND = timedelta(seconds=1)
DONE = TurnStatus.COMPLETED


async def test_a_pointer_names_the_session_last_put_for_a_workspace_and_agent(store: Store) -> None:
    def work(writer: Writer) -> None:
        writer.put_pointer("/work", "Codex", b.session_id("old"))
        writer.put_pointer("/work", "ClaudeCode", b.session_id("other"))
        writer.put_pointer("/work", "Codex", ONE)

    await store.write(work)
    assert await store.read(lambda reader: reader.pointer("/work", "Codex")) == ONE
    assert await store.read(lambda reader: reader.pointer("/work", "ClaudeCode")) == b.session_id("other")
    assert await store.read(lambda reader: reader.pointer("/else", "Codex")) is None


async def test_recent_sessions_come_by_second_of_activity_and_then_by_id(store: Store) -> None:
    millisecond = timedelta(milliseconds=1)
    for name, when in {
        "b": b.START + 900 * millisecond,
        "a": b.START + 100 * millisecond,
        "c": b.START + SECOND,
        "d": b.START - millisecond,
    }.items():
        await b.stored(store, of=b.session(name, last_activity=when))
    await b.stored(store, of=b.session("hidden", hidden=True, last_activity=b.at(9)))

    async def names(offset: int, limit: int) -> list[str]:
        found = await store.read(lambda reader: reader.recent_sessions(Filter(), offset=offset, limit=limit))
        return [session.id[-1] for session in found]

    assert await names(0, 10) == ["c", "a", "b", "d"]
    assert await names(1, 2) == ["a", "b"]
    assert await names(4, 5) == []
    assert await names(0, 0) == []


async def test_recent_sessions_may_be_kept_to_those_that_meet_a_filter(store: Store) -> None:
    for name, workspace in {"a": "/x", "b": "/y", "c": "/x"}.items():
        await b.stored(store, of=b.session(name, workspace=workspace))
    where = Filter(workspace="/x")
    found = await store.read(lambda reader: reader.recent_sessions(where, offset=0, limit=9))
    assert [session.id[-1] for session in found] == ["a", "c"]


async def test_the_tags_of_a_session_are_those_of_its_turns_once_each_in_order(store: Store) -> None:
    late = Amendment(at=b.at(5), source="import", fields={"tags": ["late", "bug"]}, seq=9)
    await b.stored(
        store, turns=[b.turn(1, tags=("zeta", "bug")), b.turn(2, tags=("bug", "ß"), amendments=(late,)), b.turn(3)]
    )
    await b.stored(store, of=b.session("two"), turns=[b.turn(1, tags=("elsewhere",))])
    assert await store.read(lambda reader: reader.tags_of(ONE)) == ["bug", "late", "zeta", "ß"]
    assert await store.read(lambda reader: reader.tags_of(b.session_id("x"))) == []
    assert await store.read(lambda reader: reader.count("turn", Filter(tag="late"))) == 1


async def test_the_files_of_a_session_are_counted_once_each(store: Store) -> None:
    turns = [b.turn(n, files={path: b.touch() for path in paths}) for n, paths in enumerate(("ab", "bc", ""), start=1)]
    await b.stored(store, turns=turns)
    await b.stored(store, of=b.session("two"), turns=[b.turn(1, files={"d": b.touch(), "a": b.touch()})])
    assert await store.read(lambda reader: reader.count_files(ONE)) == 3
    assert await store.read(lambda reader: reader.count_files(ONE, b.session_id("two"), b.session_id("x"))) == 4
    assert await store.read(lambda reader: reader.count_files(b.session_id("x"))) == 0


async def test_a_forgotten_turn_is_gone_with_its_tags_and_files(store: Store) -> None:
    await b.stored(store, turns=[b.turn(n, tags=("bug",), files={f"{n}.py": b.touch()}) for n in (1, 2)])
    await store.write(lambda writer: writer.forget_turn(ONE, b.request_id(1)))
    await store.write(lambda writer: writer.forget_turn(ONE, b.request_id(9)))
    assert await store.read(lambda reader: [turn.ordinal for turn in reader.turns(ONE)]) == [2]
    assert await store.read(lambda reader: reader.count("turn", Filter(tag="bug"))) == 1
    files = await store.read(lambda reader: reader.find_files(Filter(), Page(limit=9)))
    assert [row.path for row in files] == ["2.py"]


async def test_a_forgotten_turn_comes_back_when_the_work_fails(store: Store) -> None:
    await b.stored(store, turns=[b.turn(1), b.turn(2)])

    def work(writer: Writer) -> None:
        writer.forget_turn(ONE, b.request_id(1))
        writer.put_pointer("/work", "Codex", ONE)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.write(work)
    assert await store.read(lambda reader: reader.turns(ONE)) == [b.turn(1), b.turn(2)]
    assert await store.read(lambda reader: reader.pointer("/work", "Codex")) is None


async def fill(store: Store) -> None:
    """Store sessions `a` (open), `b` (suspended, no turn open), `c` (suspended, a turn open), `d` (closed)."""
    done = TurnStatus.COMPLETED
    await b.stored(store, of=b.session("a", model="Claude-Opus"), turns=[b.turn(1, plan_file="plan.md", todo_id="7")])
    suspended = b.session("b", state=SessionState.SUSPENDED, started=b.at(1), last_activity=b.at(2), turns_total=1)
    await b.stored(
        store,
        of=replace(suspended, turns_completed=1),
        turns=[b.turn(1, status=done, todo_id="8", last_updated=b.at(30))],
    )
    open_turn = b.session("c", state=SessionState.SUSPENDED, started=b.at(3), last_activity=b.at(4), turns_total=2)
    await b.stored(
        store,
        of=replace(open_turn, turns_completed=1),
        turns=[b.turn(1, status=done, last_updated=b.at(5)), b.turn(2, todo_id="8", last_updated=b.at(60))],
    )
    await b.stored(store, of=b.session("d", state=SessionState.CLOSED, started=b.at(5), last_activity=b.at(6)))


@pytest.mark.parametrize(
    ("where", "sessions"),
    [
        (Filter(model_part="opus"), "a"),
        (Filter(model_part="UNKNOWN"), "bcd"),
        (Filter(model_part=""), "abcd"),
        (Filter(started_from=b.at(3)), "cd"),
        (Filter(started_from=b.at(3) + timedelta(milliseconds=1)), "d"),
        (Filter(active_to=b.at(4)), "abc"),
        (Filter(active_to=b.at(4) - timedelta(milliseconds=1)), "ab"),
        (Filter(finished=True), "bd"),
        (Filter(finished=False), "ac"),
        (Filter(plan_file="plan.md"), "a"),
        (Filter(todo_id="8"), "bc"),
        (Filter(todo_id="8", turn_status="completed"), "b"),
        (Filter(todo_id="7", plan_file="plan.md"), "a"),
        (Filter(untouched_since=b.at(5)), "ac"),
        (Filter(turn_status="in_progress", untouched_since=b.at(60)), "ac"),
        (Filter(turn_status="in_progress", untouched_since=b.at(59)), "a"),
    ],
)
async def test_the_historys_conditions_find_the_sessions_that_meet_them(
    store: Store, where: Filter, sessions: str
) -> None:
    await fill(store)
    found = await store.read(lambda reader: reader.recent_sessions(where, offset=0, limit=9))
    assert sorted(session.id[-1] for session in found) == list(sessions)
    assert await store.read(lambda reader: reader.count("session", where)) == len(sessions)


async def test_where_subagents_are_left_out_their_turns_count_among_their_parents(store: Store) -> None:
    kind = {"name": "scout"}
    await b.stored(store, of=b.session("parent", state=SessionState.SUSPENDED), turns=[b.turn(1, status=DONE)])
    child = b.session("child", parent_session_id=b.session_id("parent"), subagent=kind)
    await b.stored(store, of=child, turns=[b.turn(1, status=DONE, plan_file="docs/plan.md")])
    grandchild = b.session("grandchild", parent_session_id=b.session_id("child"), subagent=kind)
    await b.stored(store, of=grandchild, turns=[b.turn(1, todo_id="T-7")])
    # Not a subagent: a session that another one opened.
    await b.stored(store, of=b.session("spawned", parent_session_id=b.session_id("parent")), turns=[b.turn(1)])

    async def names(**asked: Any) -> set[str]:
        found = await store.read(lambda reader: reader.find_sessions(Filter(**asked), Page(limit=9)))
        return {row.session.id.rsplit("-", 1)[-1] for row in found}

    assert await names(without_subagents=True, turn_status="in_progress") == {"parent", "spawned"}
    assert await names(without_subagents=True, plan_file="docs/plan.md") == {"parent"}
    assert await names(without_subagents=True, todo_id="T-7") == {"parent"}
    assert await names(without_subagents=True, todo_id="T-7", turn_status="completed") == set()
    assert await names(without_subagents=True, untouched_since=b.at(1)) == {"parent", "spawned"}
    assert await names(without_subagents=True, finished=True) == set()
    assert await names(turn_status="in_progress") == {"grandchild", "spawned"}
    assert await names(finished=True) == {"parent"}
