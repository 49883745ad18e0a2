"""Reading the history: lists by every filter and kind, one session, one turn, cursors and what they refuse."""

from dataclasses import replace
from typing import Any

import pytest

from shiftlog.journal.history.fitting import size
from shiftlog.journal.history.service import CHILDREN_SHOWN
from shiftlog.model.caller import LIBRARY
from tests.journal.harness import Harness, client

HERE = replace(LIBRARY, cwd="/work/alpha", workspace="/work/alpha")
THERE = replace(LIBRARY, cwd="/work/beta", workspace="/work/beta")
DECISION = {"role": "model", "category": "decision", "content": "Decision: keep the lock per shard"}


@pytest.fixture
async def archive(harness: Harness) -> dict[str, str]:
    """Three sessions that differ in everything that can be asked for; a day lies between each."""
    names: dict[str, str] = {}
    names["upload"] = one = await harness.open(HERE, title="Fix upload", model="gpt-x", caller="headless_task")
    await harness.begin(one, tags=["bug", "upload"])
    await harness.update(one, files_modified=["src/up.py", "docs/up.md"], dialog=[DECISION], usage={"input_tokens": 7})
    await harness.complete(one, response="Locked the temp dir")
    await harness.begin(one, query_title="Second")
    await harness.fail(one)
    await harness.call("close_session", {"session_id": one, "returncode": 1})
    harness.wait(days=1)
    names["cache"] = two = await harness.open(
        THERE, agent="ClaudeCode", agent_id="Nightly Fixer", title="Tune cache", model="opus", backend="claude_code"
    )
    await harness.begin(two, tags=["perf"])
    edit = {"description": "Shard it", "type": "edit", "status": "completed", "file_path": "src/cache/evict.py"}
    await harness.update(two, actions=[edit, {**edit, "type": "design_decision", "file_path": ""}])
    harness.wait(days=1)
    names["idle"] = await harness.open(HERE, title="Only opened", agent_id="Nightly Fixer")
    return names


async def found(harness: Harness, archive: dict[str, str], **question: Any) -> set[str]:
    """Return the names of the sessions that a question finds, having checked its total."""
    answered = await harness.query(**question)
    assert answered["total"] == len(answered["items"])
    by_id = {session: name for name, session in archive.items()}
    return {by_id[item["session_id"]] for item in answered["items"]}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({}, "upload cache idle"),
        ({"agent": "Codex"}, "upload idle"),
        ({"agent": "codex"}, ""),
        ({"agent": "  ", "model": " ", "tag": "\t", "project": " ", "path": " "}, "upload cache idle"),
        ({"agent_id": " ", "backend": " "}, "upload cache idle"),
        ({"agent_id": "nightly-fixer"}, "cache idle"),
        ({"agent_id": "NIGHTLY fixer"}, "cache idle"),
        ({"model": "opus"}, "cache"),
        ({"backend": "codex"}, "upload"),
        ({"status": "open"}, "cache idle"),
        ({"status": "closed"}, "upload"),
        ({"status": "suspended"}, ""),
        ({"turn_status": "failed"}, "upload"),
        ({"turn_status": "in_progress"}, "cache"),
        ({"run_status": "failed"}, "upload"),
        ({"run_status": "running"}, "cache"),
        ({"tag": "bug"}, "upload"),
        ({"tag": "perf"}, "cache"),
        ({"tag": "per"}, ""),
        ({"project": "alpha"}, "upload idle"),
        ({"project": "/work/beta"}, "cache"),
        ({"project": "/work/beta/"}, "cache"),
        ({"path": "src/*"}, "upload cache"),
        ({"path": "/work/beta/**/evict.py"}, "cache"),
        ({"path": "./src/**/evict.py"}, "cache"),
        ({"path": "*.md"}, "upload"),
        ({"path": "src/cache/evict.py"}, "cache"),
        ({"from": "2026-07-02"}, "cache idle"),
        ({"from": "2026-07-02T12:00:01Z"}, "idle"),
        ({"to": "2026-07-01"}, "upload"),
        ({"to": "2026-07-02T13:00:00+02:00"}, "upload"),
        ({"from": "2026-07-02", "to": "2026-07-02"}, "cache"),
        ({"agent": "Codex", "project": "alpha", "status": "open"}, "idle"),
        ({"agent": "Codex", "tag": "perf"}, ""),
        ({"agent": "", "tag": "", "kinds": []}, "upload cache idle"),
    ],
    ids=str,
)
async def test_each_filter_finds_its_sessions_and_filters_are_joined_by_and(
    harness: Harness, archive: dict[str, str], question: dict[str, Any], names: str
) -> None:
    assert await found(harness, archive, **question) == set(names.split())


