"""A command in a remote shell: when it is over, its input, and how its processes are signalled from aside.

Over means that the shell has reported the end and everything that the command itself wrote has come. A child left
behind holds the line open; what it writes later is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from anyio import CancelScope

from shiftlog.model.shell_errors import CommandNotRunning, StdinClosed
from shiftlog.shell.engine.command import DROP_NUMBER, ESCALATION, SIGNAL_NUMBERS
from shiftlog.shell.ports import CommandEnd, CommandSpec, EndedReason, Signal
from shiftlog.shell.remote.aside import Table
from shiftlog.shell.remote.direct import Direct
from shiftlog.shell.remote.line import Line

if TYPE_CHECKING:
    from shiftlog.shell.engine.terminal import TerminalScreen
    from shiftlog.shell.remote.shell import InbandShell

#: How long the streams of a command that has ended may take to end as well before someone is taken to hold them.
HELD_S = 0.02
_PROBE_S = 3.0
_ASK_S = 2.5
_NUDGE_S = 0.25
_ENDING: frozenset[Signal] = frozenset({"interrupt", "terminate", "kill", "hangup", "quit"})


class InbandCommand:
    """One running command; see `RunningCommand` for what each verb promises."""

    screen: TerminalScreen | None = None

    def __init__(self, shell: InbandShell, spec: CommandSpec, token: str, line: Line | Direct) -> None:
        self.token = token
        self.line = line
        self.in_shell = not spec.background
        self.began = False
        self.reported = False
        self.cut_status: int | None = None
        self.copied: asyncio.Future[None] | None = None if self.in_shell else shell.loop.create_future()
        self._shell = shell
        self._root: int | None = None
        self.since = time.monotonic()
        self._ended: asyncio.Future[CommandEnd] = shell.loop.create_future()
        self._settled = asyncio.Event()
        self._end: tuple[int, str] = (0, "")
        self._signal: Signal | None = None
        self._feeding = CancelScope()
        self._input_over = False
        line.on_end = self._on_streams
        if not self.in_shell:
            shell.copies.add(self)

    @property
    def ended(self) -> asyncio.Future[CommandEnd]:
        return self._ended

    # What the shell and the line tell

    def on_pid(self, pid: int) -> None:
        """Learn that the command runs, and for a copy as what process."""
        self.began = True
        if self.copied is not None and not self.copied.done():
            self._root = pid
            self.copied.set_result(None)

    def on_report(self, status: int, cwd: str) -> None:
        """Learn that the command is over; its last bytes may still be on their way."""
        if self.reported:
            return
        self.reported = True
        self._end = (status, cwd)
        if self.line.settled:
            self.finish(status, cwd)
        else:
            self._shell.tasks.start_soon(self._settle)

    def finish(
        self, exit_code: int | None, cwd: str, shell_ended: EndedReason | None = None, *, lost: bool = False
    ) -> None:
        """Resolve `ended`; once."""
        if self._ended.done():
            return
        self._feeding.cancel()
        if self.line.feeds:
            self.line.finish_input()
        if self.copied is not None and not self.copied.done():
            self.copied.set_result(None)
        self._ended.set_result(
            CommandEnd(
                exit_code=exit_code,
                cwd=cwd,
                signal=self._signal,
                lost=lost,
                shell_ended=shell_ended,
                streams_open=frozenset() if lost or shell_ended else self.line.open_streams,
            )
        )
        self._shell.let_go(self)

    async def outputs_settled(self, timeout_s: float) -> None:
        """Wait until what the command wrote has come, but not for what its children may still write."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._until_settled()

    # What the caller asks

    def feed(self, data: bytes) -> None:
        """Begin to write the input that came with the command; its end is end-of-file."""
        self._shell.tasks.start_soon(self._feed, data)

    async def send(self, data: bytes) -> None:
        """Write to the command's standard input."""
        self._check_input()
        await self.line.send(data)

    async def send_eof(self) -> None:
        """Close the command's standard input."""
        self._check_input()
        self._input_over = True
        self.line.finish_input()

    async def signal(self, name: Signal) -> None:
        """Signal the command's processes; work inside the shell is interrupted instead."""
        if self._ended.done():
            raise CommandNotRunning("the command is over")
        self._signal = name
        try:
            table = await self._shell.aside.table(_ASK_S)
            pids = self._processes(table)
            if self.in_shell and (name == "interrupt" or (name in _ENDING and not pids)):
                await self._interrupt_shell(SIGNAL_NUMBERS["interrupt"])
            await self._shell.aside.kill(SIGNAL_NUMBERS[name], pids, _ASK_S)
        except (TimeoutError, ConnectionError):
            self._shell.lose()

    async def stop(self) -> CommandEnd:
        """End the command step by step; a shell that cannot be brought back is ended, one that is silent is lost."""
        answered = False
        for name, patience_s in ESCALATION:
            if self._ended.done():
                break
            self._signal = name
            with contextlib.suppress(TimeoutError, ConnectionError):
                table = await self._shell.aside.table(_ASK_S)
                answered = True
                pids = self._processes(table)
                if self.in_shell:
                    await self._interrupt_shell(DROP_NUMBER)
                await self._shell.aside.kill(SIGNAL_NUMBERS[name], pids, _ASK_S)
                await self._shell.aside.kill(SIGNAL_NUMBERS["continue"], pids, _ASK_S)
            await asyncio.wait([self._ended], timeout=patience_s)
        if not self._ended.done():
            if answered:
                await self._shell.close("unresponsive")
            else:
                self._shell.lose()
        return await asyncio.shield(self._ended)

    # Inside

    def _on_streams(self) -> None:
        if self.line.settled:
            self._settled.set()
            if self.reported and not self._ended.done():
                self.finish(*self._end)
        if self._ended.done() and not self.line.clean:
            self.line.leave()

    async def _until_settled(self) -> None:
        if not self.line.settled:
            await self._settled.wait()

    async def _settle(self) -> None:
        """Wait for the last bytes; where a child holds the streams, mark where the command's own part ends."""
        await self.outputs_settled(HELD_S if isinstance(self.line, Line) else _PROBE_S)
        if isinstance(self.line, Line) and not self._ended.done() and not self.line.settled:
            mark, places = self.line.probe()
            script = "; ".join(f"printf %s {mark} >{place} &" for place in places).replace("&;", "&")
            with contextlib.suppress(TimeoutError, ConnectionError):
                await self._shell.aside.ask(f"{script} wait", _PROBE_S)
                await self.outputs_settled(_PROBE_S)
        self.finish(*self._end)

    async def _feed(self, data: bytes) -> None:
        with self._feeding, contextlib.suppress(ConnectionError):
            await self.line.send(data)
            self.line.finish_input()

    def _check_input(self) -> None:
        if self._ended.done():
            raise CommandNotRunning("the command is over")
        if not self.line.feeds or self._input_over:
            raise StdinClosed("the command's standard input is closed")

    async def _interrupt_shell(self, number: int) -> None:
        if self._shell.pid is not None:
            await self._shell.aside.kill(self._shell.drop_signal(number), [self._shell.pid], _ASK_S)
            self._shell.nudge_later(self, _NUDGE_S)

    def _processes(self, table: Table) -> list[int]:
        """Find the processes that this command started; of a copy, the copy itself too."""
        if not self.in_shell:
            return [] if self._root is None else [one.pid for one in table.family(self._root)]
        others = self._shell.other_pids(table)
        session = table.sessions({self._shell.kept.session}, [self._shell.kept.keeper])
        return [one.pid for one in session if one.pid not in others and table.started_since(one, self.since)]

    @property
    def root(self) -> int | None:
        """The process of a copy."""
        return self._root
