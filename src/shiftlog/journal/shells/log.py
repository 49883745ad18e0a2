"""Shells and commands in the journal: writes the entries of the shell service, and reads them back.

A command that runs while a turn is open is also an action of that turn. Shells are found by their facet, so that a
new daemon knows which shells an earlier one left.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.continuity.service import Continuity
from shiftlog.journal.journal import Journal, closed_error, find_session
from shiftlog.journal.pen import Pen
from shiftlog.journal.rules import next_order
from shiftlog.journal.seen_files import SeenFiles, write_seen
from shiftlog.journal.sessions import Sessions
from shiftlog.journal.shells.reserve import DiskReserve
from shiftlog.journal.texts import SHELL
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import DISK_FULL, StorageError
from shiftlog.model.limits import SHELLS_LOOKED_BACK
from shiftlog.model.nouns import Session
from shiftlog.model.shells import Facts, KnownCommand, KnownShell, ShellHome
from shiftlog.store.protocol import About, EntryRow, Filter, Page, Reader, Writer
from shiftlog.text.printable import one_line

DESCRIPTION_CHARS = 500
LOOKED_AT = 2_000

T = TypeVar("T")


class ShellLog:
    """Writes and reads the record of shells."""

    def __init__(
        self, journal: Journal, sessions: Sessions, continuity: Continuity, redactor: Redactor, reserve: DiskReserve
    ) -> None:
        self._journal = journal
        self._sessions = sessions
        self._continuity = continuity
        self._redactor = redactor
        self.reserve = reserve

    async def home(self, session_id: str | None, caller: Caller, title: str) -> ShellHome:
        """Find the session to belong to: the one named, else the one the caller has open, else a new implicit one."""
        if session_id is not None:
            found = await self._journal.store.read(lambda reader: self._writable(reader, session_id, caller))
            return ShellHome(session_id=found.id, implicit=False)
        own = await self._journal.store.read(lambda reader: _own(reader, caller))
        if own is not None:
            return ShellHome(session_id=own, implicit=False)
        agent = _kind_of(caller.client_name)
        opened = await self._sessions.open_session({"agent": agent, "title": title}, caller, implicit=True)
        return ShellHome(session_id=opened["session_id"], implicit=not opened["joined"])

    async def session_id(self, name: str) -> str:
        """Return the id of the session that a name of any form names."""
        return (await self._journal.store.read(lambda reader: find_session(reader, name))).id

    def _writable(self, reader: Reader, session_id: str, caller: Caller) -> Session:
        session = find_session(reader, session_id)
        self._check_writer(reader, session, caller)
        return session

    def _check_writer(self, reader: Reader, session: Session, caller: Caller) -> None:
        if not session.is_live:
            raise closed_error(session)
        self._journal.check_writer(reader, session, caller)

    async def check_caller(self, session_id: str, caller: Caller) -> None:
        """Refuse a caller that may not write a session: fenced off, or of another agent while a client holds it."""

        def work(reader: Reader) -> None:
            session = reader.session(session_id)
            if session is not None and session.is_live:
                self._journal.check_writer(reader, session, caller)

        await self._journal.store.read(work)

    async def check_live(self, session_id: str) -> None:
        """Raise SessionClosed for a session that has ended; records of its running commands are still written."""

        def work(reader: Reader) -> None:
            session = find_session(reader, session_id)
            if not session.is_live:
                raise closed_error(session)

        await self._journal.store.read(work)

    # Writing

    async def shell_opened(self, session_id: str, facts: Facts) -> None:
        """Record that a shell lives."""
        await self._write(session_id, lambda pen: self.put(pen, Kind.SHELL_OPENED, facts))

    async def shell_ended(self, session_id: str, facts: Facts, *, close_session: bool) -> None:
        """Record that a shell is over, and close the implicit session whose last one it was."""
        await self._write(session_id, lambda pen: self.put(pen, Kind.SHELL_ENDED, facts))
        if close_session:
            await self._continuity.end_implicit(session_id, "completed")

    async def abandon(self, session_id: str) -> None:
        """Close an implicit session whose shell never came up."""
        await self._continuity.end_implicit(session_id, "abandoned")

    async def finish(self, session_id: str) -> None:
        """Close an implicit session that was only opened to record something."""
        await self._continuity.end_implicit(session_id, "completed")

    async def sync(self) -> None:
        """Make the starts of commands durable that are not yet."""
        await self._journal.store.sync()

    async def command_started(self, session_id: str, facts: Facts, caller: Caller, *, waited_for: bool) -> str | None:
        """Record that a command is about to run; return the turn that is open. Raise SessionClosed or LeaseLost.

        The start of one whose end is waited for need not last by itself: its end, which does, makes both last.
        """

        def work(pen: Pen) -> str | None:
            turn = open_turn_of(pen)
            self.put(pen, Kind.COMMAND_STARTED, facts, turn)
            return turn

        return await self._write(session_id, work, lasting=not waited_for, caller=caller)

    async def command_finished(self, session_id: str, request_id: str | None, facts: Facts) -> None:
        """Record how a command ended, also as an action of the turn that it began in while that is open."""

        await self._write(session_id, lambda pen: self._put_end(pen, request_id, facts))

    async def command_refused(self, session_id: str, facts: Facts, caller: Caller) -> str | None:
        """Record a command that never ran, also as an action of the turn that is open, which is returned.

        Raise SessionClosed or LeaseLost, as for a command that would run.
        """

        def work(pen: Pen) -> str | None:
            turn = open_turn_of(pen)
            self._put_end(pen, turn, facts)
            return turn

        return await self._write(session_id, work, caller=caller)

    def _put_end(self, pen: Pen, request_id: str | None, facts: Facts) -> None:
        turn = pen.turn(request_id) if request_id else None
        # A command that ended with its server is no act of the agent.
        pen.automatic = facts.get("state") == "unknown" or bool(facts.get("interrupted_by"))
        self.put(pen, Kind.COMMAND_FINISHED, facts, request_id if turn else None)
        if turn is not None and not turn.is_terminal:
            action = {
                "description": one_line(str(facts.get("command", "")), DESCRIPTION_CHARS) or "(no text)",
                "type": "command",
                "status": "completed" if facts.get("exit_code") == 0 else "failed",
                "order": next_order(pen, turn),
                "file_path": "",
                "command_id": facts.get("command_id"),
                "exit_code": facts.get("exit_code"),
            }
            self.put(pen, Kind.ACTION, action, turn.request_id)

    async def command_input(self, session_id: str, facts: Facts) -> None:
        """Record what was sent to a running command."""
        await self._write(session_id, lambda pen: self.put(pen, Kind.COMMAND_INPUT, facts, open_turn_of(pen)))

    async def approval_asked(self, session_id: str, facts: Facts) -> None:
        """Record that a person is asked about a command."""
        await self.note(session_id, Kind.COMMAND_ASKED, facts)

    async def approval_decided(self, session_id: str, facts: Facts) -> None:
        """Record the person's decision."""
        await self.note(session_id, Kind.COMMAND_DECIDED, facts)

    async def note(self, session_id: str, kind: Kind, facts: Facts) -> None:
        """Record any other fact of a shell's session."""
        await self._write(session_id, lambda pen: self.put(pen, kind, facts, open_turn_of(pen)))

    async def files_seen(self, session_id: str, request_id: str, seen: SeenFiles) -> None:
        """Record files of a turn that checkpoints show as changed; the next write makes this durable too."""

        def work(pen: Pen) -> None:
            named: dict[str, Any] = {
                "files": [{"path": path} for path in seen.files],
                "workspace": seen.workspace,
            }
            masked: dict[str, Any]
            masked, _, _ = self._redactor.value(named, by_rule=True, path_fields=frozenset({"path", "workspace"}))
            files = zip((str(file["path"]) for file in masked["files"]), seen.files.values(), strict=True)
            pen.automatic = True
            write_seen(pen, request_id, replace(seen, files=dict(files), workspace=masked["workspace"]))

        await self._write(session_id, work, lasting=False)

    async def _write(
        self, session_id: str, work: Callable[[Pen], T], *, lasting: bool = True, caller: Caller | None = None
    ) -> T:
        """Run work that writes about a shell; for a caller only if that one may write."""
        return await self.write_beside(session_id, lambda pen, _: work(pen), lasting=lasting, caller=caller)

    async def write_beside(
        self, session_id: str, work: Callable[[Pen, Writer], T], *, lasting: bool = True, caller: Caller | None = None
    ) -> T:
        """Write entries, and records beside them, in one transaction; raise LookupError without the session."""

        def transaction(writer: Writer) -> T:
            session = writer.session(session_id)
            if session is None:
                raise LookupError(session_id)
            if caller is not None:
                self._check_writer(writer, session, caller)
            pen = self._journal.pen(writer, session_id, session)
            result = work(pen, writer)
            pen.commit(writer)
            return result

        about = About(session_id=session_id, client_id=caller.client_id if caller else None)
        self.reserve.hold()
        try:
            return await self._journal.store.write(transaction, lasting=lasting, about=about)
        except StorageError as error:
            if error.details.get("disk") != DISK_FULL or not self.reserve.release():
                raise
        return await self._journal.store.write(transaction, lasting=lasting, about=about)

    def put(self, pen: Pen, kind: Kind, facts: Facts, turn: str | None = None) -> None:
        """Write one entry with its secrets masked."""
        body, _, _ = self._redactor.value(dict(facts), by_rule=True, path_fields=frozenset({"cwd", "workspace"}))
        pen.write(kind, body, turn)

    # Reading

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Read from the store."""
        return await self._journal.store.read(work)

    async def open_turn(self, session_id: str) -> str | None:
        """Return the turn of a session that is open, if one is."""

        def work(reader: Reader) -> str | None:
            session = reader.session(session_id)
            return open_turn_of(self._journal.pen(reader, session_id, session)) if session else None

        return await self._journal.store.read(work)

    async def shells(self, since: datetime) -> Sequence[KnownShell]:
        """Return the shells of sessions that were active since a time, newest first."""

        def work(reader: Reader) -> list[KnownShell]:
            return [_known(reader, row.session_id, row.entry) for row in _openings(reader, Filter(from_=since))]

        return await self._journal.store.read(work)

    async def left(self, now: datetime) -> Sequence[KnownShell]:
        """Return the shells of the last month without a recorded end."""
        return [
            known for known in await self.shells(now - SHELLS_LOOKED_BACK) if known.ended is None and known.shell_id
        ]

    async def undecided(self, session_id: str) -> Sequence[Facts]:
        """Return the questions of a session that no decision followed, oldest first."""

        def work(reader: Reader) -> Sequence[Facts]:
            asked: dict[object, Facts] = {}
            for entry in reader.entries(session_id, kinds=(Kind.COMMAND_ASKED, Kind.COMMAND_DECIDED)):
                approval_id = entry.facts.get("approval_id")
                if entry.kind is Kind.COMMAND_DECIDED:
                    asked.pop(approval_id, None)
                elif approval_id:
                    asked[approval_id] = entry.facts
            return list(asked.values())

        return await self._journal.store.read(work)

    async def shell(self, shell_id: str) -> KnownShell | None:
        """Return the recorded facts of one shell."""
        return await self._journal.store.read(lambda reader: _find(reader, shell_id))

    async def command(self, command_id: str) -> KnownCommand | None:
        """Return the recorded facts of one command."""

        def work(reader: Reader) -> KnownCommand | None:
            known = _find(reader, command_id.rpartition("#")[0])
            if known is None:
                return None
            found = {
                entry.kind: entry
                for entry in reader.entries(known.session_id, kinds=(Kind.COMMAND_STARTED, Kind.COMMAND_FINISHED))
                if entry.facts.get("command_id") == command_id
            }
            if not found:
                return None
            started, finished = found.get(Kind.COMMAND_STARTED), found.get(Kind.COMMAND_FINISHED)
            first = started or finished
            return KnownCommand(
                session_id=known.session_id,
                request_id=first.turn if first else None,
                started=started.facts if started else None,
                finished=finished.facts if finished else None,
            )

        return await self._journal.store.read(work)

    async def knows_run(self, run: str) -> bool:
        """Return True if any shell's id begins with these digits."""

        def work(reader: Reader) -> bool:
            openings = _openings(reader, Filter())
            return any(str(row.entry.facts.get("shell_id", "")).startswith(f"{run}-") for row in openings)

        return await self._journal.store.read(work)