async def test_the_end_of_a_span_may_be_a_time_as_it_is_shown(harness: Harness) -> None:
    harness.wait(milliseconds=1_500)
    session = await harness.open()
    [item] = (await harness.query())["items"]
    assert (item["session_id"], item["started"]) == (session, "2026-07-01T12:00:01Z")
    for to, found in (("12:00:01Z", 1), ("12:00:01.600Z", 1), ("12:00:01.400Z", 0), ("12:00:00Z", 0)):
        assert (await harness.query(to=f"2026-07-01T{to}"))["total"] == found, to


@pytest.mark.parametrize("text", [None, "shard"])
@pytest.mark.parametrize("kind", ["turn", "entry", "decision", "file"])
async def test_a_span_of_time_is_asked_of_what_is_listed_and_not_only_of_its_session(
    harness: Harness, kind: str, text: str | None
) -> None:
    session = await harness.open()
    for day in (1, 2, 3):
        turn = await harness.begin(session, query_title=f"Shard {day}")
        said = {"role": "model", "category": "decision", "content": f"Decision: shard {day}"}
        await harness.update(session, dialog=[said], files_modified=[f"shard{day}.py"])
        await harness.complete(session, request_id=turn)
        harness.wait(days=1)
    question = {"kinds": [kind]} | ({"text": text} if text else {})
    for first, last in ((1, 1), (2, 2), (2, 3), (1, 3), (4, 4)):
        span = {"from": f"2026-07-0{first}", "to": f"2026-07-0{last}"}
        found = await harness.query(**question, **span, limit=200)
        for day in (1, 2, 3):
            assert any(name in str(found["items"]) for name in (f"hard {day}", f"shard{day}")) is (first <= day <= last)
        assert found["total"] == len(found["items"])


async def test_sessions_are_listed_newest_first_with_the_call_that_shows_more(
    harness: Harness, archive: dict[str, str]
) -> None:
    items = (await harness.query())["items"]
    assert [item["session_id"] for item in items] == [archive["idle"], archive["cache"], archive["upload"]]
    assert items[2] == {
        "kind": "session",
        "session_id": archive["upload"],
        "agent": "Codex",
        "agent_id": "Codex",
        "title": "Fix upload",
        "state": "closed",
        "project": "alpha",
        "model": "gpt-x",
        "started": "2026-07-01T12:00:00Z",
        "last_activity": "2026-07-01T12:00:00Z",
        "turns": 2,
        "turns_open": 0,
        "tokens": 7,
        "cost_usd": None,
        "summary": "Fix upload",
        "more": {"name": "query_history", "arguments": {"session_id": archive["upload"]}},
    }
    for item in items:
        read = await harness.call(item["more"]["name"], item["more"]["arguments"])
        assert read["session"]["session_id"] == item["session_id"]


async def test_turns_are_listed_with_counts_and_filtered_by_their_own_facts(
    harness: Harness, archive: dict[str, str]
) -> None:
    assert (await harness.query(kinds=["turn"]))["total"] == 3
    failed = await harness.query(kinds=["turn"], turn_status="failed")
    assert [item["title"] for item in failed["items"]] == ["Second"]
    assert (await harness.query(kinds=["turn"], tag="bug"))["total"] == 1
    [item] = (await harness.query(kinds=["turn"], path="docs/*"))["items"]
    assert (item["dialog_items"], item["files"], item["summary"]) == (1, 2, "Locked the temp dir")
    read = await harness.call(item["more"]["name"], item["more"]["arguments"])
    assert read["turn"]["request_id"] == item["request_id"]


