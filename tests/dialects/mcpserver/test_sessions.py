"""Acceptance cases 7 to 12, and which session a call is about."""

import re
from pathlib import Path

import pytest

from tests.dialects.mcpserver.log import OTHER_SESSION, SESSION, TURN, TURN_2, Call, Log, Tools, without

BAD_SESSION_IDS = [
    "claudecode-20260409T120000Z-task",
    "Copilot-20260304-feature",
    "Copilot-20260304T113901Z-",
    "Copilot-20260304T113901Z-Fix",
    "Copilot-20260304T113901Z-a--b",
    "Copilot-20260230T113901Z-x",
    "Copilot-20260304T250000Z-x",
]
BAD_TURN_IDS = [
    "request-20260409T120001Z-task",
    "req-20260409-task",
    "req-20260409T120001Z-Add",
    "req-20260409T120001Z-add\n",
]
GOOD_SESSION_IDS = [
    "ClaudeCode-20260409T120000Z-implement-auth",
    "Copilot-20260304T113901Z-refactor-session",
    "SessionId-20260525T100000Z-fix",
    "A-20240229T235959Z-1",
]


def test_open_session_answers_id_start_and_opened(log: Log) -> None:
    opened = log.open(model="gpt-x")
    assert without(opened) == {
        "sessionId": SESSION,
        "started": "2026-07-01T12:00:00Z",
        "agent": "Codex",
        "opened": True,
    }
    assert opened["journal"]["changed"] is True
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", opened["journal"]["hash"])


def test_every_valid_session_id_opens_a_session(log: Log) -> None:
    opened = log.results(*(("openSession", {"sessionId": name, "title": "x"}) for name in GOOD_SESSION_IDS))
    assert [result["sessionId"] for result in opened] == GOOD_SESSION_IDS


@pytest.mark.parametrize("session", BAD_SESSION_IDS)
def test_an_invalid_session_id_is_refused_with_the_format(begun_log: Log, session: str) -> None:
    refused = begun_log.error("openSession", sessionId=session, title="x")
    assert refused["code"] == "invalid_session_id"
    assert refused["message"] == "Session ID does not conform to canonical format"
    assert refused["details"] == {
        "providedId": session,
        "expectedFormat": "<Agent>-<yyyyMMddTHHmmssZ>-<suffix>",
        "regex": r"^[A-Z][A-Za-z0-9]*-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*$",
    }


@pytest.mark.parametrize("turn", BAD_TURN_IDS)
def test_an_invalid_request_id_is_refused_with_the_format(begun_log: Log, turn: str) -> None:
    refused = begun_log.error("beginTurn", requestId=turn, queryTitle="x", queryText="x")
    assert refused["code"] == "invalid_request_id"
    assert refused["message"] == "Request ID does not conform to canonical format"
    assert refused["details"] == {
        "providedId": turn,
        "expectedFormat": "req-<yyyyMMddTHHmmssZ>-<slugOrOrdinal>",
        "regex": r"^req-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*$",
    }


def test_an_agent_that_is_not_the_prefix_of_the_id_is_refused(log: Log) -> None:
    refused = log.error("openSession", agent="Copilot", sessionId=SESSION, title="x")
    assert (refused["code"], refused["message"]) == (
        "invalid_session_id",
        "Session ID prefix must match agent name",
    )
    assert (refused["details"]["providedId"], refused["details"]["agent"]) == (SESSION, "Copilot")


def test_without_an_agent_the_prefix_of_the_id_is_the_agent(log: Log) -> None:
    assert log.open()["agent"] == "Codex"


def test_a_taken_id_is_refused_from_another_process(log: Log) -> None:
    log.open()
    refused = log.error("openSession", sessionId=SESSION, title="Again")
    assert (refused["code"], refused["message"]) == (
        "session_already_exists",
        f"Session with ID {SESSION} already exists",
    )
    assert refused["details"] == {
        "sessionId": SESSION,
        "status": "in_progress",
        "started": "2026-07-01T12:00:00Z",
        "hint": "Use a new session ID",
    }