def _openings(reader: Reader, where: Filter) -> list[EntryRow]:
    return reader.find_entries(where, Page(limit=LOOKED_AT), [SHELL])


def _find(reader: Reader, shell_id: str) -> KnownShell | None:
    for row in _openings(reader, Filter()):
        if row.entry.facts.get("shell_id") == shell_id:
            return _known(reader, row.session_id, row.entry)
    return None


def _known(reader: Reader, session_id: str, opened: Entry) -> KnownShell:
    shell_id = opened.facts.get("shell_id")
    ended: Entry | None = None
    started: dict[object, Entry] = {}
    last: Facts | None = None
    numbers = 0
    for entry in reader.entries(
        session_id, after=opened.seq, kinds=(Kind.SHELL_ENDED, Kind.COMMAND_STARTED, Kind.COMMAND_FINISHED)
    ):
        if entry.facts.get("shell_id") != shell_id:
            continue
        command_id = entry.facts.get("command_id")
        number = str(command_id).rpartition("#")[2]
        numbers = max(numbers, int(number) if number.isdecimal() else 0)
        if entry.kind is Kind.SHELL_ENDED:
            ended = entry
        elif entry.kind is Kind.COMMAND_STARTED:
            started[command_id] = entry
            last = entry.facts
        # The end of a command that ran in the background does not make it the last one.
        elif started.pop(command_id, None) is None or last is None or last.get("command_id") == command_id:
            last = entry.facts
    return KnownShell(
        session_id=session_id,
        opened_at=opened.at,
        opened=opened.facts,
        ended_at=ended.at if ended else None,
        ended=ended.facts if ended else None,
        last_command=last,
        unfinished=[
            KnownCommand(session_id=session_id, request_id=entry.turn, started=entry.facts, finished=None)
            for entry in started.values()
        ],
        numbers=numbers,
    )


def _own(reader: Reader, caller: Caller) -> str | None:
    """Return the one open session that this client opened or resumed."""
    if not caller.client_id:
        return None
    held = [lease.session_id for lease in reader.leases() if lease.client_id == caller.client_id]
    live = [name for name in held if (session := reader.session(name)) is not None and session.is_live]
    return live[0] if len(live) == 1 else None


def open_turn_of(pen: Pen) -> str | None:
    """Return the turn of the pen's session that is open."""
    current = pen.session.current_turn
    turn = pen.turn(current) if current else None
    return turn.request_id if turn is not None and not turn.is_terminal else None


def _kind_of(client_name: str | None) -> str:
    """Return a client's name as an agent kind: `claude-code` is `ClaudeCode`."""
    words = re.findall(r"[A-Za-z0-9]+", client_name or "")
    kind = "".join(word[:1].upper() + word[1:] for word in words)[:64]
    return kind if re.fullmatch(r"[A-Z][A-Za-z0-9]*", kind) else "Agent"
