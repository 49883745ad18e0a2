"""The REPL as a program: one-shot calls, its options, its time limit, and life without a daemon."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from shiftlog.dialects.mcpserver.transcripts import METHOD
from shiftlog.repl.options import TIMEOUT_VARIABLE
from shiftlog.repl.sending import expiry
from tests.daemon.support import control, daemons, end_daemon, lock_holder
from tests.dialects.mcpserver.log import PREFIX, REPL, SESSION, TURN, Call, Log, envelope

SHIFTLOG = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]
QUERY = PREFIX + "queryHistory"


def test_one_call_prints_its_result_as_one_line(log: Log) -> None:
    done = log.run("never read", "--invoke", PREFIX + "bootstrap")
    assert (done.returncode, done.stdout) == (0, b'{"initialized":true}\n')
    for params in ('{"limit": 0}', "limit: 0", "limit: 0\n"):
        done = log.run("", "--invoke", QUERY, params)
        assert json.loads(done.stdout) == {"sessions": [], "totalCount": 0, "offset": 0, "limit": 0}


def test_one_call_reads_its_parameters_from_the_input_if_asked_to(log: Log) -> None:
    text = "x" * 300_000
    opened = {"sessionId": SESSION, "title": "Any size"}
    assert log.run(json.dumps(opened), "--invoke", PREFIX + "openSession", "-").returncode == 0
    begun = {"requestId": TURN, "queryTitle": "x", "queryText": text}
    assert log.run(json.dumps(begun), "--invoke", PREFIX + "beginTurn", "-").returncode == 0
    assert log.turn()["query_text"] == text


def test_one_call_is_an_envelope_and_no_larger_than_one(log: Log) -> None:
    log.open()
    log.begin()
    method = PREFIX + "updateTurn"
    around = len(json.dumps(envelope(method, {}, "req-20260701T120000Z-workflow-sessionlog-updateturn"))) - len("{}")
    params = '{"response":"x"'.ljust(8 * 1024 * 1024 - around - 1) + "}"
    assert log.run(params, "--invoke", method, "-").returncode == 0
    done = log.run(" " + params, "--invoke", method, "-")
    assert done.returncode == 1
    refused = json.loads(done.stdout)
    assert (refused["code"], refused["message"]) == ("invalid_envelope", "Invalid request envelope: larger than 8 MiB")


def test_one_call_that_fails_prints_the_error_and_ends_with_status_1(log: Log) -> None:
    done = log.run("", "--invoke", PREFIX + "beginTurn", "{}")
    payload = json.loads(done.stdout)
    assert (done.returncode, payload["code"]) == (1, "invalid_parameter")
    assert payload["requestId"].startswith("req-2")
    assert payload["requestId"].endswith("Z-workflow-sessionlog-beginturn")
    for params in ("{nonsense", "a: [", "[]"):
        done = log.run("", "--invoke", QUERY, params)
        assert done.returncode == 1
        assert json.loads(done.stdout)["code"] in ("invalid_envelope", "invalid_parameter")


def test_one_call_that_meets_a_defect_still_prints_an_error(log: Log) -> None:
    log.clock.write_text("no time at all")
    done = subprocess.run(
        [*REPL, "--invoke", QUERY],
        cwd=log.workspace,
        env=log.environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    payload = json.loads(done.stdout)
    assert (done.returncode, payload["code"], payload["message"]) == (1, "internal_error", "Internal error"), payload
    assert b"no time at all" not in done.stderr


@pytest.mark.parametrize(
    "params", ["---\nlimit: 0\n", "--- {limit: 0}", "limit: 0\n---\n", "\ufefflimit: 0\r\n---\r\n", '\ufeff{"limit":0}']
)
def test_one_call_takes_a_yaml_document_with_its_marks(log: Log, params: str) -> None:
    for text, argument in (("", params), (params, "-")):
        done = log.run(text, "--invoke", QUERY, argument)
        assert json.loads(done.stdout)["limit"] == 0


def test_one_call_keeps_the_blank_lines_at_the_end_of_its_text(log: Log) -> None:
    log.open()
    log.begin()
    log.run("", "--invoke", PREFIX + "updateTurn", "response: |+\n  done\n\n")
    assert log.turn()["response"] == "done\n\n"


@pytest.mark.parametrize(("params", "code"), [("- a", "invalid_parameter"), ("-1", "invalid_parameter")])
def test_one_call_takes_what_begins_with_a_dash_for_its_parameters(log: Log, params: str, code: str) -> None:
    done = log.run("", "--invoke", QUERY, params)
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, code)
    assert log.run("", "--invoke", QUERY, "-x").returncode == 2


def test_shiftlog_repl_is_the_same_program(log: Log) -> None:
    done = subprocess.run(
        [*SHIFTLOG, "repl", "--workspace-path", str(log.workspace), "--agent-stdio"],
        input=json.dumps(envelope("bootstrap", {})).encode(),
        env=log.environment(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["payload"]["result"] == {"initialized": True}
    helped = subprocess.run([*SHIFTLOG, "repl", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "--agent-stdio" in helped.stdout


def test_version_and_misuse_have_their_own_endings(log: Log) -> None:
    assert log.run("", "--version").stdout.startswith(b"mcpserver-repl ")
    for arguments in (["extra"], ["--agent"], ["--invoke", "a", "b", "c"], ["--invoke", "a", "--agent-stdio"]):
        done = log.run("", *arguments)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"mcpserver-repl: " in done.stderr


@pytest.mark.parametrize("name", ["codex", "Claude Code", "1st", "Codéx", "A" * 65])
def test_an_agent_that_can_be_none_is_misuse(log: Log, name: str) -> None:
    done = log.run("", "--agent-stdio", "--agent", name)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"such as ClaudeCode" in done.stderr


def test_a_blank_agent_of_the_environment_is_none(log: Log) -> None:
    log.open()
    (shown,) = log.results(("currentSession", {}), environ={"SHIFTLOG_AGENT": "  "})
    assert shown["sessionId"] == SESSION


@pytest.mark.parametrize("seconds", ["1e300", "999999999999", "inf", "nan", "-1", "0", "soon", ""])
def test_any_time_limit_leaves_calls_answered(log: Log, seconds: str) -> None:
    assert log.results(("bootstrap", {}), environ={"MCPSERVER_REPL_COMMAND_TIMEOUT_SECONDS": seconds})


def test_the_prompt_goes_to_standard_error(log: Log) -> None:
    done = log.run(json.dumps(envelope("bootstrap", {})) + "\n", "--interactive")
    assert done.stderr.startswith(b"shiftlog> ")
    assert json.loads(done.stdout)["type"] == "result"


def test_the_workspace_option_names_another_workspace(log: Log, tmp_path: Path) -> None:
    log.open()
    done = log.run("", "--invoke", PREFIX + "currentSession", "--workspace-path", str(tmp_path))
    assert done.stdout == b"null\n"
    link = tmp_path / "link"
    link.symlink_to(log.workspace)
    done = log.run("", "--invoke", PREFIX + "currentSession", "--workspace-path", str(link))
    assert json.loads(done.stdout)["sessionId"] == SESSION


def test_a_working_directory_that_was_removed_is_still_the_workspace(log: Log) -> None:
    removed = log.workspace / "removed"

    def run(*arguments: str, wrapper: str = "") -> "subprocess.CompletedProcess[str]":
        program = f"""mkdir '{removed}'; cd '{removed}'; rmdir '{removed}'; {wrapper} "$@" """
        command = ["sh", "-c", program, "sh", *REPL, *arguments]
        return subprocess.run(command, env=log.environment(), capture_output=True, text=True, check=False, timeout=60)

    for method, params in (("openSession", {"sessionId": SESSION, "title": "x"}), ("currentSession", {})):
        done = run("--invoke", PREFIX + method, json.dumps(params))
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["sessionId"] == SESSION
    done = run("--invoke", QUERY, wrapper="env -u PWD")
    assert (done.returncode, "--workspace-path" in done.stderr) == (2, True)


def test_without_a_daemon_to_be_had_everything_works_in_process(log: Log) -> None:
    log.home.mkdir(mode=0o700)
    (log.home / "daemon.lock").mkdir()
    begun = {"requestId": TURN, "queryTitle": "x", "queryText": "x"}
    opened = {"sessionId": SESSION, "title": "Alone"}
    results = log.results(("bootstrap", {}), ("openSession", opened), ("beginTurn", begun))
    assert results[2]["turnRequestId"] == TURN
    assert daemons(log.home) == []
    (log.home / "daemon.lock").rmdir()
    assert log.do("completeTurn", response="ok")["turnRequestId"] == TURN
    assert lock_holder(log.home) is not None


def test_a_store_that_cannot_be_opened_is_bootstrap_failed_or_storage_error(log: Log, tmp_path: Path) -> None:
    log.home = tmp_path / "file" / "home"
    (tmp_path / "file").write_text("in the way")
    first, second = log.answers(("bootstrap", {}), ("queryHistory", {}))
    assert (first["code"], first["message"]) == ("bootstrap_failed", "Failed to initialize session log storage")
    assert set(first["details"]) == {"storageError", "permissions"}
    assert (second["code"], second["message"], second["retryable"]) == ("storage_error", "Storage error", True)


# Mistakes that no store is needed to see, and the code of each.
MISTAKES: dict[str, tuple[str, dict[str, object]]] = {
    "method_not_found": ("nonsense", {}),
    "invalid_parameter": ("updateTurn", {"tokenCount": "many"}),
    "invalid_session_id": ("openSession", {"sessionId": "codex-1", "title": "x"}),
    "invalid_request_id": ("completeTurn", {"requestId": "turn-1", "response": "x"}),
}
UNREADABLE_QUERIES: list[Call] = [("queryHistory", {"text": "(open"}), ("queryHistory", {"from": "yesterday"})]


def test_a_mistake_is_told_before_the_state_of_the_store(log: Log, tmp_path: Path) -> None:
    log.home = tmp_path / "file" / "home"
    (tmp_path / "file").write_text("in the way")
    answers = log.answers(*MISTAKES.values(), *UNREADABLE_QUERIES)
    assert [answer["code"] for answer in answers] == [*MISTAKES, "invalid_parameter", "invalid_parameter"]
    assert "workflow.sessionlog.beginTurn" in answers[0]["details"]["supportedMethods"]


@contextmanager
def held_store(log: Log) -> Generator[None]:
    """Keep everybody else from writing to the store."""
    hold = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(log.home / "shiftlog.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


def test_a_mistake_is_told_though_the_store_takes_no_write(log: Log) -> None:
    log.open()
    log.wait(minutes=1)
    with held_store(log):
        answers = log.answers(*MISTAKES.values(), environ={"MCPSERVER_REPL_COMMAND_TIMEOUT_SECONDS": "0.5"})
    assert [answer["code"] for answer in answers] == [*MISTAKES]


def test_a_call_whose_time_is_over_has_not_happened(log: Log) -> None:
    log.open()
    with held_store(log):
        begun = {"requestId": TURN, "queryTitle": "x", "queryText": "x"}
        (answer,) = log.answers(("beginTurn", begun), environ={"MCPSERVER_REPL_COMMAND_TIMEOUT_SECONDS": "0.5"})
        assert (answer["code"], answer["message"], answer["retryable"]) == (
            "command_timeout",
            "Command timed out",
            True,
        )
    assert log.turns() == {}
    assert log.begin()["status"] == "in_progress"


def test_an_import_is_waited_for_as_long_as_it_takes() -> None:
    assert expiry(METHOD, 120.0) is None
    assert expiry(QUERY, 120.0) is not None


def test_a_call_is_given_up_in_its_time_though_the_daemon_is_stopped_and_never_happens(log: Log) -> None:
    log.open()
    process = lock_holder(log.home)
    assert process is not None
    limit = {TIMEOUT_VARIABLE: "1.5"}
    begun = {"requestId": TURN, "queryTitle": "x", "queryText": "x"}
    os.kill(process, signal.SIGSTOP)
    try:
        # A call that connects while the daemon is stopped, and one whose connection was there before.
        started = time.monotonic()
        done = log.run("", "--invoke", PREFIX + "beginTurn", json.dumps(begun), environ=limit)
        assert time.monotonic() - started < 8
    finally:
        os.kill(process, signal.SIGCONT)
    refused = json.loads(done.stdout)
    assert (refused["code"], refused["retryable"]) == ("command_timeout", True)
    assert log.do("currentSession")["currentTurnRequestId"] is None
    late = {"method": PREFIX + "beginTurn", "params": {"sessionId": SESSION, **begun}, "workspace": str(log.workspace)}
    with control(log.home) as client:
        answer = client.call("sessionlog", {**late, "client": "c", "call": 1, "expires": time.monotonic() - 1})
    assert answer["error"]["code"] == "command_timeout"
    assert log.do("currentSession")["currentTurnRequestId"] is None


def test_an_unknown_variable_is_a_configuration_error_that_names_it(log: Log) -> None:
    for method in ("bootstrap", "currentSession"):
        done = log.run("", "--invoke", PREFIX + method, environ={"SHIFTLOG_" + "COLOUR": "1"})
        refused = json.loads(done.stdout)
        assert (refused["code"], refused["retryable"]) == ("invalid_config", False)
        assert "SHIFTLOG_" + "COLOUR" in refused["details"]["reason"]


def test_output_with_control_characters_is_recorded_with_visible_signs_and_said_so(log: Log) -> None:
    log.open()
    log.begin()
    raw = "a\x00b\x01\x1b[31mred\x7f"
    item = {"role": "tool", "category": "tool_result", "content": raw}
    answer = log.do("appendDialog", dialogItems=[item])
    assert [one["code"] for one in answer["warnings"]] == ["control_characters_replaced"]
    assert answer["warnings"][0]["param"] == "dialogItems[0].content"
    assert log.dialog()[0]["content"] == "a\u2400b\u2401\x1b[31mred\u2421"


def test_what_starts_in_milliseconds_imports_the_standard_library_alone() -> None:
    program = (
        "import sys; before = set(sys.modules); import shiftlog.repl.__main__;"
        "import shiftlog.repl.one_shot, shiftlog.repl.loop;"
        "print('\\n'.join(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    ours = {"shiftlog"}
    assert set(done.stdout.split()) - ours <= set(sys.stdlib_module_names)


def test_a_closed_output_ends_the_program_quietly(log: Log) -> None:
    repl = subprocess.Popen(
        [*REPL, "--agent-stdio"],
        cwd=log.workspace,
        env=log.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert repl.stdout is not None
    assert repl.stdin is not None
    assert repl.stderr is not None
    repl.stdout.close()
    repl.stdin.write(json.dumps(envelope("bootstrap", {})).encode() + b"\n")
    repl.stdin.close()
    assert repl.wait(60) == 0
    assert repl.stderr.read() == b""
    repl.stderr.close()


@pytest.mark.parametrize(
    ("streams", "arguments", "status", "printed"),
    [
        ("<&-", ["--invoke", QUERY, "-"], 0, True),
        ("<&-", ["--agent-stdio"], 0, False),
        ("<&-", [], 0, False),
        (">&-", ["--invoke", QUERY], 0, False),
        (">&-", ["--agent-stdio"], 0, False),
        (">&-", ["--version"], 0, False),
        ("2>&-", ["--no-such-option"], 2, False),
        (">/dev/full", ["--invoke", QUERY], 1, False),
        (">/dev/full", ["--agent-stdio"], 1, False),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_defect(
    log: Log, streams: str, arguments: list[str], status: int, printed: bool
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *REPL, *arguments],
        input=json.dumps(envelope("bootstrap", {})) + "\n",
        cwd=log.workspace,
        env=log.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout != "") == (status, printed)
    assert done.stderr == ("" if status != 1 else "mcpserver-repl: cannot write the answer: No space left on device\n")


def test_a_daemon_killed_under_a_call_leaves_it_done_once_or_not_at_all(log: Log) -> None:
    log.open()
    log.begin()
    item = {"role": "model", "category": "reasoning", "content": "x"}
    calls: list[Call] = [("appendDialog", {"dialogItems": [item]})] * 100
    timer = Timer(0.15, end_daemon, (log.home,))
    timer.start()
    answers = log.answers(*calls)
    timer.join()
    answers += log.answers(calls[0])  # on a quick machine the kill comes last, and nobody has started a daemon since
    done = [answer for answer in answers if "result" in answer]
    assert [answer["result"]["totalDialogItems"] for answer in done] == list(range(1, len(done) + 1))
    assert len(log.dialog()) == len(done) == 101
