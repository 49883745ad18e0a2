"""Programs that attack the holder of a shell, or stand in its place, keep no daemon from its work."""

import json
import os
import shlex
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from shiftlog.shell.engine.holders import ShellHolders
from tests.daemon.support import eventually
from tests.shell.held.served_home import ServedHome, served_home

#: Fills the queue of the holder's door, stops the holder and says so.
STOP = """
import glob, os, signal, socket, sys, time
door, = glob.glob(sys.argv[1] + "/held/*/door")
held = []
while True:
    held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    held[-1].setblocking(False)
    try: held[-1].connect(door)
    except BlockingIOError: break
os.kill(int(sys.argv[2]), signal.SIGSTOP)
open(sys.argv[3], "w").close()
time.sleep(600)
"""
#: Describes itself as the holder of a shell, and notes what comes to its door.
FORGE = """
import ctypes, json, os, socket, sys
from pathlib import Path
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
home, shown, ready = map(Path, sys.argv[1:])
place = home / "held" / "000000000000"
place.mkdir()
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.chdir(place)
door.bind("door")
door.listen(8)
pid = os.getpid()
record = json.loads(next((home / "held").glob("*/holder.json")).read_text())
started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
(place / "holder.json").write_text(json.dumps(record | {"pid": pid, "started": started}))
ready.touch()
line = door.accept()[0]
shown.write_text("came")
line.send(b"held\\tledger\\n")
line.recv(100)
"""


@pytest.fixture
def served(tmp_path: Path) -> Generator[ServedHome]:
    with served_home(tmp_path) as served:
        yield served


def program(served: ServedHome, text: str, *words: object) -> str:
    """Begin a Python program in a new shell; return the shell's id."""
    shell_id = served.open(cwd="/", sandbox="full-access")
    line = shlex.join([os.path.realpath(sys.executable), "-c", text, *map(str, words)])
    served.run(shell_id, f"KEPT=before; {line} >/dev/null 2>&1 &")
    return shell_id


def holders(served: ServedHome) -> list[int]:
    return [record.pid for record in ShellHolders(served.home / "held", 0).listed()]


def test_a_holder_that_was_stopped_behind_a_full_door_is_taken_over(served: ServedHome, tmp_path: Path) -> None:
    shell_id = served.open(cwd="/", sandbox="full-access")
    (holder,) = holders(served)
    line = shlex.join(
        [os.path.realpath(sys.executable), "-c", STOP, *map(str, (served.home, holder, tmp_path / "done"))]
    )
    served.run(shell_id, f"KEPT=before; {line} >/dev/null 2>&1 &")
    eventually((tmp_path / "done").exists)
    served.kill()
    served.start()
    assert served.run(shell_id, "echo $KEPT")["stdout"] == "before"


@pytest.mark.long
def test_a_program_inside_a_shell_cannot_stand_in_for_a_holder(served: ServedHome, tmp_path: Path) -> None:
    shown, ready = tmp_path / "shown", tmp_path / "ready"
    shell_id = program(served, FORGE, served.home, shown, ready)
    eventually(ready.exists)
    served.kill()
    served.start()
    assert served.run(shell_id, "echo $KEPT")["stdout"] == "before"
    assert not shown.exists()


#: Connects as a command line does, and asks what only the operator may ask.
CONTROL = """
import json, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
answers = line.makefile("rb")
for message in ({"shiftlog": {"hello": 1, "role": "control"}}, {"id": 1, "method": "approve", "params": {}}):
    line.sendall(json.dumps(message).encode() + b"\\n")
    said = answers.readline().decode()
print(said)
"""


def test_the_supervisor_that_outlived_its_daemon_makes_no_confined_program_an_operator(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with served_home(tmp_path) as served:
        shell_id = served.open(workspace=str(place), sandbox="workspace-write")
        served.kill()
        served.start()
        (place / "socket").hardlink_to(served.home / "daemon.sock")  # as if the socket lay within the shell's reach
        line = shlex.join([os.path.realpath(sys.executable), "-c", CONTROL, str(place / "socket")])
        said = served.run(shell_id, line)
        assert json.loads(said["stdout"])["error"]["code"] == "unauthorized", said
