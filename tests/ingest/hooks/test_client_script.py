"""The client script: requests through the REPL, and where nothing can be reached, a queue that loses nothing."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import shiftlog
from tests.daemon.support import end_daemon, environment, eventually

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "plugins" / "claude-code" / "shiftlog" / "lib" / "repl-invoke.sh"
BIN = str(Path(sys.executable).parent)
SESSION = "Codex-20260701T080000Z-fix-upload"
TURN = "req-20260701T080005Z-upload-001"
OPEN = {"sessionId": SESSION, "title": "Fix upload"}
BEGIN = {"requestId": TURN, "queryTitle": "Fix", "queryText": 'It\'s "odd" \\ $HOME `x`\nénd'}
PREFIX = "workflow.sessionlog."


@pytest.fixture(params=["sh", "bash", "dash"])
def shell(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


def script(home: Path, text: str, *args: str, shell: str = "sh", path: str = BIN, cwd: Path | None = None) -> Any:
    program = f'. "{SCRIPT}"\n{text}'
    return subprocess.run(
        [shell, "-c", program, "script", *args],
        env=environment(home, PATH=f"{path}:/usr/bin:/bin", SHIFTLOG_AGENT="Codex"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=cwd or home,
        input="left alone",
    )


def invoke(home: Path, method: str, params: object, **more: Any) -> tuple[int, Any]:
    done = script(home, 'repl_invoke "$1" "$2"', PREFIX + method, json.dumps(params), **more)
    return done.returncode, json.loads(done.stdout)


def test_what_the_skill_shows_works_beside_the_session_of_the_hooks(home: Path, tmp_path: Path) -> None:
    plugin = SCRIPT.parent.parent
    shown = (plugin / "skills" / "session" / "SKILL.md").read_text().split("```sh\n")[1].split("```")[0]
    env = environment(home, PATH=f"{BIN}:/usr/bin:/bin", CLAUDE_PLUGIN_ROOT=str(plugin))
    for event, more in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": "Fix it"})):
        told = {"hook_event_name": event, "session_id": "5e55", "cwd": str(tmp_path), **more}
        subprocess.run([f"{BIN}/shiftlog-hook", "claude"], input=json.dumps(told), text=True, env=env, check=True)
    done = subprocess.run(
        ["sh", "-c", shown], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer for answer in answers if "code" in answer] == []
    assert (len(answers), answers[3]["status"], answers[-1]["totalCount"]) == (5, "completed", 2)


def test_the_program_may_be_named_in_the_environment(home: Path) -> None:
    named = f"export SHIFTLOG_REPL={BIN}/shiftlog\n"
    done = script(home, named + f"repl_invoke {PREFIX}openSession '{json.dumps(OPEN)}'", path="/nowhere")
    assert json.loads(done.stdout)["opened"] is True
    done = script(home, named + "shiftlog sessions --json")
    assert done.returncode == 0, done.stderr


def test_a_request_is_answered_with_its_result_or_its_error(home: Path, shell: str) -> None:
    assert invoke(home, "openSession", OPEN, shell=shell)[1]["opened"] is True
    status, answer = invoke(home, "openSession", OPEN, shell=shell)
    assert (status, answer["code"]) == (1, "session_already_exists")
    assert script(home, "repl_invoke", shell=shell).returncode == 2
    done = script(home, 'repl_invoke "$1" >/dev/null; cat', PREFIX + "bootstrap", shell=shell)
    assert done.stdout == "left alone"


def test_parameters_of_any_size_reach_the_program(home: Path) -> None:
    invoke(home, "openSession", OPEN)
    (home / "params").write_text(json.dumps({**BEGIN, "queryText": "x" * 600_000}))
    done = script(home, 'repl_invoke "$1" "$(cat params)"', PREFIX + "beginTurn")
    assert json.loads(done.stdout)["turnRequestId"] == TURN


def test_requests_that_reach_nothing_are_queued_and_carried_out_once_in_order(home: Path, shell: str) -> None:
    nothing = "/nonexistent"
    answers = [
        invoke(home, method, params, shell=shell, path=nothing)
        for method, params in (("openSession", OPEN), ("beginTurn", BEGIN), ("completeTurn", {"response": "Done"}))
    ]
    for status, answer in answers:
        assert status == 0
        assert answer["receipt"] == {"code": "queued", "session_id": None, "seq": None, "hash": None, "redactions": 0}
    files = sorted((home / "spool").glob("calls-*.jsonl"))
    assert len(files) == 3
    assert files[0].stat().st_mode & 0o777 == 0o600
    status, answer = invoke(home, "queryHistory", {"agent": "Codex"})
    assert (status, answer["sessions"][0]["turnCount"]) == (0, 1)
    assert not list((home / "spool").glob("calls-*"))
    for _, queued in answers:
        receipt = shiftlog(home, "spool", queued["id"], "--json").json()["receipt"]
        assert (receipt["code"], receipt["session_id"]) == ("persisted", SESSION)
        assert receipt["hash"].startswith("sha256:")
    shown = shiftlog(home, "show", SESSION, "--json").json()
    assert 'It\'s \\"odd\\"' in json.dumps(shown)
    assert json.loads(script(home, 'repl_receipt "$1"', answers[0][1]["id"]).stdout)["receipt"]["code"] == "persisted"


def test_a_script_that_ends_at_the_first_failure_still_queues_and_goes_on_in_order(home: Path, shell: str) -> None:
    (home / "shiftlog.db").mkdir()
    text = 'set -euf\nfor n in 1 2 3; do repl_invoke "$1" "n: $n"; done\necho through'
    done = script(home, text, PREFIX + "bootstrap", shell=shell)
    *queued, last = done.stdout.splitlines()
    assert (done.returncode, last) == (0, "through")
    assert [json.loads(line)["receipt"]["code"] for line in queued] == ["queued"] * 3
    files = sorted((home / "spool").glob("calls-*.jsonl"))
    given = [base64.b64decode(json.loads(file.read_text())["params_base64"]).decode() for file in files]
    assert given == ["n: 1", "n: 2", "n: 3"]


@pytest.mark.parametrize("key", [{}, {"idempotencyKey": None}, {"idempotencyKey": ""}])
def test_a_queued_request_that_came_twice_is_carried_out_once(home: Path, key: dict[str, object]) -> None:
    invoke(home, "openSession", OPEN)
    invoke(home, "beginTurn", BEGIN)
    given = {"dialogItems": [{"role": "model", "category": "observation", "content": "once"}], **key}
    invoke(home, "appendDialog", given, path="/nonexistent")
    (file,) = (home / "spool").glob("calls-*.jsonl")
    copy = file.read_text()
    invoke(home, "currentSession", {})
    file.write_text(copy)  # as if the daemon had been killed before it removed the file
    invoke(home, "currentSession", {})
    _, answer = invoke(home, "appendDialog", given)
    assert answer["totalDialogItems"] == 2


def test_a_queued_close_that_came_twice_closes_no_other_session(home: Path) -> None:
    other = OPEN | {"sessionId": "Codex-20260701T090000Z-other"}
    invoke(home, "openSession", other)
    invoke(home, "openSession", OPEN)
    invoke(home, "closeSession", {}, path="/nonexistent")
    (file,) = (home / "spool").glob("calls-*.jsonl")
    copy = file.read_text()
    invoke(home, "bootstrap", {})
    file.write_text(copy)  # as if the daemon had been killed before it removed the file
    _, answer = invoke(home, "currentSession", {})
    assert answer["sessionId"] == other["sessionId"]


def test_a_store_that_cannot_be_opened_queues_too_and_the_program_itself_says_storage_error(home: Path) -> None:
    (home / "shiftlog.db").mkdir()
    done = subprocess.run(
        [f"{BIN}/shiftlog", "repl", "--invoke", PREFIX + "openSession", json.dumps(OPEN)],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(done.stdout)["code"] == "storage_error"
    status, answer = invoke(home, "openSession", OPEN)
    assert (status, answer["receipt"]["code"]) == (0, "queued")
    end_daemon(home)
    (home / "shiftlog.db").rmdir()
    assert invoke(home, "currentSession", {})[1]["sessionId"] == SESSION


def test_a_poisoned_request_is_set_aside_with_the_reason_and_the_rest_goes_on(home: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    bad = invoke(home, "beginTurn", {**BEGIN, "queryText": secret}, path="/nonexistent")[1]["id"]
    invoke(home, "openSession", OPEN, path="/nonexistent")
    folder = home / "spool"
    (folder / "calls-20200101T000000Z-000001-x.jsonl").write_text("{not json")
    assert invoke(home, "currentSession", {})[1]["sessionId"] == SESSION
    answer = shiftlog(home, "spool", "--json").json()
    assert {item["id"] for item in answer["set_aside"]} == {bad, "calls-20200101T000000Z-000001-x"}
    reasons = [item["reason"] for item in answer["set_aside"]]
    assert any(reason.startswith("session_not_found: ") for reason in reasons)
    assert shiftlog(home, "spool", bad, "--json").json()["receipt"]["code"] == "set_aside"
    assert "2 items set aside" in shiftlog(home, "doctor").out
    assert secret not in "".join(path.read_text() for path in (folder / "aside").iterdir())


def test_a_request_that_cannot_be_read_is_told_of_under_the_id_that_was_given_out(home: Path) -> None:
    _, queued = invoke(home, "beginTurn", BEGIN, path="/nowhere")
    (waiting,) = (home / "spool").glob("calls-*.jsonl")
    waiting.write_text(waiting.read_text().replace('"params_base64":"', '"params_base64":"!'))
    invoke(home, "bootstrap", {})
    assert shiftlog(home, "spool", queued["id"], "--json").json()["receipt"]["code"] == "set_aside"
    assert f"call {queued['id']} of an unknown time: it cannot be read" in shiftlog(home, "spool").out


def test_a_queue_that_cannot_be_written_is_a_storage_error(home: Path) -> None:
    (home / "spool").write_text("in the way")
    status, answer = invoke(home, "openSession", OPEN, path="/nonexistent")
    assert (status, answer["code"], answer["retryable"]) == (1, "storage_error", True)


def test_the_daemon_carries_queued_requests_out_by_itself(home: Path) -> None:
    invoke(home, "openSession", OPEN, path="/nonexistent")
    shiftlog(home, "status")
    eventually(lambda: not list((home / "spool").glob("calls-*")) or None)
    assert SESSION in shiftlog(home, "sessions", "--json").out


def test_a_queued_request_holds_its_texts_whole(home: Path) -> None:
    invoke(home, "beginTurn", BEGIN, path="/nonexistent")
    (file,) = (home / "spool").glob("calls-*.jsonl")
    document = json.loads(file.read_text())
    assert json.loads(base64.b64decode(document["params_base64"])) == BEGIN
    assert base64.b64decode(document["cwd_base64"]).decode() == str(home.resolve())
