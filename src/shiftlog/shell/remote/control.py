"""The control shell: a second `sh` on a target, for queries and signals while the main shell is busy.

Nothing that a command defines reaches it. It also ends what the main shell started; the target's process table is here.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from shiftlog.shell.engine import protocol
from shiftlog.shell.engine.command import SIGNAL_NUMBERS
from shiftlog.shell.engine.reaper import Process, below
from shiftlog.shell.remote import programs
from shiftlog.shell.remote.carrier import TokenReader
from shiftlog.shell.remote.ports import RemoteHost, Wire

_TICKS = 100
#: How far the start of a process, in whole ticks, may lie before the moment it is compared with.
_SLACK_S = 0.02
_OPEN_S = 10.0
_BYE_S = 2.0
_ASK_S = 2.0
_KILL = int(SIGNAL_NUMBERS["kill"])
_ROUNDS = 10
_PAUSE_S = 0.05
_ANSWER_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """The processes of a target at one moment; `age_s` is the machine's uptime then, None if unknown."""

    processes: dict[int, Process]
    age_s: float | None
    asked_at: float

    def started_since(self, process: Process, moment: float) -> bool:
        """Return True if a process started after a moment of our own clock, within the error of two clocks."""
        if self.age_s is None:
            return True
        return process.started / _TICKS >= self.age_s - (self.asked_at - moment) - _SLACK_S

    def family(self, root: int, shell: int | None) -> list[Process]:
        """Return a process, its descendants, and other processes in its group, unless that is the shell's own.

        Only bash gives a copy of itself a group.
        """
        processes = self.processes
        kin = {process.pid for process in below(root, processes)} | {root}
        own, main = processes.get(root), processes.get(shell or 0)
        group = own.group if own is not None and (main is None or main.group != own.group) else None
        return [
            process
            for process in processes.values()
            if not process.zombie and (process.pid in kin or (process.group == group and process.pid != group))
        ]

    def sessions(self, sessions: Collection[int], roots: Iterable[int]) -> list[Process]:
        """Return the processes of these sessions and the descendants of these roots."""
        kin = {process.pid for root in roots for process in below(root, self.processes)}
        return [
            process
            for process in self.processes.values()
            if not process.zombie and (process.session in sessions or process.pid in kin)
        ]


def read_table(data: bytes, asked_at: float) -> ProcessTable:
    """Read the target's process list: lines of /proc if it has them, else of `ps`."""
    processes: dict[int, Process] = {}
    age_s: float | None = None
    for line in data.splitlines():
        head, paren, rest = line.partition(b"(")
        if paren and head.strip().isdigit() and b")" in rest:
            fields = rest[rest.rindex(b")") + 2 :].split()
            processes[int(head)] = Process(int(head), fields)
        elif not paren:
            words = line.split()
            if len(words) == 2 and age_s is None and not processes:
                age_s = float(words[0])
            elif len(words) == 4 and all(word.isdigit() for word in words[:3]):
                pid, parent, group, state = words
                fields = [state[:1], parent, group, group, *([b"0"] * 16)]
                processes[int(pid)] = Process(int(pid), fields)
    return ProcessTable(processes=processes, age_s=age_s, asked_at=asked_at)


class ControlShell:
    """A second shell on the target, opened with the main one and again after a failure.

    While it is open it is also a guard: if this server disappears, it ends the processes that the main shell started.
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host = host
        self.reply: programs.KeeperReply | None = None  # set before the first query
        self._wire: Wire | None = None
        self._heard: TokenReader | None = None
        self._is_leaving = False
        self._turn = asyncio.Lock()  # one query at a time: all answers come on one stream

    @property
    def kept(self) -> programs.KeeperReply:
        """The reply of the main shell's keeper, which names its directory and session."""
        assert self.reply is not None
        return self.reply

    async def open(self) -> None:
        """Start the program on the target; if that fails, the first query tries again."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            await self.ask(":", _OPEN_S)

    async def ask(self, script: str, timeout_s: float) -> bytes:
        """Run a script on the target and return what it printed; raises `TimeoutError` or `ConnectionError`."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._ask(script)
            except BaseException:
                self._drop()
                raise

    async def table(self, timeout_s: float) -> ProcessTable:
        """Read the target's processes."""
        data = await self.ask(programs.CONTROL_TABLE, timeout_s)
        return read_table(data, time.monotonic())

    async def kill(self, number: int, pids: Collection[int], timeout_s: float) -> None:
        """Signal processes, or whole groups by their negated number."""
        if pids:
            # Without `--`, which the kill of some shells does not know.
            await self.ask(f"kill -{int(number)} {' '.join(map(str, pids))} 2>/dev/null", timeout_s)

    async def kill_session(self, terminals: Collection[int]) -> int:
        """Kill the processes of the main shell's sessions and their descendants; return how many there were.

        Processes that left the session stay. The keeper stays to tidy up, unless processes are left after the first
        round: they start new ones faster than they can be listed, and only a signal to the whole group reaches all of
        them at once.
        """
        killed: set[int] = set()
        keeper, session = self.kept.keeper, self.kept.session
        for number in range(_ROUNDS):
            found = (await self.table(_ASK_S)).sessions({session, *terminals}, [keeper])
            victims = {one.pid for one in found} - {keeper, session}
            if not victims:
                break
            if number:
                await self.kill(_KILL, {-one.group for one in found if one.group > 1}, _ASK_S)
                await self.ask(f"sleep {_PAUSE_S} 2>/dev/null", _ASK_S)
            else:
                await self.kill(_KILL, victims, _ASK_S)
            killed |= victims
        return len(killed)

    async def tidy(self, stuck: Collection[int]) -> None:
        """Kill channel programs that did not end by themselves, and remove the private directory."""
        if stuck:
            table = await self.table(_ASK_S)
            await self.kill(_KILL, [one.pid for one in table.sessions(stuck, stuck)], _ASK_S)
        await self.ask(f"rm -rf {protocol.quote(self.kept.directory)}", _ASK_S)

    def leave(self) -> None:
        """The shell is closing: if a query fails from now on, leave the guard running."""
        self._is_leaving = True

    def close(self) -> None:
        """End the program on the target."""
        self._is_leaving = False
        self._drop()

    def _drop(self) -> None:
        """Let the program end; close the wire later, because closing could discard the last line."""
        if self._wire is not None:
            if not self._is_leaving:
                self._wire.write(programs.CONTROL_BYE.encode())
            self._wire.write_eof()
            asyncio.get_running_loop().call_later(_BYE_S, self._wire.close)
        self._wire = self._heard = None

    async def _ask(self, script: str) -> bytes:
        token = protocol.draw_token()
        if self._heard is None or self._wire is None or self._heard.end.done():
            self._heard = TokenReader(_ANSWER_BYTES)
            self._wire = await self._host.open_wire(self._heard)
            hello = protocol.draw_token()
            self._wire.write(programs.control(hello, self.kept).encode("utf-8", "surrogateescape"))
            await self._heard.until(hello.encode())
            await self._heard.until(hello.encode())
        self._wire.write(f"{{ {script}\n}} </dev/null; printf %s {token}\n".encode("utf-8", "surrogateescape"))
        return await self._heard.until(token.encode())
