"""Archiving: sessions that ended before a month are written to files, read back and checked, and then removed.

Lists and totals still have them. Sessions that are on legal hold, open, or changed in the meantime stay. Restoring the
file brings its sessions back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from shiftlog.app import archive_file
from shiftlog.app.app import App
from shiftlog.app.archive_file import ArchivedEntry, ArchivedSession, ArchivedText
from shiftlog.journal.keeping.holds import hold_on
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import UNFINISHED, SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import precise
from shiftlog.store.codec.packed import unpacked
from shiftlog.store.keeping import Archived
from shiftlog.store.postgres.archiving import MonthSize, month_of, months
from shiftlog.store.postgres.writer import PostgresWriter
from shiftlog.store.protocol import Filter, Page, Reader, Writer
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.rows import entry_id

AT_ONCE = 500
MOST_IN_A_FILE = 2_000
_ENDED = frozenset(str(state) for state in SessionState if state not in UNFINISHED)


@dataclass(slots=True, kw_only=True)
class Candidates:
    """Sessions that may be archived, by the month in which they were recorded, and those that a hold keeps."""

    months: dict[str, list[Session]] = field(default_factory=dict[str, list[Session]])
    held: list[str] = field(default_factory=list[str])

    @property
    def entries(self) -> int:
        """Count the entries of all sessions."""
        return sum(session.head_seq for some in self.months.values() for session in some)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """The files that were written, how many sessions were removed and kept, and the months that were dropped."""

    files: list[str]
    sessions: int
    entries: int
    kept: list[str]
    held: list[str]
    dropped: list[str]


def first_of(month: str) -> datetime:
    """Return the beginning of a month that is written as 2026-01."""
    try:
        return datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidParameter.invalid("before", "a month such as 2026-01", month) from None


class Archives:
    """Archives sessions of a PostgreSQL store, and restores them."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def partitions(self) -> list[MonthSize]:
        """Return the months of the store."""
        return await self._app.store.read(lambda reader: months(cast(SqlReader, reader)))

    async def candidates(self, before: datetime, *, suspended: bool) -> Candidates:
        """Return the sessions that ended and were last active before a time."""
        if before > self._app.clock.now():
            raise InvalidParameter.invalid("before", "a month that has begun", precise(before))
        return await self._app.store.read(lambda reader: _candidates(reader, before, suspended=suspended))

    async def archive(self, found: Candidates, folder: Path) -> ArchiveReport:
        """Write sessions to files in a folder, check each file, and only then remove what it holds."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files: list[str] = []
        removed: list[str] = []
        kept: list[str] = []
        dropped: list[str] = []
        entries = 0
        for month, sessions in found.months.items():
            for start in range(0, len(sessions), MOST_IN_A_FILE):
                some = sessions[start : start + MOST_IN_A_FILE]
                path = self._path(folder, month)
                gone, away = await self._archived(path, month, some)
                files.append(str(path))
                removed += gone
                dropped += away
                kept += [session.id for session in some if session.id not in set(gone)]
                entries += sum(session.head_seq for session in some if session.id in set(gone))
        return ArchiveReport(
            files=files, sessions=len(removed), entries=entries, kept=kept, held=found.held, dropped=dropped
        )

    def _path(self, folder: Path, month: str) -> Path:
        stamp = self._app.clock.now().strftime("%Y%m%dT%H%M%SZ")
        number = 1
        while (path := folder / f"shiftlog-{month}-{stamp}-{number}.jsonl.zst").exists():
            number += 1
        return path.absolute()

    async def _archived(self, path: Path, month: str, sessions: list[Session]) -> tuple[list[str], list[str]]:
        about = {"month": month, "made": precise(self._app.clock.now())}
        await self._app.store.read(lambda reader: archive_file.write(path, about, _read(reader, sessions)))

        def work(writer: Writer) -> tuple[list[str], list[str]]:
            holds = writer.holds()
            items = [Archived(session=each, file=str(path), digest=summary.digest, at=now) for each in sessions]
            free = [item for item in items if hold_on(item.session, holds) is None]
            return cast(PostgresWriter, writer).remove_archived(free)

        try:
            summary, now = archive_file.summary(path), self._app.clock.now()
            return await self._app.store.write(work)
        except BaseException:
            path.unlink()  # nothing was removed, so the file would only confuse
            raise

    async def restore(self, path: Path) -> tuple[list[str], list[str]]:
        """Put the sessions of an archive back; return those that came back, and those that are here anyway."""
        archive_file.summary(path)  # refuses a damaged file before anything is changed
        back: list[str] = []
        here: list[str] = []
        for each in archive_file.read(path):
            was_away = await self._app.store.write(lambda writer, each=each: self._restored(writer, each))
            (back if was_away else here).append(each.session.id)
        return back, here

    def _restored(self, writer: Writer, each: ArchivedSession) -> bool:
        head = writer.head(each.session.id)
        if head is not None and head[0] > 0:
            return False
        self._app.maintenance.restore(writer, each.session.id, each.packed())
        for receipt in each.receipts:
            writer.put_receipt(receipt)
        return True


def _candidates(reader: Reader, before: datetime, *, suspended: bool) -> Candidates:
    found = Candidates()
    holds = reader.holds()
    away = set(reader.archived_ids())
    states = _ENDED | {str(SessionState.SUSPENDED)} if suspended else _ENDED
    for hidden in (False, True):
        where = Filter(states=states, idle_since=before - timedelta(milliseconds=1), hidden=hidden)
        page = Page(limit=AT_ONCE)
        while rows := reader.find_sessions(where, page, by_activity=True):
            for row in rows:
                if row.session.id in away:
                    continue
                if hold_on(row.session, holds):
                    found.held.append(row.session.id)
                else:
                    found.months.setdefault(month_of(row.at[1]), []).append(row.session)
            page = Page(limit=AT_ONCE, after=rows[-1].at)
    return found


def _read(reader: Reader, sessions: list[Session]) -> Iterator[ArchivedSession]:
    tables = cast(SqlReader, reader)
    for session in sessions:
        if reader.session(session.id) != session:
            continue  # it has changed since it was chosen
        key = next(iter(tables.rows("SELECT key FROM journals WHERE id = ?", session.id)))[0]
        own = (entry_id(key, 0), entry_id(key + 1, 0))
        rows = tables.rows(
            "SELECT id, kind, at, turn, facet, body, salt, body_hash, hash FROM entries"
            " WHERE id >= ? AND id < ? ORDER BY id",
            *own,
        )
        texts = tables.rows(
            "SELECT hash, chars, data FROM blobs WHERE hash IN"
            " (SELECT u.hash FROM blob_uses u WHERE u.entry_id >= ? AND u.entry_id < ?)",
            *own,
        )
        yield ArchivedSession(
            session=session,
            entries=[
                ArchivedEntry(
                    seq=row_id - own[0],
                    kind=kind,
                    at=at,
                    turn=turn,
                    facet=facet,
                    body=None if body is None else unpacked(body).decode(),
                    salt=salt,
                    body_hash=body_hash,
                    hash=digest,
                )
                for row_id, kind, at, turn, facet, body, salt, body_hash, digest in rows
            ],
            receipts=reader.receipts(session.id),
            texts={bytes(digest).hex(): ArchivedText(chars=chars, data=data) for digest, chars, data in texts},
        )