def test_a_turn_without_a_session_is_refused_with_the_hint(log: Log) -> None:
    refused = log.error("beginTurn", requestId=TURN, queryTitle="x", queryText="x")
    assert (refused["code"], refused["message"]) == ("session_not_found", "No active session exists")
    assert refused["hint"] == refused["details"]["hint"] == "Call workflow.sessionlog.openSession first"
    assert refused["details"]["operation"] == "workflow.sessionlog.beginTurn"


def test_the_current_session_is_null_or_shown_with_its_turn(log: Log) -> None:
    assert log.do("currentSession") is None
    log.open(model="gpt-x", agentSessionId="abc", agentExecutableVersion="1.2")
    assert log.do("currentSession") == {
        "agent": "Codex",
        "sessionId": SESSION,
        "title": "Fix upload",
        "model": "gpt-x",
        "started": "2026-07-01T12:00:00Z",
        "lastUpdated": "2026-07-01T12:00:00Z",
        "status": "in_progress",
        "state": "open",
        "currentTurnRequestId": None,
        "currentTurnStatus": None,
        "turnCount": 0,
        "agentSessionId": "abc",
        "agentExecutableVersion": "1.2",
    }


def test_a_transcript_is_remembered_only_if_the_file_exists(log: Log) -> None:
    transcript = log.workspace / "rollout.jsonl"
    opened = log.open(agentSessionTranscriptFile=str(transcript))
    assert opened["warnings"] == [{"code": "ignored_param", "param": "agentSessionTranscriptFile"}]
    transcript.write_text("{}\n")
    log.open(OTHER_SESSION, agentSessionTranscriptFile=str(transcript))
    shown = log.do("currentSession", sessionId=OTHER_SESSION)
    assert shown["agentSessionTranscriptFile"] == str(transcript)


def test_among_several_open_sessions_the_agents_pointer_decides(log: Log) -> None:
    claude = "ClaudeCode-20260701T080000Z-review"
    log.open()
    log.open(claude)
    refused = log.error("beginTurn", requestId=TURN, queryTitle="x", queryText="x")
    assert {row["sessionId"] for row in refused["details"]["candidates"]} == {SESSION, claude}
    assert set(refused["details"]["candidates"][0]) == {"sessionId", "agent", "title", "lastUpdated"}
    begun = log.do("beginTurn", requestId=TURN, queryTitle="x", queryText="x", agent="ClaudeCode")
    assert begun["journal"]["sessionId"] == claude
    (shown,) = log.results(("currentSession", {}), environ={"SHIFTLOG_AGENT": "Codex"})
    assert shown["sessionId"] == SESSION


def test_the_only_open_session_is_current_whichever_agent_the_client_was_started_for(log: Log) -> None:
    log.open()
    other = {"SHIFTLOG_AGENT": "ClaudeCode"}
    shown, named = log.answers(("currentSession", {}), ("currentSession", {"agent": "ClaudeCode"}), environ=other)
    assert shown["result"]["sessionId"] == SESSION
    assert named["result"] is None, "an agent that the call names is a condition"
    log.open(OTHER_SESSION)
    (refused,) = log.answers(("setSessionTitle", {"title": "x"}), environ=other)
    assert {row["sessionId"] for row in refused["details"]["candidates"]} == {SESSION, OTHER_SESSION}


def test_a_connection_stays_with_the_session_that_it_addressed_last(log: Log) -> None:
    log.open()
    log.open(OTHER_SESSION)
    begin = {"queryTitle": "x", "queryText": "x"}
    first, second = log.results(
        ("beginTurn", {"requestId": TURN, "sessionId": SESSION, **begin}), ("beginTurn", {"requestId": TURN_2, **begin})
    )
    assert first["journal"]["sessionId"] == second["journal"]["sessionId"] == SESSION


def test_a_session_of_another_workspace_is_not_current(log: Log, tmp_path: Path) -> None:
    log.open()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert log.answers(("currentSession", {}), workspace=elsewhere)[0]["result"] is None


def test_a_folder_below_a_repository_belongs_to_the_repository(log: Log) -> None:
    (log.workspace / ".git").mkdir()
    below = log.workspace / "src"
    below.mkdir()
    log.open()
    assert log.run("", "--invoke", "workflow.sessionlog.currentSession", workspace=below).stdout.startswith(b'{"agent"')


