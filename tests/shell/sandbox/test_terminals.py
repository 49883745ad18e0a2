"""A confined shell has terminals of its own and neither writes to nor reads from any other."""

import os
import pty
import select
import shlex
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.shell.sandbox.detect import detect
from shiftlog.shell.sandbox.sandbox import Sandbox
from tests.shell.sandbox.conftest import Shells, needs_confinement

pytestmark = needs_confinement()
Make = Callable[..., Shells]
WAYS = pytest.mark.parametrize("way", ["bwrap", "landlock alone", "no terminals of its own"])
ATTACK = """
for tty in {tty} /proc/{pid}/fd/{fd} /proc/{pid}/root{tty} /proc/1/root{tty}; do
    echo written > $tty
    timeout 1 head -c 1 < $tty && echo stolen
done 2>/dev/null
:
"""


@pytest.fixture
def terminal() -> Generator[tuple[int, int]]:
    """The two ends of an operator's terminal, on which a line was typed."""
    ends = pty.openpty()
    os.write(ends[0], b"typed\n")
    yield ends
    for end in ends:
        os.close(end)


def _shells(make_shells: Make, mode: str, way: str) -> Shells:
    shells = make_shells(mode, bwrap=way == "bwrap")
    if way == "no terminals of its own":
        shells.sandbox = Sandbox(replace(shells.sandbox.capabilities, own_terminals=False), use_bwrap=False)
    return shells


@WAYS
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_another_terminal_is_neither_written_nor_read(
    make_shells: Make, terminal: tuple[int, int], mode: str, way: str
) -> None:
    ours, theirs = terminal
    shells = _shells(make_shells, mode, way)
    ran = shells.run(ATTACK.format(tty=os.ttyname(theirs), pid=os.getpid(), fd=theirs))
    assert "stolen" not in ran.out
    shown = b""
    while select.select([ours], [], [], 0.05)[0]:
        shown += os.read(ours, 4096)
    assert b"written" not in shown
    assert os.read(theirs, 100) == b"typed\n"
    shells.sandbox.close()


@WAYS
def test_neither_are_consoles_serial_lines_what_they_show_and_whole_disks(make_shells: Make, way: str) -> None:
    devices = list(Path("/dev").iterdir())
    others = [path for path in devices if path.is_block_device() or (path.is_char_device() and is_console(path))]
    shells = _shells(make_shells, "workspace-write", way)
    opening = "import os, sys\nfor path in sys.argv[1:]:\n    for mode in (os.O_RDONLY, os.O_WRONLY):\n        try:\n"
    opening += "            os.open(path, mode | os.O_NOCTTY | os.O_NONBLOCK); print(path, mode)\n"
    opening += "        except OSError:\n            pass\n"
    command = shlex.join(["/usr/bin/python3", "-c", opening, *map(str, others)])
    assert shells.run(command).out == ""
    assert shells.run("head -c 1 /dev/zero | wc -c; cat /dev/null; head -c 1 /dev/urandom | wc -c").out == "1\n1\n"
    shells.sandbox.close()


def is_console(path: Path) -> bool:
    """Return True for a terminal that is not the caller's own (5:0) or the maker of new ones (5:2), and its memory."""
    device = path.stat().st_rdev
    return os.major(device) in (4, 5, 7) and (os.major(device), os.minor(device)) not in ((5, 0), (5, 2))


@pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock alone"])
def test_programs_open_terminals_of_their_own_by_name(make_shells: Make, bwrap: bool) -> None:
    if not bwrap and not detect().own_terminals:
        pytest.skip(detect().why["terminals"])
    shells = make_shells("read-only", bwrap=bwrap)
    ran = shells.run("""script -qec 'echo one > "$(tty)"; echo two > /dev/stderr; echo three > /dev/tty' /dev/null""")
    assert ran.out.replace("\r", "").splitlines() == ["one", "two", "three"], ran.err
