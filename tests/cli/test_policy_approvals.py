"""`approvals` and `approve`: a person decides, from outside every shell, and the command goes on or does not."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agent import agent
from tests.cli.support import PROGRAM, Terminal, on_terminal, shiftlog
from tests.daemon.support import control, end_daemon, eventually


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give a state directory whose policy asks before `touch`."""
    path = tmp_path_factory.mktemp("asking")
    (path / "config.toml").write_text('[policy]\nask = ["touch"]\n')
    (path / "config.toml").chmod(0o600)
    shiftlog(path, "daemon", "start")
    yield path
    end_daemon(path)


def waiting(home: Path) -> list[dict[str, Any]]:
    with control(home) as client:
        return client.call("approvals")["items"]


def test_an_agent_goes_on_when_a_person_approves(asking: Path, tmp_path: Path) -> None:
    assert shiftlog(asking, "approvals").out == "Nothing waits for approval.\n"
    with agent(asking) as client:
        shell_id = client.call("open_shell", cwd=str(tmp_path))["shell_id"]
        call = client.begin("run_command", shell_id=shell_id, command="touch wanted")
        [question] = eventually(lambda: waiting(asking))
        listed = shiftlog(asking, "approvals").out
        assert f"{question['approval_id']}" in listed
        assert "touch wanted" in listed
        assert "in 9 min" in listed
        done = shiftlog(asking, "approve", question["approval_id"][:4])
        assert done.out.startswith("granted  touch wanted\n")
        answer = client.answer(call)
        assert (answer["exit_code"], answer["verdict"]) == (0, "asked")
        assert (tmp_path / "wanted").exists()
        again = shiftlog(asking, "approve", question["approval_id"], status=2)
        assert "may have been answered" in again.err
        assert "shiftlog approvals lists those that are open" in again.err
        client.call("close_shell", shell_id=shell_id)


def test_a_command_that_waits_is_shown_whole_on_a_terminal_of_any_width(asking: Path, tmp_path: Path) -> None:
    command = "touch " + " ".join(f"harmless-{n}" for n in range(40)) + "\n\ttouch \u202ethe-end"
    with agent(asking) as client:
        shell_id = client.call("open_shell", cwd=str(tmp_path))["shell_id"]
        call = client.begin("run_command", shell_id=shell_id, command=command)
        [question] = eventually(lambda: waiting(asking))
        shown = on_terminal(asking, "approvals", width=60).plain
        assert " ".join(command.replace("\u202e", "<U+202E>").split()) in " ".join(shown.split())
        shiftlog(asking, "approve", question["approval_id"], "--decline")
        client.answer(call)
        client.call("close_shell", shell_id=shell_id)


def test_a_declined_command_never_runs(asking: Path, tmp_path: Path) -> None:
    with agent(asking) as client:
        shell_id = client.call("open_shell", cwd=str(tmp_path))["shell_id"]
        call = client.begin("run_command", shell_id=shell_id, command="touch unwanted")
        [question] = eventually(lambda: waiting(asking))
        assert (question["command"], question["entry"]) == ("touch unwanted", "touch")
        decided = shiftlog(asking, "approve", question["approval_id"], "--decline", "--json").json()
        assert decided["state"] == "declined"
        assert client.answer(call)["error"]["code"] == "approval_declined"
        client.call("close_shell", shell_id=shell_id)
    assert not (tmp_path / "unwanted").exists()
    shown = shiftlog(asking, "replay", "last").out
    assert f"needs approval: touch unwanted  (shiftlog approve {question['approval_id']})" in shown
    assert "declined by operator: touch unwanted" in shown


def test_nothing_inside_a_shell_can_approve(asking: Path, tmp_path: Path) -> None:
    with agent(asking) as client:
        first, second = (client.call("open_shell", cwd=str(tmp_path), env={"H": str(asking)}) for _ in range(2))
        call = client.begin("run_command", shell_id=first["shell_id"], command="touch sneaky")
        [question] = eventually(lambda: waiting(asking))
        program = f"SHIFTLOG_HOME=$H {PROGRAM[0]} -c '{PROGRAM[2]}' approve {question['approval_id']}"
        result = client.call("run_command", shell_id=second["shell_id"], command=program)
        assert result["exit_code"] == 1
        assert "Only an operator may ask for approve" in result["stderr"]
        assert waiting(asking) == [question]
        assert not (tmp_path / "sneaky").exists()
        shiftlog(asking, "approve", question["approval_id"], "--decline")
        client.answer(call)


@pytest.mark.parametrize(("key", "status", "made"), [("y", 0, True), ("n", 126, False)])
def test_exec_asks_the_person_at_the_terminal(asking: Path, tmp_path: Path, key: str, status: int, made: bool) -> None:
    with Terminal(asking, "exec", "--cwd", str(tmp_path), "--", "touch f") as terminal:
        terminal.wait_for("The policy asks before 'touch' is run:\n  touch f\nRun it? [y/N]: ")
        terminal.press(f"{key}\n")
        assert terminal.end() == status
    assert (tmp_path / "f").exists() == made