def test_a_closed_session_takes_no_writes_and_is_not_current(log: Log) -> None:
    log.open()
    closed = log.do("closeSession", reason="task_completed")
    assert without(closed, "recoveryToken", "recoveryTokenExpiresAt", "warnings") == {
        "sessionId": SESSION,
        "status": "completed",
        "closedAt": "2026-07-01T12:00:00Z",
        "closed": True,
        "state": "closed",
    }
    assert log.do("currentSession") is None
    refused = log.error("beginTurn", requestId=TURN, queryTitle="x", queryText="x", sessionId=SESSION)
    assert (refused["code"], refused["message"]) == ("session_closed", "Session is closed")
    assert refused["details"] == {
        "sessionId": SESSION,
        "state": "closed",
        "closedAt": "2026-07-01T12:00:00Z",
        "hint": "Call workflow.sessionlog.openSession with a new session ID",
    }


def test_an_idle_session_is_suspended_and_a_write_wakes_it(log: Log) -> None:
    log.open()
    log.begin()
    log.do("completeTurn", response="ok")
    log.wait(hours=3)
    (shown,) = log.do("queryHistory")["sessions"]
    assert (shown["state"], shown["status"]) == ("suspended", "completed")
    log.do("beginTurn", requestId=TURN_2, queryTitle="x", queryText="x", sessionId=SESSION)
    shown = log.do("currentSession")
    assert (shown["state"], shown["status"]) == ("open", "in_progress")


def test_a_session_taken_over_answers_lease_lost_to_a_connection_bound_before(log: Log) -> None:
    log.open()
    with log.live() as live:
        assert "result" in live.ask("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": "x"})
        with Tools(log) as tools, Tools(log) as others:
            resumed = {"agent_id": "codex", "on_held": "take_over"}
            tools.request("tools/call", name="resume_session", arguments=resumed)
            lost = live.ask("updateTurn", {"response": "late"})
            assert (lost["code"], lost["message"]) == ("lease_lost", "Lease lost: a newer holder exists")
            assert set(lost["details"]) == {"fenceGiven", "fenceCurrent", "heldBy"}
            tools.request("tools/call", name="close_session", arguments={"session_id": SESSION})
            others.request("tools/call", name="resume_session", arguments={"agent_id": "codex"})
            assert live.ask("updateTurn", {"response": "late", "sessionId": SESSION})["code"] == "lease_lost"
    assert log.do("updateTurn", response="a new process may write beside the holder")["updated"] is True


def test_a_connection_that_works_elsewhere_meanwhile_still_answers_lease_lost(log: Log) -> None:
    log.open()
    with log.live() as live, Tools(log) as tools:
        assert "result" in live.ask("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": "x"})
        assert "result" in live.ask("openSession", {"sessionId": OTHER_SESSION, "title": "x"})
        taken = {"agent_id": "codex", "session_id": SESSION, "on_held": "take_over"}
        tools.request("tools/call", name="resume_session", arguments=taken)
        imported = {"agent": "Codex", "sessionId": SESSION, "title": "late"}
        assert live.ask("importRecovery", imported)["code"] == "lease_lost"
        for _ in range(2):
            assert live.ask("updateTurn", {"response": "late", "sessionId": SESSION})["code"] == "lease_lost"
            assert "result" in live.ask("setSessionTitle", {"title": "on", "sessionId": OTHER_SESSION})


def test_the_state_of_a_turn_is_told_before_the_loss_of_its_session_a_subagents_turn_too(log: Log) -> None:
    log.open(agentSessionId="main")
    done, open_ = "req-20260701T080010Z-subagent-bea-one", "req-20260701T080010Z-subagent-bea-two"
    turns = [
        {"requestId": done, "sourceThreadId": "other", "status": "completed", "response": "ok"},
        {"requestId": open_, "sourceThreadId": "other"},
    ]
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=turns)
    first = {"requestId": open_, "tags": ["once"], "idempotencyKey": "k"}
    with log.live() as live, Tools(log) as tools:
        kept = live.ask("updateTurn", first)
        taken = {"agent_id": "codex", "session_id": SESSION, "on_held": "take_over"}
        tools.request("tools/call", name="resume_session", arguments=taken)
        assert live.ask("updateTurn", {"requestId": done, "response": "late"})["code"] == "turn_immutable"
        assert live.ask("updateTurn", {"requestId": open_, "response": "late"})["code"] == "lease_lost"
        assert live.ask("updateTurn", first) == kept
    assert log.error("updateTurn", requestId=done, response="late")["code"] == "turn_immutable"


