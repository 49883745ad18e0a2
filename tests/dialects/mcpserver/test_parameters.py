"""Acceptance cases 21 and 22: what parameters may be, and what the refusal names."""

from typing import Any

import pytest

from tests.dialects.mcpserver.log import Log

ITEM = {"role": "model", "category": "decision", "content": "x"}
ACTION = {"description": "x", "type": "edit", "status": "completed"}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("completeTurn", {"response": "  "}, "response"),
    ("completeTurn", {}, "response"),
    ("failTurn", {"errorMessage": ""}, "errorMessage"),
    ("appendDialog", {"dialogItems": []}, "dialogItems"),
    ("appendDialog", {"dialogItems": [ITEM | {"role": "assistant"}]}, "dialogItems[0].role"),
    ("appendDialog", {"dialogItems": [ITEM, ITEM | {"category": "note"}]}, "dialogItems[1].category"),
    ("appendDialog", {"dialogItems": [ITEM | {"content": " "}]}, "dialogItems[0].content"),
    ("appendDialog", {"dialogItems": [ITEM | {"timestamp": "2026-07-01T10:00:00"}]}, "dialogItems[0].timestamp"),
    ("appendDialog", {"dialogItems": [ITEM] * 1001}, "dialogItems"),
    ("appendActions", {"actions": [ACTION | {"status": "done"}]}, "actions[0].status"),
    ("appendActions", {"actions": [ACTION | {"type": "Test Run"}]}, "actions[0].type"),
    ("appendActions", {"actions": [ACTION | {"order": -1}]}, "actions[0].order"),
    ("appendActions", {"actions": [ACTION | {"description": "x" * 8193}]}, "actions[0].description"),
    ("updateTurn", {"tokenCount": "x"}, "tokenCount"),
    ("updateTurn", {"tokenCount": True}, "tokenCount"),
    ("updateTurn", {"tokenCount": 2**53}, "tokenCount"),
    ("updateTurn", {"tags": ["x" * 201]}, "tags[0]"),
    ("updateTurn", {"commits": [{"branch": "main"}]}, "commits[0].sha"),
    ("updateTurn", {"planFile": "../plan.md"}, "planFile"),
    ("updateTurn", {"response": 5}, "response"),
    ("setTurnTitle", {"queryTitle": "x" * 501}, "queryTitle"),
    ("clearSection", {"section": "everything"}, "section"),
    ("queryHistory", {"limit": -1}, "limit"),
    ("queryHistory", {"limit": 1001}, "limit"),
    ("queryHistory", {"offset": -1}, "offset"),
    ("queryHistory", {"from": "yesterday"}, "from"),
    ("queryHistory", {"text": "(a || b"}, "text"),
    ("queryHistory", {"text": 'a "b'}, "text"),
    ("queryHistory", {"turnStatus": "done"}, "turnStatus"),
    ("openSession", {"sessionId": "Codex-20260701T090000Z-x", "title": " "}, "title"),
    ("openSession", {"sessionId": "Codex-20260701T090000Z-x", "title": "x", "agent": "codex"}, "agent"),
    ("importRecovery", {"agent": "Codex", "sessionId": "Codex-20260701T090000Z-x"}, "title"),
    (
        "importRecovery",
        {"sessionLog": {"agent": "Codex", "sessionId": "Codex-20260701T090000Z-x", "title": "x", "turns": [{}]}},
        "sessionLog.turns[0].requestId",
    ),
]


@pytest.mark.parametrize(("method", "params", "parameter"), REFUSED)
def test_a_bad_parameter_is_refused_by_its_path(
    begun_log: Log, method: str, params: dict[str, Any], parameter: str
) -> None:
    refused = begun_log.error(method, **params)
    assert refused["code"] == "invalid_parameter"
    assert refused["details"]["parameter"] == parameter
    assert {"parameter", "value", "constraint"} <= set(refused["details"])
    assert refused["details"]["constraint"] in refused["message"] or refused["message"].endswith("null or empty")
    assert "hint" not in refused


