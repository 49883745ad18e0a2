"""The server's side of a reaper: hears of exits below it, gives it descriptors to hold, and can end its tree.

`reaper.py` is the program at the other end. `ReaperLink` starts one, `ClaimedLink` takes over one that an earlier
server left.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shiftlog.link import processes
from shiftlog.link.files import run_by_path
from shiftlog.shell.engine import reaper


class ReaperChannel:
    """The socket of a reaper: hears of every exit below it, and can end its tree."""

    def __init__(self, ours: socket.socket) -> None:
        self.child: int | None = None
        self.reaper_pid: int | None = None
        self.directories: tuple[str, ...] = ()  # those that the reaper removes at the end
        self._rest = b""
        self._count = 0
        self._heard_exit: Callable[[int, int], None] = lambda _pid, _status: None
        self._heard_gone: Callable[[int], None] = lambda _count: None
        self._ours = ours
        self._ours.setblocking(False)
        self._is_listening = False

    def listen(self, on_exit: Callable[[int, int], None], on_gone: Callable[[int], None]) -> None:
        """Call back at every exit below the reaper, and once at its own with the number of processes it ended."""
        self._heard_exit, self._heard_gone = on_exit, on_gone
        self._is_listening = True
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def close(self) -> None:
        """Let the reaper end the whole tree."""
        self._send("close")

    def keep(self, **descriptors: int) -> None:
        """Let the reaper hold copies of these descriptors; raises `OSError`."""
        line = "\t".join(("keep", *descriptors)).encode() + b"\n"
        socket.send_fds(self._ours, [line], list(descriptors.values()))

    def drop(self, *names: str) -> None:
        """Let the reaper close its copies of descriptors."""
        self._send("drop", *names)

    def hold(self, seconds: float, directory: Path) -> None:
        """Let the shell live on for so long if this server goes away; 0 ends it with the server."""
        self._send("hold", f"{seconds:g}", str(directory))

    def leave(self) -> None:
        """Go away without a word; a shell that is held lives on."""
        self._leave()

    def _send(self, *words: str) -> None:
        try:
            self._ours.send("\t".join(words).encode() + b"\n")
        except OSError:
            pass

    def _read(self) -> None:
        try:
            data = self._ours.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            kind, *numbers = line.split()
            if kind == b"started":
                self.child, self.reaper_pid = int(numbers[0]), int(numbers[1])
            elif kind == b"gone":
                self._count = int(numbers[0])
            else:
                self._heard_exit(int(numbers[0]), int(numbers[1]))
        if not data:
            self._leave()
            self._heard_gone(self._count)

    def _leave(self) -> None:
        if self._ours.fileno() >= 0:
            if self._is_listening:
                asyncio.get_running_loop().remove_reader(self._ours)
            self._ours.close()


class ReaperLink(ReaperChannel):
    """One reaper and the command below it. The tree ends when this process ends, however that happens."""

    def __init__(
        self,
        command: Sequence[str],
        directories: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int],
        pass_fds: Sequence[int] = (),
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        self.directories = tuple(directories)
        variables = environment_file(env)
        try:
            self._process = subprocess.Popen(
                reaper_command(theirs.fileno(), variables, directories, command),
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                env=reaper_environment(),
                cwd=cwd,
                pass_fds=(theirs.fileno(), variables, *pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._ours.close()
            raise
        finally:
            theirs.close()
            os.close(variables)
        self.pid = self._process.pid

    def kill(self) -> None:
        """End everything by force, the reaper last."""
        _kill_below(self.pid)
        self._process.kill()
        self._leave()
        self._process.wait()

    def _read(self) -> None:
        super()._read()
        if self._ours.fileno() < 0:
            self._process.wait()


class ClaimedLink(ReaperChannel):
    """The reaper of a shell that an earlier server left; it is no child of this process."""

    def __init__(self, ours: socket.socket, pid: int, started: str) -> None:
        super().__init__(ours)
        self.pid = pid
        self._started = started

    def kill(self) -> None:
        """End everything by force, the reaper last."""
        if processes.alive(self.pid, self._started):
            kill_tree(self.pid)
        self._leave()


def kill_tree(pid: int) -> None:
    """Kill all processes below a reaper, then the reaper."""
    _kill_below(pid)
    reaper.send(pid, 9)


def _kill_below(pid: int) -> None:
    for process in reaper.below(pid, reaper.process_table()):
        reaper.send(process.pid, 9)


def reaper_command(channel: int, variables: int, directories: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the command line of a reaper with a command below it; it removes the directories when all is over."""
    return [*run_by_path(reaper.__file__), str(channel), str(variables), *directories, "--", *command]


def reaper_environment() -> dict[str, str]:
    """Return the environment of a reaper itself: nothing that an agent chose."""
    return {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}


def environment_file(env: Mapping[str, str]) -> int:
    """Write the environment of a reaper's command into a memory file, and return its descriptor."""
    fd = os.memfd_create("shiftlog-environment", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(b"\0".join(os.fsencode(f"{name}={value}") for name, value in env.items()))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
