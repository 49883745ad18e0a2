"""Acceptance cases 29 to 31: queryHistory with its pages, its sums and each of its filters."""

import pytest

from tests.dialects.mcpserver.log import SESSION, TURN, TURN_2, Call, Log, numbered


def names(log: Log, **params: object) -> list[str]:
    """Return the last parts of the session ids that a query finds, in order."""
    return [row["sessionId"].rpartition("-")[2] for row in log.do("queryHistory", **params)["sessions"]]


def test_pages_are_disjoint_and_complete_with_and_without_an_agent(log: Log) -> None:
    opened = [f"{agent}-20260701T080000Z-s{n:02d}" for n in range(25) for agent in (["Codex", "ClaudeCode"][n % 2],)]
    for chunk in (opened[:10], opened[10:]):  # two moments, so that the order has both its parts
        log.results(*(("openSession", {"sessionId": name, "title": name}) for name in chunk))
        log.wait(seconds=5)
    expected = sorted(opened[10:]) + sorted(opened[:10])
    for agent in (None, "Codex"):
        params = {"limit": 10} | ({"agent": agent} if agent else {})
        pages = log.results(*(("queryHistory", {**params, "offset": offset}) for offset in (0, 10, 20)))
        wanted = [name for name in expected if agent is None or name.startswith(agent)]
        assert [row["sessionId"] for page in pages for row in page["sessions"]] == wanted
        assert {page["totalCount"] for page in pages} == {len(wanted)}
        assert [(page["offset"], page["limit"]) for page in pages] == [(0, 10), (10, 10), (20, 10)]


def test_tags_are_united_and_files_counted_once_whatever_their_spelling(log: Log) -> None:
    log.open(model="gpt-x")
    log.begin()
    log.do("updateTurn", tags=["b", "a"], filesModified=["./a.py", str(log.workspace / "a.py")])
    log.do("completeTurn", response="ok")
    log.begin(TURN_2)
    action = {"description": "x", "type": "edit", "status": "completed"}
    log.do("appendActions", actions=[action | {"filePath": path} for path in ("a.py", "b.py", ".\\b.py", "")])
    log.do("updateTurn", tags=["b", "c"])
    answer = log.do("queryHistory", agent="Codex")
    assert answer == {
        "sessions": [
            {
                "agent": "Codex",
                "sessionId": SESSION,
                "title": "Fix upload",
                "model": "gpt-x",
                "started": "2026-07-01T12:00:00Z",
                "lastUpdated": "2026-07-01T12:00:00Z",
                "status": "in_progress",
                "turnCount": 2,
                "filesModifiedCount": 2,
                "tags": ["a", "b", "c"],
                "state": "open",
            }
        ],
        "totalCount": 1,
        "offset": 0,
        "limit": 10,
    }


def _history(log: Log) -> None:
    """Store three sessions on three days that differ in all that can be asked for."""
    made: list[tuple[str, str, str, dict[str, object], list[Call]]] = [
        ("one", "Alpha title", "gpt-X-large", {"planFile": "docs/a.md"}, [("completeTurn", {"response": "Lock it"})]),
        ("two", "Beta", "claude", {"todoId": "T-1"}, [("failTurn", {"errorMessage": "no runner"})]),
        ("three", "Gamma", "gpt-small", {}, [("updateTurn", {"designDecisions": ["Use a LOCK file"]})]),
    ]
    for name, title, model, turn, after in made:
        session = f"Codex-20260701T080000Z-{name}"
        begin = {"requestId": TURN, "queryTitle": "x", "queryText": f"Do {name}", **turn}
        opened: Call = ("openSession", {"sessionId": session, "title": title, "model": model})
        log.results(opened, ("beginTurn", begin), *after)
        log.wait(days=1)
    log.results(("openSession", {"sessionId": "Codex-20260701T080000Z-empty", "title": "Empty lock"}))


def test_each_filter_alone_finds_only_what_matches(log: Log) -> None:
    _history(log)
    asked: list[tuple[dict[str, object], list[str]]] = [
        ({}, ["empty", "three", "two", "one"]),
        ({"model": "GPT"}, ["three", "one"]),
        ({"from": "2026-07-02"}, ["empty", "three", "two"]),
        ({"from": "2026-07-02T12:00:01Z"}, ["empty", "three"]),
        ({"to": "2026-07-02"}, ["two", "one"]),
        ({"to": "2026-07-02T11:59:59Z"}, ["one"]),
        ({"planFile": "docs/a.md"}, ["one"]),
        ({"todoId": "T-1"}, ["two"]),
        ({"turnStatus": "failed"}, ["two"]),
        ({"status": "completed"}, ["two", "one"]),
        ({"status": "in_progress"}, ["empty", "three"]),
        ({"staleOlderThanHours": 20}, ["three"]),
        ({"staleOlderThanHours": 20, "turnStatus": "completed"}, ["one"]),
        ({"staleOlderThanHours": 100}, []),
        ({"text": "lock"}, ["empty", "three", "one"]),
        ({"text": "ALPHA"}, ["one"]),
        ({"text": "-two"}, ["two"]),
        ({"text": "runner || alpha"}, ["two", "one"]),
        ({"text": "lock !file !empty"}, ["one"]),
        ({"text": '"a lock"'}, ["three"]),
        ({"text": "(alpha || beta) && !(lock)"}, ["two"]),
        ({"text": "nowhere"}, []),
    ]
    for params, expected in asked:
        # What idles for days is suspended; only what has an open turn or none stays in progress.
        assert names(log, **params) == expected, params