def test_a_connection_writes_beside_a_holder_that_only_resumed_the_session(log: Log) -> None:
    log.open()
    with log.live() as live, Tools(log) as tools:
        assert "result" in live.ask("beginTurn", {"requestId": TURN, "queryTitle": "x", "queryText": "x"})
        resumed = tools.request("tools/call", name="resume_session", arguments={"agent_id": "codex"})["result"]
        assert resumed["structuredContent"]["data"]["resume_mode"] == "reattached"
        assert "result" in live.ask("updateTurn", {"response": "beside the holder"})
        assert "result" in live.ask("completeTurn", {"response": "done"})
        with Tools(log) as others:
            taken = {"agent_id": "codex", "on_held": "take_over"}
            others.request("tools/call", name="resume_session", arguments=taken)
            assert live.ask("setSessionTitle", {"title": "late"})["code"] == "lease_lost"


def test_a_session_is_closed_as_asked_in_either_spelling(log: Log) -> None:
    log.open()
    closed = log.do("closeSession", successionPolicy="closed_without_successor")
    assert (closed["state"], "warnings" in closed) == ("sealed", False)
    log.open(OTHER_SESSION)
    closed = log.do("closeSession", sessionId=OTHER_SESSION, allowRebirth=False)
    assert (closed["state"], "warnings" in closed) == ("sealed", False)


def test_a_session_that_a_client_holds_is_not_closed_and_the_hint_says_who_can(log: Log) -> None:
    with Tools(log) as tools:
        opened = {"agent": "Codex", "title": "Held", "session_id": SESSION}
        tools.request("tools/call", name="open_session", arguments=opened)
        refused = log.error("closeSession", sessionId=SESSION)
        assert (refused["code"], refused["retryable"]) == ("session_held", False)
        assert refused["hint"].endswith("call the tool close_session with on_held: take_over")
        taken = {"session_id": SESSION, "on_held": "take_over"}
        closed = tools.request("tools/call", name="close_session", arguments=taken)["result"]
        assert closed["isError"] is False


def test_a_session_that_another_agents_client_holds_is_not_written_and_the_hint_is_a_session_of_its_own(
    log: Log,
) -> None:
    with Tools(log) as holder, Tools(log) as other:
        opened = {"agent": "Codex", "title": "Held", "session_id": SESSION, "agent_id": "alpha"}
        holder.request("tools/call", name="open_session", arguments=opened)
        other.request(
            "tools/call", name="open_session", arguments={"agent": "Codex", "title": "Mine", "agent_id": "beta"}
        )
        begun = {"agent": "Codex", "sessionId": SESSION, "requestId": "req-20260701T080005Z-a"}
        refused = other.error("sessionlog_begin_turn", **begun)
        assert refused["code"] == "session_held"
        assert refused["details"]["hint"] == "Work in a session of your own: call workflow.sessionlog.openSession"


def test_a_connection_of_another_agent_does_not_write_a_held_session_unless_it_names_its_agent(log: Log) -> None:
    with Tools(log) as holder:
        held = {"agent": "Codex", "title": "Held", "session_id": SESSION}
        holder.request("tools/call", name="open_session", arguments=held)
        begin = {"requestId": TURN, "queryTitle": "x", "queryText": "x"}
        asked = ("beginTurn", {"sessionId": SESSION, **begin})
        (refused,) = log.answers(asked, environ={"SHIFTLOG_AGENT": "ClaudeCode"})
        assert (refused["code"], refused["retryable"]) == ("session_held", False)
        mine = {"sessionId": "ClaudeCode-20260701T080000Z-mine", "title": "Mine"}
        _, refused, named, beside = log.answers(
            ("openSession", mine),
            asked,
            ("beginTurn", {"sessionId": SESSION, "agent": "Codex", **begin}),
            ("updateTurn", {"sessionId": SESSION, "tags": ["x"]}),
        )
        assert refused["code"] == beside["code"] == "session_held"
        assert refused["hint"] == "Work in a session of your own: call workflow.sessionlog.openSession"
        assert named["result"]["turnRequestId"] == TURN
    others = ("updateTurn", {"sessionId": SESSION, "tags": ["x"]})
    (free,) = log.answers(others, environ={"SHIFTLOG_AGENT": "ClaudeCode"})
    assert free["result"]["updated"] is True, "nobody holds it any more"


