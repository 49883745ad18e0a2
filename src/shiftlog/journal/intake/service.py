"""The journal's side of an import: a batch of facts becomes entries, with keys and cursor, in one transaction.

Facts arrive redacted. A fact with a known key is not written again, a terminal turn is never changed (later facts are
amendments), and an import never closes or wakes a session, nor changes which turn is current.
"""

import hmac
import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shiftlog.facts.batch import Batch
from shiftlog.journal.clock import Clock
from shiftlog.journal.intake.batch import BatchWork
from shiftlog.journal.intake.outcome import BatchOutcome
from shiftlog.journal.signing.files import publish
from shiftlog.link.files import read_regular
from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Reader, Store, Writer
from shiftlog.store.sources import Source

KEY_BYTES = 32
NONCE_BYTES = 12
STATE_LABEL = b"shiftlog-reader-state-v1"

log = logging.getLogger(__name__)


class StateLock:
    """Encrypts the states of transcript readers for the database.

    Between two imports a reader remembers text as it was written (open calls, titles, lines held back). It is compared
    with later text, so it cannot be masked; the key lies in a file of its own.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(key, STATE_LABEL, "sha256"))

    def lock(self, state: bytes) -> bytes:
        """Encrypt a state for the database; None stays None."""
        if not state:
            return b""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, state, STATE_LABEL)

    def unlock(self, kept: bytes) -> bytes | None:
        """Decrypt a state; None if another key encrypted it: its file is then read whole."""
        try:
            return self._cipher.decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], STATE_LABEL)
        except (InvalidTag, ValueError):
            return None


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
            before = source if follows is None else _going_on(writer, source, follows)
            written = BatchWork(writer, batch, before, self._clock)
            written.run()
            if moved_from is not None:
                writer.forget_source(moved_from)
            read = written.read_source()
            writer.put_source(read if read.state is None else replace(read, state=self._lock.lock(read.state)))
            return written.outcome

        return await self._store.write_bulk(work)

    async def secure(self, path: str) -> None:
        """Make everything written so far durable; `path` names one of its sources."""

        def work(writer: Writer) -> None:
            source = writer.source(path)
            if source is not None:
                writer.put_source(source)

        await self._store.write(work)

    async def sources(self) -> list[Source]:
        """Return all files read so far, without the states of their readers."""
        return await self._store.read(lambda reader: reader.sources())

    async def states(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the states of the readers of some files; none where it is of another key."""
        wanted = list(paths)

        def work(reader: Reader) -> dict[str, bytes]:
            found = ((path, reader.source_state(path)) for path in wanted)
            return {path: state for path, state in found if state is not None}

        kept = await self._store.read(work)
        return {path: state for path, locked in kept.items() if (state := self._lock.unlock(locked)) is not None}

    async def without_project(self, session_ids: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """Return the first directories of sessions that have no project yet, as after an interrupted import."""
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
    """Return a source as the batches before this one left it."""
    stored = writer.source(source.path)
    if stored is None or stored.cursor + stored.ahead != follows:
        reason = f"the part of {source.path} up to {follows} was not stored"
        raise StorageError("Storage error", details={"reason": reason})
    return replace(
        source,
        cursor=stored.cursor,
        tail=stored.tail,
        ahead=stored.ahead,
        counts=stored.counts,
        sessions=stored.sessions,
    )


def import_key(path: Path) -> bytes:
    """Return the key under which origin keys hide texts, made where there is none or none that is whole.

    Raises StorageError if it cannot be read or made: what needs it waits.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            publish(path, os.urandom(KEY_BYTES))
        elif not path.is_file() or path.stat().st_size != KEY_BYTES:
            log.warning("%s is no key; a new one is drawn, and transcripts are read whole again", path)
            path.unlink(missing_ok=True)
            publish(path, os.urandom(KEY_BYTES))
        return read_regular(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        raise StorageError(
            f"Storage error: {reason}",
            details={"reason": reason, "disk": str(error.strerror)},
            hint="Make it a file of yours, or move it away: a new one is made, and transcripts are read whole again",
        ) from error