async def test_entries_decisions_files_and_runs_are_listed(harness: Harness, archive: dict[str, str]) -> None:
    entries = await harness.items(kinds=["entry"], limit=5)
    total = sum([len(await harness.entries(session)) for session in archive.values()])
    assert len(entries) == total == (await harness.query(kinds=["entry"]))["total"]
    decisions = await harness.items(kinds=["decision"])
    assert [item["summary"] for item in decisions] == ["Shard it", "Decision: keep the lock per shard"]
    files = {item["path"]: item for item in await harness.items(kinds=["file"])}
    assert files.keys() == {"src/up.py", "docs/up.md", "src/cache/evict.py"}
    assert files["src/cache/evict.py"]["last_type"] == "edit"
    assert [item["path"] for item in await harness.items(kinds=["file"], path="*.md")] == ["docs/up.md"]
    runs = await harness.items(kinds=["run"])
    assert [(run["session_id"], run["status"], run["returncode"]) for run in runs] == [
        (archive["cache"], "running", None),
        (archive["upload"], "failed", 1),
    ]
    assert (await harness.query(kinds=["command"]))["items"] == []


async def test_files_and_entries_can_be_asked_of_one_session(harness: Harness, archive: dict[str, str]) -> None:
    mine = await harness.query(kinds=["file", "decision"], session_id=archive["upload"])
    assert (mine["total"], [item["kind"] for item in mine["items"]]) == (3, ["file", "file", "decision"])
    entries = await harness.query(kinds=["entry"], session_id=archive["idle"])
    assert [item["entry_kind"] for item in entries["items"]] == ["lease.taken", "session.opened"]


@pytest.mark.parametrize("kind", ["session", "turn", "entry", "decision", "file", "run"])
async def test_each_item_carries_ids_times_a_summary_and_the_call_that_shows_more(
    harness: Harness, archive: dict[str, str], kind: str
) -> None:
    for question in ({}, {"text": "upload || cache || lock"}):
        for item in await harness.items(kinds=[kind], **question):
            assert item["session_id"] in archive.values()
            assert any(item.get(name) for name in ("at", "begun_at", "started"))
            assert item["summary"]
            assert item["more"]["arguments"]["session_id"] == item["session_id"]


async def test_a_run_has_the_tokens_and_cost_that_its_turns_reported_until_its_launcher_tells_the_total(
    harness: Harness,
) -> None:
    session = await harness.open(caller="headless_task", model="nobody-knows-its-price")
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5})
    for question in ({}, {"text": "upload"}):
        [run] = await harness.items(kinds=["run"], **question)
        assert run["usage"]["input_tokens"] == 10
        assert run["usage"]["cost_usd"] == 0.5
    await harness.call("close_session", {"session_id": session, "input_tokens": 30, "total_cost_usd": 0.75})
    [run] = await harness.items(kinds=["run"])
    assert (run["usage"]["input_tokens"], run["usage"]["cost_usd"]) == (30, 0.75)


async def test_a_session_says_how_many_children_it_has(harness: Harness) -> None:
    parent = await harness.open()
    for total in (1, 2):
        await harness.open(parent_session_id=parent)
        assert (await harness.query(session_id=parent))["session"]["children_total"] == total
    for _ in range(CHILDREN_SHOWN):
        await harness.open(parent_session_id=parent)
    whole = (await harness.query(session_id=parent))["session"]
    assert (len(whole["children"]), whole["children_total"]) == (CHILDREN_SHOWN, CHILDREN_SHOWN + 2)


async def test_every_entry_has_a_summary_also_where_it_holds_figures_only(harness: Harness) -> None:
    session = await harness.open(client(), pid=1)
    await harness.begin(session)
    await harness.update(session, usage={"input_tokens": 10, "cost_usd": 0.5})
    await harness.update(session, token_count=77)
    await harness.update(session, tags=["bug"], response="Found it")
    await harness.update(session, clear=["tags", "response"])
    await harness.complete(session)
    await harness.call("close_session", {"session_id": session, "returncode": 3, "on_held": "take_over"})
    items = await harness.items(session_id=session, kinds=["entry"])
    assert [(item["entry_kind"], item["summary"]) for item in reversed(items)] == [
        ("session.opened", "Fix upload"),
        ("lease.taken", "fence 1 for Codex"),
        ("turn.begun", "Find the race"),
        ("usage", "input_tokens 10, cost_usd 0.5"),
        ("turn.updated", "token_count 77"),
        ("turn.updated", "Found it bug"),
        ("turn.updated", "cleared tags, response"),
        ("turn.completed", "Done"),
        ("run.updated", "returncode 3, status failed, duration_ms 0"),
        ("capsule.saved", "auto capsule: Fix upload"),
        ("session.closed", "manual_close"),
    ]


