"""Acceptance cases 13 to 20, 23 to 28 and 33: the life of a turn through the REPL, one process a call."""

from typing import Any

import pytest

from tests.dialects.mcpserver.log import OTHER_SESSION, SESSION, TURN, TURN_2, Log, Tools, without

ITEM: dict[str, Any] = {"role": "model", "category": "decision", "content": "Decision: lock the temp dir"}
ACTION: dict[str, Any] = {
    "description": "Lock temp dir",
    "type": "edit",
    "status": "completed",
    "filePath": "src/up.py",
}
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("updateTurn", {"interpretation": "x"}),
    ("appendDialog", {"dialogItems": [ITEM]}),
    ("appendActions", {"actions": [ACTION]}),
    ("completeTurn", {"response": "x"}),
    ("failTurn", {"errorMessage": "x"}),
]


def test_a_session_without_a_turn_answers_turn_not_found_with_the_hint(log: Log) -> None:
    log.open()
    for method, params in WRITES:
        refused = log.error(method, **params)
        assert (refused["code"], refused["message"]) == ("turn_not_found", "No active turn"), method
        assert refused["details"] == {
            "operation": f"workflow.sessionlog.{method}",
            "sessionId": SESSION,
            "hint": "Call workflow.sessionlog.beginTurn first",
        }
        named = log.error(method, **params, turnRequestId=TURN)
        assert named["message"] == f"Turn not found: {TURN}"
        assert named["details"]["requestId"] == TURN


def test_begin_turn_answers_the_id_twice_and_in_progress(log: Log) -> None:
    log.open()
    assert without(log.begin()) == {
        "turnRequestId": TURN,
        "status": "in_progress",
        "timestamp": "2026-07-01T12:00:00Z",
        "requestId": TURN,
    }


def test_a_turn_id_is_taken_in_its_session_for_the_same_and_for_a_new_process(log: Log) -> None:
    log.open()
    begin = ("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": "x"})
    first, second = log.answers(begin, begin)
    assert "result" in first
    for refused in (second, log.error(*[begin[0]], **begin[1])):
        assert refused["code"] == "turn_already_exists"
        assert refused["message"] == "Turn with request ID already exists in current session"
        assert refused["details"] == {
            "requestId": TURN,
            "sessionId": SESSION,
            "existingTurnStatus": "in_progress",
            "hint": "Use a new request ID",
        }


def test_a_turn_id_may_repeat_in_another_session(log: Log) -> None:
    log.open()
    log.begin()
    log.open(OTHER_SESSION)
    assert log.begin(TURN, sessionId=OTHER_SESSION)["turnRequestId"] == TURN


def test_beginning_a_turn_fails_the_one_still_open_as_superseded(log: Log) -> None:
    log.open()
    log.begin()
    begun = log.begin(TURN_2)
    assert (begun["status"], begun["supersededTurnRequestId"]) == ("in_progress", TURN)
    first = log.turn(TURN)
    assert first["status"] == "failed"
    note = "superseded: Superseded by subsequent beginTurn without explicit complete/fail"
    assert (first["failure_note"], first["error_code"]) == (note, "superseded")
    refused = log.error("updateTurn", requestId=TURN, response="x")
    assert (refused["code"], refused["message"]) == ("turn_immutable", "Turn is immutable (status: failed)")


@pytest.mark.parametrize(
    ("ending", "status"), [(("completeTurn", {"response": "ok"}), "completed"), (WRITES[4], "failed")]
)
def test_a_finished_turn_refuses_every_change(log: Log, ending: tuple[str, dict[str, Any]], status: str) -> None:
    log.open()
    log.begin()
    log.do(ending[0], **ending[1])
    before = log.turn()
    more = [("clearSection", {"section": "tags"}), ("setTurnTitle", {"queryTitle": "x"})]
    more += [("closeTurn", {"response": "x"})]
    for method, params in [*WRITES, *more]:
        refused = log.error(method, **params)
        assert refused["code"] == "turn_immutable", method
        assert refused["message"] == f"Turn is immutable (status: {status})"
        assert refused["details"] == {
            "turnRequestId": TURN,
            "currentStatus": status,
            "hint": "Begin a new turn instead",
            "requestId": TURN,
            "completedAt": "2026-07-01T12:00:00Z",
        }
    assert log.turn() == before


