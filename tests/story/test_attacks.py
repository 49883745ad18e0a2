"""Programs that mean it, inside the shells of a real daemon, on every kind of machine: none gets through.

The short versions of these attacks are beside the code that stops them.
"""

import os
import pty
import select
import shutil
import socket
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agent import Agent
from tests.races import TRIES
from tests.story import machines

pytestmark = pytest.mark.guard
ATTACKS = f"{sys.executable} -I {Path(__file__).with_name('attacks.py')}"
POLICY = '[policy]\nsandbox_max = "workspace-write"\ndeny = ["touch --date=2001-01-01"]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A machine under attack: an agent with a confined shell in `place`, and files of others in `outside`."""

    agent: Agent
    shell: str
    place: Path
    outside: Path
    user: bool

    def run(self, command: str, **more: Any) -> dict[str, Any]:
        return self.agent.call("run_command", shell_id=self.shell, command=command, **more)

    def begin(self, attack: str) -> None:
        """Start an attack that goes on behind the commands of the shell."""
        assert self.run(f"{ATTACKS} {attack} >/dev/null 2>&1 & sleep 0.5; kill -0 $!")["exit_code"] == 0

    def own(self, path: Path) -> Path:
        if self.user:
            os.chown(path, machines.USER, machines.USER, follow_symlinks=False)
        return path


@pytest.fixture(
    params=[(bwrap, user) for bwrap in (True, False) for user in (False, True)],
    ids=lambda kind: f"{'user' if kind[1] else 'root'}, {'bwrap' if kind[0] else 'landlock alone'}",
)
def target(request: pytest.FixtureRequest) -> Generator[Target]:
    bwrap, user = request.param
    with machines.ground() as ground, machines.serving(ground, POLICY, bwrap=bwrap, user=user) as (agent, _, place):
        outside = machines.give(ground / "outside", user=user)
        opened = agent.call("open_shell", workspace=str(place), auto_snapshot=False)
        assert opened.get("sandbox") == "workspace-write", opened
        target = Target(agent=agent, shell=opened["shell_id"], place=place, outside=outside, user=user)
        tried = target.run(f"{ATTACKS} start {shutil.which('true')} x 1")
        assert tried["exit_code"] == 0, tried  # the programs of the attacks can run here
        yield target


def test_no_restore_writes_through_a_link_that_is_flipped(target: Target) -> None:
    inside, outside = machines.give(target.place / "sub", user=target.user), target.outside / "f.txt"
    for file, text in ((inside / "f.txt", "chosen"), (outside, "not yours")):
        file.write_text(text)
        target.own(file)
    saved = target.agent.call("create_checkpoint", shell_id=target.shell)["checkpoint_id"]
    target.run(f"ln -s {target.outside} link; echo changed > sub/f.txt")
    target.begin("flip sub link")
    restored = 0
    for number in range(TRIES):
        target.run(f"echo {number} > sub/f.txt; echo {number} > beside")
        said = target.agent.call("restore_checkpoint", shell_id=target.shell, checkpoint_id=saved)
        restored += "restored_to" in said
        assert (outside.read_text(), [one.name for one in target.outside.iterdir()]) == ("not yours", ["f.txt"]), said
    assert restored, "no restore was tried at all"


def test_no_program_reports_the_end_of_a_command(target: Target) -> None:
    target.begin("forge $$")
    for number in range(TRIES):
        ran = target.run(f"cd {target.place}; (exit {number % 200 + 7})")
        assert (ran["exit_code"], ran["cwd"]) == (number % 200 + 7, str(target.place)), ran


def test_no_flipped_link_starts_a_program_with_a_denied_argument(target: Target) -> None:
    touch, true = (shutil.which(name) for name in ("touch", "true"))
    target.run(f"ln -s {touch} one; ln -s {true} other")
    target.begin("flip one other")
    target.run(f"{ATTACKS} start ./one {target.place}/made {TRIES * 5}", timeout_s=600)
    assert not (target.place / "made").exists()


def test_no_socket_outside_is_reached(target: Target) -> None:
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        for number, line in enumerate((stream, datagram)):
            line.bind(str(target.outside / f"s{number}"))
            target.own(target.outside / f"s{number}")
            line.settimeout(0.2)
        stream.listen(TRIES)
        target.run(f"{ATTACKS} connect {target.outside}/s0 20; {ATTACKS} connect {target.outside}/s1 20")
        server = "import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(9999); time.sleep(600)"
        target.run(f'{sys.executable} -I -c "{server}" >/dev/null 2>&1 & ln -s {target.outside}/s0 far; sleep 1')
        target.begin("flip own far")
        target.run(f"{ATTACKS} connect own {TRIES * 3}; {ATTACKS} connect far {TRIES * 3}", timeout_s=600)
        with pytest.raises(TimeoutError):
            stream.accept()
        with pytest.raises(TimeoutError):
            datagram.recv(100)


def test_no_terminal_of_another_program_is_written_to(target: Target) -> None:
    ours, theirs = pty.openpty()
    try:
        name = Path(os.ttyname(theirs))
        target.own(name)
        write = f"for n in {{1..{TRIES}}}; do echo from inside > {name}; done; echo more > /dev/pts/../pts/{name.name}"
        target.run(f'({write}) 2>/dev/null; {sys.executable} -c \'open("{name}", "w").write("x")\'')
        assert select.select([ours], [], [], 0.2)[0] == []
    finally:
        os.close(ours)
        os.close(theirs)


def test_no_shell_replaces_the_operators_files(target: Target) -> None:
    home = target.place.parent / "h"
    before = (home / "config.toml").read_bytes()
    attack = f"mv {home} {home}.old; mkdir -p {home}; echo > {home}/config.toml; ln -sf /dev/null {home}/config.toml"
    for _ in range(5):
        target.run(f"({attack}; cd ..; mv h g; rm -rf h) 2>/dev/null")
    target.run(f"for n in {{1..{TRIES}}}; do mv {home} {target.place}/h; echo x > {home}/config.toml; done 2>/dev/null")
    assert (home / "config.toml").read_bytes() == before