async def test_a_decision_recorded_as_a_list_is_listed_too(harness: Harness) -> None:
    session = await harness.open()
    await harness.begin(session)
    await harness.update(session, design_decisions=["Lock per shard", "No TTL"])
    [item] = (await harness.query(kinds=["decision"]))["items"]
    assert item["summary"] == "Lock per shard; No TTL"


@pytest.mark.parametrize("more", [{}, {"text": "Decision"}])
async def test_decisions_about_a_file_are_those_of_the_turns_that_touched_it(
    harness: Harness, archive: dict[str, str], more: dict[str, Any]
) -> None:
    one = await harness.open(HERE, title="Two files")
    for name in ("a", "b"):
        await harness.begin(one, query_title=name, tags=[name])
        said = {**DECISION, "content": f"Decision: rewrite {name}"}
        await harness.update(one, files_modified=[f"lib/{name}.py"], dialog=[said])
        await harness.complete(one, response="Done")
    for question in ({"path": "lib/b.py"}, {"tag": "b"}):
        answered = await harness.query(kinds=["decision"], **question, **more)
        assert [item["summary"] for item in answered["items"]] == ["Decision: rewrite b"]
        assert answered["total"] == 1


async def test_several_kinds_come_one_after_the_other_each_thing_once(
    harness: Harness, archive: dict[str, str]
) -> None:
    kinds = ["turn", "session", "turn", "run"]
    pages = await harness.pages(kinds=kinds, limit=2)
    items = [item for page in pages for item in page["items"]]
    assert [item["kind"] for item in items] == ["turn"] * 3 + ["session"] * 3 + ["run"] * 2
    assert all(page["total"] == 8 for page in pages)
    assert all(len(page["items"]) == 2 for page in pages)
    assert pages[-1]["next_cursor"] is None


async def test_a_session_read_alone_shows_facts_chain_lineage_and_turns_in_order(
    harness: Harness, archive: dict[str, str]
) -> None:
    child = await harness.open(parent_session_id=archive["upload"])
    answered = await harness.query(session_id=archive["upload"])
    session = answered["session"]
    assert (session["state"], session["reason"], session["closed_at"]) == (
        "closed",
        "manual_close",
        "2026-07-01T12:00:00Z",
    )
    assert session["chain"] == {"status": "verified", "first_bad_seq": None, "erased": 0}
    assert session["children"] == [child]
    assert session["run"]["caller"] == "headless_task"
    assert (session["turns_total"], session["turns_completed"], session["turns_failed"]) == (2, 1, 1)
    assert [item["title"] for item in answered["items"]] == ["Find the race", "Second"]
    assert (await harness.query(session_id=child))["session"]["lineage"]["parent_session_id"] == archive["upload"]


async def test_a_session_with_a_filter_is_a_list_and_not_a_reading(harness: Harness, archive: dict[str, str]) -> None:
    assert (await harness.query(session_id=archive["upload"], turn_status="failed"))["total"] == 1
    assert (await harness.query(session_id=archive["upload"], turn_status="in_progress"))["total"] == 0
    turns = await harness.query(session_id=archive["upload"], turn_status="failed", kinds=["turn"])
    assert [item["title"] for item in turns["items"]] == ["Second"]


async def test_later_pages_of_a_session_or_turn_give_only_what_is_new(harness: Harness) -> None:
    session = await harness.open()
    name = ""
    for n in range(5):
        name = await harness.begin(session, query_title=f"Step {n}")
        await harness.update(session, dialog=[{**DECISION, "content": f"{n}-{m}"} for m in range(3)])
    pages = await harness.pages(session_id=session, limit=2)
    assert ["session" in page for page in pages] == [True, False, False]
    assert [item["title"] for page in pages for item in page["items"]] == [f"Step {n}" for n in range(5)]
    assert [page["total"] for page in pages] == [5, 5, 5]
    turn_pages = await harness.pages(session_id=session, request_id=name, limit=2)
    assert ["turn" in page for page in turn_pages] == [True, False]
    assert [item["content"] for page in turn_pages for item in page["items"]] == ["4-0", "4-1", "4-2"]