def test_a_turn_begun_in_one_process_is_completed_in_a_second_and_seen_in_a_third(log: Log) -> None:
    log.open()
    log.begin()
    log.wait(minutes=9)
    assert without(log.do("completeTurn", response="Fixed; 200 runs green")) == {
        "turnRequestId": TURN,
        "status": "completed",
        "completedAt": "2026-07-01T12:09:00Z",
        "requestId": TURN,
    }
    shown = log.do("currentSession")
    assert (shown["currentTurnRequestId"], shown["currentTurnStatus"]) == (TURN, "completed")


def test_appending_dialog_answers_the_number_appended_and_the_total(log: Log) -> None:
    log.open()
    log.begin()
    answers = [log.do("appendDialog", dialogItems=[ITEM] * n) for n in (2, 1, 4)]
    assert [(a["appended"], a["totalDialogItems"]) for a in answers] == [(2, 2), (1, 3), (4, 7)]


def test_times_of_dialog_are_stored_in_utc_and_default_to_now(log: Log) -> None:
    log.open()
    log.begin()
    times = ["2026-07-01T11:00:00Z", "2026-07-01T14:00:00+02:00", None]
    items = [ITEM | ({"timestamp": time} if time else {}) for time in times]
    log.do("appendDialog", dialogItems=items)
    stored = [item["timestamp"] for item in log.dialog()]
    assert stored == ["2026-07-01T11:00:00Z", "2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z"]


def test_one_bad_item_among_five_stores_none(log: Log) -> None:
    log.open()
    log.begin()
    log.do("appendDialog", dialogItems=[ITEM])
    refused = log.error("appendDialog", dialogItems=[ITEM, ITEM, ITEM | {"role": "assistant"}, ITEM, ITEM])
    assert refused["details"]["parameter"] == "dialogItems[2].role"
    assert len(log.dialog()) == 1


