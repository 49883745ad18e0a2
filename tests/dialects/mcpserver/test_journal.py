"""Acceptance cases 35 to 37: many writers, an edited journal, repeated keys, and a daemon that dies in between."""

import subprocess
import sys

from tests.daemon.support import end_daemon, lock_holder
from tests.dialects.mcpserver.log import OTHER_SESSION, REPL, SESSION, TURN, Call, Log, lines, without
from tests.journal.harness import row_id, stored_rows, tamper

ITEM = {"role": "tool", "category": "tool_result", "content": "2 passed"}
ACTION = {"description": "x", "type": "edit", "status": "completed"}


def test_two_processes_append_fifty_items_each_and_none_is_lost(log: Log) -> None:
    log.open()
    log.begin()
    calls: list[Call] = [("appendDialog", {"dialogItems": [ITEM]})] * 50
    writers = [
        subprocess.Popen(
            [*REPL, "--agent-stdio"],
            cwd=log.workspace,
            env=log.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    outputs = [writer.communicate(lines(calls).encode(), timeout=60)[0] for writer in writers]
    assert [output.count(b'"type":"result"') for output in outputs] == [50, 50]
    assert len(log.dialog()) == 100
    assert all(item["ok"] for item in log.items("verify")[1:])


def test_an_entry_edited_outside_is_named_by_verify(log: Log) -> None:
    log.open()
    log.begin()
    log.do("updateTurn", interpretation="Race")
    end_daemon(log.home)
    place = row_id(log.home, SESSION, 3)
    [(body,)] = stored_rows(log.home, "SELECT body FROM entries WHERE id = ?", place)
    tamper(log.home, "UPDATE entries SET body = ? WHERE id = ?", bytes(body).replace(b"Race", b"Rice"), place)
    program = "import sys; from shiftlog.cli.program import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "verify", SESSION],
        env=log.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert SESSION in done.stdout
    assert "edited" in done.stdout
    assert "3" in done.stdout


def test_a_repeated_key_answers_the_first_result_and_stores_nothing(log: Log) -> None:
    log.open()
    log.begin()
    first = log.do("appendActions", actions=[ACTION], idempotencyKey="k")
    assert log.do("appendActions", actions=[ACTION], idempotencyKey="k") == first
    assert len(log.actions()) == 1
    refused = log.error("appendActions", actions=[ACTION, ACTION], idempotencyKey="k")
    assert (refused["code"], refused["details"]) == ("idempotency_conflict", {})
    assert refused["message"] == "Idempotency key reused with other parameters"


def test_a_key_counts_for_its_method_and_session_alone(log: Log) -> None:
    log.open()
    log.begin()
    log.do("appendActions", actions=[ACTION], idempotencyKey="k")
    log.do("appendDialog", dialogItems=[ITEM], idempotencyKey="k")
    assert (len(log.actions()), len(log.dialog())) == (1, 1)
    log.open(OTHER_SESSION)
    log.begin(sessionId=OTHER_SESSION)
    log.do("appendActions", actions=[ACTION], idempotencyKey="k", sessionId=OTHER_SESSION)


def test_completing_again_with_its_key_is_the_first_result_and_no_refusal(log: Log) -> None:
    log.open(idempotencyKey="open")
    log.begin(idempotencyKey="begin")
    done = log.do("completeTurn", response="ok", idempotencyKey="k")
    assert log.do("completeTurn", response="ok", idempotencyKey="k") == done
    assert log.begin(idempotencyKey="begin")["turnRequestId"] == TURN
    assert log.open(idempotencyKey="open")["sessionId"] == SESSION


def test_a_repl_goes_on_with_a_new_daemon_where_the_old_one_died(log: Log) -> None:
    log.open()
    log.open(OTHER_SESSION)
    with log.live() as live:
        begin = {"requestId": TURN, "queryTitle": "x", "queryText": "x", "sessionId": SESSION}
        live.ask("beginTurn", begin)
        assert lock_holder(log.home) is not None
        end_daemon(log.home)
        answer = live.ask("appendDialog", {"dialogItems": [ITEM]})
        assert answer["result"]["journal"]["sessionId"] == SESSION
    assert len(log.dialog()) == 1


def test_a_call_asked_again_because_its_answer_was_lost_is_carried_out_once(log: Log) -> None:
    log.open()
    log.begin()
    question = {
        "method": "workflow.sessionlog.completeTurn",
        "params": {"response": "ok"},
        "workspace": str(log.workspace),
        "client": "c",
        "call": 1,
    }
    first = log.ask("sessionlog", **question)
    assert log.ask("sessionlog", **question, again=True) == first
    other = log.ask("sessionlog", **question | {"call": 2, "again": True})
    assert other["error"]["code"] == "turn_immutable"
    assert first["binding"]["session_id"] == SESSION


def test_a_repeat_may_address_its_session_and_turn_in_other_words(log: Log) -> None:
    log.open()
    log.begin()
    given = {"dialogItems": [ITEM], "idempotencyKey": "k"}
    first = log.do("appendDialog", **given, turnRequestId=TURN)
    assert log.do("appendDialog", **given, requestId=TURN) == first
    assert log.do("appendDialog", **given, requestId=TURN, sourceType="Codex", sessionId=SESSION) == first


def test_a_connection_works_in_the_session_that_it_opens_again_with_its_key(log: Log) -> None:
    log.open(idempotencyKey="k")
    log.open(OTHER_SESSION)
    opening = {"sessionId": SESSION, "title": "Fix upload", "idempotencyKey": "k"}
    beginning = {"requestId": TURN, "queryTitle": "Find it", "queryText": "Why?", "agent": "Codex"}
    first, begun = log.results(("openSession", opening), ("beginTurn", beginning))
    assert (first["opened"], begun["journal"]["sessionId"]) == (True, SESSION)


def test_a_close_repeated_with_its_key_closes_no_other_session(log: Log) -> None:
    log.open(OTHER_SESSION)
    with log.live() as repl:
        repl.ask("openSession", {"sessionId": SESSION, "title": "Fix upload"})
        first = repl.ask("closeSession", {"idempotencyKey": "k"})["result"]
        again = repl.ask("closeSession", {"idempotencyKey": "k"})["result"]
        assert without(again, "recoveryToken") == without(first, "recoveryToken")
        other = repl.ask("closeSession", {"idempotencyKey": "another"})["result"]
    assert other["sessionId"] == OTHER_SESSION


def test_a_write_repeated_with_its_key_after_the_close_is_answered_by_every_process(log: Log) -> None:
    log.open()
    log.begin()
    first = log.do("completeTurn", response="ok", idempotencyKey="k")
    closed = log.do("closeSession", idempotencyKey="k")
    assert log.do("completeTurn", response="ok", idempotencyKey="k") == first
    assert without(log.do("closeSession", idempotencyKey="k"), "recoveryToken") == without(closed, "recoveryToken")
    assert log.error("completeTurn", response="other", idempotencyKey="k")["code"] == "session_not_found"


def test_a_close_asked_again_because_its_answer_was_lost_closes_no_other_session(log: Log) -> None:
    log.open(OTHER_SESSION)
    log.open()
    question = {
        "method": "workflow.sessionlog.closeSession",
        "params": {},
        "workspace": str(log.workspace),
        "client": "c",
        "call": 1,
        "binding": {"session_id": SESSION},
    }
    first = log.ask("sessionlog", **question)["result"]
    again = log.ask("sessionlog", **question, again=True)["result"]
    assert (again["sessionId"], again["journal"]) == (SESSION, first["journal"])
    assert again["recoveryToken"]
    assert log.do("currentSession")["sessionId"] == OTHER_SESSION
