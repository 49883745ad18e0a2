"""`--policy-file` and execkit's variables given to one client of a shared daemon: they hold, or it is not served."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PROGRAM, shiftlog
from tests.daemon.support import INITIALIZE, Bridge, lock_holder


def policy(path: Path, **keys: object) -> str:
    path.write_text(json.dumps(keys))
    return str(path)


def run(bridge: Bridge, command: str) -> dict[str, Any]:
    """Open a shell, run a command in it and return the result."""
    bridge.shake_hands()
    opened = bridge.request(1, "tools/call", name="open_shell", arguments={})["result"]["structuredContent"]
    arguments = {"shell_id": opened["shell_id"], "command": command}
    return bridge.request(2, "tools/call", name="run_command", arguments=arguments)["result"]


def refusal(bridge: Bridge) -> dict[str, Any]:
    bridge.send(INITIALIZE)
    return bridge.read()["error"]


def test_a_policy_file_holds_in_the_daemon_that_its_client_starts(home: Path, tmp_path: Path) -> None:
    with Bridge(home, "--policy-file", policy(tmp_path / "p.json", deny=["ls"])) as bridge:
        result = run(bridge, "ls /")
    assert result["structuredContent"]["error"]["message"].startswith("blocked by operator policy:")


def test_a_relative_policy_file_is_the_one_of_the_client(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(tmp_path / "p.json", deny=["ls"])
    monkeypatch.chdir(tmp_path)
    with Bridge(home, "--policy-file=p.json") as bridge:
        assert run(bridge, "ls /")["isError"]


def test_a_client_is_not_served_by_a_daemon_that_does_not_hold_its_policy(home: Path, tmp_path: Path) -> None:
    shiftlog(home, "daemon", "start")
    given = policy(tmp_path / "p.json", deny=["ls"], sandbox_max="workspace-write")
    with Bridge(home, "--policy-file", given) as bridge:
        error = refusal(bridge)
    assert f"does not hold the policy of {given}: deny, sandbox_max" in error["message"]
    assert "policy_file in config.toml" in error["data"]["hint"]
    with Bridge(home, SHIFTLOG_POLICY_FILE=given) as bridge:
        assert given in refusal(bridge)["message"]
    with Bridge(home) as bridge:
        assert "result" in bridge.shake_hands()


def test_a_policy_that_asks_for_no_more_than_the_operators_is_served(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text('[policy]\ndeny = ["ls", "curl"]\nlimits = { shells = 4 }\n')
    shiftlog(home, "daemon", "start")
    looser = policy(tmp_path / "p.json", deny=["ls"], dangerous="off", sandbox_max="full-access", limits={"shells": 9})
    with Bridge(home, "--policy-file", looser) as bridge:
        assert run(bridge, "curl x")["isError"]


def test_all_policy_files_hold_at_once(home: Path, tmp_path: Path) -> None:
    one, other = policy(tmp_path / "1.json", deny=["ls"]), policy(tmp_path / "2.json", deny=["cat"])
    third = policy(tmp_path / "3.json", deny=["id"])
    (home / "config.toml").write_text(f'policy_file = "{third}"\n')
    with Bridge(home, "--policy-file", one, SHIFTLOG_POLICY_FILE=other) as bridge:
        bridge.shake_hands()
        opened = bridge.request(1, "tools/call", name="open_shell", arguments={})["result"]["structuredContent"]
        for number, command in enumerate(("ls", "cat x", "id")):
            arguments = {"shell_id": opened["shell_id"], "command": command}
            assert bridge.request(f"c{number}", "tools/call", name="run_command", arguments=arguments)["result"][
                "isError"
            ]


@pytest.mark.parametrize("started", [False, True])
def test_a_policy_file_with_an_unknown_key_is_named_whoever_starts(home: Path, tmp_path: Path, started: bool) -> None:
    """Case 40, for a client's own file."""
    if started:
        shiftlog(home, "daemon", "start")
    with Bridge(home, "--policy-file", policy(tmp_path / "p.json", alow=["git"])) as bridge:
        assert "alow" in refusal(bridge)["message"]


def test_a_policy_file_with_a_key_that_stands_there_twice_is_refused(home: Path, tmp_path: Path) -> None:
    given = tmp_path / "p.json"
    given.write_text('{"deny": ["ls"], "deny": ["cat"]}')
    with Bridge(home, "--policy-file", str(given)) as bridge:
        assert f"{given}: not valid JSON: the key 'deny' stands there twice" in refusal(bridge)["message"]


def test_variables_of_execkit_hold_or_their_client_is_not_served(home: Path, tmp_path: Path) -> None:
    given = policy(tmp_path / "p.json", deny=["ls"])
    with Bridge(home, EXECKIT_MCP_POLICY_FILE=given, EXECKIT_MCP_MAX_SESSIONS="1") as bridge:
        assert run(bridge, "ls /")["isError"]
        full = bridge.request(3, "tools/call", name="open_shell", arguments={})["result"]["structuredContent"]
        assert full["error"]["code"] == "shell_limit"
    with Bridge(home, EXECKIT_MCP_POLICY_FILE=given, EXECKIT_MCP_MAX_SESSIONS="64") as bridge:
        assert "result" in bridge.shake_hands()
    with Bridge(home, EXECKIT_MCP_SESSION_TTL="5") as bridge:
        assert "does not hold the policy of EXECKIT_MCP_*: limits" in refusal(bridge)["message"]
    with Bridge(home, EXECKIT_MCP_KEY_DIR=str(tmp_path)) as bridge:
        assert "key_dir" in refusal(bridge)["message"]
    with Bridge(home, EXECKIT_MCP_INSECURE_ACCEPT_ANY_HOSTKEY="1") as bridge:
        assert "EXECKIT_MCP_INSECURE_ACCEPT_ANY_HOSTKEY" in refusal(bridge)["message"]


def test_the_time_that_execkit_gives_commands_is_each_clients_own_and_a_call_may_say_another(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    rows = [("1", None, True), ("1", 20, False), ("0", None, True), ("", None, False)]
    for number, (given, asked, cut) in enumerate(rows):
        with Bridge(home, "--dialect", "execkit", EXECKIT_MCP_EXEC_TIMEOUT=given) as bridge:
            bridge.shake_hands()
            made = bridge.request(f"m{number}", "tools/call", name="session_create", arguments={"transport": "local"})
            session_id = made["result"]["structuredContent"]["session_id"]
            arguments = {"session_id": session_id, "command": "sleep 1.5", "timeout_secs": asked}
            ran = bridge.request(f"r{number}", "tools/call", name="session_exec", arguments=arguments)
            assert ran["result"]["structuredContent"]["timed_out"] is cut, given


def test_a_server_without_the_daemon_takes_the_policy_of_its_client(home: Path, tmp_path: Path) -> None:
    shiftlog(home, "daemon", "start")
    given = policy(tmp_path / "p.json", deny=["ls"])
    with Bridge(home, "mcp", "--in-process", "--policy-file", given, program=PROGRAM) as bridge:
        assert run(bridge, "ls /")["isError"]


def test_serving_with_a_bad_policy_file_leaves_the_running_daemon_alone(home: Path, tmp_path: Path) -> None:
    shiftlog(home, "daemon", "start")
    before = lock_holder(home)
    bad = policy(tmp_path / "p.json", alow=[])
    done = shiftlog(home, "serve", "--port", "0", "--policy-file", bad, status=1)
    assert "alow" in done.err
    assert lock_holder(home) == before
