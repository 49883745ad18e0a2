"""The records of checkpoints in the journal: entries of the sessions that took them, read back by workspace.

A workspace's records are read once and kept in memory, because one server at a time works on a state directory. A
command before which nothing had changed gets no entry for its checkpoint: the entry of its start names the earlier one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from shiftlog.journal.seen_files import SeenFiles
from shiftlog.journal.shells.log import ShellLog
from shiftlog.journal.texts import CHECKPOINT, RESTORE
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.store.protocol import Filter, Page, Reader, Store
from shiftlog.workspace.ports import Cause, CheckpointChanges, Location, Record, Restored, Saved

READ_AT_ONCE = 1_000
_KINDS = (Kind.CHECKPOINT_SAVED, Kind.CHECKPOINT_RESTORED, Kind.COMMAND_STARTED)
_OF_THE_ENTRY = ("target", "workspace", "seen", "between")
_OWN = Caller(face="workspace")


class JournalCheckpointLog:
    """Keeps the records of every workspace, in the order in which they were made."""

    def __init__(self, store: Store, log: ShellLog) -> None:
        self._store = store
        self._log = log
        self._records: dict[Location, list[Record]] = {}
        self._sessions: dict[Location, list[str]] = {}
        self._implicit: set[str] = set()

    async def append(self, location: Location, record: Record) -> None:
        """Keep a record; it is durable when this returns."""
        records = await self._load(location)
        by_its_start = isinstance(record, Saved) and record.reused and record.cause.command_id is not None
        if not by_its_start:
            session_id = record.cause.session_id or await self._home(location, record)
            kind = Kind.CHECKPOINT_SAVED if isinstance(record, Saved) else Kind.CHECKPOINT_RESTORED
            await self._log.note(session_id, kind, _facts(location, record))
            await self._add_seen(location, record)
            known = self._sessions.setdefault(location, [])
            if session_id not in known:
                known.append(session_id)
            if session_id in self._implicit and not (isinstance(record, Saved) and record.kind == "safety"):
                # A safety checkpoint is only the first half of what is to be recorded.
                self._implicit.discard(session_id)
                await self._log.finish(session_id)
        records.append(replace(record, changes=None) if isinstance(record, Saved) else record)

    async def _add_seen(self, location: Location, record: Record) -> None:
        """Add the files that changed before a checkpoint to the turn that was open meanwhile."""
        changes = record.changes if isinstance(record, Saved) else None
        if not isinstance(record, Saved) or changes is None:
            return
        session_id, request_id = changes.cause.session_id, changes.cause.request_id
        if session_id and request_id:
            await self._log.files_seen(session_id, request_id, _seen_files(location, record, changes))

    async def read(self, location: Location) -> Sequence[Record]:
        """Return a workspace's records, oldest first."""
        return await self._load(location)

    async def turn_began(self, location: Location, request_id: str, session_id: str | None) -> datetime | None:
        """Return when a turn began: in this session if it has that id, else in the newest one on this workspace."""
        await self._load(location)
        names = [*([session_id] if session_id else []), *reversed(self._sessions.get(location, []))]

        def work(reader: Reader) -> datetime | None:
            turns = (reader.turn(name, request_id) for name in names)
            return next((turn.begun_at for turn in turns if turn is not None), None)

        return await self._store.read(work)

    async def command_began(self, location: Location, command_id: str) -> datetime | None:
        """Return when a command of a shell on this workspace started."""
        await self._load(location)
        names = list(self._sessions.get(location, []))

        def work(reader: Reader) -> datetime | None:
            for name in names:
                for entry in reader.entries(name, kinds=[Kind.COMMAND_STARTED]):
                    if entry.facts.get("command_id") == command_id:
                        return entry.at
            return None

        return await self._store.read(work)

    async def locations(self) -> list[Location]:
        """Return every workspace that has records."""
        return await self._store.read(lambda reader: list(dict.fromkeys(location for _, location in _taken(reader))))

    async def _home(self, location: Location, record: Record) -> str:
        """Return the session that a record without one belongs to: the newest on that workspace that is open."""
        for session_id in reversed(self._sessions.get(location, [])):
            session = await self._store.read(lambda reader, name=session_id: reader.session(name))
            if session is not None and session.is_live:
                return session_id
        here = location.path if location.target is None else None
        caller = replace(_OWN, client_name=record.cause.by, cwd=here, workspace=here)
        is_restore = isinstance(record, Restored) or record.kind == "safety"
        what = "Restore" if is_restore else "Checkpoint"
        home = await self._log.home(None, caller, f"{what} of {Path(location.path).name or location.path}")
        if home.implicit:
            self._implicit.add(home.session_id)
        return home.session_id

    async def _load(self, location: Location) -> list[Record]:
        if location not in self._records:
            sessions, records = await self._store.read(lambda reader: _read(reader, location))
            self._sessions[location] = sessions
            self._records[location] = records
        return self._records[location]


def _taken(reader: Reader) -> Iterator[tuple[str, Location]]:
    """Yield the session and the workspace of every checkpoint, the newest first."""
    after: tuple[int, int] | None = None
    while rows := reader.find_entries(Filter(), Page(limit=READ_AT_ONCE, after=after), [CHECKPOINT, RESTORE]):
        yield from ((row.session_id, _location(row.entry)) for row in rows if row.entry.body is not None)
        after = rows[-1].at


def _read(reader: Reader, location: Location) -> tuple[list[str], list[Record]]:
    sessions = [session_id for session_id, where in _taken(reader) if where == location]
    names = list(dict.fromkeys(reversed(sessions)))
    entries = [(entry, name) for name in names for entry in reader.entries(name, kinds=_KINDS)]
    entries.sort(key=lambda pair: (pair[0].at, pair[0].seq))
    records: list[Record] = []
    by_id: dict[str, Saved] = {}
    for entry, name in entries:
        if entry.body is None:
            continue
        if entry.kind is Kind.COMMAND_STARTED:
            saved = by_id.get(str(entry.facts.get("checkpoint_id")))
            if saved is not None and not entry.facts.get("read_only"):
                cause = Cause(session_id=name, request_id=entry.turn, command_id=entry.facts.get("command_id"))
                records.append(replace(saved, kind="auto", cause=cause, at=entry.at, reused=True))
        elif _location(entry) == location:
            record = _record(entry)
            records.append(record)
            if isinstance(record, Saved):
                by_id[record.checkpoint_id] = record
    return names, records


def _location(entry: Entry) -> Location:
    return Location(target=entry.facts.get("target"), path=str(entry.facts.get("workspace", "")))


def _facts(location: Location, record: Record) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(record)
    if isinstance(record, Saved):
        facts["id"] = facts.pop("checkpoint_id")
        changes = facts.pop("changes") and record.changes
        if changes and not changes.cause.request_id:
            facts |= _seen_files(location, record, changes).as_facts()
    return {"target": location.target, "workspace": location.path, **facts}


def _seen_files(location: Location, saved: Saved, changes: CheckpointChanges) -> SeenFiles:
    return SeenFiles(
        files=changes.files,
        command_id=changes.cause.command_id,
        since=changes.since,
        until=saved.checkpoint_id,
        workspace=location.path if location.target is None else None,
    )


def _record(entry: Entry) -> Record:
    facts = {name: value for name, value in entry.facts.items() if name not in _OF_THE_ENTRY}
    if entry.kind is Kind.CHECKPOINT_SAVED:
        facts["checkpoint_id"] = facts.pop("id")
        return msgspec.convert(facts, Saved, strict=False)
    return msgspec.convert(facts, Restored, strict=False)