def test_a_text_search_is_paged_and_counted_before_paging(log: Log) -> None:
    _history(log)
    pages = log.results(*(("queryHistory", {"text": "lock", "limit": 1, "offset": n}) for n in range(4)))
    assert [[row["sessionId"].rpartition("-")[2] for row in page["sessions"]] for page in pages] == [
        ["empty"],
        ["three"],
        ["one"],
        [],
    ]
    assert {page["totalCount"] for page in pages} == {3}
    counted = log.do("queryHistory", text="lock", limit=0)
    assert (counted["sessions"], counted["totalCount"]) == ([], 3)


def test_a_turn_is_found_by_its_status_and_by_those_roles_and_categories_of_what_it_holds(log: Log) -> None:
    _history(log)
    log.results(
        ("openSession", {"sessionId": SESSION, "title": "Upload"}),
        ("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": "x"}),
        ("appendDialog", {"dialogItems": [{"role": "tool", "category": "tool_result", "content": "x"}]}),
        ("appendActions", {"actions": [{"description": "x", "type": "edit", "status": "pending"}]}),
    )
    asked = {"failed": ["two"], "fail !completed": ["two"], "in_progress": ["upload", "three"], "COMPLETED": ["one"]}
    asked |= {"tool_result": ["upload"], "tool pending": ["upload"], "!pending !failed gpt": ["three", "one"]}
    for text, expected in asked.items():
        assert names(log, text=text) == expected, text


def test_the_turn_that_has_the_text_is_the_one_that_the_other_filters_ask_for(log: Log) -> None:
    log.results(
        ("openSession", {"sessionId": SESSION, "title": "Upload"}),
        ("beginTurn", {"requestId": numbered(1), "queryTitle": "alpha", "queryText": "x", "planFile": "plan.md"}),
        ("failTurn", {"errorMessage": "no"}),
    )
    log.wait(hours=2)
    second = {"sessionId": SESSION, "requestId": numbered(2), "queryTitle": "beta", "queryText": "x"}
    log.do("beginTurn", **second)
    for found in (
        {"text": "alpha", "turnStatus": "failed"},
        {"text": "beta", "turnStatus": "in_progress"},
        {"text": "alpha", "planFile": "plan.md", "staleOlderThanHours": 2, "turnStatus": "failed"},
        {"text": "beta", "staleOlderThanHours": 0},
        {"text": "upload", "planFile": "plan.md"},
    ):
        assert names(log, **found) == ["upload"], found
    for missed in (
        {"text": "alpha", "turnStatus": "in_progress"},
        {"text": "beta", "planFile": "plan.md"},
        {"text": "beta", "staleOlderThanHours": 2, "turnStatus": "failed"},
    ):
        assert names(log, **missed) == [], missed


def test_what_looks_like_a_secret_in_a_search_takes_no_operator_with_it(log: Log) -> None:
    log.open(title="Upload race")
    log.begin(queryText="password=hunter2hunter2")
    for text in (
        "(Cookie: a=b1c2d3) || race",
        "(Authorization: Basic dXNlcjpwYXNz) || upload",
        "!(X-Api-Key: abcd) && race",
    ):
        assert log.do("queryHistory", text=text)["totalCount"] == 1
    for text in ("password=hunter2hunter2 && upload", '!"password=hunter2hunter2" || race'):
        assert log.do("queryHistory", text=text)["totalCount"] == 1, "a secret is found as it is stored"
    assert log.do("queryHistory", text="!(password=hunter2hunter2)")["totalCount"] == 0


def test_a_search_may_stand_on_several_lines_and_blank_filters_ask_for_nothing(log: Log) -> None:
    log.open(title="Upload race")
    for text in ("upload race\n", "upload\n&&\trace", '"upload race"\r\n'):
        assert log.do("queryHistory", text=text)["totalCount"] == 1
    assert log.do("queryHistory", text="upload\n!race\n")["totalCount"] == 0
    assert log.do("queryHistory", offset=2**62)["sessions"] == []
    nothing = dict.fromkeys(("agent", "model", "text", "from", "to", "status", "turnStatus", "planFile", "todoId"), "")
    assert log.do("queryHistory", **nothing)["totalCount"] == 1


@pytest.mark.parametrize("method", ["queryHistory", "getHistory"])
def test_the_history_is_asked_for_under_two_names(log: Log, method: str) -> None:
    log.open()
    assert log.do(method)["totalCount"] == 1


def test_a_turn_of_many_is_found_by_what_was_said_in_it(log: Log) -> None:
    item = {"role": "model", "category": "reasoning", "content": "the Needle in it"}
    begin = {"queryTitle": "x", "queryText": "x"}
    calls: list[Call] = [("openSession", {"sessionId": SESSION, "title": "Many"})]
    calls += [("beginTurn", {"requestId": numbered(n), **begin}) for n in range(250)]
    calls.append(("appendDialog", {"dialogItems": [item]}))
    log.results(*calls)
    assert names(log, text="needle") == ["upload"]
    assert names(log, text="needle n001") == []
