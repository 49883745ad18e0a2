"""Programs in a confined shell reach no process, file or service outside, nor those of another shell of the session."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.story import machines
from tests.story.machines import KINDS
from tests.story.reaching import WAYS

REACHING = Path(__file__).with_name("reaching.py")
# Root alone may do this; and some machines let no program do that, guarded or not.
ONLY_ROOT = {"the mode of a device", "its mounts"}
UNUSUAL = {"a ring of calls", "a mount over a directory", "a mount that is moved", "a mode below a mount of our own"}
POLICY = '[policy]\nsandbox_max = "workspace-write"\n'
# A process that notes the signals that it gets, and makes what processes of one user share; it removes that at its end.
_OUTSIDE = """
import ctypes, json, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.shmat.restype = ctypes.c_void_p
L = ctypes.c_long
def call(x86, arm, *given):
    got = libc.syscall(L(arm if os.uname().machine == "aarch64" else x86), *given)
    return got if got >= 0 else sys.exit(f"{x86}: {os.strerror(ctypes.get_errno())}")
memory = call(29, 194, L(0), L(4096), L(0o1600))
ctypes.memmove(libc.shmat(memory, None, 0), b"outside", 7)
semaphores = call(64, 190, L(0), L(1), L(0o1600))
messages = call(68, 186, L(0), L(0o1600))
call(69, 189, L(messages), ctypes.create_string_buffer(b"\\1" + b"\\0" * 7 + b"text", 16), L(4), L(0))
queue = f"shiftlog-test-{os.getpid()}"
call(240, 180, queue.encode(), L(0o102), L(0o600), None)
key = call(248, 217, b"user", queue.encode(), b"outside", L(7), L(-4))
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: open("heard", "a").write(signal.Signals(number).name))
open("heard", "w").close()
os.dup2(os.open("file", os.O_RDWR), 9)
names = {"memory": memory, "semaphores": semaphores, "messages": messages, "queue": queue, "key": key}
print(json.dumps(names), flush=True)
while sys.stdin.read(1):
    pass
call(31, 195, L(memory), L(0), None)
call(66, 191, L(semaphores), L(0), L(0))
call(71, 187, L(messages), L(0), None)
call(241, 181, queue.encode())
call(250, 219, L(21), L(key))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A process outside of all shells, with a file, sockets and what it shares."""

    pid: int
    file: Path
    shared: dict[str, Any]

    def attack(self, pid: int | None = None) -> list[str]:
        """Return the words that start the attacker."""
        return [sys.executable, "-I", str(REACHING), str(pid or self.pid), str(self.file), json.dumps(self.shared)]

    @property
    def damage(self) -> list[str]:
        """Return what differs outside."""
        mirrored = Path(self.shared["mirror"], self.shared["mirrored"])
        found = {
            "signals": self.file.with_name("heard").read_text(),
            "content": "" if self.file.read_text() == "not yours" else self.file.read_text(),
            "mode": "" if mirrored.stat().st_mode & 0o777 == 0o644 else "changed",
        }
        return [f"{name}: {what}" for name, what in found.items() if what]


@contextmanager
def outside(ground: Path, place: Path, *, user: bool) -> Generator[Outside]:
    """Run a process of the machine's user outside of all shells."""
    folder = machines.give(ground / "outside", user=user)
    mirror = folder / "mirror"
    inside = mirror / str(place.relative_to("/"))
    inside.mkdir(parents=True)
    files = [folder / "file", inside / "file"]
    for file in files:
        file.write_text("not yours")
    words = [*machines.prefix(bwrap=True, user=user), sys.executable, "-I", "-c", _OUTSIDE]
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        stream.bind(str(folder / "socket"))
        stream.listen(100)
        datagram.bind(str(folder / "datagram"))
        with socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(f"\0shiftlog-test-{os.getpid()}")
            abstract.listen(100)
            if user:
                for path in (*files, *folder.iterdir()):
                    os.chown(path, machines.USER, machines.USER)
            with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                shared = json.loads(process.stdout.readline())
                shared |= {"mirror": str(mirror), "mirrored": str(inside.relative_to(mirror) / "file")}
                shared["abstract"] = f"shiftlog-test-{os.getpid()}"
                yield Outside(pid=process.pid, file=files[0], shared=shared)
                process.stdin.close()
                process.wait(30)


@pytest.fixture
def ground() -> Generator[Path]:
    with machines.ground() as place:
        yield place


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_every_way_works_where_nothing_guards(ground: Path, user: bool) -> None:
    place = machines.give(ground / "work", user=user)
    with outside(ground, place, user=user) as other:
        command = [*machines.prefix(bwrap=True, user=user), *other.attack()]
        done = subprocess.run(command, cwd=place, capture_output=True, timeout=60, check=True)
        missing = set(WAYS) - set(json.loads(done.stdout)) - (ONLY_ROOT if user else set())
        assert missing <= UNUSUAL, missing


@KINDS
def test_a_confined_shell_reaches_nothing_outside(ground: Path, bwrap: bool, user: bool) -> None:
    serving = machines.serving(ground, POLICY, bwrap=bwrap, user=user)
    with serving as (agent, _, place), outside(ground, place, user=user) as other:
        shell = agent.call("open_shell", workspace=str(place))
        ran = agent.call("run_command", shell_id=shell["shell_id"], command=shlex.join(other.attack()))
        assert ran["exit_code"] == 0, ran
        assert (json.loads(ran["stdout"]), other.damage) == ([], [])


@KINDS
def test_a_confined_shell_reaches_no_other_shell_of_its_session(ground: Path, bwrap: bool, user: bool) -> None:
    serving = machines.serving(ground, POLICY, bwrap=bwrap, user=user)
    with serving as (agent, _, place), outside(ground, place, user=user) as other:
        one = agent.call("open_shell", workspace=str(place))
        neighbour = agent.call("open_shell", workspace=str(place), session_id=one["session_id"])
        sleeper = agent.call("run_command", shell_id=neighbour["shell_id"], command="sleep 600 9</dev/null & echo $!")
        attack = shlex.join(other.attack(int(sleeper["stdout"])))
        ran = agent.call("run_command", shell_id=one["shell_id"], command=attack)
        assert (json.loads(ran["stdout"]), other.damage) == ([], []), ran
