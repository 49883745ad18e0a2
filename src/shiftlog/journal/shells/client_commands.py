"""Commands that agents' own programs run in our sandbox: their starts and ends as entries.

Those that run are remembered in the transaction of their start. So the next daemon records an end for each that its
predecessor took along.
"""

import secrets
from dataclasses import replace
from typing import Any

import msgspec

from shiftlog.journal.pen import Pen
from shiftlog.journal.shells.log import ShellLog, open_turn_of
from shiftlog.model.entry import Kind
from shiftlog.model.shells import Facts
from shiftlog.store.protocol import Reader, Writer
from shiftlog.store.sources import NO_FILE

RUNNING = "guard:running"
UNKNOWN = "unknown"
DAEMON_ENDED = "daemon_ended"
DAEMON_ENDED_HINT = "the daemon ended while it ran, and all its processes with it; what it did before that stays"


class ClientCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that runs; `daemon` is drawn anew by each process that records commands."""

    session_id: str
    turn: str | None
    daemon: str


Running = dict[str, ClientCommand]
_running = msgspec.msgpack.Decoder(Running).decode


class ClientCommands:
    """Records the commands of clients."""

    def __init__(self, log: ShellLog) -> None:
        self._log = log
        self._daemon = secrets.token_hex(8)

    async def started(self, session_id: str, facts: Facts) -> None:
        """Record that a command is about to run, in the turn that is open; its end, which lasts, makes both last."""

        def work(pen: Pen, writer: Writer) -> None:
            turn = open_turn_of(pen)
            self._log.put(pen, Kind.COMMAND_STARTED, facts, turn)
            known = ClientCommand(session_id=session_id, turn=turn, daemon=self._daemon)
            _write_running(writer, {**_read_running(writer), str(facts["command_id"]): known})

        await self._log.write_beside(session_id, work, lasting=False)

    async def finished(self, session_id: str, facts: Facts, *, is_left: bool = False) -> None:
        """Record how a command ended, in the turn that it began in."""

        def work(pen: Pen, writer: Writer) -> None:
            running = _read_running(writer)
            known = running.pop(str(facts["command_id"]), None)
            pen.automatic = is_left  # a command that ended with the daemon is no act of the agent
            self._log.put(pen, Kind.COMMAND_FINISHED, facts, known.turn if known is not None else None)
            _write_running(writer, running)

        await self._log.write_beside(session_id, work)

    async def end_left(self) -> None:
        """Record the end of the commands that an earlier daemon left; their outcome is unknown."""
        for command_id, left in (await self._log.read(_read_running)).items():
            if left.daemon == self._daemon:
                continue
            facts = await self._log.read(lambda reader, left=left, name=command_id: _left_facts(reader, left, name))
            await self.finished(left.session_id, facts, is_left=True)


def _left_facts(reader: Reader, left: ClientCommand, command_id: str) -> dict[str, Any]:
    starts = reader.entries(left.session_id, kinds=(Kind.COMMAND_STARTED,))
    started = next((entry.facts for entry in starts if entry.facts.get("command_id") == command_id), None) or {}
    kept = ("tool_use_id", "command", "sandbox", "cwd")
    ended = {"state": UNKNOWN, "exit_code": None, "reason": DAEMON_ENDED, "hint": DAEMON_ENDED_HINT}
    return {"command_id": command_id, **{name: started[name] for name in kept if name in started}, **ended}


def _read_running(reader: Reader) -> Running:
    kept = reader.source_state(RUNNING)
    return _running(kept) if kept else {}


def _write_running(writer: Writer, running: Running) -> None:
    if running:
        writer.put_source(replace(NO_FILE, path=RUNNING, state=msgspec.msgpack.encode(running)))
    else:
        writer.forget_source(RUNNING)
