"""Copying a store into another one: its facts, then the projections anew, then a check of every chain and count."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from shiftlog.app.app import App
from shiftlog.app.stores import store_of
from shiftlog.config.loading import Config, load
from shiftlog.journal.projection import VERSION
from shiftlog.link.wire import DATABASE
from shiftlog.model.errors import InvalidParameter, StorageError
from shiftlog.store.protocol import Reader, Store, Writer
from shiftlog.store.sql import copying
from shiftlog.store.sql.copying import FACTS, FactCounts
from shiftlog.store.sql.reader import SqlReader
from shiftlog.store.sql.writer import SqlWriter
from shiftlog.store.sqlite import SqliteStore

T = TypeVar("T")
# Called with the progress of a copy: the stage, all of its steps, and those that are done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """The result of a copy; `resumed` is True if it finished an earlier one."""

    sessions: int
    turns: int
    entries: int
    rows: Mapping[str, int]
    resumed: bool


async def copy_store(
    home: Path, source: str, target: str, progress: Progress, environ: Mapping[str, str] = os.environ
) -> CopyReport:
    """Copy a whole store into an empty one, or finish a copy that was interrupted.

    Both are named by a file, a state directory or an address. Raises StorageError if a chain does not verify.
    """
    config = load(home, environ)
    if _place(source) == _place(target):
        raise InvalidParameter.invalid("TO", "another store than FROM", target)
    if not _is_address(source) and not Path(_place(source)).is_file():
        raise InvalidParameter.invalid("FROM", "a store that exists", source)
    async with _store_at(source, home, config) as from_, _store_at(target, home, config) as to:
        known = await _read(from_, copying.counted)
        resumed = await _write(to, lambda writer: copying.begin(writer, known))
        await _copy_rows(from_, to, known, progress)
        await _rebuild(App(home, config, to, environ, read_only=True), progress)
        await _check(from_, to, known)
        size = await to.read(lambda reader: reader.counts())
        await _write(to, lambda writer: copying.finish(writer, known))
    return CopyReport(sessions=size.sessions, turns=size.turns, entries=size.entries, rows=known.rows, resumed=resumed)


async def _copy_rows(source: Store, target: Store, known: FactCounts, progress: Progress) -> None:
    total, done = sum(known.rows.values()), 0
    for table in FACTS:
        after = await _read(target, partial(copying.last_key, table=table))
        while rows := await _read(
            source, lambda reader, table=table, after=after: copying.read_part(reader, table, after)
        ):
            await _write(target, copying.storing(table, rows), is_bulk=True)
            after = copying.key_of(table, rows[-1])
            done += len(rows)
            progress("Copying", total, done)
    await target.sync()


async def _rebuild(app: App, progress: Progress) -> None:
    """Make the projections of the sessions that lack them, and the sums."""
    store = app.store

    def lacking(reader: Reader) -> list[str]:
        return [session_id for session_id in reader.session_ids() if reader.session(session_id) is None]

    missing = await store.read(lacking)
    for place, session_id in enumerate(missing, 1):
        async for _ in app.maintenance.rebuild([session_id]):
            progress("Computing", len(missing), place)
    for session_id in await store.read(lambda reader: reader.archived_ids()):
        await store.write(lambda writer, session_id=session_id: _put_archived(writer, session_id))
    await store.write(lambda writer: writer.recount())
    await store.write(lambda writer: writer.put_projection_version(VERSION))
    session_ids = await app.maintenance.session_ids()
    place = 0
    async for found in app.maintenance.verify(session_ids, None):
        place += 1
        progress("Verifying", len(session_ids), place)
        if not found.ok:
            reason = f"{found.session_id}: {found.kind} at entry {found.seq} {found.note}".rstrip()
            raise StorageError(
                "The copy does not verify", details={"reason": reason}, hint="Run shiftlog verify on FROM"
            )


def _put_archived(writer: Writer, session_id: str) -> None:
    """Add a session to the lists whose entries are in an archive."""
    archived = writer.archived(session_id)
    if archived is not None and writer.session(session_id) is None:
        writer.put_session(archived.session)


async def _check(source: Store, target: Store, known: FactCounts) -> None:
    """Compare all counts and heads of the two stores."""
    copied, now = await _read(target, copying.counted), await _read(source, copying.counted)
    if now != known:
        reason = "the source has changed during the copy"
        raise StorageError("The copy is not whole", details={"reason": reason}, hint="Stop its daemons and copy again")
    if replace(copied, last_alias=known.last_alias) != known:
        reason = "rows are missing or too many: " + ", ".join(
            f"{table} {copied.rows[table]} of {count}"
            for table, count in known.rows.items()
            if copied.rows[table] != count
        )
        raise StorageError(
            "The copy is not whole", details={"reason": reason or "heads differ"}, hint="Copy to a new file or database"
        )


async def _read(store: Store, work: Callable[[SqlReader], T]) -> T:
    return await store.read(lambda reader: work(cast(SqlReader, reader)))


async def _write(store: Store, work: Callable[[SqlWriter], T], *, is_bulk: bool = False) -> T:
    def cast_work(writer: Writer) -> T:
        return work(cast(SqlWriter, writer))

    return await (store.write_bulk(cast_work) if is_bulk else store.write(cast_work))


def _is_address(name: str) -> bool:
    return name.startswith(("postgresql://", "postgres://"))


def _place(name: str) -> str:
    """Return the address, or the file that a name means: a state directory has it inside."""
    if _is_address(name):
        return name
    path = Path(name).absolute()
    return str(path / DATABASE if path.is_dir() else path)


def _store_at(name: str, home: Path, config: Config) -> Store:
    if not _is_address(name):
        return SqliteStore(Path(_place(name)))
    return store_of(home, replace(config, store=replace(config.store, url=name)))
