"""An agent's shells write only where they were opened, and never replace what the operator laid down."""

import os
import random
import shlex
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.shell.sandbox.flipping import flipped
from tests.story import machines
from tests.story.machines import KINDS

POLICY = '[policy]\nsandbox_max = "workspace-write"\n'
TRIES = pytest.mark.parametrize("tries", [5, pytest.param(200, marks=pytest.mark.guard)])


@pytest.fixture
def ground() -> Generator[Path]:
    with machines.ground() as place:
        yield place


@KINDS
@TRIES
def test_a_workspace_that_is_flipped_while_it_opens_writes_nothing_outside(
    ground: Path, bwrap: bool, user: bool, tries: int
) -> None:
    outside = machines.give(ground / "outside", user=user)
    with machines.serving(ground, POLICY, bwrap=bwrap, user=user) as (agent, _, place):
        sub, link = machines.give(place / "sub", user=user), place / "link"
        link.symlink_to(os.path.relpath(outside, place))
        with flipped(sub, link, 0.2):
            for _ in range(tries):
                shell = agent.call("open_shell", workspace=str(sub))
                if "shell_id" not in shell:
                    assert shell["error"]["code"] in ("workspace_invalid", "sandbox_unavailable", "open_failed"), shell
                    time.sleep(random.random() * 0.05)  # so that the next try meets another moment of the race
                    continue
                command = f"echo x > {outside}/a; echo x > {sub}/b; cd {sub}; echo x > c; chmod 777 {outside} ."
                agent.call("run_command", shell_id=shell["shell_id"], command=command)
                agent.call("close_shell", shell_id=shell["shell_id"])
                assert list(outside.iterdir()) == []
                assert outside.stat().st_mode & 0o777 == 0o755


@KINDS
def test_the_policy_cannot_be_replaced_by_an_agent_that_works_in_the_home_directory(
    ground: Path, bwrap: bool, user: bool
) -> None:
    with machines.serving(ground, POLICY, bwrap=bwrap, user=user, home=".local/share/shiftlog") as (agent, home, place):
        shell = agent.call("open_shell", workspace=str(place))
        assert shell["error"]["code"] == "workspace_invalid", shell
        assert "state directory" in shell["error"]["message"]
        for place_inside in (home, home.parent, home.parent.parent):
            assert "error" in agent.call("open_shell", workspace=str(place_inside))
        project = machines.give(place / "project", user=user)
        below = agent.call("open_shell", workspace=str(project))
        attack = "mv .local moved; mkdir -p .local/share/shiftlog; echo > .local/share/shiftlog/config.toml"
        agent.call("run_command", shell_id=below["shell_id"], command=f"cd {place}; {attack}")
    assert (home / "config.toml").read_text() == POLICY


@KINDS
@pytest.mark.parametrize("put", ["ln -s {outside} {own}", "mkdir {own}; ln -s {outside}/file {own}/i{next}"])
def test_a_shell_that_moves_its_own_directory_gets_nothing_made_or_written_outside(
    ground: Path, bwrap: bool, user: bool, put: str
) -> None:
    outside = machines.give(ground / "outside", user=user)
    (outside / "file").write_text("not yours")
    if user:
        os.chown(outside / "file", machines.USER, machines.USER)
    with machines.serving(ground, POLICY, bwrap=bwrap, user=user) as (agent, _, place):
        shell = agent.call("open_shell", workspace=str(place))["shell_id"]
        own = agent.call("run_command", shell_id=shell, command="dirname $(readlink /proc/$$/fd/1)")["stdout"].strip()
        for number in range(3, 5):
            attack = put.format(outside=outside, own=own, next=number)
            if number == 3:
                agent.call("run_command", shell_id=shell, command=f"mv {own} {own}.old && {{ {attack}; }}")
            ran = agent.call("run_command", shell_id=shell, command="cat", stdin="open", background=True, timeout_s=1)
            if "command_id" in ran:
                agent.call("send_input", command_id=ran["command_id"], text="chosen", eof=True)
        agent.call("close_shell", shell_id=shell)
    assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("file", "not yours")]


