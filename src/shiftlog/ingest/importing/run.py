"""One import: find what changed, read the files in a fixed order, and hand their batches to the journal.

Worker processes read large files. The journal writes one batch after the other, in an order that depends on the files
alone; what it does with a batch is hidden behind `ImportJournal`.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import anyio
from anyio.abc import TaskGroup

from shiftlog.facts.batch import SEEN_AGAIN, Batch
from shiftlog.ingest.files.changes import KnownSources, SourceChange
from shiftlog.ingest.files.discovery import FoundFile
from shiftlog.ingest.importing.batches import FACTS, FileJob, NotRecognised
from shiftlog.ingest.importing.order import sort_keys
from shiftlog.ingest.importing.ports import (
    UNKNOWN,
    BatchResult,
    ImportJournal,
    ImportProgress,
    OnProgress,
    StopSign,
)
from shiftlog.ingest.importing.report import FileReport, ImportReport
from shiftlog.ingest.importing.workers import FileReaders
from shiftlog.model.errors import InternalError, ShiftlogError, StorageError, TranscriptUnreadable
from shiftlog.model.times import precise
from shiftlog.store.sources import Source

# Fewer bytes are read before a worker would have started.
SMALL_BYTES = 4 << 20
# This many batches may wait for the writer, which commits waiting ones together.
WRITES_AHEAD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """The files to import, and how."""

    found: Sequence[FoundFile]
    now: datetime
    agents: frozenset[str] = frozenset()
    since: datetime | None = None
    full: bool = False
    dry_run: bool = False
    keep_images: bool = False
    max_line_bytes: int = 128 << 20
    seen_at: datetime | None = None


MakeReaders = Callable[[int], FileReaders]


@dataclass(slots=True, kw_only=True)
class _FileWork:
    """One file to read, and its report."""

    change: SourceChange
    report: FileReport
    batches: Iterator[Batch] | None = None
    before: int = 0


@dataclass(slots=True, kw_only=True)
class _Write:
    """One batch on its way into the journal."""

    work: _FileWork
    batch: Batch
    done: anyio.Event = field(default_factory=anyio.Event)
    written: BatchResult | None = None
    error: ShiftlogError | None = None


@dataclass(slots=True, kw_only=True)
class Importer:
    """Imports files into a journal; one import at a time."""

    journal: ImportJournal
    # Two imports of one file would read the same growth twice; the keys would still hold, the counts would not.
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(
        self,
        request: ImportRequest,
        make_readers: MakeReaders,
        on_progress: OnProgress | None = None,
        stop: StopSign | None = None,
    ) -> ImportReport:
        """Import what changed and report it."""
        async with self._turn:
            report = ImportReport(dry_run=request.dry_run)
            return await _ImportRun(self.journal, make_readers, request, on_progress, stop or StopSign(), report).run()


@dataclass(slots=True)
class _ImportRun:
    journal: ImportJournal
    make_readers: MakeReaders
    request: ImportRequest
    on_progress: OnProgress | None
    stop: StopSign
    report: ImportReport
    readers: FileReaders = field(init=False)
    writes: deque[_Write] = field(default_factory=deque[_Write])
    done_bytes: int = 0
    all_bytes: int = 0
    done_files: int = 0
    was_cut: bool = False
    written: str | None = None
    # One thread takes all batches: memory that many threads have used is not given back.
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="import"))

    async def run(self) -> ImportReport:
        started = time.monotonic()
        known = KnownSources(await self.journal.sources())
        works = await anyio.to_thread.run_sync(self._compare_all, known)
        self.all_bytes = sum(work.change.bytes_to_read for work in works)
        self.readers = self.make_readers(self.all_bytes)
        try:
            await self._read_all(works)
            if self.written is not None:
                await self._secure(self.written)
        finally:
            self.readers.close()
            self.thread.shutdown(wait=True)
            self.report.duration_s = time.monotonic() - started
        return self.report

    async def _secure(self, path: str) -> None:
        """Make the writes durable; if the store refuses, the report of that file says so."""
        try:
            await self.journal.secure(path)
        except StorageError as error:
            for report in self.report.files:
                if report.path == path:
                    report.fail(error)

    # Comparing

    def _compare_all(self, known: KnownSources) -> list[_FileWork]:
        works: list[_FileWork] = []
        for found in self.request.found:
            report = FileReport(path=found.path)
            self.report.files.append(report)
            change = self._compare(found, known, report)
            if change is None:
                continue
            report.status = change.status
            if change.source is not None:
                report.agent = change.source.agent
                report.cursor = change.source.cursor
                report.known = change.source.sessions
            if change.offset is None and not change.is_due:
                continue
            works.append(_FileWork(change=change, report=report))
        if len([work for work in works if work.change.offset == 0]) > 1:
            keys = sort_keys(work.change.found.path for work in works)
            works.sort(key=lambda work: keys[work.change.found.path])
        else:
            works.sort(key=lambda work: work.change.found.path)
        return works

    def _compare(self, found: FoundFile, known: KnownSources, report: FileReport) -> SourceChange | None:
        request = self.request
        if found.error is not None:
            says = f"Transcript unreadable: {found.path}: {found.error}"
            report.fail(TranscriptUnreadable(says), found.skip)
        elif found.skip is not None:
            report.skip(found.skip)
        elif request.since is not None and found.mtime_ns < request.since.timestamp() * 1e9:
            report.skip("older")
        else:
            try:
                return known.compare(found, request.now, full=request.full, max_line_bytes=request.max_line_bytes)
            except ShiftlogError as error:
                report.fail(error, "unreadable")
        return None

    # Reading

    async def _read_all(self, works: list[_FileWork]) -> None:
        resumed = [work.change.source.path for work in works if work.change.source and work.change.offset != 0]
        states = await self.journal.states(resumed)
        waiting = deque(works)
        ahead: deque[_FileWork] = deque()
        async with anyio.create_task_group() as writers:
            while (waiting or ahead) and not self.stop.is_set():
                while waiting and len(ahead) < self.readers.at_once:
                    work = waiting.popleft()
                    self._begin(work, states)
                    ahead.append(work)
                await self._finish(ahead.popleft(), writers)
            while self.writes:
                await self._report_first()
        self.report.interrupted = bool(waiting or ahead or self.was_cut)
        for work in (*ahead, *waiting):
            work.report.skip("interrupted")

    def _begin(self, work: _FileWork, states: dict[str, bytes]) -> None:
        change = work.change
        source = change.source
        state = states.get(source.path) if source is not None and change.offset != 0 else None
        # Without its state a file is read whole; the keys of its facts decide what is new.
        resumed = source if state is not None else None
        job = FileJob(
            path=change.found.path,
            now=precise(self.request.now),
            offset=(change.offset or 0) if resumed and not change.is_due else (resumed.cursor if resumed else 0),
            agent=resumed.agent if resumed else None,
            state=state,
            max_line_bytes=self.request.max_line_bytes,
            keep_images=self.request.keep_images,
            idle_only=change.is_due and resumed is not None,
            facts=resumed.counts.get(FACTS, 0) if resumed else 0,
            seen_at=precise(self.request.seen_at) if self.request.seen_at else None,
        )
        work.batches = self.readers.read(job)

    async def _finish(self, work: _FileWork, writers: TaskGroup) -> None:
        """Hand the batches of a file to the writer, reading the next while some are written."""
        report = work.report
        work.before = self.done_bytes
        self.done_bytes += work.change.bytes_to_read
        try:
            assert work.batches is not None
            follows: int | None = None
            pending = self._next(work.batches)
            while (batch := await pending) is not None:
                report.agent = batch.agent
                if self.request.agents and batch.agent not in self.request.agents:
                    report.skip("other_agent")
                    await self._drain(work.batches)
                    break
                pending = self._next(work.batches)
                write = _Write(work=work, batch=batch)
                self.writes.append(write)
                writers.start_soon(self._write, write, follows)
                follows = batch.cursor
                while len(self.writes) >= WRITES_AHEAD:
                    await self._report_first()
                if report.status == "failed":
                    await self._drain(work.batches)
                    break
                if self.stop.is_set() and not batch.last:
                    self.was_cut = True
                    break
        except NotRecognised:
            report.skip("not_recognised")
        except ShiftlogError as error:
            report.fail(error)
        except EOFError as error:
            report.fail(InternalError(f"A worker that reads transcripts ended unexpectedly: {error}"))
        self.done_files += 1
        await self._report_progress()

    async def _write(self, write: _Write, follows: int | None) -> None:
        change = write.work.change
        moved_from = change.moved_from if follows is None else None
        source = replace(self._source_of(change), agent=write.batch.agent)
        try:
            write.written = await self.journal.write(write.batch, source, moved_from=moved_from, follows=follows)
        except ShiftlogError as error:
            write.error = error
        finally:
            write.done.set()

    async def _report_first(self) -> None:
        """Wait for the oldest batch in the journal's hands, and add it to its report."""
        write = self.writes.popleft()
        await write.done.wait()
        report, batch = write.work.report, write.batch
        if write.error is not None:
            report.fail(write.error)
        elif write.written is not None:
            self.written = report.path
            self._add(report, batch, write.written, write.work.change)
            await self._report_progress(write.work.before + min(batch.bytes_read, write.work.change.bytes_to_read))

    def _next(self, batches: Iterator[Batch]) -> "asyncio.Future[Batch | None]":
        taken = asyncio.get_running_loop().run_in_executor(self.thread, partial(next, batches, None))
        # After an interrupted import nothing awaits this batch; its error must not be logged as lost.
        taken.add_done_callback(lambda done: done.cancelled() or done.exception())
        return taken

    async def _drain(self, batches: Iterator[Batch]) -> None:
        while await self._next(batches) is not None:
            pass

    def _source_of(self, change: SourceChange) -> Source:
        found, known = change.found, change.source
        return Source(
            path=found.path,
            agent=known.agent if known else "",
            device=found.device,
            inode=found.inode,
            size=found.size,
            mtime_ns=found.mtime_ns,
            head=change.head or (known.head if known else ""),
            head_bytes=change.head_bytes or (known.head_bytes if known else 0),
            cursor=known.cursor if known else 0,
            tail=known.tail if known else "",
            sessions=known.sessions if known else (),
        )

    def _add(self, report: FileReport, batch: Batch, written: BatchResult, change: SourceChange) -> None:
        report.sessions.update(written.sessions)
        for session_id, places in written.places.items():
            report.places.setdefault(session_id, []).extend(places)
        report.new |= set(written.new)
        report.counts.update(written.counts)
        report.counts["entries"] += written.entries
        report.redactions.update(written.redactions)
        report.cursor = batch.cursor
        report.bytes_read = max(report.bytes_read, batch.bytes_read)
        if written.sealed:
            report.reason = "sealed"
        if not batch.last:
            return
        if change.source is not None and change.offset == 0 and not written.sealed:
            missing = change.source.counts.get(FACTS, 0) - report.counts[SEEN_AGAIN]
            if missing > 0:
                says = f"Facts of an earlier reading that the file no longer has; they stay in the journal: {missing}"
                report.warnings.append({"code": "facts_missing", "message": says, "count": missing})
        earlier = change.source.counts if change.source is not None and change.offset != 0 else {}
        grown = {name: count - earlier.get(name, 0) for name, count in batch.counts.items()}
        report.counts["bad_lines"] += grown["bad"]
        report.counts["unknown_records"] += grown["unknown"]
        report.counts["partial_tails"] += batch.counts["partial"]
        report.counts["duplicates"] += grown["duplicate"]
        report.counts["copied_records"] += max(grown["copied"], 0)
        for name, count in grown.items():
            if name.startswith(UNKNOWN) and count > 0:
                report.unknown[name.removeprefix(UNKNOWN)] += count
        if not report.sessions and not (change.source and change.source.sessions):
            report.skip("no_conversation")
        elif written.sealed and not report.counts["entries"]:
            report.status = "skipped"
        if change.is_due and not report.counts["entries"]:
            report.status = "unchanged"

    async def _report_progress(self, bytes_done: int | None = None) -> None:
        if self.on_progress is not None:
            await self.on_progress(
                ImportProgress(
                    files_done=self.done_files,
                    files=len(self.report.files),
                    bytes_done=self.done_bytes if bytes_done is None else bytes_done,
                    bytes=self.all_bytes,
                )
            )
