"""Acceptance cases 38 and 39, the examples of the tools, and what they refuse; over the real bridge."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.mcpserver.log import OTHER_SESSION, SESSION, TURN, TURN_2, Log, Tools, without

A = {"agent": "Codex", "sessionId": SESSION}
T = A | {"requestId": TURN}
ACTION = {"description": "x", "type": "edit", "status": "completed"}
ITEM = {"role": "tool", "category": "tool_result", "content": "2 passed"}

LISTED = [
    "sessionlog_open",
    "sessionlog_begin_turn",
    "sessionlog_dialog",
    "sessionlog_complete_turn",
    "sessionlog_fail_turn",
    "sessionlog_submit",
    "sessionlog_query",
    "sessionlog_ingest_path",
    "sessionlog_replace_turn",
    "sessionlog_replace_section",
    "sessionlog_clear_section",
    "sessionlog_delete_item",
    "sessionlog_delete_turn",
    "sessionlog_delete_session",
]


def test_opening_twice_creates_once_and_the_repl_sees_the_session(log: Log) -> None:
    with Tools(log) as tools:
        first = tools.do("sessionlog_open", **A, title="Fix upload")
        assert without(first) == {
            "success": True,
            "agent": "Codex",
            "sessionId": SESSION,
            "created": True,
            "started": "2026-07-01T12:00:00Z",
        }
        log.wait(minutes=1)
        assert without(tools.do("sessionlog_open", **A)) == without(first) | {"created": False}
    assert log.do("currentSession")["sessionId"] == SESSION


def test_a_finished_turn_is_neither_replaced_nor_deleted_nor_spoken_in(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        tools.do("sessionlog_complete_turn", **T, turnJson={"response": "ok"})
        for tool, more in [
            ("sessionlog_replace_turn", {"turnJson": {"queryTitle": "x"}}),
            ("sessionlog_delete_turn", {}),
            ("sessionlog_dialog", {"itemsJson": [ITEM]}),
            ("sessionlog_replace_section", {"section": "tags", "sectionJson": ["a"]}),
            ("sessionlog_clear_section", {"section": "tags"}),
            ("sessionlog_delete_item", {"section": "tags", "itemKey": "a"}),
            ("sessionlog_complete_turn", {"turnJson": {"response": "x"}}),
            ("sessionlog_fail_turn", {}),
        ]:
            refused = tools.error(tool, **T, **more)
            assert (refused["code"], refused["error"]) == ("turn_immutable", refused["message"]), tool
            assert set(refused) == {"code", "error", "message", "retryable", "details"}
            assert refused["details"]["turnRequestId"] == TURN


def test_the_dialect_lists_its_tools_beside_the_native_ones_and_keeps_aliases_to_itself(log: Log) -> None:
    with Tools(log) as tools:
        listed = {tool["name"]: tool for tool in tools.request("tools/list")["result"]["tools"]}
    assert [name for name in listed if name.startswith("sessionlog_")] == LISTED
    assert "open_session" in listed
    assert not any(name.startswith("mcp_session") for name in listed)
    for name in LISTED:
        tool = listed[name]
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert tool["inputSchema"]["additionalProperties"] is False
        assert all(part.get("description") for part in tool["inputSchema"]["properties"].values()), name
        assert "Errors: " in tool["description"]
        assert not re.search("default: the (current|turn)", json.dumps(tool)), f"{name} needs its handles"
        assert tool["outputSchema"]["type"] == "object"
    with Tools(log, "--toolsets", "journal") as tools:
        names = [tool["name"] for tool in tools.request("tools/list")["result"]["tools"]]
    assert not any(name.startswith("sessionlog_") for name in names)


def test_the_examples_of_the_contract_answer_as_written(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        begun = tools.do("sessionlog_begin_turn", **T, planFile="None", todoId="None")
        assert without(begun) == {
            "success": True,
            "turnRequestId": TURN,
            "requestId": TURN,
            "status": "in_progress",
            "timestamp": "2026-07-01T12:00:00Z",
        }
        tools.do("sessionlog_dialog", **T, itemsJson=[ITEM])
        spoken = tools.do("sessionlog_dialog", **T, itemsJson=json.dumps([ITEM]))
        assert without(spoken) == {"success": True, "totalDialogItems": 2, "appended": 1}
        log.wait(minutes=2)
        changed = {"success": True, "lastUpdated": "2026-07-01T12:02:00Z"}
        replaced = tools.do("sessionlog_replace_section", **T, section="tags", sectionJson='["a", "b"]')
        assert without(replaced) == changed
        assert without(tools.do("sessionlog_delete_item", **T, section="tags", itemKey="a")) == changed
        assert log.turn()["tags"] == ["b"]
        assert without(tools.do("sessionlog_clear_section", **T, section="tags")) == changed
        turn_json = {"queryTitle": "Upload", "queryText": "Upload"}
        assert without(tools.do("sessionlog_replace_turn", **T, turnJson=turn_json)) == changed
        log.wait(minutes=7)
        completed = tools.do("sessionlog_complete_turn", **T, turnJson='{"response":"ok"}')
        assert without(completed) == {
            "success": True,
            "turnRequestId": TURN,
            "requestId": TURN,
            "status": "completed",
            "completedAt": "2026-07-01T12:09:00Z",
        }
        second = A | {"requestId": TURN_2}
        tools.do("sessionlog_begin_turn", **second)
        failed = tools.do("sessionlog_fail_turn", **second, turnJson={"failureNote": "No runner"})
        assert without(failed) == {
            "success": True,
            "turnRequestId": TURN_2,
            "requestId": TURN_2,
            "status": "failed",
            "failedAt": "2026-07-01T12:09:00Z",
            "errorCode": "",
        }
        submitted = json.dumps({"sourceType": "Codex", "sessionId": SESSION, "title": "x", "turns": []})
        assert without(tools.do("sessionlog_submit", json=submitted)) == {"success": True, "id": SESSION}
        answer = tools.do("sessionlog_query", limit=1)
        assert {name: answer[name] for name in ("totalCount", "limit", "offset")} == {
            "totalCount": 1,
            "limit": 1,
            "offset": 0,
        }
        assert without(tools.do("sessionlog_delete_session", **A)) == {"success": True, "tombstoned": True}


def test_a_query_shows_sessions_and_turns_whole(log: Log) -> None:
    log.open(model="gpt-x")
    log.begin()
    log.do("appendActions", actions=[ACTION | {"filePath": "a.py"}])
    log.do("appendDialog", dialogItems=[ITEM])
    commit = {"sha": "abc", "branch": "", "message": "Lock", "author": "", "timestamp": "", "filesChanged": ["a.py"]}
    log.do("completeTurn", response="ok", tags=["bug"], commits=[commit], tokenCount=12)
    with Tools(log) as tools:
        answer = tools.do("sessionlog_query")
    (session,) = answer["items"]
    assert {name: session[name] for name in session if name != "turns"} == {
        "sourceType": "Codex",
        "sessionId": SESSION,
        "agentSessionId": None,
        "agentSessionTranscriptFile": None,
        "agentExecutablePath": None,
        "agentExecutableVersion": None,
        "title": "Fix upload",
        "model": "gpt-x",
        "started": "2026-07-01T12:00:00Z",
        "lastUpdated": "2026-07-01T12:00:00Z",
        "status": "in_progress",
        "turnCount": 1,
        "workspace": {"project": "work", "targetFramework": None, "repository": None, "branch": None},
        "tags": ["bug"],
        "totalTokens": 12,
        "state": "open",
    }
    assert session["turns"] == [
        {
            "requestId": TURN,
            "timestamp": "2026-07-01T12:00:00Z",
            "queryTitle": "Find it",
            "queryText": "Why?",
            "interpretation": "",
            "response": "ok",
            "status": "completed",
            "planFile": "None",
            "todoId": "None",
            "model": "gpt-x",
            "modelProvider": "",
            "tokenCount": 12,
            "tags": ["bug"],
            "contextList": [],
            "actions": [{"order": 1, "description": "x", "type": "edit", "status": "completed", "filePath": "a.py"}],
            "processingDialog": [{"timestamp": "2026-07-01T12:00:00Z", **ITEM}],
            "commits": [commit],
            "designDecisions": [],
            "requirementsDiscovered": [],
            "filesModified": [],
            "blockers": [],
            "failureNote": "",
            "amendments": [],
        }
    ]
    assert (answer["totalCount"], answer["limit"], answer["offset"]) == (1, 100, 0)


def test_tokens_that_a_launcher_reported_are_those_of_its_session(log: Log) -> None:
    with Tools(log, "--dialect", "mcpserver,nexo") as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        tools.do("sessionlog_complete_turn", **T, turnJson={"response": "ok", "tokenCount": 12})
        made = {"caller": "shift", "backend": "claude_code", "cwd": str(log.workspace)}
        run = tools.request("tools/call", name="nexo_session_log_create", arguments=made)["result"]
        ended = {"session_id": run["structuredContent"]["session_id"], "input_tokens": 900, "output_tokens": 100}
        assert not tools.request("tools/call", name="nexo_session_log_close", arguments=ended)["result"]["isError"]
        tokens = {item["sourceType"]: item["totalTokens"] for item in tools.do("sessionlog_query")["items"]}
    assert tokens == {"Codex": 12, "ClaudeCode": 1000}


def test_single_items_are_deleted_by_value_sha_order_and_place(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        log.do("appendActions", actions=[ACTION | {"order": n, "filePath": f"{n}.py"} for n in (1, 2, 2)])
        log.do("appendDialog", dialogItems=[ITEM | {"content": text} for text in "abc"])
        log.do("updateTurn", commits=[{"sha": "one"}, {"sha": "two"}], filesModified=["1.py", "list.py"])
        for section, key in [("actions", "1"), ("dialog", "2"), ("commits", "one"), ("filesModified", "list.py")]:
            tools.do("sessionlog_delete_item", **T, section=section, itemKey=key)
        turn = log.turn()
        assert [action["order"] for action in log.actions()] == [2, 2]
        assert [item["content"] for item in log.dialog()] == ["a", "c"]
        assert (turn["dialog_items"], turn["actions"]) == (2, 2)
        assert turn["commits"] == [{"sha": "two"}]
        assert log.do("queryHistory")["sessions"][0]["filesModifiedCount"] == 2  # 1.py is listed, 2.py was edited
        refused = tools.error("sessionlog_delete_item", **T, section="actions", itemKey="2")
        assert (refused["code"], refused["message"]) == ("ambiguous_item", "Item key is ambiguous: 2")
        assert refused["details"] == {"section": "actions", "count": 2}
        for section, key in [("actions", "9"), ("dialog", "3"), ("dialog", "0"), ("tags", "x"), ("commits", "one")]:
            refused = tools.error("sessionlog_delete_item", **T, section=section, itemKey=key)
            assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", "itemKey")
        tools.do("sessionlog_replace_section", **T, section="dialog", sectionJson=[ITEM])
        assert [item["content"] for item in log.dialog()] == ["2 passed"]
        log.do("completeTurn", response="ok", processingDialog=[ITEM | {"content": "b"}])
        assert [item["content"] for item in log.dialog()] == ["2 passed", "b"]
    assert log.items("rebuild")[1]["changed"] is False


def test_replacing_a_turn_takes_what_is_given_and_leaves_the_rest(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T, queryTitle="Old", queryText="Old text")
        log.do("updateTurn", tags=["a"], blockers=["b"], interpretation="i")
        new = {"queryText": "New text", "tags": ["z"], "blockers": [], "interpretation": "", "planFile": "p.md"}
        tools.do("sessionlog_replace_turn", **T, turnJson=new)
    turn = log.turn()
    assert (turn["query_title"], turn["query_text"], turn["plan_file"]) == ("Old", "New text", "p.md")
    assert (turn["tags"], turn["blockers"], turn["interpretation"]) == (["z"], ["b"], "i")


def test_a_deleted_turn_is_gone_and_the_one_before_it_is_current(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        tools.do("sessionlog_complete_turn", **T, turnJson={"response": "ok"})
        second = A | {"requestId": TURN_2}
        tools.do("sessionlog_begin_turn", **second)
        log.do("updateTurn", tags=["gone"], filesModified=["gone.py"])
        tools.do("sessionlog_delete_turn", **second)
        refused = tools.error("sessionlog_dialog", **second, itemsJson=[ITEM])
        assert refused["message"] == f"Turn not found: {TURN_2}"
    shown = log.do("currentSession")
    assert (shown["currentTurnRequestId"], shown["turnCount"]) == (TURN, 1)
    (session,) = log.do("queryHistory")["sessions"]
    assert (session["tags"], session["filesModifiedCount"], session["turnCount"]) == ([], 0, 1)
    assert log.begin(TURN_2)["status"] == "in_progress"
    assert log.items("rebuild")[1]["changed"] is False


def test_a_deleted_session_is_hidden_and_its_id_stays_taken(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_delete_session", **A)
        assert tools.do("sessionlog_query")["totalCount"] == 0
        assert tools.error("sessionlog_open", **A)["code"] == "session_already_exists"
        refused = tools.error("sessionlog_begin_turn", **T)
        assert (refused["code"], refused["details"]["state"]) == ("session_closed", "closed")
        assert refused["details"]["closedAt"] is not None
        assert tools.error("sessionlog_delete_session", **A)["code"] == "session_closed"
        assert log.error("currentSession", sessionId=SESSION)["code"] == "session_not_found"
        whole = {"agent": "Codex", "sessionId": SESSION, "title": "x"}
        assert tools.error("sessionlog_submit", json=whole)["code"] == "session_closed"
    assert log.error("openSession", sessionId=SESSION, title="x")["code"] == "session_already_exists"
    assert log.do("currentSession") is None
    assert [item["ok"] for item in log.items("verify")[1:]] == [True]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sessionlog_open", A | {"colour": "red"}, "colour"),
    ("sessionlog_open", {"agent": "Codex"}, "sessionId"),
    ("sessionlog_dialog", T | {"itemsJson": "[{"}, "itemsJson"),
    ("sessionlog_dialog", T | {"itemsJson": [ITEM | {"role": "x"}]}, "itemsJson[0].role"),
    ("sessionlog_dialog", T | {"itemsJson": []}, "itemsJson"),
    ("sessionlog_replace_section", T | {"section": "tags", "sectionJson": []}, "sectionJson"),
    ("sessionlog_replace_section", T | {"section": "actions", "sectionJson": [{}]}, "sectionJson[0].description"),
    ("sessionlog_replace_turn", T | {"turnJson": {"mood": "x"}}, "turnJson.mood"),
    ("sessionlog_complete_turn", T, "response"),
    ("sessionlog_fail_turn", T, "failureNote"),
    ("sessionlog_query", {"limit": 1001}, "limit"),
    ("sessionlog_submit", {"json": {"agent": "Codex", "sessionId": SESSION}}, "json.title"),
]


@pytest.mark.parametrize(("tool", "arguments", "parameter"), REFUSED)
def test_a_bad_argument_is_refused_by_its_path(
    tools_log: tuple[Log, Tools], tool: str, arguments: dict[str, Any], parameter: str
) -> None:
    log, tools = tools_log
    before = log.heads()
    refused = tools.error(tool, **arguments)
    assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", parameter)
    assert refused["retryable"] is False
    assert log.heads() == before


def test_a_response_stored_before_completes_the_turn(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        log.do("updateTurn", response="stored")
        tools.do("sessionlog_complete_turn", **T)
    assert log.turn()["response"] == "stored"


def test_what_is_blank_counts_as_not_given(log: Log) -> None:
    with Tools(log) as tools:
        about = {"agent": "Codex", "sessionId": SESSION}
        tools.do("sessionlog_open", **about, title="  ")
        assert log.do("currentSession", sessionId=SESSION)["title"] == SESSION
        tools.do("sessionlog_begin_turn", **about, requestId=TURN, queryTitle=" ", queryText="\t")
        assert (log.turn()["query_title"], log.turn()["query_text"]) == (TURN, TURN)
        for outcome in ({"failureNote": " "}, {"errorMessage": "\n", "failureNote": ""}):
            refused = tools.error("sessionlog_fail_turn", **about, requestId=TURN, turnJson=outcome)
            assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", "failureNote")
        outcome = {"errorMessage": " ", "failureNote": "No runner"}
        tools.do("sessionlog_fail_turn", **about, requestId=TURN, turnJson=outcome)
        assert log.turn()["failure_note"] == "No runner"
        opened = tools.do("mcp_session_bootstrap", agent="Codex", sessionIdSuffix=" ", model="GPT 5")
        assert opened["sessionId"].endswith("Z-gpt-5")


KEYED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sessionlog_open", A, {"title": "Another"}),
    ("sessionlog_begin_turn", T, {"queryTitle": "Another"}),
    ("sessionlog_dialog", T | {"itemsJson": [ITEM]}, {"itemsJson": [ITEM | {"content": "Another"}]}),
    ("sessionlog_replace_section", T | {"section": "tags", "sectionJson": ["a"]}, {"sectionJson": ["b"]}),
    ("sessionlog_replace_turn", T | {"turnJson": {"queryTitle": "x"}}, {"turnJson": {"queryTitle": "y"}}),
    ("sessionlog_delete_item", T | {"section": "tags", "itemKey": "a"}, {"itemKey": "b"}),
    ("sessionlog_clear_section", T | {"section": "dialog"}, {"section": "actions"}),
    ("sessionlog_complete_turn", T | {"turnJson": {"response": "ok"}}, {"turnJson": {"response": "no"}}),
    ("sessionlog_submit", {"json": A | {"title": "x"}}, {"json": A | {"title": "y"}}),
    ("sessionlog_delete_session", A, {}),
]


def test_every_write_is_done_once_under_its_key(log: Log) -> None:
    with Tools(log) as tools:
        for tool, arguments, other in KEYED:
            first = tools.do(tool, **arguments, idempotencyKey="k")
            assert first["journal"]["changed"] is True, tool
            before = log.heads()
            log.wait(minutes=1)
            assert tools.do(tool, **arguments, idempotencyKey="k") == first
            if other:
                refused = tools.error(tool, **arguments | other, idempotencyKey="k")
                assert refused["code"] == "idempotency_conflict", tool
            assert log.heads() == before
        assert tools.error("sessionlog_query", idempotencyKey="k")["details"]["parameter"] == "idempotencyKey"


def test_a_commit_is_shown_with_all_its_keys_and_its_time_in_utc(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        whole = {"sha": "b", "branch": "main", "message": "Fix", "author": "Ann", "filesChanged": ["a.py"]}
        given = [{"sha": "a"}, whole | {"timestamp": "2026-07-01T10:00:00+02:00"}, {"sha": "c", "timestamp": "today"}]
        given.append({"sha": "g", "timestamp": "Wed Jul 1 10:00:00 2026 +0200"})
        log.do("updateTurn", commits=given)
        (read,) = tools.do("sessionlog_query")["items"]
        bare: dict[str, Any] = {"branch": "", "message": "", "author": "", "timestamp": "", "filesChanged": []}
        assert read["turns"][0]["commits"] == [
            {"sha": "a", **bare},
            whole | {"timestamp": "2026-07-01T08:00:00Z"},
            {"sha": "c", **bare, "timestamp": "today"},
            {"sha": "g", **bare, "timestamp": "2026-07-01T08:00:00Z"},
        ]
        assert tools.do("sessionlog_submit", json=read)["journal"]["changed"] is False
        tools.do("sessionlog_complete_turn", **T, turnJson={"response": "ok"})
        later = {"requestId": TURN, "commits": [{"sha": "d", "timestamp": "2026-07-01T10:00:00+02:00"}]}
        log.do("importRecovery", **A, title="x", turns=[later])
        (read,) = tools.do("sessionlog_query")["items"]
        (amendment,) = read["turns"][0]["amendments"]
        assert amendment["fields"]["commits"] == [{"sha": "d", **bare, "timestamp": "2026-07-01T08:00:00Z"}]


def test_a_log_from_elsewhere_may_have_parts_that_nobody_knows(log: Log) -> None:
    turn = {"requestId": TURN, "response": "ok", "score": 3, "actions": [ACTION | {"cost": 1}]}
    whole = A | {"title": "x", "cursorSessionLabel": "y", "turns": [turn]}
    with Tools(log) as tools:
        submitted = tools.do("sessionlog_submit", json=json.dumps(whole))
        ignored = ["json.cursorSessionLabel", "json.turns[0].score", "json.turns[0].actions[0].cost"]
        assert submitted["warnings"] == [{"code": "ignored_param", "param": name} for name in ignored]
        assert tools.error("sessionlog_submit", json=whole, colour="red")["details"]["parameter"] == "colour"
    assert log.turn()["response"] == "ok"


def test_a_blank_workspace_is_the_servers_and_a_tilde_the_home(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A, workspacePath=" ")
        assert tools.do("sessionlog_query", limit=0, workspacePath=None)["totalCount"] == 1
        assert tools.do("sessionlog_query", limit=0, workspacePath=".")["totalCount"] == 1
        tools.do("sessionlog_open", **A | {"sessionId": OTHER_SESSION}, workspacePath="~/of-nobody")
        there = str(Path("~/of-nobody").expanduser())
        assert tools.do("sessionlog_query", limit=0, workspacePath=there)["totalCount"] == 1


def test_joining_a_session_fills_what_nobody_gave_and_wakes_it(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        log.wait(hours=3)
        assert tools.do("sessionlog_open", **A)["journal"]["changed"] is False
        assert log.do("currentSession", sessionId=SESSION)["state"] == "suspended"
        joined = tools.do("sessionlog_open", **A, title="Fix upload", model="gpt-x")
        assert (joined["created"], joined["journal"]["changed"]) == (False, True)
        shown = log.do("currentSession")
        assert (shown["title"], shown["model"], shown["state"]) == ("Fix upload", "gpt-x", "open")
        again = tools.do("sessionlog_open", **A, title="Another", model="another")
        assert again["journal"]["changed"] is False


def test_names_of_other_session_logs_are_answered(log: Log) -> None:
    with Tools(log) as tools:
        opened = tools.do("mcp_session_bootstrap", agent="Codex", title="My Task!")
        session = "Codex-20260701T120000Z-my-task"
        assert (opened["sessionId"], opened["created"], opened["initialized"]) == (session, True, True)
        assert tools.do("mcp_session_bootstrap", agent="Codex", title="My Task!")["sessionId"] == f"{session}-2"
        begun = tools.do("mcp_session_turn_begin", agent="Codex", sessionId=session, queryText="Why?")
        assert begun["turnRequestId"] == "req-20260701T120000Z-why"
        where = {"agent": "Codex", "sessionId": session}
        assert tools.do("mcp_session_turn_update", **where, interpretation="x")["updated"] is True
        assert tools.do("mcp_session_turn_complete", **where, response="ok")["status"] == "completed"
        assert tools.do("mcp_session_query_history", agent="Codex")["totalCount"] == 2
        updated = tools.do("mcp_session_update", **where, title="Better", status="completed")
        assert (updated["success"], updated["closed"]) == (True, True)
        other = tools.do("mcp_session_update", agent="Codex", sessionId=f"{session}-2", status="completed")
        assert (other["status"], other["journal"]["changed"]) == ("completed", True)
        assert tools.error("mcp_session_turn_update", **where, response="x")["code"] == "session_closed"


def test_a_path_that_may_not_be_read_is_refused_by_the_name_of_its_argument(log: Log) -> None:
    with Tools(log) as tools:
        for given in ({}, {"workspacePath": "/"}, {"workspacePath": "/etc"}):  # no argument opens a folder
            refused = tools.error("sessionlog_ingest_path", path="/etc", agent="Codex", **given)
            assert (refused["code"], refused["details"]["parameter"]) == ("invalid_parameter", "path")


def test_an_item_is_deleted_by_a_number_too_and_a_section_has_its_field_name_as_well(log: Log) -> None:
    with Tools(log) as tools:
        tools.do("sessionlog_open", **A)
        tools.do("sessionlog_begin_turn", **T)
        tools.do("sessionlog_replace_section", **T, section="contextList", sectionJson=["a.py", "b.py"])
        tools.do("sessionlog_replace_section", **T, section="actions", sectionJson=[ACTION, ACTION | {"order": 7}])
        tools.do("sessionlog_dialog", **T, itemsJson=[ITEM, ITEM | {"content": "second"}])
        tools.do("sessionlog_delete_item", **T, section="actions", itemKey=7)
        tools.do("sessionlog_delete_item", **T, section="processingDialog", itemKey=1)
        tools.do("sessionlog_delete_item", **T, section="contextList", itemKey="a.py")
        refused = tools.error("sessionlog_delete_item", **T, section="dialog", itemKey=True)
        assert refused["details"]["parameter"] == "itemKey"
        (session,) = tools.do("sessionlog_query")["items"]
    (turn,) = session["turns"]
    assert turn["contextList"] == ["b.py"]
    assert [action["order"] for action in turn["actions"]] == [1]
    assert [item["content"] for item in turn["processingDialog"]] == ["second"]


def test_bootstrapping_again_with_its_key_makes_no_second_session(log: Log) -> None:
    given = {"agent": "Codex", "title": "Fix upload", "idempotencyKey": "k"}
    with Tools(log) as tools:
        first = tools.do("mcp_session_bootstrap", **given)
        log.wait(minutes=1)
        assert tools.do("mcp_session_bootstrap", **given) == first
        assert tools.error("mcp_session_bootstrap", **given | {"title": "Other"})["code"] == "idempotency_conflict"
        assert tools.do("sessionlog_query")["totalCount"] == 1


def test_an_update_that_cannot_close_its_session_changes_nothing_and_repeats_its_answer_when_it_can(log: Log) -> None:
    given = {"agent": "Codex", "title": "password: hunter2hunter2", "status": "completed", "idempotencyKey": "k"}
    with Tools(log) as holder, Tools(log) as other:
        opening = {"agent": "Codex", "title": "Native", "cwd": str(log.workspace)}
        opened = holder.request("tools/call", name="open_session", arguments=opening)["result"]["structuredContent"]
        given["sessionId"] = opened["session_id"]
        before = log.heads()
        assert other.error("mcp_session_update", **given)["code"] == "session_held"
        assert log.heads() == before
        first = holder.do("mcp_session_update", **given)
        assert (first["closed"], first["journal"]["changed"], first["journal"]["redactions"]) == (True, True, 1)
        assert holder.do("mcp_session_update", **given) == first
