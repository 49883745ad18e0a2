"""The hook program, run as agents run it: events in at standard input, lines out in the spool, never a failure."""

import fcntl
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.daemon.support import nobody_may_start

HOOK = Path(sys.executable).with_name("shiftlog-hook")


def run(home: Path, event: bytes, agent: str = "claude") -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    return subprocess.run([str(HOOK), agent], input=event, env=environ, capture_output=True, check=False, timeout=30)


def spooled(home: Path) -> list[dict[str, Any]]:
    files = sorted((home / "spool").glob("hooks-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def test_an_event_becomes_one_line_of_the_spool_and_nothing_is_printed(home: Path) -> None:
    with nobody_may_start(home):
        done = run(home, b'{"hook_event_name":"Stop","session_id":"s","text":"\xc3\xa9"}')
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (line,) = spooled(home)
    assert line["agent"] == "ClaudeCode"
    assert line["event"] == {"hook_event_name": "Stop", "session_id": "s", "text": "é"}
    assert line["ppid"] == os.getpid()
    assert len(line["id"]) == 32


def test_the_spool_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    run(tmp_path, b"{}", "codex")
    (file,) = (tmp_path / "spool").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_no_event_is_kept_as_its_size_and_digest(tmp_path: Path) -> None:
    for data in (b"not json", b"[1]", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * (8 << 20) + b'"'):
        assert run(tmp_path, data).returncode == 0
    events = [line["event"] for line in spooled(tmp_path)]
    assert [event["bytes"] for event in events] == [8, 3, 2, 100_000, (8 << 20) + 2]


def test_an_unknown_agent_or_a_home_that_cannot_be_written_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    assert run(tmp_path, b"{}", "nobody").returncode == 0
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = run(blocked / "home", b"{}")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_events_of_many_hooks_at_once_are_all_kept_whole(tmp_path: Path) -> None:
    events = [json.dumps({"n": n, "pad": "x" * 5_000}).encode() for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(partial(run, tmp_path), events))
    assert sorted(line["event"]["n"] for line in spooled(tmp_path)) == list(range(40))


def test_a_spool_file_that_stays_locked_is_left_for_one_of_our_own(tmp_path: Path) -> None:
    run(tmp_path, b'{"n":1}')
    (file,) = (tmp_path / "spool").iterdir()
    with file.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run(tmp_path, b'{"n":2}')
    assert {line["event"]["n"] for line in spooled(tmp_path)} == {1, 2}
    assert len(list((tmp_path / "spool").iterdir())) == 2


def test_the_hook_imports_only_the_standard_library() -> None:
    code = "import sys, shiftlog.link.hook, shiftlog.link.wire, shiftlog.link.processes; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"anyio", "apsw", "click", "mcp", "msgspec", "pydantic"}.isdisjoint(loaded)
