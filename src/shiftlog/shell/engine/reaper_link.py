"""The server's side of a reaper: starts it, receives the exits below it, and has it end the tree."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from shiftlog.shell.engine import reaper


class ReaperLink:
    """One reaper and the command below it. The tree ends when this process ends, however that happens."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int],
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.child: int | None = None
        self._rest = b""
        self._count = 0
        self._heard_exit: Callable[[int, int], None] = _unheard
        self._heard_gone: Callable[[int], None] = _unheard
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        program = str(Path(reaper.__file__).resolve())
        argv = [sys.executable, "-I", "-S", program, str(theirs.fileno()), str(directory), "--", *command]
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                env=dict(env),
                cwd=cwd,
                pass_fds=(theirs.fileno(), *pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._ours.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid

    def listen(self, on_exit: Callable[[int, int], None], on_gone: Callable[[int], None]) -> None:
        """Call back at every exit below the reaper, and once at its own with the number of processes it ended."""
        self._heard_exit, self._heard_gone = on_exit, on_gone
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    def close(self) -> None:
        """Let the reaper end the whole tree."""
        try:
            self._ours.send(b"close\n")
        except OSError:
            pass

    def kill(self) -> None:
        """End everything by force, the reaper last."""
        for process in reaper.below(self.pid, reaper.process_table()):
            reaper.send(process.pid, 9)
        self._process.kill()
        self._leave()

    def _read(self) -> None:
        try:
            data = self._ours.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            self._hear(line.split())
        if not data:
            self._leave()
            self._heard_gone(self._count)

    def _hear(self, words: list[bytes]) -> None:
        if words[0] == b"started":
            self.child = int(words[1])
        elif words[0] == b"gone":
            self._count = int(words[1])
        else:
            self._heard_exit(int(words[1]), int(words[2]))

    def _leave(self) -> None:
        if self._ours.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._ours)
            self._ours.close()
            self._process.wait()


def _unheard(*_: int) -> None:
    return None
