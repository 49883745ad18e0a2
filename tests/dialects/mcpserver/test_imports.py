"""Acceptance cases 32 and 34: importing what was recorded elsewhere, again and again, sealed turns untouched."""

import json
from typing import Any

import jsonschema
import pytest

from tests.dialects.mcpserver.log import OTHER_SESSION, SESSION, TURN, TURN_2, Log, Tools, without

TURNS: list[dict[str, Any]] = [
    {"requestId": TURN, "queryTitle": "First", "queryText": "First?", "status": "completed", "response": "ok"},
    {
        "requestId": TURN_2,
        "timestamp": "2026-06-30T10:00:00Z",
        "status": "interrupted by user",
        "tags": ["late"],
        "filesModified": ["src/a.py"],
        "actions": [{"order": 1, "description": "x", "type": "edit", "status": "completed", "filePath": "src/b.py"}],
        "processingDialog": [
            {"role": "model", "category": "decision", "content": "y", "timestamp": "2026-06-30T10:01:00Z"}
        ],
        "commits": [{"sha": "abc"}],
    },
]


def session_log(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "sessionLog": {
            "sourceType": "Codex",
            "sessionId": SESSION,
            "title": "Fix upload",
            "turns": list(turns),
            **more,
        }
    }


def counts(result: dict[str, Any]) -> tuple[int, ...]:
    """Return how many turns were imported, merged, skipped and amended, and how many there are."""
    return tuple(result[f"{name}Turns"] for name in ("imported", "merged", "skipped", "amended", "total"))


def test_an_unknown_session_is_imported_once_and_the_second_time_changes_nothing(log: Log) -> None:
    first = log.do("importRecovery", **session_log(*TURNS))
    assert without(first, "submitId") == {
        "sourceType": "Codex",
        "sessionId": SESSION,
        "existingSessionFound": False,
        "importedTurns": 2,
        "mergedTurns": 0,
        "skippedTurns": 0,
        "totalTurns": 2,
        "amendedTurns": 0,
    }
    assert first["submitId"] == first["journal"]["hash"]
    log.wait(hours=1)
    again = log.do("importRecovery", **session_log(*TURNS))
    assert counts(again) == (0, 0, 2, 0, 2)
    assert again["journal"]["changed"] is False
    assert (again["existingSessionFound"], again["submitId"]) == (True, first["submitId"])


def test_an_imported_turn_keeps_all_its_fields_and_its_defaults(log: Log) -> None:
    log.do("importRecovery", **session_log(*TURNS))
    first, second = log.turn(TURN), log.turn(TURN_2)
    assert (first["status"], first["response"], first["query_text"]) == ("completed", "ok", "First?")
    assert (second["status"], second["failure_note"]) == ("failed", "interrupted by user")
    assert (second["query_title"], second["query_text"]) == (TURN_2, TURN_2)
    assert second["begun_at"] == "2026-06-30T10:00:00Z"
    assert (second["tags"], second["commits"]) == (["late"], [{"sha": "abc"}])
    assert [item["kind"] for item in second["contents"]] == ["dialog", "action"]


def test_an_imported_session_is_suspended_or_closed_and_never_current(log: Log) -> None:
    log.do("importRecovery", **session_log(*TURNS))
    assert log.do("currentSession") is None
    (shown,) = log.do("queryHistory")["sessions"]
    assert (shown["state"], shown["status"]) == ("suspended", "completed")
    other = {"agent": "Codex", "sessionId": "Codex-20260601T080000Z-old", "title": "Old", "status": "completed"}
    log.do("importRecovery", **other, started="2026-06-01T08:00:00Z", lastUpdated="2026-06-01T09:00:00Z")
    old = log.do("queryHistory", to="2026-06-02")["sessions"][0]
    assert (old["state"], old["started"], old["lastUpdated"]) == (
        "closed",
        "2026-06-01T08:00:00Z",
        "2026-06-01T09:00:00Z",
    )


