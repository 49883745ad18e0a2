"""The part of a live bash that a later server needs: its state, the outputs, and the holder that keeps both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shiftlog.shell.engine.streams import FreeOutputs, OutputPoll

if TYPE_CHECKING:
    from shiftlog.shell.engine.directory import PipeDirectory
    from shiftlog.shell.engine.holders import ShellHolders
    from shiftlog.shell.engine.kept import KeptShell, Ledger
    from shiftlog.shell.engine.links import ClaimedLink, ReaperLink


class HeldState:
    """The state that the holder of a shell keeps; `LiveShell` says what each verb promises."""

    def __init__(
        self,
        kept: KeptShell,
        ledger: Ledger,
        directory: PipeDirectory,
        reaper: ReaperLink | ClaimedLink,
        holders: ShellHolders | None,
    ) -> None:
        self.kept = kept
        self.directory = directory
        self.reaper = reaper
        self.reaper_pid = reaper.pid  # every process of this shell descends from it
        self.poll = OutputPoll(asyncio.get_running_loop())
        self.outputs = FreeOutputs(self.poll, directory, self.save, reaper)
        self._ledger = ledger
        self._holders = holders
        self._closing: asyncio.Future[int] | None = None

    def save(self) -> None:
        """Record the state for the next server, before anything that follows from it."""
        self._ledger.write(self.kept)

    @property
    def can_be_held(self) -> bool:
        """True if the shell may outlive this server."""
        return self._holders is not None

    def note(self, note: bytes) -> None:
        """Record what the service must know of the shell if a later server takes it over."""
        if self._closing is None:
            self._ledger.note(note)

    def hold(self, **more: int) -> None:
        """Let the shell outlive this server, with further descriptors; raises `OSError`."""
        if self._holders is not None and self._closing is None:
            directory, door = self._holders.prepare()
            with door:
                self.reaper.keep(door=door.fileno(), **more)
            self.save()
            self._holders.begin(directory, self.reaper, self.reaper_pid)

    def mark(self) -> None:
        """Have the outputs stored that came since the last time, and give back their memory."""
        if self._closing is not None:
            return
        marked = self.outputs.mark()
        if marked:
            self.save()
            for pipe in marked:
                pipe.free()

    def forget(self, number: int) -> None:
        """Forget a command whose end is recorded, unless a leftover process holds its outputs."""
        command = self.kept.commands.get(number)
        if command is not None:
            command.is_recorded = True
            if not any(pipe.lingers and pipe.command == number for pipe in self.kept.pipes.values()):
                del self.kept.commands[number]
