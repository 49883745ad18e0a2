"""A daemon that is frozen, short of memory or processes, or whose files are taken away: what its clients see."""

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.disks import needs_root
from tests.daemon.support import BRIDGE, Bridge, control, end_daemon, eventually, lock_holder
from tests.story.agents import Agent, Refused, read_record, shiftlog, shiftlog_json

ORDINARY = 23_456


@pytest.fixture
def ordinary_home() -> Generator[Path]:
    """Yield a state directory of an ordinary user."""
    place = Path(tempfile.mkdtemp(prefix="shiftlog-test-"))
    place.chmod(0o711)
    home = place / "h"
    home.mkdir(mode=0o700)
    os.chown(home, ORDINARY, ORDINARY)
    yield home
    end_daemon(home)
    shutil.rmtree(place)


def daemon_of(home: Path) -> int:
    pid = lock_holder(home)
    assert pid is not None
    return pid


def open_session(agent: Agent) -> str:
    return str(agent.call("open_session", agent="Fault", title="a fault")["session_id"])


def test_a_frozen_daemon_answers_when_it_goes_on_and_can_be_ended(home: Path) -> None:
    with Agent(home) as agent:
        session = open_session(agent)
        pid = daemon_of(home)
        os.kill(pid, signal.SIGSTOP)
        number = agent.send_call("begin_turn", session_id=session, query_title="t", query_text="t")
        os.kill(pid, signal.SIGCONT)
        assert agent.bridge.read()["id"] == number
        os.kill(pid, signal.SIGSTOP)
        number = agent.send_call("update_turn", session_id=session, tags=["frozen"])
        assert "was ended" in shiftlog(home, "daemon", "stop")
        answer = agent.bridge.read()
        assert answer["id"] == number
        assert answer["error"]["data"]["applied"] is False
        agent.call("update_turn", session_id=session, tags=["thawed"])


@needs_root
def test_a_daemon_that_may_start_no_process_says_so_and_serves_the_rest(ordinary_home: Path) -> None:
    user = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
    with Bridge(ordinary_home, program=[*user, *BRIDGE], HOME="/tmp") as bridge:
        bridge.shake_hands()
        pid = daemon_of(ordinary_home)
        opened = bridge.request(1, "tools/call", name="open_session", arguments={"agent": "Fault", "title": "t"})
        session = opened["result"]["structuredContent"]["session_id"]
        limit = [*user, "prlimit", f"--pid={pid}"]
        subprocess.run([*limit, "--nproc=1:"], check=True)
        refused = bridge.request(2, "tools/call", name="open_shell", arguments={"session_id": session, "cwd": "/"})
        assert refused["result"]["isError"]
        assert "unavailable" in str(refused) or "Storage error" in str(refused)
        read = bridge.request(3, "tools/call", name="query_history", arguments={"session_id": session})
        assert not read["result"]["isError"]
        subprocess.run([*limit, "--nproc=4000:"], check=True)
        opened = bridge.request(4, "tools/call", name="open_shell", arguments={"session_id": session, "cwd": "/"})
        assert not opened["result"]["isError"], opened


def test_shells_outlast_a_time_without_descriptors(home: Path) -> None:
    with Agent(home) as agent:
        session = open_session(agent)
        shell = agent.call("open_shell", session_id=session, cwd="/")["shell_id"]
        agent.call("run_command", shell_id=shell, command="kept=here")
        pid = daemon_of(home)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, before[1]))
        for tool, arguments in (
            ("run_command", {"shell_id": shell, "command": "kept=lost"}),
            ("open_shell", {"session_id": session, "cwd": "/"}),
        ):
            with pytest.raises(Refused, match="Too many open files"):
                agent.call(tool, **arguments)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert "here" in str(agent.call("run_command", shell_id=shell, command="echo $kept"))
        agent.call("open_shell", session_id=session, cwd="/")
        assert daemon_of(home) == pid


@needs_root
def test_a_daemon_that_gets_no_memory_answers_and_goes_on(home: Path) -> None:
    with Agent(home) as agent:
        session = open_session(agent)
        agent.call("begin_turn", session_id=session, query_title="t", query_text="t")
        pid = daemon_of(home)
        status = Path(f"/proc/{pid}/status").read_text()
        size = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmSize")) << 10
        before = resource.prlimit(pid, resource.RLIMIT_AS, (size + (4 << 20), resource.RLIM_INFINITY))
        large = {"role": "model", "category": "observation", "content": "word " * 2_000_000}
        answer = agent.ask("tools/call", name="update_turn", arguments={"session_id": session, "dialog": [large]})
        assert "internal_error" not in str(answer)[:2_000]
        resource.prlimit(pid, resource.RLIMIT_AS, before)

        def written() -> bool | None:
            arguments = {"session_id": session, "tags": ["memory again"]}
            said = agent.ask("tools/call", name="update_turn", arguments=arguments)
            return ("result" in said and not said["result"]["isError"]) or None

        eventually(written)
        assert shiftlog_json(home, "verify")["broken"] == []