def test_a_blank_query_is_none_and_only_completed_closes_a_session(log: Log) -> None:
    turns = [{"requestId": TURN, "queryTitle": "  ", "queryText": "\n"}, {"requestId": TURN_2, "queryText": "why"}]
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="x", status="partial", turns=turns)
    shown = log.turns()
    assert (shown[TURN]["query_title"], shown[TURN]["query_text"]) == (TURN, TURN)
    assert (shown[TURN_2]["query_title"], shown[TURN_2]["query_text"]) == (TURN_2, "why")
    assert log.do("currentSession", sessionId=SESSION)["state"] == "suspended"
    log.do("importRecovery", agent="Codex", sessionId=OTHER_SESSION, title="x", status=" Completed ")
    assert log.do("currentSession", sessionId=OTHER_SESSION)["state"] == "closed"


def test_an_open_turn_is_merged_with_what_the_import_brings(log: Log) -> None:
    log.open()
    log.begin(planFile="plan.md")
    log.do("updateTurn", tags=["mine"], response="draft")
    incoming = TURNS[0] | {"status": "in_progress", "response": "", "tags": ["theirs"], "planFile": "None"}
    merged = log.do("importRecovery", **session_log(incoming))
    assert counts(merged) == (0, 1, 0, 0, 1)
    turn = log.turn()
    assert (turn["tags"], turn["response"], turn["plan_file"]) == (["mine", "theirs"], "draft", "plan.md")
    assert (turn["status"], turn["query_title"]) == ("in_progress", "First")
    assert counts(log.do("importRecovery", **session_log(incoming))) == (0, 0, 1, 0, 1)
    done = log.do("importRecovery", **session_log(incoming | {"status": "partial"}))
    assert counts(done) == (0, 1, 0, 0, 1)
    assert log.turn()["status"] == "completed"


def test_a_completed_turn_stays_as_it_is_and_what_is_new_becomes_an_amendment(log: Log) -> None:
    log.open()
    log.begin()
    log.do("completeTurn", response="ok", tags=["own"])
    before = log.turn()
    incoming = {
        "requestId": TURN,
        "status": "completed",
        "response": "another",
        "tags": ["own", "later"],
        "filesModified": ["c.py"],
        "commits": [{"sha": "abc"}, {"sha": "abc", "message": "again"}],
    }
    amended = log.do("importRecovery", **session_log(incoming))
    assert counts(amended) == (0, 0, 1, 1, 1)
    after = log.turn()
    assert without(after, "amendments") == without(before, "amendments")
    (note,) = after["amendments"]
    assert note["source"] == "import"
    lists = {"tags": ["later"], "files_modified": ["c.py"], "commits": [{"sha": "abc"}]}
    assert note["fields"] == {"response": "another", **lists}
    again = log.do("importRecovery", **session_log(incoming))
    assert (counts(again), again["journal"]["changed"]) == ((0, 0, 1, 0, 1), False)
    (shown,) = log.do("queryHistory", text="another")["sessions"]
    assert (shown["tags"], shown["filesModifiedCount"]) == (["later", "own"], 1)
    with Tools(log) as tools:
        (item,) = tools.do("sessionlog_query")["items"]
    (shown_note,) = item["turns"][0]["amendments"]
    assert set(shown_note) == {"at", "source", "fields"}
    assert shown_note["fields"]["filesModified"] == ["c.py"]


def test_an_import_does_not_disturb_the_turn_that_is_being_worked_on(log: Log) -> None:
    log.open()
    log.begin(TURN_2)
    late = TURNS[0] | {"timestamp": "2026-07-01T12:00:00Z", "status": "in_progress"}
    assert counts(log.do("importRecovery", **session_log(late))) == (1, 0, 0, 0, 2)
    assert log.do("currentSession")["currentTurnRequestId"] == TURN_2
    assert log.do("completeTurn", response="ok")["turnRequestId"] == TURN_2


def test_one_bad_turn_stores_nothing_of_an_import(log: Log) -> None:
    refused = log.error("importRecovery", **session_log(TURNS[0], TURNS[1] | {"requestId": "req-1"}))
    assert refused["code"] == "invalid_request_id"
    assert log.do("queryHistory")["totalCount"] == 0


