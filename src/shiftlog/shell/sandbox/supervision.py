"""The daemon's side of the supervisor: starts it, announces shells, and receives the recorded starts.

A later server takes both over: `HeldLaunch` stands for the launch of a shell that an earlier one left.

`drain` reads all messages without waiting. The supervisor records a start before answering it, so after a command has
ended one `drain` returns all its starts.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from shiftlog.shell.engine.reaper import remove_tree
from shiftlog.shell.sandbox.starts import BrokerRules, JudgeSpec, ProgramStart
from shiftlog.shell.sandbox.supervisor import MESSAGE_MAX, START_FIELDS, serve

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

_BUFFER_BYTES = 4 << 20
_EXIT_S = 5.0


@dataclass(slots=True)
class SupervisedShell:
    """A shell that the supervisor answers for; `pid` is known once the shell has started."""

    number: int
    on_start: Callable[[ProgramStart], None]
    pid: int | None = None


class Supervision:
    """A running supervisor: a process, or a thread on machines where only an ancestor may read a process."""

    def __init__(self, *, in_process: bool = False, adopted: socket.socket | None = None) -> None:
        self._shells: dict[int, SupervisedShell] = {}
        self._next = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self.alive = True
        self.process: subprocess.Popen[bytes] | None = None
        if adopted is not None:  # of a supervisor that an earlier server started
            adopted.setblocking(False)
            self._socket = adopted
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for side in (ours, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        ours.setblocking(False)
        self._socket = ours
        if in_process:
            threading.Thread(target=serve, args=(theirs,), name="sandbox-supervisor", daemon=True).start()
            return
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "shiftlog.shell.sandbox.supervisor", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LC_ALL")},
            start_new_session=True,
        )
        theirs.close()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Drain on this event loop from now on; repeating it changes nothing."""
        if self._loop is loop:
            return
        self._loop = loop
        loop.add_reader(self._socket.fileno(), self.drain)

    def open(
        self, channel: socket.socket, judge: JudgeSpec, rules: BrokerRules, on_start: Callable[[ProgramStart], None]
    ) -> SupervisedShell:
        """Supervise a shell whose launcher will use `channel`, and close our end."""
        number, self._next = self._next, self._next + 1
        shell = self._shells[number] = SupervisedShell(number, on_start)
        spec = os.memfd_create("shiftlog-spec", os.MFD_CLOEXEC)
        try:
            text = {"judge": {"factory": judge.factory, "options": dict(judge.options)}, "rules": asdict(rules)}
            os.write(spec, json.dumps(text).encode())
            os.lseek(spec, 0, os.SEEK_SET)
            message = json.dumps({"op": "open", "shell": number}).encode()
            socket.send_fds(self._socket, [message], [channel.fileno(), spec])
        except OSError:
            self.alive = False
            del self._shells[number]
            raise
        finally:
            os.close(spec)
            channel.close()
        return shell

    @property
    def descriptor(self) -> int:
        """Our end of the supervisor's socket; the supervisor lives as long as a copy of it is open."""
        return self._socket.fileno()

    @property
    def serves_any(self) -> bool:
        """True if a shell is left."""
        return bool(self._shells)

    def rejoin(self, number: int, pid: int | None, on_start: Callable[[ProgramStart], None]) -> SupervisedShell:
        """Go on with a shell of an earlier server."""
        shell = self._shells[number] = SupervisedShell(number, on_start, pid)
        return shell

    def close_shell(self, shell: SupervisedShell) -> None:
        """Stop answering for a shell; its remaining processes can start nothing more."""
        if self._shells.pop(shell.number, None) is None or not self.alive:
            return
        try:
            self._socket.send(json.dumps({"op": "close", "shell": shell.number}).encode())
        except OSError:
            self.alive = False

    def permit(
        self,
        shell: SupervisedShell,
        entries: Sequence[str],
        below: int | None = None,
        earlier: Collection[int] | None = None,
    ) -> None:
        """Let programs that match these `ask` entries start in a shell, instead of those permitted before.

        With `below`, only for this process and its descendants; with `earlier`, only for the shell and those of its
        descendants that have none of these processes above them.
        """
        if shell.number in self._shells:
            known = None if earlier is None else list(earlier)
            message = {
                "op": "permit",
                "shell": shell.number,
                "permitted": {"entries": list(entries), "below": below, "earlier": known},
            }
            self._socket.send(json.dumps(message).encode())

    def drain(self) -> None:
        """Take all waiting messages without blocking."""
        while self.alive:
            try:
                data = self._socket.recv(MESSAGE_MAX)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lost()
                return
            self._take(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        shell = self._shells.get(message["shell"])
        if shell is None:
            return
        if message["op"] == "start":
            values = dict(zip(START_FIELDS, message["start"], strict=True))
            values["parents"], values["argv"] = tuple(values["parents"]), tuple(values["argv"])
            shell.on_start(ProgramStart(**values))
        elif message["op"] == "opened":
            shell.pid = message["pid"]
        elif message["op"] == "failed":
            log.warning("The sandbox supervisor could not take a shell: %s", message["why"])

    def _lost(self) -> None:
        self.alive = False
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())

    def close(self) -> None:
        """End the supervisor; shells that still live can start nothing more."""
        if self._socket.fileno() >= 0:
            self._lost()
            self._socket.close()
        if self.process is not None:
            try:
                self.process.wait(_EXIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class LaunchFacts(msgspec.Struct):
    """The facts of a launch that a later server needs."""

    number: int
    shell_pid: int | None
    private_tmp: bool
    own_terminals: bool
    defers: bool
    directories: tuple[str, ...]


class HeldLaunch:
    """Stands for the launch of a held shell; see `Launch` for what each verb does."""

    can_be_held = True

    def __init__(
        self, facts: LaunchFacts, supervision: Supervision | None, on_start: Callable[[ProgramStart], None]
    ) -> None:
        self.facts = facts
        self.private_tmp = facts.private_tmp
        self.defers = facts.defers
        self._supervision = supervision
        self._shell = None if supervision is None else supervision.rejoin(facts.number, facts.shell_pid, on_start)

    @property
    def supervision(self) -> Supervision | None:
        """The supervisor that answers for the shell."""
        return self._supervision

    @property
    def alive(self) -> bool:
        """True if starts are still answered."""
        if self._supervision is None:
            return not self.defers
        self._supervision.drain()
        return self._supervision.alive

    def drain(self) -> None:
        """Receive every start recorded so far."""
        if self._supervision is not None:
            self._supervision.drain()

    def permit(
        self, entries: Sequence[str], below: int | None = None, *, earlier: Collection[int] | None = None
    ) -> None:
        """Let programs that match these `ask` entries start from now on."""
        if self._supervision is not None and self._shell is not None:
            self._supervision.permit(self._shell, entries, below, earlier)

    def close(self) -> None:
        """Stop supervising and remove what the launch made, once no process of the shell is left."""
        if self._supervision is not None and self._shell is not None:
            self._supervision.close_shell(self._shell)
            self._shell = None
            if not self._supervision.serves_any:
                self._supervision.close()
        for path in self.facts.directories:
            remove_tree(path)
