"""`status`, `daemon`, `serve` and `mcp`: the daemon as a person meets it."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from shiftlog.model.ids import short_id
from tests.cli.support import PROGRAM, on_terminal, shiftlog, write
from tests.daemon.support import DEADLINE_S, INITIALIZE, INITIALIZED, Bridge, environment, lock_holder


def test_status_starts_the_daemon_and_tells_where_everything_is(home: Path) -> None:
    shown = shiftlog(home, "status").out
    assert f"home      {home}\n" in shown
    assert f"socket    {home}/daemon.sock\n" in shown
    assert f"daemon    running  pid {lock_holder(home)}, " in shown
    assert "http      off" in shown
    assert "record    0 sessions (0 open), 0 turns, 0 entries, " in shown
    facts = shiftlog(home, "status", "--json").json()
    assert facts["pid"] == lock_holder(home)
    assert facts["sessions"] == 0


def test_status_lists_open_sessions(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    name = write(home, "open_session", agent="Tester", title="At work")["session_id"]
    shown = shiftlog(home, "status").out
    assert "1 session (1 open)" in shown
    assert re.search(rf"At work +Tester +0 +\d+ s ago  {short_id(name)}", shown)
    assert max(map(len, on_terminal(home, "status", width=70).plain.splitlines())) <= 70


def test_status_counts_connected_agents(home: Path) -> None:
    with Bridge(home) as bridge:
        bridge.shake_hands()
        assert "agents    1 MCP client connected" in shiftlog(home, "status").out
        assert f", pid {bridge.pid}, " in shiftlog(home, "daemon", "status").out


def test_the_daemon_is_started_looked_at_and_stopped(home: Path) -> None:
    done = shiftlog(home, "daemon", "status", status=1)
    assert done.out == f"No daemon is running for {home}.\n"
    assert lock_holder(home) is None
    assert shiftlog(home, "daemon", "status", "--json", status=1).json()["running"] is False
    started = shiftlog(home, "daemon", "start").out
    pid = lock_holder(home)
    assert started == f"Started the daemon (pid {pid}) for {home}\n"
    assert shiftlog(home, "daemon", "start").out == f"The daemon runs already (pid {pid}) for {home}\n"
    assert shiftlog(home, "daemon", "start", "--json").json()["started"] is False
    assert shiftlog(home, "daemon", "status", "--json").json()["pid"] == pid
    assert shiftlog(home, "daemon", "stop").out == f"Stopped the daemon (pid {pid}).\n"
    assert lock_holder(home) is None
    assert shiftlog(home, "daemon", "stop").out == "No daemon was running.\n"
    stopped = {"stopped": False, "pid": None, "ended": False, "held_shells": 0}
    assert shiftlog(home, "daemon", "stop", "--json").json() == stopped


@pytest.mark.long
def test_a_daemon_that_hangs_is_ended(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    pid = lock_holder(home)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert shiftlog(home, "daemon", "stop").out == f"The daemon (pid {pid}) did not answer and was ended.\n"
    assert lock_holder(home) is None
    assert "Started the daemon" in shiftlog(home, "daemon", "start").out


def post(url: str, token: str) -> int:
    request = urllib.request.Request(
        url,
        json.dumps(INITIALIZE).encode(),
        {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_serving_takes_over_from_the_daemon_and_ends_with_ctrl_c(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    before = lock_holder(home)
    command = [*PROGRAM, "serve", "--port", "0"]
    with Bridge(home) as bridge:
        bridge.shake_hands()
        with subprocess.Popen(
            command, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as serving:
            assert serving.stdout is not None
            assert serving.stderr is not None
            try:
                url = serving.stdout.readline().split()[-1]
                assert f"{home}/http.token" in serving.stdout.readline()
                token = (home / "http.token").read_text().strip()
                assert (home / "http.token").stat().st_mode & 0o777 == 0o600
                assert post(url, token) == 200
                assert post(url, "wrong") == 401
                assert f"http      {url}\n" in shiftlog(home, "status").out
                assert bridge.request(1, "tools/list")["result"]["tools"]
                assert lock_holder(home) == serving.pid
                serving.send_signal(signal.SIGINT)
                assert serving.wait(DEADLINE_S) == 0
                said = serving.stderr.read()
            finally:
                serving.kill()
    assert f"The daemon with pid {before} made way." in said
    assert "Traceback" not in said


def test_serving_takes_the_port_over_on_which_the_daemon_shows_its_page(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    (home / "config.toml").write_text(f"[http]\nport = {port}\n")
    assert f"http://127.0.0.1:{port}/" in shiftlog(home, "open", "--print").out
    with subprocess.Popen(
        [*PROGRAM, "serve"], env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as serving:
        assert serving.stdout is not None
        try:
            assert serving.stdout.readline().split()[-1] == f"http://127.0.0.1:{port}/mcp"
        finally:
            serving.kill()


def test_serving_other_machines_is_refused(home: Path) -> None:
    done = shiftlog(home, "serve", "--host", "0.0.0.0", status=2)
    assert "'0.0.0.0' is not a loopback address" in done.err
    assert "shiftlog server serves a team" in done.err
    (home / "config.toml").write_text('[http]\nhost = "192.168.1.1"\n')
    assert "shiftlog server serves a team" in shiftlog(home, "serve", status=2).err


def test_serving_on_a_port_that_is_taken_is_refused_and_leaves_the_daemon_alone(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    before = lock_holder(home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shiftlog(home, "serve", "--port", port, status=1)
    assert f"Cannot listen on 127.0.0.1 port {port}: Address already in use" in done.err
    assert "--port" in done.err
    assert lock_holder(home) == before


def spoken(*messages: dict[str, object]) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


def test_an_agent_can_be_served_in_one_process(home: Path) -> None:
    call = {"name": "open_session", "arguments": {"agent": "Tester", "title": "Alone"}}
    asked = spoken(
        INITIALIZE,
        INITIALIZED,
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    done = shiftlog(home, "mcp", "--in-process", stdin=asked)
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, done.out.splitlines())}
    assert answers[1]["structuredContent"]["state"] == "open"
    assert "begin_turn" in {tool["name"] for tool in answers[2]["tools"]}
    assert lock_holder(home) is None
    assert not (home / "daemon.sock").exists()
    assert "Alone" in shiftlog(home, "sessions").out


def test_the_flags_of_mcp_choose_the_tools_in_one_process_too(home: Path) -> None:
    asked = spoken(INITIALIZE, INITIALIZED, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    done = shiftlog(home, "mcp", "--in-process", "--read-only", stdin=asked)
    answers = [json.loads(line) for line in done.out.splitlines()]
    names = {tool["name"] for tool in answers[-1]["result"]["tools"]}
    assert names == {"query_history", "read_output", "list_shells", "list_checkpoints", "diff_checkpoint"}
    done = shiftlog(home, "mcp", "--in-process", "--toolsets", "jurnal", status=2)
    assert "did you mean 'journal'?" in done.err


def test_the_bridge_explains_itself(home: Path) -> None:
    assert "--in-process" in shiftlog(home, "mcp", "--help").out
    assert "No such option" in shiftlog(home, "mcp", "--bogus", status=2).err