async def test_a_turn_read_whole_has_everything_that_was_recorded(harness: Harness, archive: dict[str, str]) -> None:
    [item] = (await harness.query(kinds=["turn"], tag="bug"))["items"]
    answered = await harness.query(session_id=item["session_id"], request_id=item["request_id"])
    turn = answered["turn"]
    assert (turn["status"], turn["response"], turn["query_text"]) == (
        "completed",
        "Locked the temp dir",
        "Why does it flake?",
    )
    assert (turn["tags"], turn["files_modified"]) == (["bug", "upload"], ["src/up.py", "docs/up.md"])
    assert turn["usage"]["input_tokens"] == 7
    assert turn["seal"].startswith("sha256:")
    assert [(entry["kind"], entry["content"]) for entry in answered["items"]] == [
        ("dialog", "Decision: keep the lock per shard")
    ]


async def test_a_turn_that_is_cut_names_where_its_texts_are_whole(harness: Harness) -> None:
    session = await harness.open()
    turn = await harness.begin(session, query_text="long " * 100_000)
    cut = await harness.query(session_id=session, request_id=turn)
    assert cut["truncated"] is True
    assert cut["note"].endswith(" or read shiftlog://sessions/{id}/turns/{request_id}")
    assert cut["turn"]["query_text"].endswith("…")


async def test_filters_beside_one_turn_are_named_as_ignored(harness: Harness) -> None:
    session = await harness.open()
    turn = await harness.begin(session)
    plain = await harness.query(session_id=session, request_id=turn, limit=5, max_chars=9_000)
    assert "warnings" not in plain
    asked = await harness.query(session_id=session, request_id=turn, text="nowhere", kinds=["entry"])
    assert [(warning["code"], warning["field"]) for warning in asked.pop("warnings")] == [
        ("ignored_field", "text"),
        ("ignored_field", "kinds"),
    ]
    assert asked == plain


async def test_a_list_begins_with_the_oldest_where_that_is_asked_and_pages_on_from_there(
    harness: Harness, archive: dict[str, str]
) -> None:
    for kinds in (["session"], ["turn"], ["entry"], ["turn", "run"]):
        newest = [item for page in await harness.pages(limit=2, kinds=kinds) for item in page["items"]]
        oldest = [item for page in await harness.pages(limit=2, kinds=kinds, order="oldest") for item in page["items"]]
        assert oldest != newest
        assert sorted(map(str, oldest)) == sorted(map(str, newest))
    first = await harness.query(kinds=["turn"], limit=1, order="oldest")
    assert first["items"][0]["session_id"] == archive["upload"]


async def test_the_oldest_first_is_refused_beside_a_text_whose_matches_are_ranked(
    harness: Harness, archive: dict[str, str]
) -> None:
    error = await harness.refusal("query_history", {"text": "cache", "order": "oldest"})
    assert error.details["parameter"] == "order"
    ranked = await harness.query(text="cache")
    assert await harness.query(text="cache", order="newest") == ranked


async def test_a_session_read_alone_shows_its_turns_in_order_whatever_order_is_asked(
    harness: Harness, archive: dict[str, str]
) -> None:
    plain = await harness.query(session_id=archive["upload"])
    for order in ("newest", "oldest"):
        assert await harness.query(session_id=archive["upload"], order=order) == plain


async def test_items_cleared_from_a_turn_do_not_stand_in_the_way_of_later_ones(harness: Harness) -> None:
    session = await harness.open()
    name = await harness.begin(session)
    await harness.update(session, dialog=[DECISION] * 250)
    await harness.update(session, clear=["dialog"])
    await harness.update(session, dialog=[{**DECISION, "content": "kept"}] * 3)
    for limit in (1, 2, 200):
        items = await harness.items(session_id=session, request_id=name, limit=limit)
        assert [item["content"] for item in items] == ["kept"] * 3


async def test_a_turn_cannot_be_read_without_its_session(harness: Harness) -> None:
    error = await harness.refusal("query_history", {"request_id": "req-20260701T120000Z-x"})
    assert error.message == "Parameter 'session_id' cannot be null or empty"