def test_tags_are_united_and_an_empty_list_changes_nothing(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", tags=["a", "b"])
    assert log.do("updateTurn", interpretation="x")["journal"]["changed"] is True
    assert log.turn()["tags"] == ["a", "b"]
    assert log.do("updateTurn", tags=[])["journal"]["changed"] is False
    assert log.turn()["tags"] == ["a", "b"]
    log.do("updateTurn", tags=["b", "c"])
    assert log.turn()["tags"] == ["a", "b", "c"]


def test_an_update_without_effect_answers_the_same_and_stores_nothing(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", interpretation="Race")
    log.wait(minutes=5)
    again = log.do("updateTurn", interpretation="Race", model="unknown", planFile="None", tokenCount=0)
    assert without(again) == {
        "updated": True,
        "lastUpdated": "2026-07-01T12:00:00Z",
        "turnRequestId": TURN,
        "requestId": TURN,
    }
    assert (again["journal"]["changed"], again["journal"]["seq"]) == (False, 3)


def test_a_cleared_section_is_empty_while_the_journal_holds_the_old_value(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", tags=["secret-plan"])
    log.wait(minutes=2)
    cleared = log.do("clearSection", section="tags")
    assert without(cleared) == {"cleared": "tags", "lastUpdated": "2026-07-01T12:02:00Z"}
    assert log.turn()["tags"] == []
    assert all(item["ok"] for item in log.items("verify")[1:])
    found = log.ask("search", text="secret-plan", kinds=["entry"])
    assert [item["entry_kind"] for item in found["items"]] == ["turn.updated"]


@pytest.mark.parametrize("section", ["actions", "dialog", "context", "commits", "filesModified", "tokenCount", "model"])
def test_every_kind_of_section_can_be_cleared(log: Log, section: str) -> None:
    log.open()
    log.begin()
    log.do(
        "updateTurn",
        contextList=["a.py"],
        commits=[{"sha": "abc", "filesChanged": ["x"]}],
        filesModified=["b.py"],
        tokenCount=5,
        model="m",
    )
    log.do("appendActions", actions=[ACTION])
    log.do("appendDialog", dialogItems=[ITEM])
    log.do("clearSection", section=section)
    turn = log.turn()
    native = {"context": "context_list", "filesModified": "files_modified", "tokenCount": "token_count"}
    assert not log.dialog() if section == "dialog" else log.dialog()
    assert not log.actions() if section == "actions" else log.actions()
    if section not in ("dialog", "actions"):
        assert not turn[native.get(section, section)]
    (shown,) = log.do("queryHistory")["sessions"]
    assert shown["filesModifiedCount"] == (1 if section in ("actions", "filesModified") else 2)


@pytest.mark.parametrize(
    ("params", "note", "code"),
    [({"errorCode": "env_missing"}, "env_missing: No runner", "env_missing"), ({}, "No runner", "")],
)
def test_failing_a_turn_stores_code_and_message_as_its_note(
    log: Log, params: dict[str, str], note: str, code: str
) -> None:
    log.open()
    log.begin()
    assert without(log.do("failTurn", errorMessage="No runner", **params)) == {
        "turnRequestId": TURN,
        "status": "failed",
        "failedAt": "2026-07-01T12:00:00Z",
        "errorCode": code,
        "requestId": TURN,
    }
    assert log.turn()["failure_note"] == note


def test_completing_with_a_response_only_loses_no_other_field(log: Log) -> None:
    log.open()
    log.begin(planFile="docs/plan.md", todoId="T-7")
    rich = {
        "interpretation": "Race",
        "tokenCount": 1250,
        "tags": ["bug"],
        "contextList": ["src/up.py"],
        "designDecisions": ["Lock per shard"],
        "requirementsDiscovered": ["FR-UP-1"],
        "filesModified": ["src/up.py"],
        "blockers": ["CI is slow"],
        "commits": [{"sha": "9f2c1ab", "message": "Lock it", "filesChanged": ["src/up.py"]}],
        "model": "gpt-y",
    }
    log.do("updateTurn", **rich)
    log.do("appendDialog", dialogItems=[ITEM])
    log.do("appendActions", actions=[ACTION])
    before = log.turn()
    log.do("completeTurn", response="Done")
    after = log.turn()
    moved = {"response", "status", "finished_at", "seal", "last_updated"}
    assert {name for name in before if before[name] != after[name]} <= moved
    assert after["response"] == "Done"
    assert (after["plan_file"], after["todo_id"]) == ("docs/plan.md", "T-7")


def test_rich_fields_come_flat_or_in_a_payload_and_flat_wins(log: Log) -> None:
    log.open()
    log.begin()
    log.do("appendActions", actions=[ACTION])
    payload = {
        "requestId": TURN,
        "status": "completed",
        "response": "from the payload",
        "interpretation": "inside",
        "modelProvider": "someone",
        "actions": [{"order": 1, **ACTION}, {"order": 2, **ACTION}],
        "processingDialog": [ITEM | {"timestamp": "2026-07-01T11:00:00Z"}],
    }
    log.do("completeTurn", response="flat", payload=payload)
    turn = log.turn()
    assert (turn["response"], turn["interpretation"]) == ("flat", "inside")
    assert [action["order"] for action in log.actions()] == [1, 2]
    assert [item["content"] for item in log.dialog()] == [ITEM["content"]]


def test_closing_a_turn_appends_actions_and_completes_it(log: Log) -> None:
    log.open()
    log.begin()
    closed = log.do("closeTurn", response="Done", actions=[ACTION, ACTION])
    assert (closed["status"], closed["turnRequestId"]) == ("completed", TURN)
    assert [action["order"] for action in log.actions()] == [1, 2]


@pytest.mark.parametrize(
    "params",
    [
        {"errorMessage": "No runner"},
        {"failureNote": "No runner"},
        {"errorMessage": " ", "failureNote": "No runner"},
        {"failureNote": "No runner", "errorMessage": ""},
        {"payload": {"failureNote": "No runner", "response": "half done"}},
        {"errorMessage": "No runner", "payload": {"failureNote": "Another"}},
    ],
)
def test_why_a_turn_failed_may_stand_under_either_name_and_in_a_turn_object(log: Log, params: dict[str, Any]) -> None:
    log.open()
    log.begin()
    assert log.do("failTurn", **params)["status"] == "failed"
    assert log.turn()["failure_note"] == "No runner"


def test_an_action_without_an_order_comes_after_those_that_the_turn_still_has(log: Log) -> None:
    log.open()
    log.begin()
    action = {"description": "x", "type": "edit", "status": "completed"}
    log.do("appendActions", actions=[action, action | {"order": 7}, action])
    assert [item["order"] for item in log.actions()] == [1, 7, 8]
    with Tools(log) as tools:
        where = {"agent": "Codex", "sessionId": SESSION, "requestId": TURN}

        def orders() -> list[int]:
            (session,) = tools.do("sessionlog_query")["items"]
            return [item["order"] for item in session["turns"][0]["actions"]]

        tools.do("sessionlog_delete_item", **where, section="actions", itemKey="8")
        tools.do("sessionlog_delete_item", **where, section="actions", itemKey="7")
        log.do("appendActions", actions=[action, action])
        assert orders() == [1, 2, 3]
        log.do("clearSection", section="actions")
        log.do("appendActions", actions=[action, action])
        assert orders() == [1, 2]
        tools.do("sessionlog_replace_section", **where, section="actions", sectionJson=[action])
        assert orders() == [1]
