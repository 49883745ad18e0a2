"""`shiftlog run`: the first minute, with its demo session and the live view."""

import itertools
import json
import shlex
from pathlib import Path

from shiftlog.cli.setup.agents import executable
from tests.cli.support import Terminal, shiftlog
from tests.daemon.support import lock_holder


def test_the_first_run_in_a_pipe_records_the_demo_and_says_so(home: Path) -> None:
    shown = shiftlog(home, "run").out
    assert f"State directory: {home}\n" in shown
    assert "so a demo session is recorded (--no-demo leaves it out)" in shown
    assert "✓ The agent prints a configuration file with a token in it  1 secret masked\n" in shown
    assert "show last" in shown
    assert "record    1 session (0 open), 3 turns, 30 entries" in shown
    assert lock_holder(home) is not None
    again = shiftlog(home, "run").out
    assert "demo session" not in again
    assert "record    1 session (0 open), 3 turns" in again


def test_the_receipt_of_the_demo_proves_it(home: Path, tmp_path: Path) -> None:
    shown = shiftlog(home, "run", "--demo").out
    receipt = shown[shown.index("{") : shown.index("}") + 1]
    assert json.loads(receipt)["session_id"].startswith("DemoAgent-")
    (tmp_path / "receipt.json").write_text(receipt)
    assert "1 receipt met" in shiftlog(home, "verify", "last", "--receipt", str(tmp_path / "receipt.json")).out


def test_the_commands_to_paste_start_this_very_program(home: Path) -> None:
    lines = shiftlog(home, "run", "--no-demo").out.splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith(("claude ", "codex "))]
    assert [command[0] for command in commands] == ["claude", "codex"]
    for command in commands:
        assert command[-2:] == [str(executable()), "mcp"]
        assert f"SHIFTLOG_HOME={home}" in command


def test_without_the_demo_nothing_is_recorded(home: Path) -> None:
    assert "record    0 sessions" in shiftlog(home, "run", "--no-demo").out


def test_on_a_terminal_the_first_run_asks_then_watches_until_ctrl_c(home: Path) -> None:
    with Terminal(home, "run", width=100, height=50) as terminal:
        terminal.wait_for("as an example? [Y/n]")
        terminal.press("\n")
        terminal.wait_for("1 secret masked")
        terminal.wait_for("Live, until Ctrl-C")
        terminal.wait_for("session.closed")
        terminal.interrupt()
        assert terminal.end() == 0
    assert "The daemon goes on" in terminal.plain
    assert "Traceback" not in terminal.plain
    assert lock_holder(home) is not None


def test_the_live_view_ends_when_the_daemon_is_stopped(home: Path) -> None:
    with Terminal(home, "run", "--no-demo") as terminal:
        terminal.wait_for("Live, until Ctrl-C")
        shiftlog(home, "daemon", "stop")
        assert terminal.end() == 0
    assert "The daemon was stopped." in terminal.plain


def test_each_agent_gets_one_command_that_sets_it_up_and_no_line_is_left_empty(home: Path) -> None:
    lines = shiftlog(home, "run", "--no-demo").out.splitlines()
    commands = [line.split() for line in lines if "--write" in line and line.startswith("  ")]
    assert [command[2] for command in commands] == ["claude", "codex", "cursor", "gemini", "opencode", "vscode"]
    assert all(after for line, after in itertools.pairwise(lines) if line.endswith(":"))
