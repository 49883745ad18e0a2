"""The command line as its users have it: real processes, in a pipe or on a terminal, with real daemons."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.daemon.support import DEADLINE_S, control, environment

PROGRAM = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command printed, and how it ended."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def shiftlog(
    home: Path, *arguments: str, status: int = 0, stdin: str = "", env: Mapping[str, str] | None = None
) -> Done:
    """Run a command in pipes and check its exit status."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        env=environment(home, **(env or {})),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    result = Done(status=done.returncode, out=done.stdout, err=done.stderr)
    assert result.status == status, result
    return result


class Terminal:
    """A command on a terminal of a given size: what stands there, and keys to press."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        width: int = 80,
        height: int = 40,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._screen, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        inherited = environment(home, TERM="xterm-256color", SHIFTLOG_PAGER="")
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            inherited.pop(name, None)
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments],
            env={**inherited, **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            process_group=0,
        )
        os.close(theirs)
        self.text = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self._screen)

    @property
    def plain(self) -> str:
        """What was printed, without colours."""
        return COLOURS.sub("", self.text)

    def wait_for(self, words: str) -> None:
        """Read until the words stand there."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.plain:
            assert time.monotonic() < deadline, f"{words!r} never came: {self.plain}"
            assert self._read(), f"it ended without {words!r}: {self.plain}"

    def press(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Read to the end and return the exit status."""
        while self._read():
            pass
        return self.process.wait(DEADLINE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], DEADLINE_S)
        assert ready, f"nothing more came: {self.plain}"
        try:
            piece = os.read(self._screen, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.text += piece.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(piece)


def on_terminal(
    home: Path, *arguments: str, width: int = 80, status: int = 0, env: Mapping[str, str] | None = None
) -> Terminal:
    """Run a command on a terminal to its end and check its exit status."""
    with Terminal(home, *arguments, width=width, env=env) as terminal:
        assert terminal.end() == status, terminal.plain
    return terminal


def write(home: Path, tool: str, **arguments: Any) -> Any:
    """Call a journal tool."""
    with control(home) as client:
        return client.call("tool", {"tool": tool, "arguments": arguments})


def recorded_session(home: Path, *, title: str = "Fix the login", **turn: Any) -> str:
    """Record a session of one finished turn and return its id; `turn` are fields of the turn."""
    shiftlog(home, "daemon", "start")
    session_id: str = write(home, "open_session", agent="Tester", title=title)["session_id"]
    write(home, "begin_turn", session_id=session_id, query_title=title, query_text="Please do it")
    if turn:
        write(home, "update_turn", session_id=session_id, **turn)
    write(home, "finish_turn", session_id=session_id, outcome="completed", response="It is done")
    return session_id


def closed(home: Path, session_id: str) -> dict[str, Any]:
    """Close a session and return its receipt."""
    return write(home, "close_session", session_id=session_id, reason="done")["data"]["receipt"]
