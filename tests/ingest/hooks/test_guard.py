"""The guard for agents' own tools at the level of hooks: a real daemon, the real sandbox, a shell as clients use it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from shiftlog.text.guarded_command import unwrapped, wrapped
from tests.daemon.support import DEADLINE_S, control, environment, eventually
from tests.ingest.hooks.test_turn_checkpoints import SESSION, Client

POLICY = '[policy]\ndeny = ["curl"]\nask = ["rm"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "sub").mkdir(parents=True)
    return path


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A directory that the sandbox neither replaces nor lets be written."""
    path = Path.home() / f".shiftlog-test-{os.getpid()}"
    path.mkdir(exist_ok=True)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


def guarded(home: Path, project: Path, mode: str, agent: str = "claude", policy: str = POLICY, **more: str) -> Client:
    """Return a client at work, whose guard was switched on before."""
    (home / "config.toml").write_text(policy)
    client = Client(home=home, project=project, agent=agent)
    client.shiftlog("guard", "on", "--mode", mode, "--agent", agent, *(f"--{k}={v}" for k, v in more.items()))
    client.begins()
    client.hook("UserPromptSubmit", prompt="go", **({"turn_id": "t"} if agent == "codex" else {}))
    return client


def before(client: Client, tool: str = "Bash", call: str = "toolu_1", **given: Any) -> dict[str, Any]:
    """Return what the client is told before a tool call."""
    out = client.hook("PreToolUse", tool_name=tool, tool_use_id=call, tool_input=given)
    return json.loads(out)["hookSpecificOutput"] if out else {}


def rewritten(client: Client, command: str, call: str = "toolu_1") -> str:
    return str(before(client, command=command, call=call)["updatedInput"]["command"])


