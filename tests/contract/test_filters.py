"""Filters: each condition alone, several together, and what they mean for sessions, turns, files and entries."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from shiftlog.model.moves import RunStatus, SessionState, TurnStatus
from shiftlog.model.search import parse
from shiftlog.store.protocol import Filter, Page, Store
from tests.contract import builders as b

ALL = Page(limit=100)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Case:
    where: Filter
    sessions: str


async def fill(store: Store) -> None:
    """Store four sessions that differ in everything that can be asked for; `d` is hidden."""
    await b.stored(
        store,
        "a text",
        of=b.session(
            "a",
            agent_id="Kim",
            agent_key="kim",
            model="opus",
            workspace="/home/kim/shiftlog",
            run=b.run(1, backend="claude", caller="cron"),
        ),
        turns=[
            b.turn(1, tags=("bug",), files={"src/app.py": b.touch(), "docs/a.md": b.touch()}),
            b.turn(2, status=TurnStatus.COMPLETED, tags=("docs", "bug")),
        ],
    )
    await b.stored(
        store,
        "b text",
        of=b.session(
            "b",
            agent="Codex",
            model="gpt",
            workspace="/srv/shiftlog",
            state=SessionState.SUSPENDED,
            started=b.START + DAY,
            last_activity=b.START + 3 * DAY,
            run=b.run(2, status=RunStatus.FAILED, backend="codex"),
            parent_session_id=b.session_id("a"),
        ),
        turns=[b.turn(1, status=TurnStatus.FAILED, tags=("docs",), files={"src/[x].py": b.touch()})],
    )
    await b.stored(
        store,
        "c text",
        of=b.session(
            "c", state=SessionState.CLOSED, started=b.START + 5 * DAY, last_activity=b.START + 6 * DAY, tags=("night",)
        ),
    )
    await b.stored(store, "d text", of=b.session("d", hidden=True, model="opus"), turns=[b.turn(1)])


CASES = {
    "nothing": Case(Filter(), "abc"),
    "session": Case(Filter(session_id=b.session_id("b")), "b"),
    "unknown session": Case(Filter(session_id=b.session_id("x")), ""),
    "hidden session": Case(Filter(session_id=b.session_id("d")), ""),
    "agent": Case(Filter(agent="Codex"), "b"),
    "agent in another case": Case(Filter(agent="codex"), ""),
    "agent key": Case(Filter(agent_key="kim"), "a"),
    "model": Case(Filter(model="opus"), "a"),
    "backend": Case(Filter(backend="codex"), "b"),
    "caller": Case(Filter(caller="cron"), "a"),
    "state": Case(Filter(states=frozenset({"closed"})), "c"),
    "unfinished states": Case(Filter(states=frozenset({SessionState.OPEN, SessionState.SUSPENDED})), "ab"),
    "states on both sides of the end": Case(Filter(states=frozenset({"open", "closed"})), "ac"),
    "no state": Case(Filter(states=frozenset()), ""),
    "turn status": Case(Filter(turn_status="completed"), "a"),
    "turn status as an enum": Case(Filter(turn_status=TurnStatus.FAILED), "b"),
    "run status": Case(Filter(run_status="failed"), "b"),
    "tag": Case(Filter(tag="docs"), "ab"),
    "part of a tag": Case(Filter(tag="doc"), ""),
    "tag of the session itself": Case(Filter(tag="night"), "c"),
    "project by name": Case(Filter(project="shiftlog"), "ab"),
    "project by path": Case(Filter(project="/srv/shiftlog"), "b"),
    "part of a project": Case(Filter(project="shift"), ""),
    "workspace": Case(Filter(workspace="/home/kim/shiftlog"), "a"),
    "workspace is not a name": Case(Filter(workspace="shiftlog"), ""),
    "parent": Case(Filter(parent_id=b.session_id("a")), "b"),
    "path": Case(Filter(path="src/app.py"), "a"),
    "path with a star": Case(Filter(path="src/*"), "ab"),
    "star across folders": Case(Filter(path="*.md"), "a"),
    "path with a question mark": Case(Filter(path="src/a?p.py"), "a"),
    "path with a set": Case(Filter(path="src/[a-c]*"), "a"),
    "path outside a set": Case(Filter(path="src/[^a-c]*"), "b"),
    "path with a bracket in a set": Case(Filter(path="src/[[]x].py"), "b"),
    "path in another case": Case(Filter(path="SRC/*"), ""),
    "path with a set left open": Case(Filter(path="src/[a"), ""),
    "from, by last activity": Case(Filter(from_=b.START + 2 * DAY), "bc"),
    "from, at that very moment": Case(Filter(from_=b.START + 6 * DAY), "c"),
    "to, by start": Case(Filter(to=b.START + 2 * DAY), "ab"),
    "to, at that very moment": Case(Filter(to=b.START), "a"),
    "a window that a session spans": Case(Filter(from_=b.START + 2 * DAY, to=b.START + 2 * DAY), "b"),
    "idle since": Case(Filter(idle_since=b.START + 3 * DAY), "ab"),
    "hidden": Case(Filter(hidden=True), "d"),
    "with run": Case(Filter(with_run=True), "ab"),
    "two that one session meets": Case(Filter(model="opus", tag="bug"), "a"),
    "two that no session meets together": Case(Filter(model="gpt", tag="bug"), ""),
    "everything at once": Case(
        Filter(
            session_id=b.session_id("a"),
            agent="ClaudeCode",
            agent_key="kim",
            model="opus",
            backend="claude",
            caller="cron",
            states=frozenset({"open"}),
            turn_status="in_progress",
            run_status="running",
            tag="bug",
            project="shiftlog",
            workspace="/home/kim/shiftlog",
            path="src/*.py",
            from_=b.START,
            to=b.START,
            with_run=True,
        ),
        "a",
    ),
}


async def check_entries(store: Store, where: Filter, seqs: set[int]) -> None:
    """Check that lists, counts and searches of the decisions with `word` all find these."""
    for facets in (None, ["decision"]):
        rows = await store.read(lambda reader, facets=facets: reader.find_entries(where, ALL, facets))
        assert {row.entry.seq for row in rows} == seqs
        assert await store.read(lambda reader, facets=facets: reader.count("entry", where, facets)) == len(seqs)
    found = await store.read(lambda r: r.search(parse("word"), where, unit="entry", limit=9, most=9))
    assert ({hit.seq for hit in found.hits}, found.total) == (seqs, len(seqs))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_filter_finds_the_sessions_that_meet_it(store: Store, case: Case) -> None:
    await fill(store)
    rows = await store.read(lambda reader: reader.find_sessions(case.where, ALL))
    assert sorted(row.session.id[-1] for row in rows) == sorted(case.sessions)
    assert await store.read(lambda reader: reader.count("session", case.where)) == len(case.sessions)


# Entries have times of their own, and were all written when the sessions began; and they belong to no turn.
OF_SESSIONS = {
    name: case
    for name, case in CASES.items()
    if case.where.from_ in (None, b.START) and (not case.where.asks_turn or case.where.tag == "night")
}


@pytest.mark.parametrize("case", OF_SESSIONS.values(), ids=OF_SESSIONS.keys())
async def test_entries_are_found_by_what_their_session_meets(store: Store, case: Case) -> None:
    await fill(store)
    rows = await store.read(lambda reader: reader.find_entries(case.where, ALL, None))
    assert sorted(row.session_id[-1] for row in rows) == sorted(case.sessions)
    assert await store.read(lambda reader: reader.count("entry", case.where)) == len(case.sessions)


async def test_a_session_meets_two_conditions_through_two_turns_but_no_turn_does(store: Store) -> None:
    await fill(store)
    where = Filter(turn_status="completed", path="src/app.py")
    assert await store.read(lambda reader: reader.count("session", where)) == 1
    assert await store.read(lambda reader: reader.find_turns(where, ALL)) == []


@pytest.mark.parametrize(
    ("where", "turns"),
    [
        (Filter(), {"a1", "a2", "b1"}),
        (Filter(session_id=b.session_id("a")), {"a1", "a2"}),
        (Filter(agent="Codex"), {"b1"}),
        (Filter(turn_status="failed"), {"b1"}),
        (Filter(tag="bug"), {"a1", "a2"}),
        (Filter(tag="docs"), {"a2", "b1"}),
        (Filter(tag="bug", turn_status="completed"), {"a2"}),
        (Filter(path="docs/*"), {"a1"}),
        (Filter(path="*.py", project="shiftlog"), {"a1", "b1"}),
    ],
)
async def test_a_filter_finds_the_turns_that_meet_it(store: Store, where: Filter, turns: set[str]) -> None:
    await fill(store)
    rows = await store.read(lambda reader: reader.find_turns(where, ALL))
    assert {f"{row.session.id[-1]}{row.turn.ordinal}" for row in rows} == turns
    assert await store.read(lambda reader: reader.count("turn", where)) == len(turns)


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        (Filter(), ["src/[x].py", "docs/a.md", "src/app.py"]),
        (Filter(path="*.py"), ["src/[x].py", "src/app.py"]),
        (Filter(path="*.py", tag="bug"), ["src/app.py"]),
        (Filter(turn_status="failed"), ["src/[x].py"]),
        (Filter(turn_status="completed"), []),
        (Filter(model="gpt"), ["src/[x].py"]),
    ],
)
async def test_a_filter_finds_the_files_of_turns_that_meet_it(store: Store, where: Filter, paths: list[str]) -> None:
    await fill(store)
    rows = await store.read(lambda reader: reader.find_files(where, ALL))
    assert [row.path for row in rows] == paths
    assert await store.read(lambda reader: reader.count("file", where)) == len(paths)


@pytest.mark.parametrize(
    ("where", "seqs"),
    [
        (Filter(turn_status="completed"), {2}),
        (Filter(tag="bug"), {2, 3}),
        (Filter(tag="bug", turn_status="in_progress"), {3}),
        (Filter(path="src/*.py"), {3}),
        (Filter(path="src/*.py", turn_status="completed"), set[int]()),
        (Filter(path="src/*.py", tag="docs"), set[int]()),
        (Filter(tag="night"), {1, 2, 3, 4}),
        (Filter(tag="night", path="docs/*"), {2}),
        (Filter(plan_file="plan.md"), {4}),
    ],
)
async def test_what_is_asked_of_turns_must_hold_for_an_entrys_own_turn(
    store: Store, where: Filter, seqs: set[int]
) -> None:
    chain = b.Chain()
    ids = [None, *(b.request_id(n) for n in (1, 2, 3))]
    items = [chain.indexed(f"word {n}", facet="decision", turn=turn) for n, turn in enumerate(ids)]
    turns = [
        b.turn(1, status=TurnStatus.COMPLETED, tags=("docs", "bug"), files={"docs/a.md": b.touch()}),
        b.turn(2, tags=("bug",), files={"src/app.py": b.touch()}),
        b.turn(3, plan_file="plan.md"),
    ]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session(head_seq=4, tags=("night",)))
        for turn in turns:
            writer.put_turn(b.session_id("one"), turn)

    await store.write(work)
    await check_entries(store, where, seqs)


@pytest.mark.parametrize(
    ("where", "seqs"),
    [
        (Filter(from_=b.at(2)), {2, 3}),
        (Filter(to=b.at(2)), {1, 2}),
        (Filter(from_=b.at(1.5), to=b.at(2.5)), {2}),
        (Filter(from_=b.at(4)), set[int]()),
    ],
)
async def test_a_span_of_time_chooses_entries_turns_and_files_each_by_itself(
    store: Store, where: Filter, seqs: set[int]
) -> None:
    chain = b.Chain()
    items = [chain.indexed(f"word {n}", facet="decision", turn=b.request_id(n), when=b.at(n)) for n in (1, 2, 3)]
    turns = [b.turn(n, files={f"{n}.py": b.touch(seq=n)}) for n in (1, 2, 3)]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session(started=b.at(0), last_activity=b.at(3)))
        for turn in turns:
            writer.put_turn(b.session_id("one"), turn)

    await store.write(work)
    await check_entries(store, where, seqs)
    whole = await store.read(lambda r: r.search(parse("word"), where, unit="session", limit=9, most=9))
    assert whole.total == (1 if seqs else 0)
    assert {row.turn.ordinal for row in await store.read(lambda r: r.find_turns(where, ALL))} == seqs
    files = await store.read(lambda r: r.find_files(where, ALL))
    assert {(row.path, row.touched) for row in files} == {(f"{n}.py", b.at(n)) for n in seqs}
    assert await store.read(lambda r: r.count("turn", where)) == await store.read(lambda r: r.count("file", where))


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        (Filter(), {"early.py", "late.py", "often.py"}),
        (Filter(from_=b.at(2)), {"late.py", "often.py"}),
        (Filter(to=b.at(2)), {"early.py", "often.py"}),
        (Filter(from_=b.at(2), to=b.at(2)), {"often.py"}),
        (Filter(from_=b.at(3.5)), set[str]()),
        (Filter(to=b.at(0.5)), set[str]()),
    ],
)
async def test_a_span_of_time_chooses_files_by_when_they_were_touched_in_a_long_turn(
    store: Store, where: Filter, paths: set[str]
) -> None:
    """Of a file that was changed more than once only the last time is known; it may have been touched before."""
    chain = b.Chain()
    items = [chain.indexed(f"word {n}", turn=b.request_id(1), when=b.at(n)) for n in (1, 2, 3)]
    files = {"early.py": b.touch(seq=1), "late.py": b.touch(seq=3), "often.py": b.touch(2, seq=3)}

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session(started=b.at(0), last_activity=b.at(4)))
        writer.put_turn(b.session_id("one"), b.turn(1, last_updated=b.at(4), files=files))

    await store.write(work)
    assert {row.path for row in await store.read(lambda r: r.find_files(where, ALL))} == paths
    assert await store.read(lambda r: r.count("file", where)) == len(paths)


async def test_the_second_of_the_last_activity_counts_whole(store: Store) -> None:
    last, asked = b.at(3) + timedelta(milliseconds=300), b.at(3) + timedelta(milliseconds=800)
    turn = b.turn(1, last_updated=last)
    await b.stored(store, of=b.session(started=b.at(0), last_activity=last), turns=[turn])
    for from_, count in {asked: 1, b.at(3) + timedelta(seconds=1): 0}.items():
        where = Filter(from_=from_)
        assert len(await store.read(lambda reader, where=where: reader.find_sessions(where, ALL))) == count
        assert len(await store.read(lambda reader, where=where: reader.find_turns(where, ALL))) == count


async def test_a_file_names_the_turn_that_touched_it_and_how(store: Store) -> None:
    touch = b.touch(3, "delete", 9)
    await b.stored(store, turns=[b.turn(2, files={"old.py": touch})])
    (row,) = await store.read(lambda reader: reader.find_files(Filter(), ALL))
    assert (row.session_id, row.request_id, row.touch) == (b.session_id("one"), b.request_id(2), touch)


async def test_changed_tags_and_files_of_a_turn_are_found_and_the_old_ones_are_not(store: Store) -> None:
    one = b.session_id("one")
    await b.stored(store, turns=[b.turn(tags=("old", "kept"), files={n: b.touch() for n in ("a.py", "b.py", "c.py")})])
    changed = b.turn(tags=("kept", "new"), files={"b.py": b.touch(2), "d.py": b.touch()})
    await store.write(lambda writer: writer.put_turn(one, changed))
    for tag, found in {"old": 0, "kept": 1, "new": 1}.items():
        assert await store.read(lambda reader, tag=tag: reader.count("turn", Filter(tag=tag))) == found
    rows = await store.read(lambda reader: reader.find_files(Filter(), ALL))
    assert [(row.path, row.touch.changes) for row in rows] == [("d.py", 1), ("b.py", 2)]
    assert await store.read(lambda reader: reader.count("session", Filter(path="a.py"))) == 0


async def test_facets_choose_entries_and_none_of_them_means_none(store: Store) -> None:
    chain = b.Chain()
    items = [chain.indexed(f"text {n}", facet=facet) for n, facet in enumerate(("decision", None, "command"))]

    def work(writer: b.Writer) -> None:
        writer.append(b.session_id("one"), items)
        writer.put_session(b.session(head_seq=3))

    await store.write(work)

    async def seqs(facets: list[str] | None) -> list[int]:
        rows = await store.read(lambda reader: reader.find_entries(Filter(), ALL, facets))
        counted = await store.read(lambda reader: reader.count("entry", Filter(), facets))
        assert counted == len(rows)
        return [row.entry.seq for row in rows]

    assert await seqs(None) == [3, 2, 1]
    assert await seqs(["decision"]) == [1]
    assert await seqs(["command", "decision"]) == [3, 1]
    assert await seqs([]) == []


@pytest.mark.parametrize(
    ("path", "paths"),
    [
        ("/srv/p/src/100%_a.py", {"src/100%_a.py"}),
        ("/srv/p/**/100%_a.py", {"src/100%_a.py", "100%_a.py"}),
        ("/srv/*/100%_a.py", {"src/100%_a.py", "100%_a.py"}),
        ("/srv/p/src/*", {"src/100%_a.py", "src/100xya.py", "src/[x].py"}),
        ("/srv/p/src/[x].py", {"src/[x].py"}),
        ("/tmp/100%_a.py", {"/tmp/100%_a.py"}),
        ("/100%_a.py", set[str]()),
        ("/srv/p/src/", set[str]()),
    ],
)
async def test_a_whole_path_finds_files_below_the_workspace_and_elsewhere(
    store: Store, path: str, paths: set[str]
) -> None:
    files = ("src/100%_a.py", "src/100xya.py", "src/[x].py", "100%_a.py", "/tmp/100%_a.py")
    turn = b.turn(1, files={name: b.touch() for name in files})
    await b.stored(store, of=b.session(workspace="/srv/p"), turns=[turn])
    where = Filter(path=path)
    assert {row.path for row in await store.read(lambda r: r.find_files(where, ALL))} == paths