def test_a_list_that_grows_too_long_is_refused_under_the_name_that_was_sent(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", filesModified=[f"{n}.py" for n in range(9_999)])
    refused = log.error("updateTurn", filesModified=["x.py", "y.py"])
    assert refused["message"] == "Parameter 'filesModified' is invalid: at most 10000 entries in all"
    assert refused["details"]["parameter"] == "filesModified"
    assert log.do("updateTurn", filesModified=["x.py", "0.py"])["journal"]["changed"] is True


def test_paths_may_hold_any_character_of_a_file_name(log: Log) -> None:
    log.open()
    log.begin()
    log.do("appendActions", actions=[ACTION | {"filePath": "odd\tname\n.py"}])
    log.do("updateTurn", commits=[{"sha": "abc", "filesChanged": ["odd\tname\n.py"]}])
    assert [action["file_path"] for action in log.actions()] == ["odd\tname\n.py"]


def test_numeric_text_counts_as_a_number_and_one_string_as_a_list(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", tokenCount="12", tags="lone")
    turn = log.turn()
    assert (turn["token_count"], turn["tags"]) == (12, ["lone"])


@pytest.mark.parametrize("blank", ["", " ", "\n", "\t"])
def test_a_blank_text_that_need_not_be_given_is_not_given(log: Log, blank: str) -> None:
    log.open(agent=blank, model=blank, agentExecutablePath=blank, idempotencyKey=blank)
    log.begin(sessionId=blank, planFile=blank, todoId=blank)
    item = {"role": "user", "category": "observation", "content": "x", "timestamp": blank}
    log.do("appendDialog", requestId=blank, dialogItems=[item])
    assert log.dialog()[0]["at"] == "2026-07-01T12:00:00Z"
    filters = dict.fromkeys(("agent", "model", "from", "to", "planFile", "todoId"), blank)
    assert log.do("queryHistory", **filters)["totalCount"] == 1


def test_a_blank_text_for_a_number_changes_nothing(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", tokenCount=5)
    assert log.do("updateTurn", tokenCount=" ")["journal"]["changed"] is False
    assert log.do("queryHistory", limit="", offset="")["limit"] == 10
    assert log.turn()["token_count"] == 5


@pytest.mark.parametrize("nothing", [None, [], {}, "", "  "])
def test_whatever_is_empty_leaves_a_list_as_it_is(begun_log: Log, nothing: object) -> None:
    for name in ("tags", "blockers", "commits"):
        begun_log.do("updateTurn", **{name: [{"sha": "abc"}] if name == "commits" else ["kept"]})
        assert begun_log.do("updateTurn", **{name: nothing})["journal"]["changed"] is False
    turn = begun_log.turn()
    assert (turn["tags"], turn["blockers"], [commit["sha"] for commit in turn["commits"]]) == (
        ["kept"],
        ["kept"],
        ["abc"],
    )


def test_an_agent_has_64_characters_at_most_also_where_only_the_id_names_it(begun_log: Log) -> None:
    name = "A" * 65 + "-20260701T090000Z-x"
    refused = begun_log.error("openSession", sessionId=name, title="x")
    assert (refused["code"], refused["details"]["providedId"]) == ("invalid_session_id", name)


@pytest.mark.parametrize(
    ("method", "code", "params"),
    [
        ("openSession", "invalid_session_id", {"sessionId": "Codex-20260701T090000Z-" + "x" * 178, "title": "x"}),
        (
            "beginTurn",
            "invalid_request_id",
            {"requestId": "req-20260701T090000Z-" + "x" * 180, "queryTitle": "x", "queryText": "x"},
        ),
    ],
)
def test_an_id_that_is_too_long_is_shown_whole(begun_log: Log, method: str, code: str, params: dict[str, str]) -> None:
    refused = begun_log.error(method, **params)
    given = params.get("requestId") or params["sessionId"]
    assert len(given) == 201
    assert (refused["code"], refused["details"]["providedId"]) == (code, given)


def test_params_that_are_no_object_are_refused_after_the_method(begun_log: Log) -> None:
    log = begun_log
    for method in ("queryHistory", "bootstrap", "currentSession"):
        (refused,) = log.answers((method, []))
        assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", "params")
    assert log.do("bootstrap", colour="red") == {"initialized": True}
    (refused,) = log.answers(("workflow.sessionlog.nothing", []))
    assert refused["code"] == "method_not_found"
    assert refused["details"]["methodName"] == "workflow.sessionlog.nothing"
    assert "workflow.sessionlog.completeTurn" in refused["details"]["supportedMethods"]


def test_another_action_type_is_stored_with_a_warning(log: Log) -> None:
    log.open()
    log.begin()
    appended = log.do("appendActions", actions=[ACTION | {"type": "test_run"}])
    assert [(w["code"], w["type"]) for w in appended["warnings"]] == [("nonstandard_action_type", "test_run")]
    assert [action["type"] for action in log.actions()] == ["test_run"]
    refused = log.error("appendActions", actions=[ACTION | {"type": "Test Run"}])
    assert refused["details"]["parameter"] == "actions[0].type"


@pytest.mark.parametrize("params", [{"succession_policy": "nobody"}, {"allow_rebirth": "maybe"}, {"reason": 5}])
def test_the_parameters_of_closing_are_checked_before_the_session_is_looked_for(
    begun_log: Log, params: dict[str, Any]
) -> None:
    refused = begun_log.error("closeSession", sessionId="Codex-20260701T090000Z-none", **params)
    assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", next(iter(params)))


def test_ids_are_checked_before_the_session_is_looked_for(begun_log: Log) -> None:
    log = begun_log
    refused = log.error("completeTurn", response="x", requestId="req-1", sessionId="Codex-20260701T090000Z-none")
    assert refused["code"] == "invalid_request_id"
    refused = log.error("completeTurn", response="x", sessionId="Codex-20260701T090000Z-none")
    assert (refused["code"], refused["message"]) == (
        "session_not_found",
        "Session not found: Codex-20260701T090000Z-none",
    )
