"""What an answer promises about the disk, as the kernel sees it: the log is synced before the answer leaves.

Whether a disk keeps what it was told to sync is the disk's own promise; up to there it is ours.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.support import REAL, control, eventually, start_daemon
from tests.story.agents import Agent

STRACE = shutil.which("strace")
CALLS = "trace=pwrite64,fsync,fdatasync,recvfrom,recvmsg,read,sendto,sendmsg,write"
WRITES = 5
CALLS_MADE = WRITES + 3

_CALL = re.compile(r"(?P<thread>\d+) +(?:<\.\.\. (?P<resumed>\w+) resumed>|(?P<name>\w+)\()")
_REQUEST = re.compile(r'\\"id\\": (\d+), \\"method\\": \\"tools/call\\"')
_ANSWER = re.compile(r'\\"id\\":(\d+),\\"result\\"')


def can_trace() -> bool:
    """Say whether strace is here and may trace; containers and hardened kernels often forbid it."""
    if STRACE is None:
        return False
    return subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not installed or not allowed to trace")


def traced_day(home: Path, trace: Path, durability: str) -> list[str]:
    """Let an agent write a few times to a daemon that strace watches; return the lines of the trace."""
    # -D: the daemon keeps the pid that was started, and strace watches from beside.
    watched = [str(STRACE), "-D", "-f", "-y", "-s", "200", "-e", "signal=none", "-e", CALLS, "-o", str(trace), *REAL]
    start_daemon(home, program=watched, SHIFTLOG_DURABILITY=durability)
    with Agent(home) as agent:
        name = agent.call("open_session", agent="Test", title="power loss")["session_id"]
        agent.call("begin_turn", session_id=name, query_title="turn", query_text="go on")
        for number in range(WRITES):
            agent.call("update_turn", session_id=name, tags=[f"tag {number}"])
        agent.call("close_session", session_id=name)
    with control(home) as client:
        assert client.call("status")["durability"] == durability
        client.call("daemon.stop")
    eventually(lambda: "+++ exited with 0 +++" in trace.read_text(errors="replace"))
    return trace.read_text(errors="replace").splitlines()


def events(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what matters of a trace: `wrote` and `synced` with a path, `asked` and `answered` with a request's id."""
    syncing: dict[str, str] = {}
    for line in lines:
        call = _CALL.match(line)
        if call is None:
            continue
        path = line.partition("<")[2].partition(">")[0]
        match call["name"] or call["resumed"]:
            case "pwrite64" if call["name"]:
                yield "wrote", path
            case "fsync" | "fdatasync":
                if call["name"]:
                    syncing[call["thread"]] = path
                if "<unfinished" not in line:
                    yield "synced", syncing.pop(call["thread"])
            case _ if asked := _REQUEST.search(line):
                yield "asked", asked[1]
            case _ if call["name"] and (answered := _ANSWER.search(line)):
                yield "answered", answered[1]
            case _:
                pass


def on_disk_when_answered(lines: list[str], wal: str) -> list[bool]:
    """Tell of each tool call whether the log was synced when its answer left; each must have written to the log."""
    told: list[bool] = []
    asked, wrote, synced = "", False, False
    for what, where in events(lines):
        if what == "asked":
            asked, wrote, synced = where, False, False
        elif where == wal:
            wrote = wrote or what == "wrote"
            synced = what == "synced"
        elif what == "answered" and where == asked:
            assert wrote, f"the answer to request {where} left before anything was written"
            told.append(synced)
    return told


def test_with_full_durability_no_answer_leaves_before_its_write_is_on_disk(home: Path, tmp_path: Path) -> None:
    lines = traced_day(home, tmp_path / "trace", "full")
    told = on_disk_when_answered(lines, str(home / "shiftlog.db-wal"))
    assert told == [True] * CALLS_MADE
    check_names_are_on_disk(home, lines)


def check_names_are_on_disk(home: Path, lines: list[str]) -> None:
    """See that the folders were synced that hold record and key, after both were put there and before any answer."""
    seen = list(events(lines))
    before = seen[: [what for what, _ in seen].index("answered")]
    synced = [where for what, where in before if what == "synced"]
    last_key = max(n for n, where in enumerate(synced) if "/keys/." in where)
    assert str(home / "shiftlog.db-wal") in synced
    assert {str(home / "keys"), str(home)} <= set(synced[last_key:])


def test_with_process_durability_answers_do_not_wait_for_the_disk(home: Path, tmp_path: Path) -> None:
    lines = traced_day(home, tmp_path / "trace", "process")
    told = on_disk_when_answered(lines, str(home / "shiftlog.db-wal"))
    assert told == [False] * CALLS_MADE
