"""The journal's side of an import: a batch of facts becomes entries, with keys and cursor, in one transaction.

Facts arrive redacted. A fact with a known key is not written again, a terminal turn is never changed (later facts are
amendments), and an import never closes or wakes a session, nor changes which turn is current.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from shiftlog.facts.batch import Batch
from shiftlog.journal.clock import Clock
from shiftlog.journal.intake.batch import BatchWork
from shiftlog.journal.intake.states import StateLock
from shiftlog.journal.signing.files import publish
from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Reader, Store, Writer
from shiftlog.store.sources import Source

KEY_BYTES = 32

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BatchOutcome:
    """What a batch came to."""

    entries: int = 0
    sessions: dict[str, bool] = field(default_factory=dict[str, bool])
    """The sessions that the batch speaks of, and whether each is a child."""
    new: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    redactions: Counter[str] = field(default_factory=Counter[str])
    sealed: list[str] = field(default_factory=list[str])
    places: dict[str, list[dict[str, str | None]]] = field(default_factory=dict[str, list[dict[str, str | None]]])


class BatchIntake:
    """Writes batches of imported facts."""

    def __init__(self, store: Store, clock: Clock, key: bytes) -> None:
        self._store = store
        self._clock = clock
        self._lock = StateLock(key)

    async def write(
        self, batch: Batch, source: Source, *, moved_from: str | None = None, follows: int | None = None
    ) -> BatchOutcome:
        """Write a batch and how far its source has been read, all of it or nothing.

        `follows` is the cursor of the batch before it in the same reading; where that one was not stored, neither is
        this. What a loss of power takes is taken whole, and the next import brings it again; `secure` ends that.
        """

        def work(writer: Writer) -> BatchOutcome:
            return self._write(
                writer, batch, source if follows is None else _going_on(writer, source, follows), moved_from
            )

        return await self._store.write_bulk(work)

    async def secure(self, path: str) -> None:
        """Make everything written so far last; `path` names a source of it."""

        def work(writer: Writer) -> None:
            source = writer.source(path)
            if source is not None:
                writer.put_source(source)

        await self._store.write(work)

    def _write(self, writer: Writer, batch: Batch, source: Source, moved_from: str | None) -> BatchOutcome:
        work = BatchWork(writer, batch, source, self._clock)
        work.run()
        if moved_from is not None:
            writer.forget_source(moved_from)
        read = work.read_source()
        writer.put_source(replace(read, state=self._lock.lock(read.state)))
        return BatchOutcome(
            entries=work.entries,
            sessions=work.named,
            new=work.opened,
            counts=work.counts,
            redactions=work.redactions,
            sealed=work.sealed,
            places=work.places,
        )

    async def sources(self) -> list[Source]:
        """Return all files read so far, without the states of their readers."""
        return await self._store.read(lambda reader: reader.sources())

    async def states(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the states of the readers of some files; none where it is of another key."""
        wanted = list(paths)

        def work(reader: Reader) -> dict[str, bytes]:
            found = ((path, reader.source(path)) for path in wanted)
            return {path: source.state for path, source in found if source is not None}

        kept = await self._store.read(work)
        return {path: state for path, locked in kept.items() if (state := self._lock.unlock(locked)) is not None}

    async def without_project(self, session_ids: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """Return where sessions began whose projects are not kept, as after an import that was ended before."""
        wanted = list(session_ids)

        def work(reader: Reader) -> dict[str, dict[str, str | None]]:
            found: dict[str, dict[str, str | None]] = {}
            for session_id in wanted:
                if "project" not in (reader.imported(session_id) or {}):
                    for entry in reader.entries(session_id, until=1):
                        found[session_id] = {name: entry.facts.get(name) for name in ("cwd", "repository")}
            return found

        return await self._store.read(work)

    async def keep_projects(
        self, paths: dict[str, str], sessions: dict[str, dict[str, str]], moved: dict[str, tuple[str, ...]]
    ) -> None:
        """Keep which paths belong to which project, the project of sessions, and folders to which sessions moved."""

        def work(writer: Writer) -> None:
            for path, project in paths.items():
                if writer.project_of(path) != project:
                    writer.put_project_path(path, project)
            for session_id, facts in sessions.items():
                known = writer.imported(session_id) or {}
                if any(known.get(name) != value for name, value in facts.items()):
                    writer.put_imported(session_id, {**known, **facts})
            for path, ids in moved.items():
                project = next((found for one in ids if (found := (writer.imported(one) or {}).get("project"))), None)
                if project is not None:
                    writer.put_project_path(path, project)

        await self._store.write(work)


def _going_on(writer: Writer, source: Source, follows: int) -> Source:
    """Return a source with what the batches before this one have left of it."""
    stored = writer.source(source.path)
    if stored is None or stored.cursor != follows:
        reason = f"the part of {source.path} up to {follows} was not stored"
        raise StorageError("Storage error", details={"reason": reason})
    return replace(source, sessions=stored.sessions)


def import_key(path: Path) -> bytes:
    """Return the key under which origin keys hide texts, made where there is none or none that is whole."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        publish(path, os.urandom(KEY_BYTES))
    elif path.stat().st_size != KEY_BYTES:
        log.warning("%s is no key; a new one is drawn, and transcripts are read whole again", path)
        path.unlink(missing_ok=True)
        publish(path, os.urandom(KEY_BYTES))
    return path.read_bytes()
