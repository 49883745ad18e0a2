"""The guard in the real clients (cases 9 to 15, 20 and 23): what docs/guard.md says was tried."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, bodies, ended
from tests.clients.script import Call, Request, Scripted, Step, calls, says
from tests.clients.tools import HOOKED, shell, write
from tests.daemon.support import eventually

POLICY = '[policy]\ndeny = ["curl"]\nask = ["rm"]\n'


def switch_on(harness: ClientHarness, agent: str, mode: str) -> None:
    (harness.state / "config.toml").write_text(POLICY)
    harness.shiftlog("daemon", "stop", check=False)
    harness.shiftlog("guard", "on", "--agent", agent, "--mode", mode)


def results(harness: ClientHarness, agent: str, *steps: Scripted) -> list[str]:
    """Run tool calls in a client and return what the model was told of each."""
    harness.script.on("Go", *steps, says("Done."))
    done = harness.run(agent, "Go")
    assert done.code == 0, done.out + done.err
    return harness.script.told("Go")[-1].results


def bash(command: str, **more: Any) -> Scripted:
    return calls("Bash", command=command, **more)


def notes(harness: ClientHarness) -> list[dict[str, Any]]:
    return [body for body in bodies(harness, "import.noted") if body.get("guard")]


@tries("sandbox")
def test_claude_enforce_keeps_its_promises_and_the_kernel_holds(claude: ClientHarness, outside: Path) -> None:
    """Cases 9 and 10."""
    (claude.work / "sub").mkdir()
    switch_on(claude, "claude", "enforce")
    hidden, written, _, where, status, streams = results(
        claude, "claude",
        bash("x=curl; $x http://localhost/"),
        bash(f"echo x > {outside}"),
        bash("cd sub"),
        bash("pwd"),
        bash("exit 3"),
        bash("echo out; echo err >&2"),
    )  # fmt: skip
    assert "'curl' is denylisted" in hidden
    assert "Read-only file system" in written or "ermission denied" in written
    assert not outside.exists()
    assert where.strip().splitlines()[0] == str(claude.work / "sub")
    assert status.startswith("Exit code 3")
    assert {"out", "err"} <= set(streams.split())
    commands = bodies(claude, "command.finished")
    assert [body["exit_code"] for body in commands] == [126, 1, 0, 0, 3, 0]
    assert all(body["tool_use_id"].startswith("toolu_") for body in commands)


@tries("sandbox")
def test_claude_enforce_ends_the_tree_at_the_clients_time_limit(claude: ClientHarness) -> None:
    """Case 10."""
    switch_on(claude, "claude", "enforce")
    nap = f"sleep 60.{os.getpid()}"
    (said,) = results(claude, "claude", bash(f"echo begun; {nap} & {nap}; wait", timeout=3000))
    assert "timed out" in said or "imeout" in said or "143" in said, said
    eventually(lambda: not running(nap) or None)


def running(line: str) -> list[str]:
    """Return the processes that run this command line."""
    words = line.encode().replace(b" ", b"\0") + b"\0"
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == words:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@tries("sandbox")
def test_claude_enforce_runs_background_commands_whose_output_is_read_later(claude: ClientHarness) -> None:
    """Case 11."""
    switch_on(claude, "claude", "enforce")

    def read_output(request: Request) -> Step:
        (path,) = re.findall(r"/\S+\.output", request.results[0])
        return calls("Read", file_path=path)

    command = "for n in 1 2 3; do echo line $n; sleep 0.3; done"
    told = results(claude, "claude", bash(command, run_in_background=True), bash("sleep 5; true"), read_output)
    assert "line 3" in told[-1], told
    eventually(lambda: len(bodies(claude, "command.finished")) == 2 or None)


@tries("ask about commands")
def test_claude_asks_and_headless_refuses_with_our_reason(claude: ClientHarness) -> None:
    """Case 12."""
    (claude.work / "build").mkdir()
    switch_on(claude, "claude", "ask")
    asked, denied, wrote = results(
        claude, "claude", bash("rm -rf build"), bash("curl x"),
        calls("Write", file_path=str(claude.home / "x.txt"), content="x"),
    )  # fmt: skip
    assert "needs approval: 'rm'" in asked
    assert (claude.work / "build").exists()
    assert "'curl' is denylisted (rule: deny curl)" in denied
    assert "outside of the workspace" in wrote
    assert not (claude.home / "x.txt").exists()


@tries("refuse files")
@pytest.mark.parametrize("mode", ["ask", "enforce"])
def test_file_tools_of_claude_are_refused_outside_of_the_workspace(claude: ClientHarness, mode: str) -> None:
    notebook, text, new = claude.home / "n.ipynb", claude.home / "t.txt", claude.home / "new.txt"
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c1",
        "source": "1",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    notebook.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    text.write_text("old\n")
    before = notebook.read_text()
    switch_on(claude, "claude", mode)
    told = results(
        claude, "claude",
        calls("Write", file_path=str(new), content="x"),
        calls("Read", file_path=str(text)),
        calls("Edit", file_path=str(text), old_string="old", new_string="new"),
        calls("Read", file_path=str(notebook)),
        calls("NotebookEdit", notebook_path=str(notebook), cell_id="c1", new_source="2"),
        calls("Write", file_path=str(claude.work / "in.txt"), content="x"),
    )  # fmt: skip
    for refused in (told[0], told[2], told[4]):
        assert "outside of the workspace" in refused, told
    assert (new.exists(), text.read_text(), notebook.read_text()) == (False, "old\n", before)
    assert (claude.work / "in.txt").read_text() == "x"


@tries("watch")
def test_claude_watch_changes_nothing_for_the_client(claude: ClientHarness) -> None:
    """Case 13."""
    (claude.work / "build").mkdir()
    switch_on(claude, "claude", "watch")
    (said, _) = results(claude, "claude", bash("rm -rf build; echo gone"), bash("curl --version"))
    assert said.strip() == "gone"
    assert [note["guard"] for note in notes(claude)] == ["would_ask", "would_deny"]


@tries("daemon killed")
def test_claude_gets_an_error_when_the_daemon_dies_in_mid_command_and_goes_on(claude: ClientHarness) -> None:
    """Case 14. The model waits for the new daemon: on a slow machine calls are refused until it runs."""
    switch_on(claude, "claude", "enforce")

    def until_it_runs(_: Request) -> Step:
        claude.settle()
        return calls("Bash", command="echo next")

    claude.script.on("Go", bash("touch begun; sleep 50"), until_it_runs, says("Done."))
    process = claude.start_claude("Go")
    eventually(lambda: (claude.work / "begun").exists() or None, within_s=60)
    pid = int((claude.state / "daemon.lock").read_text().split()[0])
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    done = ended(process)
    assert done.code == 0
    _, after_error, last = claude.script.told("Go")
    assert after_error.at - killed <= 5
    first, second = last.results
    assert "daemon ended while the command ran" in first
    assert second.strip() == "next"
    (left, following) = eventually(lambda: (len(ends := bodies(claude, "command.finished")) == 2 and ends) or None)
    assert (left["state"], left["reason"]) == ("unknown", "daemon_ended")
    assert left["command"] == "touch begun; sleep 50"
    assert (following["command"], following["exit_code"]) == ("echo next", 0)


@tries("settings changed")
def test_settings_that_the_agent_edits_are_reported(claude: ClientHarness) -> None:
    """Case 15."""
    switch_on(claude, "claude", "watch")
    hooks = claude.state / "plugins" / "shiftlog" / "hooks" / "hooks.json"
    results(claude, "claude", bash(f"echo '{{}}' > {hooks}"), bash("true"))
    assert str(hooks) in [note.get("path") for note in notes(claude)]
    shown = claude.shown("guard")["agents"][0]
    assert shown["changed"] == [str(hooks)]


@tries("refuse commands")
def test_codex_obeys_as_the_table_says(codex: ClientHarness) -> None:
    """Case 20."""
    switch_on(codex, "codex", "enforce")
    outside = codex.home / "outside"
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: b.py\n+print(2)\n*** End Patch\nEOF\n"
    denied, asked, hidden, written, status, patched = results(
        codex, "codex",
        *(calls("exec_command", cmd=cmd) for cmd in (
            "curl x", "rm -rf build", "x=curl; $x y", f"echo x > {outside}", "echo out; exit 3", patch,
        )),
    )  # fmt: skip
    assert "'curl' is denylisted (rule: deny curl)" in denied
    assert "needs approval: 'rm'" in asked
    assert "blocked by operator policy" in hidden
    assert not outside.exists()
    assert "exited with code 3" in status
    assert "out" in status
    assert (codex.work / "b.py").exists() or "apply_patch" in patched
    assert written


@tries("refuse commands")
@pytest.mark.parametrize("agent", ["claude", "gemini", "opencode"])
def test_a_command_that_the_policy_denies_is_refused_and_recorded(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    switch_on(harness, agent, "ask")
    denied, ran = results(harness, agent, shell(agent, "curl x"), shell(agent, "echo ran"))
    assert "'curl' is denylisted (rule: deny curl)" in denied
    assert "ran" in ran
    assert [note["guard"] for note in notes(harness)] == ["denied"]


@tries("ask about commands")
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_a_client_without_a_prompt_is_refused_what_the_policy_asks_about(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    (harness.work / "build").mkdir()
    switch_on(harness, agent, "ask")
    (asked,) = results(harness, agent, shell(agent, "rm -rf build"))
    assert "needs approval: 'rm'" in asked
    assert "has no prompt for this" in asked
    assert (harness.work / "build").exists()


@tries("sandbox")
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_enforced_commands_keep_their_promises_and_the_kernel_holds(
    agent: str, request: pytest.FixtureRequest, outside: Path
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    (harness.work / "sub").mkdir()
    switch_on(harness, agent, "enforce")
    elsewhere = {"dir_path": "sub"} if agent == "gemini" else {"workdir": str(harness.work / "sub")}
    hidden, written, status, streams, where = results(
        harness, agent,
        shell(agent, "x=curl; $x http://localhost/"),
        shell(agent, f"echo x > {outside}"),
        shell(agent, "exit 3"),
        shell(agent, "echo out; echo err >&2"),
        shell(agent, "pwd", **elsewhere),
    )  # fmt: skip
    assert "'curl' is denylisted" in hidden
    assert "Read-only file system" in written or "ermission denied" in written
    assert not outside.exists()
    # OpenCode keeps the status beside the output.
    assert {"codex": "exited with code 3", "gemini": "Exit Code: 3", "opencode": ""}[agent] in status
    assert "out" in streams
    assert "err" in streams
    assert str(harness.work / "sub") in where
    commands = bodies(harness, "command.finished")
    assert [body["exit_code"] for body in commands] == [126, 1, 3, 0, 0]
    called = [body for body in bodies(harness, "dialog") if body.get("category") == "tool_call"]
    assert not any("shiftlog-guard" in str(body) for body in called), "the transcript shows the agent's own commands"


@tries("refuse files")
@pytest.mark.parametrize("mode", ["ask", "enforce"])
@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_file_tools_are_refused_outside_of_the_workspace(agent: str, mode: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    own = harness.work / ("." + agent) / "settings.json"
    switch_on(harness, agent, mode)
    link = harness.work / "link"
    link.symlink_to(harness.home)
    settings, linked, inside = results(
        harness, agent, write(agent, own, "{}"), write(agent, link / "x.txt", "x"),
        write(agent, harness.work / "in.txt", "x"),
    )  # fmt: skip
    assert "a setting that decides whether the guard's hooks run" in settings
    # Gemini CLI itself looks at the path before any hook.
    assert ("Path not in workspace" if agent == "gemini" else "outside of the workspace") in linked
    assert (own.exists(), (harness.home / "x.txt").exists()) == (False, False)
    assert (harness.work / "in.txt").read_text() == "x", inside


@tries("watch")
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_watching_changes_nothing_for_the_client(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    (harness.work / "build").mkdir()
    switch_on(harness, agent, "watch")
    # Codex itself refuses `rm -rf` where it may not ask.
    (said, _) = results(harness, agent, shell(agent, "rm -r build; echo gone"), shell(agent, "curl --version"))
    assert "gone" in said
    assert not (harness.work / "build").exists(), said
    assert [note["guard"] for note in notes(harness)] == ["would_ask", "would_deny"]


@tries("settings changed")
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_settings_that_an_agent_edits_by_its_shell_are_reported(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    switch_on(harness, agent, "watch")
    files = {
        "codex": ".codex/hooks.json",
        "gemini": ".gemini/settings.json",
        "opencode": ".config/opencode/plugins/shiftlog.js",
    }
    file = harness.home / files[agent]
    results(harness, agent, shell(agent, f"echo '{{}}' > {file}"), shell(agent, "true"))
    assert str(file) in [note.get("path") for note in notes(harness)]
    shown = {one["agent"]: one for one in harness.shown("guard")["agents"]}[agent]
    assert shown["changed"] == [str(file)]


OWN_FILES = {
    "claude": (".claude/settings.json", '{ "model" : "opus" }'),
    "codex": (".codex/config.toml", "model = 'x' # mine\n"),
    "gemini": (".gemini/settings.json", '{ // mine\n\t"ui": {"theme": "x",},\n}\n'),
    "opencode": (".config/opencode/opencode.jsonc", '/* mine */ { "theme" : "x" }'),
}


@tries("removal")
@pytest.mark.parametrize("agent", HOOKED)
def test_switching_and_removing_leave_the_users_files_as_they_were(agent: str, harness: ClientHarness) -> None:
    """Case 23."""
    name, content = OWN_FILES[agent]
    own = harness.home / name
    own.parent.mkdir(parents=True)
    own.write_text(content)
    harness.shiftlog("setup", agent, "--write")
    before = {path: path.read_bytes() for path in own.parent.rglob("*") if path.is_file()}
    harness.shiftlog("guard", "on", "--agent", agent)
    harness.shiftlog("guard", "off", "--agent", agent)
    assert {path: path.read_bytes() for path in own.parent.rglob("*") if path.is_file()} == before
    harness.shiftlog("setup", agent, "--remove")
    left = {path for path in own.parent.rglob("*") if path.is_file() and path.suffix != ".bak"}
    assert (left, own.read_text()) == ({own}, content)
    assert not (harness.state / "guard.json").exists()


@tries("removal")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_removing_after_guarded_work_leaves_the_users_files_as_they_were(agent: str, harness: ClientHarness) -> None:
    own = harness.home / OWN_FILES[agent][0]
    own.parent.mkdir(parents=True)
    if agent == "codex":
        harness.write_codex_config()
    else:
        own.write_text(OWN_FILES[agent][1])
    before = own.read_bytes()
    harness.shiftlog("setup", agent, "--write")
    harness.warm()
    switch_on(harness, agent, "enforce")
    (said,) = results(harness, agent, shell(agent, "echo worked"))
    assert "worked" in said
    harness.shiftlog("guard", "off", "--agent", agent)
    harness.shiftlog("setup", agent, "--remove")
    assert own.read_bytes() == before
    assert not (own.parent / "hooks.json").exists()


# A model for which Codex offers `apply_patch` as a tool of its own.
PATCHING = ("-m", "gpt-5.5")


def patch(path: Path | str) -> Step:
    text = f"*** Begin Patch\n*** Add File: {path}\n+print(1)\n*** End Patch\n"
    return Step(calls=[Call(name="apply_patch", arguments={"input": text})])


@tries("refuse files")
@pytest.mark.parametrize("mode", ["ask", "enforce"])
def test_apply_patch_of_codex_is_refused_outside_of_the_workspace(codex: ClientHarness, mode: str) -> None:
    switch_on(codex, "codex", mode)
    outside, hooks = codex.home / "x.py", codex.home / ".codex" / "hooks.json"
    before = hooks.read_bytes()
    codex.script.on("Go", patch(outside), patch(hooks), patch("in.py"), says("Done."))
    done = codex.codex("Go", *PATCHING)
    assert done.code == 0, done.out + done.err
    refused, settings, inside = codex.script.told("Go")[-1].results
    assert "outside of the workspace" in refused
    assert (outside.exists(), hooks.read_bytes()) == (False, before), settings
    assert (codex.work / "in.py").read_text() == "print(1)\n", inside


@tries("sandbox")
def test_input_to_a_running_command_of_codex_is_held_by_the_kernel(codex: ClientHarness, outside: Path) -> None:
    """Codex asks no hook about `write_stdin`: the command that reads it runs in the sandbox."""
    switch_on(codex, "codex", "enforce")

    def type_in(request: Request) -> Step:
        (number,) = re.findall(r"session ID (\d+)", request.results[-1])
        typed = f"curl --version; echo status $?; echo x > {outside}; echo wrote $?; exit\n"
        return calls("write_stdin", session_id=int(number), chars=typed, yield_time_ms=5000)

    begun = calls("exec_command", cmd="bash --norc", tty=True, yield_time_ms=1000)
    _, said = results(codex, "codex", begun, type_in)
    assert "status 126" in said, said
    assert "wrote 1" in said, said
    assert not outside.exists()