def test_a_closed_session_takes_an_import_and_stays_closed(log: Log) -> None:
    log.open()
    log.do("closeSession")
    assert counts(log.do("importRecovery", **session_log(*TURNS))) == (2, 0, 0, 0, 2)
    assert log.do("queryHistory")["sessions"][0]["state"] == "closed"


def test_the_times_of_a_session_only_grow(log: Log) -> None:
    log.open()
    span = {"started": "2026-06-01T08:00:00Z", "lastUpdated": "2026-06-01T09:00:00Z"}
    log.wait(hours=1)
    log.do("importRecovery", **session_log(**span))
    (shown,) = log.do("queryHistory")["sessions"]
    assert (shown["started"], shown["lastUpdated"]) == ("2026-06-01T08:00:00Z", "2026-07-01T12:00:00Z")


def test_persisting_a_turn_is_an_import_that_says_only_that_it_is_safe(log: Log) -> None:
    persisted = log.do("repl.sessionlog.persistTurn", **session_log(*TURNS))
    assert without(persisted) == {
        "persisted": True,
        "degraded": False,
        "persistenceStrategy": "primary",
        "failsafePath": None,
        "message": "persisted",
    }
    assert log.turn()["response"] == "ok"


def test_a_session_rebuilt_from_its_journal_is_the_same_after_imports(log: Log) -> None:
    log.do("importRecovery", **session_log(*TURNS))
    log.do("importRecovery", **session_log(TURNS[0] | {"response": "more"}, title="Other", model="m"))
    (done,) = log.items("rebuild")[1:]
    assert done["changed"] is False


def test_a_session_log_of_null_leaves_the_flat_fields_in_force(log: Log) -> None:
    imported = log.do("importRecovery", sessionLog=None, agent="Codex", sessionId=SESSION, title="Flat")
    assert imported["existingSessionFound"] is False
    assert "warnings" not in imported


def test_a_session_that_was_read_can_be_submitted_as_it_is_and_changes_nothing(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", tags=["b", "a"], commits=[{"sha": "abc"}])
    log.do("appendDialog", dialogItems=[{"role": "tool", "category": "tool_result", "content": "2 passed"}])
    log.do("completeTurn", response="ok")
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        assert read["tags"] == ["a", "b"]
        schemas = {tool["name"]: tool["inputSchema"] for tool in tools.request("tools/list")["result"]["tools"]}
        schema: Any = jsonschema.Draft202012Validator(schemas["sessionlog_submit"])
        schema.validate({"json": read})
        schema.validate({"json": json.dumps(read)})
        again = tools.do("sessionlog_submit", json=read)
        assert (again["id"], again["journal"]["changed"]) == (SESSION, False)
        other = "Codex-20260701T080000Z-copy"
        assert tools.do("sessionlog_submit", json={**read, "sessionId": other})["journal"]["changed"] is True
        (copy,) = tools.do("sessionlog_query", text=other)["items"]
        assert copy == read | {"sessionId": other, "state": "suspended", "status": "completed"}


def test_a_session_that_is_copied_keeps_the_amendments_of_its_turns(log: Log) -> None:
    log.do("importRecovery", **session_log(*TURNS))
    log.wait(minutes=5)
    item = {"role": "model", "category": "decision", "content": "Lock"}
    action = {"description": "Lock", "type": "edit", "status": "completed", "filePath": "a.py"}
    more = {"response": "other", "tags": ["late"], "processingDialog": [item], "actions": [action]}
    log.do("importRecovery", **session_log(TURNS[0] | more))
    log.wait(minutes=5)
    log.do("importRecovery", **session_log(TURNS[0] | {"status": "failed", "failureNote": "Boom"}))
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        notes = next(turn["amendments"] for turn in read["turns"] if turn["requestId"] == TURNS[0]["requestId"])
        assert [note["at"] for note in notes] == ["2026-07-01T12:05:00Z", "2026-07-01T12:10:00Z"]
        log.wait(hours=1)
        other = "Codex-20260701T080000Z-copy"
        for changed in (True, False):
            made = tools.do("sessionlog_submit", json={**read, "sessionId": other})
            assert made["journal"]["changed"] is changed
        (copy,) = tools.do("sessionlog_query", text=f"{other} Boom")["items"]
        assert copy["turns"] == read["turns"]
        bad = read | {"turns": [TURNS[0] | {"amendments": [{"fields": {"tags": 7}}]}]}
        refused = tools.error("sessionlog_submit", json=bad)
    assert refused["details"]["parameter"] == "json.turns[0].amendments[0].fields.tags"
    assert all(done["changed"] is False for done in log.items("rebuild")[1:])


def test_turns_of_a_subagent_come_back_to_it_and_their_tags_are_listed_with_the_parent(log: Log) -> None:
    name = "req-20260701T080200Z-subagent-zed-t1"
    tags = ["subagent", "zed", f"parent:{TURN}", "own"]
    child = {"requestId": name, "queryTitle": "c", "tags": tags, "sourceThreadId": "bbbb"}
    parent = TURNS[0] | {"timestamp": "2026-07-01T08:00:05Z"}
    log.do("importRecovery", **session_log(parent, child, agentSessionId="aaaa", started="2026-07-01T08:00:00Z"))
    (listed,) = log.do("queryHistory")["sessions"]
    assert (listed["turnCount"], listed["tags"]) == (2, sorted(tags))
    taken = log.error("beginTurn", sessionId=SESSION, requestId=name, queryTitle="x", queryText="x")
    assert (taken["code"], taken["details"]["sessionId"]) == ("turn_already_exists", SESSION)
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        again = tools.do("sessionlog_submit", json=read)
        assert again["journal"]["changed"] is False
        (same,) = tools.do("sessionlog_query")["items"]
    assert same == read


def test_a_turn_of_a_subagent_can_be_worked_on_and_its_parent_stays_current(log: Log) -> None:
    log.open(agentSessionId="main")
    log.begin()
    name = "req-20260701T080010Z-subagent-bea-one"
    turn = {"requestId": name, "sourceThreadId": "other", "tags": ["subagent", "bea"]}
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[turn])
    log.do("updateTurn", requestId=name, tags=["woken"])
    assert log.do("currentSession")["sessionId"] == SESSION
    assert log.do("completeTurn", requestId=name, response="Done")["turnRequestId"] == name
    assert log.do("updateTurn", tags=["own"])["turnRequestId"] == TURN