_EXCHANGE = """
import os, sys
place, outside = os.environ["TMPDIR"], sys.argv[1]
print("begun", flush=True)
number = 0
while True:
    for name in os.listdir(place):
        if name.startswith("shiftlog-ask-") and not os.path.islink(f"{place}/{name}"):
            number += 1
            try:
                os.rename(f"{place}/{name}", f"{place}/taken-{number}")
                os.symlink(outside, f"{place}/{name}")
            except OSError:
                pass
"""


@KINDS
@TRIES
def test_the_script_for_prompts_is_written_nowhere_else_while_another_shell_exchanges_its_directory(
    ground: Path, bwrap: bool, user: bool, tries: int
) -> None:
    outside = machines.give(ground / "outside", user=user)
    (outside / "askpass").write_text("not yours")
    if user:
        os.chown(outside / "askpass", machines.USER, machines.USER)
    with machines.serving(ground, POLICY, bwrap=bwrap, user=user) as (agent, _, place):
        (place / "exchange.py").write_text(_EXCHANGE)
        first = agent.call("open_shell", workspace=str(place))
        command = f"{sys.executable} -I exchange.py {outside}"
        attack = agent.call("run_command", shell_id=first["shell_id"], command=command, background=True)
        agent.call("read_output", command_id=attack["command_id"], wait_s=20)
        for _ in range(tries):
            opened = agent.call("open_shell", workspace=str(place), session_id=first["session_id"])
            if "shell_id" in opened:
                agent.call("close_shell", shell_id=opened["shell_id"])
            assert [(one.name, one.read_text()) for one in outside.iterdir()] == [("askpass", "not yours")]


def test_a_copy_that_nobody_may_read_is_not_a_way_around_a_rule(ground: Path) -> None:
    policy = '[policy]\ndeny = ["touch --date=2001-01-01"]\n'
    with machines.serving(ground, policy, bwrap=True, user=True) as (agent, _, place):
        shell = agent.call("open_shell", cwd=str(place), sandbox="full-access")
        command = 'cp "$(command -v touch)" copy; ./copy kept; chmod 111 copy; ./copy --date=2001-01-01 made'
        ran = agent.call("run_command", shell_id=shell["shell_id"], command=command)
        assert ran["exit_code"] == 126, ran
        assert [one.name for one in place.iterdir() if one.name != "copy"] == ["kept"]


def test_no_program_of_the_workspace_runs_in_the_place_of_the_daemons_own(ground: Path) -> None:
    """The client was started in an activated environment: the workspace comes first on the PATH."""
    ran, own = ground / "work/ran", ground / "work/.venv/bin"
    path = f"{own}:{os.environ['PATH']}"
    with machines.serving(ground, POLICY, bwrap=True, user=False, given={"PATH": path}) as (agent, _, place):
        shell = agent.call("open_shell", workspace=str(place))["shell_id"]
        trap = f"#!/bin/dash\necho $0 $(grep Seccomp: /proc/self/status) >>{ran}\nexit 1\n"
        names = ("git", "sh", "bash", "cat")
        command = f"mkdir -p {own}; printf %s {shlex.quote(trap)} >trap; chmod +x trap"
        copy = f"for n in {' '.join(names)}; do /bin/cp trap {own}/$n; done"
        agent.call("run_command", shell_id=shell, command=f"{command}; {copy}; git")
        agent.call("run_command", shell_id=shell, command="echo > new")
        saved = agent.call("create_checkpoint", shell_id=shell)
        agent.call("run_command", shell_id=shell, command="echo > newer")
        restored = agent.call("restore_checkpoint", shell_id=shell, checkpoint_id=saved["checkpoint_id"], clean=True)
        assert restored["files_changed"] == 1, restored
        agent.call("open_shell", workspace=str(place))
    unconfined = [line for line in ran.read_text().splitlines() if line.endswith("Seccomp: 0")]
    assert unconfined == []