async def test_what_is_not_there_is_not_found_and_the_operation_is_named(harness: Harness) -> None:
    session = await harness.open()
    error = await harness.refusal("query_history", {"session_id": session, "request_id": "req-20260701T120000Z-x"})
    assert error.code == "turn_not_found"
    assert error.details["operation"] == "query_history"
    error = await harness.refusal("query_history", {"session_id": 4711})
    assert error.code == "session_not_found"
    assert error.details["operation"] == "query_history"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", 0),
        ("limit", 201),
        ("limit", "x"),
        ("limit", True),
        ("max_chars", 499),
        ("max_chars", 1_000_001),
        ("kinds", ["sessions"]),
        ("kinds", {"a": 1}),
        ("status", "active"),
        ("turn_status", "open"),
        ("run_status", "done"),
        ("from", "the other day"),
        ("to", "2026-13-01"),
        ("from", "0001-01-01T00:00:00+14:00"),
        ("agent_id", "---"),
        ("text", "x" * 2_001),
        ("path", 5),
        ("cursor", "nonsense"),
        ("cursor", "W10"),
        ("cursor", "WzFlOTk5LDEsIngiXQ"),
    ],
)
async def test_a_value_outside_its_rule_is_refused_by_name(harness: Harness, name: str, value: object) -> None:
    error = await harness.refusal("query_history", {name: value})
    assert error.code == "invalid_parameter"
    assert str(error.details["parameter"]).split("[")[0] == name


# Cursors


async def test_pages_are_disjoint_and_complete_whatever_the_limit(harness: Harness) -> None:
    for n in range(25):
        await harness.open(title=f"Session {n}", agent="Codex" if n % 2 else "ClaudeCode")
        harness.wait(seconds=n % 3)
    for limit in (1, 3, 10, 24, 25, 26):
        for more, expected in (({}, 25), ({"agent": "Codex"}, 12)):
            pages = await harness.pages(limit=limit, **more)
            ids = [item["session_id"] for page in pages for item in page["items"]]
            assert len(ids) == len(set(ids)) == expected
            assert {page["total"] for page in pages} == {expected}
            assert all(len(page["items"]) == limit for page in pages[:-1])


async def test_limit_and_size_may_change_from_page_to_page_but_not_the_question(harness: Harness) -> None:
    for _ in range(6):
        await harness.open()
    first = await harness.query(limit=2)
    second = await harness.query(limit=3, max_chars=20_000, cursor=first["next_cursor"])
    assert len(second["items"]) == 3
    for question in ({"agent": "Codex"}, {"kinds": ["turn"]}, {"text": "fix"}):
        error = await harness.refusal("query_history", {**question, "cursor": first["next_cursor"]})
        assert error.details["constraint"] == "the cursor belongs to another question"


async def test_a_small_answer_still_says_of_which_session_it_is(harness: Harness) -> None:
    session = await harness.open()
    for _ in range(20):
        await harness.begin(session, query_text="x" * 1000)
    answered = await harness.query(session_id=session, max_chars=500)
    assert size(answered) <= 500
    assert answered["session"]["session_id"] == session
    assert answered["next_cursor"]


async def test_a_list_is_the_same_for_every_page_while_others_write(harness: Harness) -> None:
    sessions = [await harness.open(title=f"Session {n}") for n in range(6)]
    seen: list[str] = []
    cursor = None
    while True:
        page = await harness.query(limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [item["session_id"] for item in page["items"]]
        await harness.begin(sessions[0])
        await harness.begin(sessions[-1])
        harness.wait(seconds=1)
        await harness.open(title="Newcomer")
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sessions[::-1]


async def test_a_hidden_session_is_in_no_list_and_cannot_be_read(harness: Harness, archive: dict[str, str]) -> None:
    from shiftlog.model.entry import Kind
    from shiftlog.store.protocol import Writer

    def hide(writer: Writer) -> None:
        session = writer.session(archive["upload"])
        pen = harness.app.sessions._journal.pen(writer, archive["upload"], session)  # pyright: ignore[reportPrivateUsage]
        pen.write(Kind.SESSION_UPDATED, {"hidden": True})
        pen.commit(writer)

    await harness.app.store.write(hide)
    assert await found(harness, archive) == {"cache", "idle"}
    assert (await harness.query(kinds=["turn"]))["total"] == 1
    assert (await harness.query(text="upload"))["total"] == 0
    error = await harness.refusal("query_history", {"session_id": archive["upload"]})
    assert error.code == "session_not_found"
    given = {"agent": "Codex", "title": "x", "session_id": archive["upload"]}
    assert (await harness.refusal("open_session", given)).code == "session_already_exists"


async def test_a_holder_does_not_show_in_a_reading(harness: Harness) -> None:
    session = await harness.open(client("secret-client"))
    assert "secret-client" not in str(await harness.query(session_id=session))