def test_work_on_a_turn_of_a_subagent_wakes_the_session_that_it_is_shown_in(log: Log) -> None:
    log.open(agentSessionId="main")
    name = "req-20260701T080010Z-subagent-bea-one"
    turn = {"requestId": name, "sourceThreadId": "other"}
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[turn])
    for state in ("open", "suspended"):
        log.wait(hours=3)
        assert log.do("currentSession", sessionId=SESSION)["state"] == "suspended"
        made = log.do("updateTurn", sessionId=SESSION, requestId=name, tags=["new"], idempotencyKey="k")
        shown = log.do("currentSession", sessionId=SESSION)
        assert (shown["state"], shown["lastUpdated"]) == (state, made["lastUpdated"])


@pytest.mark.parametrize("status", ["completed", "failed", "interrupted", "in_progress"])
def test_a_turn_with_a_failure_note_is_the_same_when_it_comes_again_whatever_its_status(log: Log, status: str) -> None:
    turn = {"requestId": TURN, "status": status, "response": "ok", "failureNote": "Out of tokens"}
    given = {"agent": "Codex", "sessionId": SESSION, "title": "Fix upload", "turns": [turn]}
    assert log.do("importRecovery", **given)["importedTurns"] == 1
    again = log.do("importRecovery", **given)
    assert (again["skippedTurns"], again["amendedTurns"], again["journal"]["changed"]) == (1, 0, False)


def test_a_subagent_whose_turns_were_deleted_marks_its_parent_no_longer(log: Log) -> None:
    log.open(agentSessionId="main")
    name = "req-20260701T080010Z-subagent-bea-one"
    turn = {"requestId": name, "sourceThreadId": "other", "tags": ["subagent", "bea", "own"]}
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[turn])
    assert log.do("queryHistory")["sessions"][0]["tags"] == ["bea", "own", "subagent"]
    with Tools(log) as tools:
        tools.do("sessionlog_delete_turn", agent="Codex", sessionId=SESSION, requestId=name)
    (shown,) = log.do("queryHistory")["sessions"]
    assert (shown["turnCount"], shown["tags"]) == (0, [])