def send_start_event(home: Path, session_id: str = "11111111-2222") -> None:
    hook = ["-c", "import sys; sys.argv = ['x', 'claude']; from shiftlog.link.hook import main; main()"]
    event = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "session_id": session_id})
    environ = {**os.environ, "SHIFTLOG_HOME": str(home)}
    subprocess.run([BRIDGE[0], *hook], input=event.encode(), env=environ, check=True)


def test_an_import_key_that_cannot_be_read_lets_events_wait_and_the_rest_is_served(home: Path) -> None:
    with Agent(home) as agent:
        open_session(agent)
        shiftlog(home, "daemon", "stop")
        key = home / "keys" / "import.key"
        key.unlink(missing_ok=True)
        key.mkdir()
        send_start_event(home)
        session = open_session(agent)
        with control(home) as client:
            eventually(lambda: "import.key" in str(client.call("daemon.status")["faults"]))
        assert agent.call("query_history", session_id=session)
        key.rmdir()
        eventually(lambda: "11111111-2222" in shiftlog(home, "sessions", "--json"))
        assert shiftlog_json(home, "daemon", "status")["faults"] == []


def test_a_spool_that_was_deleted_is_made_again_by_the_next_event(home: Path) -> None:
    with Agent(home) as agent:
        open_session(agent)
        for session_id in ("11111111-2222", "33333333-4444"):
            send_start_event(home, session_id)
            eventually(lambda name=session_id: name in shiftlog(home, "sessions", "--json") or None)
            shutil.rmtree(home / "spool")


def test_files_in_the_place_of_folders_are_named_and_the_rest_is_served(home: Path) -> None:
    (home / "outputs").write_text("no folder")
    (home / "spool").write_text("no folder")
    with Agent(home) as agent:
        session = open_session(agent)
        with pytest.raises(Refused, match="outputs is not a directory"):
            agent.call("open_shell", session_id=session, cwd="/")
        (home / "outputs").unlink()
        agent.call("open_shell", session_id=session, cwd="/")
        checks = shiftlog_json(home, "doctor", status=1)["checks"]
        assert f"{home / 'spool'} is not a directory" in [c["message"] for c in checks if c["name"] == "files"]


def test_a_file_in_the_place_of_a_shells_outputs_counts_as_outputs_that_are_no_longer_kept(home: Path) -> None:
    with Agent(home) as agent:
        shell = agent.call("open_shell", session_id=open_session(agent), cwd="/")["shell_id"]
        command = agent.call("run_command", shell_id=shell, command="seq 1 5000")["command_id"]
        agent.call("close_shell", shell_id=shell)
        shutil.rmtree(home / "outputs" / shell)
        (home / "outputs" / shell).write_text("no folder")
        with pytest.raises(Refused, match="no longer kept"):
            agent.call("read_output", command_id=command)
        assert shiftlog_json(home, "verify")["broken"] == []
        shiftlog(home, "gc")


def test_keys_that_were_deleted_keep_no_client_from_working(home: Path) -> None:
    with Agent(home) as agent:
        session = open_session(agent)
        shutil.rmtree(home / "keys")
        closed = agent.call("close_session", session_id=session)
        assert closed["data"]["receipt"]
        shiftlog(home, "daemon", "stop")
        open_session(agent)
        assert (home / "keys" / "ed25519").stat().st_mode & 0o777 == 0o600
    started = time.monotonic()
    assert shiftlog_json(home, "verify")["broken"] == []
    assert time.monotonic() - started < 30


def test_a_question_of_a_killed_daemon_ends_undecided_and_is_no_longer_shown(home: Path) -> None:
    (home / "config.toml").write_text('[policy]\nask = ["touch"]\n')
    with Agent(home) as agent:
        session = agent.call("open_session", agent="Fault", title="asks")["session_id"]
        shell = agent.call("open_shell", session_id=session, cwd="/")["shell_id"]
        agent.send_call("run_command", shell_id=shell, command=f"touch {home}/made")
        with control(home) as client:
            asked = eventually(lambda: client.call("approvals")["items"])[0]

        def recorded(kind: str) -> list[dict[str, Any]]:
            return [line.body for line in read_record(home) if line.kind == kind]

        eventually(lambda: recorded("command.asked"))
        os.kill(daemon_of(home), signal.SIGKILL)
        assert "error" in agent.bridge.read()
        agent.call("query_history")
        ended = eventually(lambda: recorded("command.decided"))
        assert [(one["approval_id"], one["state"], one["by"]) for one in ended] == [
            (asked["approval_id"], "expired", "server_stopped")
        ]
        with control(home) as client:
            assert client.call("approvals")["items"] == []
        assert not (home / "made").exists()