def test_titles_are_set_and_shown(log: Log) -> None:
    log.open()
    log.begin()
    log.wait(minutes=2)
    assert without(log.do("setSessionTitle", sessionTitle="Upload")) == {
        "updated": True,
        "lastUpdated": "2026-07-01T12:02:00Z",
    }
    assert without(log.do("setTurnTitle", queryTitle="Upload race")) == {
        "updated": True,
        "lastUpdated": "2026-07-01T12:02:00Z",
    }
    assert log.do("currentSession")["title"] == "Upload"
    assert log.turn()["query_title"] == "Upload race"


def test_a_transcript_is_named_as_seen_from_where_the_client_is(log: Log) -> None:
    place = log.workspace / "sub"
    place.mkdir()
    (log.workspace / "rollout.jsonl").touch()
    named = {"agentSessionTranscriptFile": "../rollout.jsonl"}
    calls: list[Call] = [("openSession", {"sessionId": SESSION, "title": "x", **named}), ("currentSession", {})]
    first, second = log.answers(*calls, workspace=place)
    assert "warnings" not in first["result"]
    assert second["result"]["agentSessionTranscriptFile"] == str(log.workspace / "rollout.jsonl")


@pytest.mark.parametrize("path", ["x" * 3_000, "~nobody-of-this-name/rollout.jsonl"])
def test_a_path_that_no_file_can_have_is_one_that_does_not_exist(log: Log, path: str) -> None:
    opened = log.open(agentSessionTranscriptFile=path)
    assert opened["warnings"] == [{"code": "ignored_param", "param": "agentSessionTranscriptFile"}]
    refused = log.error("repl.sessionlog.ingestTranscripts", path=path)
    assert (refused["code"], list(refused["details"])) == ("transcript_not_found", ["searched"])


def test_a_session_of_a_launcher_is_named_by_the_number_of_its_run_too(log: Log) -> None:
    """nexo: both names of a session are accepted wherever a session is named."""
    with Tools(log, "--dialect", "mcpserver,nexo") as tools:
        created = {"caller": "desktop_new_session", "backend": "codex", "cwd": str(log.workspace)}
        answer = tools.request("tools/call", name="nexo_session_log_create", arguments=created)
        row = answer["result"]["structuredContent"]
        number = row["session_id"]
        turn = {"queryTitle": "Find it", "queryText": "Why?"}
        assert log.do("beginTurn", sessionId=number, requestId=TURN, **turn)["journal"]["sessionId"] == row["session"]
        assert log.do("completeTurn", sessionId=str(number), requestId=TURN, response="Done")["status"] == "completed"
        tools.do("sessionlog_begin_turn", agent="Codex", sessionId=number, requestId=TURN_2)
        assert log.error("beginTurn", sessionId=number + 1, requestId=TURN, **turn)["code"] == "session_not_found"
        refused = log.error("currentSession", sessionId=number, agent="Copilot")
        assert refused["message"] == "Session ID prefix must match agent name"
        assert log.error("openSession", sessionId=str(number), title="New")["code"] == "invalid_session_id"
        assert log.do("closeSession", sessionId=number)["sessionId"] == row["session"]


def test_a_session_that_must_be_continued_is_listed_with_its_deadline(log: Log) -> None:
    """delx 5: every session listing shows the obligation, and says afterwards that it is overdue."""
    log.open()
    log.do("closeSession", sessionId=SESSION, successionPolicy="successor_required")
    (listed,) = log.do("queryHistory", agent="Codex")["sessions"]
    assert (listed["successorDeadline"], listed["overdue"]) == ("2026-07-08T12:00:00Z", False)
    log.wait(days=8)
    (listed,) = log.do("queryHistory", agent="Codex")["sessions"]
    assert (listed["state"], listed["overdue"]) == ("awaiting_successor", True)