def test_work_on_a_turn_of_a_subagent_updates_the_open_session_that_it_is_shown_in(log: Log) -> None:
    log.open(agentSessionId="main")
    name = "req-20260701T080010Z-subagent-bea-one"
    turn = {"requestId": name, "sourceThreadId": "other"}
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[turn])
    log.wait(minutes=1)
    for made in (log.do("updateTurn", requestId=name, tags=["new"]), log.do("updateTurn", requestId=name)):
        assert made["lastUpdated"] == "2026-07-01T12:01:00Z"
        assert log.do("currentSession")["lastUpdated"] == "2026-07-01T12:01:00Z"
    before = log.heads()[SESSION]
    log.do("updateTurn", requestId=name, tags=["newer"])
    assert log.heads()[SESSION] == before, "once a second is enough"
    log.wait(minutes=1)
    updated = log.do("setSessionTitle", title="Another")["lastUpdated"]
    assert log.do("updateTurn", requestId=name)["lastUpdated"] == updated


def test_turns_that_came_without_a_time_come_back_with_one_and_change_nothing(log: Log) -> None:
    log.open()
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[{"requestId": TURN}])
    with Tools(log) as tools:
        (shown,) = tools.do("sessionlog_query")["items"]
        assert shown["turns"][0]["timestamp"] < shown["started"]
        assert tools.do("sessionlog_submit", json=shown)["journal"]["changed"] is False


def test_a_session_has_the_files_and_the_status_of_its_turns_and_those_of_its_subagents_together(log: Log) -> None:
    own = {"requestId": TURN, "status": "completed", "filesModified": ["a.py", "b.py"]}
    name = "req-20260701T080100Z-subagent-bea-1"
    child = {"requestId": name, "sourceThreadId": "other", "tags": ["subagent", "bea"], "filesModified": ["./a.py"]}
    whole = {"agent": "Codex", "sessionId": SESSION, "title": "x", "agentSessionId": "mine"}
    log.do("importRecovery", **whole, turns=[own, child])
    for status, turns in (("in_progress", [own, child]), ("completed", [own, child | {"status": "completed"}])):
        log.do("importRecovery", **whole, turns=turns)
        (shown,) = log.do("queryHistory", status=status)["sessions"]
        assert (shown["status"], shown["state"], shown["filesModifiedCount"]) == (status, "suspended", 2)
        assert log.do("currentSession", sessionId=SESSION)["status"] == status
        assert log.error("openSession", sessionId=SESSION, title="x")["details"]["status"] == status


def test_a_session_read_whole_has_its_own_tags_beside_those_of_its_turns(log: Log) -> None:
    whole = {"agent": "Codex", "sessionId": SESSION, "title": "x", "tags": ["own"]}
    log.do("importRecovery", **whole, turns=[{"requestId": TURN, "tags": ["of-turn"]}])
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        assert read["tags"] == ["of-turn", "own"]
        assert tools.do("sessionlog_submit", json=read)["journal"]["changed"] is False
    (listed,) = log.do("queryHistory")["sessions"]
    assert listed["tags"] == ["of-turn"]


def test_erased_items_are_shown_as_such_and_a_session_with_them_can_be_submitted(log: Log) -> None:
    log.open()
    log.begin()
    log.do("appendDialog", dialogItems=[{"role": "tool", "category": "tool_result", "content": "private"}])
    log.do(
        "appendActions", actions=[{"description": "private", "type": "edit", "status": "failed", "filePath": "a.py"}]
    )
    log.do("completeTurn", response="ok")
    log.ask("erase", session_id=SESSION, entries=[3, 4], reason="privacy")
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        (turn,) = read["turns"]
        said = {"timestamp": "2026-07-01T12:00:00Z", "role": "system", "content": "[erased]", "category": "observation"}
        done = {"order": 0, "description": "[erased]", "type": "erased", "status": "completed", "filePath": ""}
        assert (turn["processingDialog"], turn["actions"]) == ([said], [done])
        assert tools.do("sessionlog_submit", json=read)["journal"]["changed"] is False