def run(
    client: Client, command: str, env: Mapping[str, str] | None = None, stdin: str = "", call: str = "toolu_1"
) -> "subprocess.CompletedProcess[str]":
    """Run a command as a client does: rewritten, in a shell of the client's that then tells its directory."""
    return subprocess.run(
        ["bash", "-c", f"eval {_quoted(rewritten(client, command, call))}; s=$?; pwd >&2; exit $s"],
        cwd=client.project, env={**environment(client.home), **(env or {})}, input=stdin, capture_output=True,
        text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def notes(client: Client) -> list[dict[str, Any]]:
    return [entry["body"] for entry in client.entries("import.noted") if entry["body"].get("guard")]


def test_an_enforced_command_keeps_status_streams_directory_environment_and_input(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    done = run(client, 'cat; echo "$MINE"; echo err >&2; cd sub; exit 3', env={"MINE": "a b"}, stdin="in\n")
    assert (done.returncode, done.stdout) == (3, "in\na b\n")
    assert done.stderr == f"err\n{project}/sub\n"
    again = run(client, "pwd; kill -9 $$")
    assert (again.returncode, again.stdout) == (137, f"{project}\n")
    big = run(client, "head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(big.stdout) == 3_000_000
    (started, *_), (finished, *_) = client.entries("command.started"), client.entries("command.finished")
    assert started["body"]["tool_use_id"] == finished["body"]["tool_use_id"] == "toolu_1"
    assert finished["body"]["exit_code"] == 3
    assert [Path(one["path"]).name for one in finished["body"]["programs"]] == ["cat"]


def test_errors_of_bash_quote_the_command_alone_and_a_trap_of_its_own_keeps_the_directory(
    home: Path, project: Path
) -> None:
    client = guarded(home, project, "enforce")
    wrong = run(client, "echo $LINENO $# $0\nif then")
    assert (wrong.stdout, wrong.returncode) == ("1 0 bash\n", 2)
    assert wrong.stderr.splitlines()[:-1] == [
        "bash: eval: line 2: syntax error near unexpected token `then'",
        "bash: eval: line 2: `if then'",
    ]
    trapped = run(client, "trap 'echo bye; exit 5' EXIT; cd sub; (exit 2)")
    assert (trapped.stdout, trapped.returncode, trapped.stderr) == ("bye\n", 5, f"{project}/sub\n")


def test_an_enforced_command_has_the_definitions_of_the_clients_shell_and_the_kernel_judges_them(
    home: Path, project: Path
) -> None:
    """Claude Code runs commands with what the user's start files define, for example nvm or conda."""
    client = guarded(home, project, "enforce")
    start = "shopt -s expand_aliases globstar; alias shout='echo LOUD'; greet() { echo \"hi $1\"; sed -n 1p; }\n"
    start += 'cd() { builtin cd "$@" && echo "in $1"; }; fetch() { curl --version; }\n'
    start += "eval \"many() { : $(head -c 200000 /dev/zero | tr '\\0' x); }\"\n"  # more than a pipe holds
    command = "shout a; greet b; cd sub; shopt globstar; fetch; [[ -e /dev/fd/197 ]] || echo closed"
    text = f"{start}eval {_quoted(rewritten(client, command))}; pwd"
    done = subprocess.run(
        ["bash", "-c", text], cwd=project, env=environment(home), input="a line\n", capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    said = ["LOUD a", "hi b", "a line", "in sub", "globstar       \ton", "closed", f"{project}/sub"]
    assert done.stdout.splitlines() == said, done.stderr
    assert "'curl' is denylisted" in done.stderr
    assert "function" not in done.stderr


def test_the_kernel_refuses_what_the_text_hides_and_the_agent_sees_why(
    home: Path, project: Path, outside: Path
) -> None:
    client = guarded(home, project, "enforce")
    done = run(client, "x=curl; $x http://localhost/")
    assert done.returncode == 126
    assert "shiftlog: blocked by operator policy: 'curl' is denylisted\n" in done.stderr
    verdicts = {one["verdict"] for one in client.entries("command.finished")[-1]["body"]["programs"]}
    assert verdicts != {"allow"}
    assert run(client, f"echo x > {outside}/a; echo y > inside").returncode == 0
    assert not (outside / "a").exists()
    assert (project / "inside").read_text() == "y\n"
    assert run(client, f"{sys.executable} -c 'import os; os.kill({os.getppid()}, 0)'").returncode != 0


def test_an_enforced_command_that_the_policy_asks_about_runs_once_it_is_approved(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    (project / "gone").write_text("x")
    answer = before(client, command="rm gone")
    assert answer["permissionDecision"] == "ask"
    assert answer["permissionDecisionReason"] == "Shiftlog: needs approval: 'rm' (rule: ask rm)"
    subprocess.run(["sh", "-c", answer["updatedInput"]["command"]], cwd=project, check=True)
    assert not (project / "gone").exists()
    done = subprocess.run(
        ["sh", "-c", answer["updatedInput"]["command"]], cwd=project, capture_output=True, check=False
    )
    assert done.returncode == 126
    assert b"has run already" in done.stderr


def test_a_client_that_ends_its_command_ends_the_whole_tree(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    nap = f"sleep 1000.{os.getpid()}"  # told from those of other tests
    text = rewritten(client, f"(setsid {nap} &); {nap} & wait")
    shell = subprocess.Popen(["bash", "-c", text], cwd=project, env=environment(home), start_new_session=True)
    eventually(lambda: len(_running(nap)) == 2 or None)
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    eventually(lambda: not _running(nap) or None)


def _running(line: str) -> set[int]:
    found = subprocess.run(["pgrep", "-xf", line], capture_output=True, text=True, check=False).stdout
    return {int(pid) for pid in found.split()}


def test_what_a_command_leaves_in_the_background_goes_on_under_the_same_rules(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    late = "c=curl; (sleep 0.5; $c x 2> refused; echo ok > late) > /dev/null 2>&1 &"
    assert run(client, late).returncode == 0
    eventually(lambda: (project / "late").exists() or None)
    assert "ermission denied" in (project / "refused").read_text()


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_that_dies_while_a_command_runs_ends_it_with_an_error_and_the_next_call_works(
    home: Path, project: Path, way: signal.Signals
) -> None:
    client = guarded(home, project, "enforce")
    text = rewritten(client, "echo $$ > running; sleep 60")
    shell = subprocess.Popen(
        ["bash", "-c", text], cwd=project, env=environment(home), stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: (project / "running").exists() or None)
    with control(home) as daemon:
        pid = daemon.daemon_pid
    killed = time.monotonic()
    os.kill(pid, way)
    _, said = shell.communicate(timeout=DEADLINE_S)
    assert time.monotonic() - killed < 20  # 5 s on a machine that is not busy
    assert shell.returncode == 126
    assert "daemon ended while the command ran" in said
    assert eventually(lambda: before(client, command="true").get("updatedInput"))
    assert eventually(lambda: run(client, "echo again", call="toolu_2").stdout) == "again\n"
    (left, again) = eventually(lambda: (len(ends := client.entries("command.finished")) == 2 and ends) or None)
    assert (left["body"]["tool_use_id"], left["body"]["state"]) == ("toolu_1", "unknown")
    assert left["body"].get("exit_code") is None
    assert left["body"]["command"].startswith("echo $$ > running")
    assert "the daemon ended while it ran" in left["body"].get("hint", "the daemon ended while it ran")
    started, _ = client.entries("command.started")
    assert (left["request_id"], again["body"]["exit_code"]) == (started["request_id"], 0)


@pytest.mark.parametrize("mode", ["ask", "enforce"])
def test_denied_commands_and_files_outside_are_refused_with_the_rule(
    home: Path, project: Path, outside: Path, mode: str
) -> None:
    client = guarded(home, project, mode)
    refused = before(client, command="curl x")
    assert refused["permissionDecision"] == "deny"
    assert refused["permissionDecisionReason"].endswith("'curl' is denylisted (rule: deny curl)")
    (project / "link").symlink_to(outside)
    for path in (
        outside / "a",
        project / "link" / "a",
        Path("../x"),
        home / "guard.json",
        project / ".claude/settings.json",
    ):
        told = before(client, "Write", file_path=str(path), content="x")
        assert told["permissionDecision"] == "deny", path
    assert before(client, "Edit", file_path=str(project / "new" / "a.py"), old_string="", new_string="") == {}
    assert before(client, "NotebookEdit", notebook_path=str(outside / "n.ipynb"))["permissionDecision"] == "deny"
    said = [(note["guard"], note["tool"]) for note in notes(client)]
    assert said == [("denied", "Bash"), *[("denied", "Write")] * 5, ("denied", "NotebookEdit")]


def test_in_ask_mode_the_client_asks_and_nothing_is_rewritten(home: Path, project: Path) -> None:
    client = guarded(home, project, "ask")
    asked = before(client, command="rm -rf build")
    assert (asked["permissionDecision"], "updatedInput" in asked) == ("ask", False)
    assert before(client, command="echo fine") == {}
    undecided = before(client, command="$x")
    assert undecided["permissionDecision"] == "ask"


def test_codex_gets_a_refusal_where_it_would_not_ask_and_a_permission_with_what_is_rewritten(
    home: Path, project: Path
) -> None:
    client = guarded(home, project, "enforce", agent="codex")
    assert before(client, command="rm x")["permissionDecision"] == "deny"
    answer = before(client, command="echo hi")
    assert answer["permissionDecision"] == "allow"
    assert list(answer["updatedInput"]) == ["command"]
    patch = "*** Begin Patch\n*** Add File: ../../etc/x\n+a\n*** End Patch"
    assert before(client, "apply_patch", command=patch)["permissionDecision"] == "deny"


def test_watch_changes_nothing_and_records_what_the_policy_would_say(home: Path, project: Path) -> None:
    client = guarded(home, project, "watch")
    for command in ("echo hi", "curl x", "rm x"):
        assert before(client, command=command) == {}
    assert [note["guard"] for note in notes(client)] == ["allow", "would_deny", "would_ask"]


@pytest.mark.parametrize(("mode", "decision"), [("watch", None), ("ask", "ask"), ("enforce", "deny")])
def test_without_a_daemon_each_mode_does_what_it_promises(
    home: Path, project: Path, mode: str, decision: str | None
) -> None:
    client = guarded(home, project, mode)
    client.shiftlog("daemon", "stop")
    (home / "config.toml").write_text("broken = [")  # no daemon can start
    told = before(client, command="true")
    assert told.get("permissionDecision") == decision
    if decision:
        assert "shiftlog guard off" in told["permissionDecisionReason"]
    # Our own tools start the daemon or say why they cannot; the guard judges no MCP tools.
    assert before(client, "mcp__plugin_shiftlog_shiftlog__run_command", command="true") == {}
    assert "was started by an agent" in client.shiftlog("guard", "off", status=None, CLAUDECODE="1").err
    assert "switched off without it" in client.shiftlog("guard", "off").err
    assert before(client, command="true") == {}


def test_a_program_that_is_gone_closes_the_gate_in_enforce_mode_alone(home: Path, tmp_path: Path) -> None:
    from shiftlog.cli.setup.plugin_files import hook_groups

    groups = hook_groups("claude", str(tmp_path / "gone"), state=str(home))
    command = groups["PreToolUse"][0]["hooks"][0]["command"]

    def ended() -> int:
        return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode

    client = Client(home=home, project=tmp_path)
    assert ended() == 0
    client.shiftlog("guard", "on", "--agent", "claude", "--mode", "enforce")
    assert ended() == 2
    of_our_tools = groups["PreToolUse"][1]
    assert "open_session" in of_our_tools["matcher"]
    assert "guard.claude" not in of_our_tools["hooks"][0]["command"]
    client.shiftlog("guard", "on", "--agent", "claude", "--mode", "ask")
    assert ended() == 0


def test_nothing_that_an_agent_started_switches_the_guard(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    said = client.shiftlog("guard", "off", status=None)  # this process is the agent, as its hooks tell
    assert "was started by an agent" in said.err
    inside = run(client, f"{sys.executable} -m shiftlog guard off")
    assert inside.returncode != 0
    assert client.shiftlog("guard", "--json").json()["agents"][0]["mode"] == "enforce"


def test_an_agents_environment_gives_it_away(home: Path, project: Path) -> None:
    client = Client(home=home, project=project)
    client.shiftlog("guard", "on", "--mode", "ask")
    done = subprocess.run(
        [sys.executable, "-m", "shiftlog", "guard", "off"],
        env=environment(home, CLAUDECODE="1"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "was started by an agent" in done.stderr


def test_settings_of_hooks_that_change_are_reported_at_the_next_event(home: Path, project: Path) -> None:
    client = guarded(home, project, "ask")
    (project / ".claude").mkdir()
    settings = project / ".claude" / "settings.local.json"
    settings.write_text('{"permissions": {}}')
    assert client.hook("PreToolUse", tool_name="Bash", tool_use_id="t1", tool_input={"command": "true"}) == ""
    settings.write_text('{"disableAllHooks": true}')
    told = json.loads(client.hook("PreToolUse", tool_name="Bash", tool_use_id="t2", tool_input={"command": "true"}))
    assert str(settings) in told["systemMessage"]
    assert [(note["guard"], note["path"]) for note in notes(client)] == [("guard_changed", str(settings))]
    assert client.hook("PreToolUse", tool_name="Bash", tool_use_id="t3", tool_input={"command": "true"}) == ""


@pytest.mark.parametrize("text", ["true", "echo 'a b' \"c\"; x='it''s'", "cat <<'E'\nl1\n'q'\nE\n", "a;b #c", ""])
def test_a_rewritten_command_says_what_it_stands_for(text: str) -> None:
    assert unwrapped(wrapped(text, ["/usr/bin/python3", "runner", "token"])) == text
    assert unwrapped(text) == text


def test_a_call_that_was_rewritten_is_recorded_as_it_was_called(home: Path, project: Path) -> None:
    client = guarded(home, project, "enforce")
    text = rewritten(client, "echo hi")
    client.hook(
        "PostToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": text},
        tool_response={"stdout": "hi\n", "stderr": ""},
    )  # fmt: skip
    client.stop()
    client.shiftlog("checkpoints")
    shown = client.shiftlog("show", SESSION).out
    assert "echo hi" in shown
    assert "shiftlog-guard" not in shown
