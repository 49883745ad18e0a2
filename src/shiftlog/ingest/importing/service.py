"""The door of the import: which paths, who may read them, dry runs, and watching for growth.

One import of given files is `run`; this module decides what is given to it and what follows from its report.
"""

import os
import stat
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread

from shiftlog.ingest.files.discovery import (
    JOURNAL,
    FoundFile,
    Root,
    default_roots,
    discover,
    exists,
    expanded,
    find_under,
)
from shiftlog.ingest.files.lines import LineFile
from shiftlog.ingest.files.opencode_db import find_sessions, is_composed, with_sessions
from shiftlog.ingest.files.projects import SessionLocation, projects_of
from shiftlog.ingest.importing.batches import IDLE_AFTER, SNIFF_BYTES
from shiftlog.ingest.importing.ports import ImportJournal, ImportOptions, IngestSettings, OnProgress, StopSign
from shiftlog.ingest.importing.report import ImportReport
from shiftlog.ingest.importing.run import Importer, ImportRequest, MakeReaders
from shiftlog.ingest.readers.formats import recognise
from shiftlog.model.agents import CLAUDE, CODEX, OPENCODE, agent_named
from shiftlog.model.errors import InvalidParameter, StorageError, TranscriptUnreadable
from shiftlog.model.times import AGES, read_iso, read_relative
from shiftlog.store.sources import Source

# Files beside transcripts with news of their sessions: Codex's index of titles, and journals of workflows.
INDEX = "session_index.jsonl"
_ROLLOUTS = ("sessions", "archived_sessions")
_WORKFLOWS = f"{os.sep}subagents{os.sep}workflows{os.sep}"


MakeScratch = Callable[[], AbstractAsyncContextManager[ImportJournal]]


@dataclass(slots=True, kw_only=True)
class Imports:
    """The import service over one journal."""

    importer: Importer
    readers: Callable[[int | None], MakeReaders]
    scratch: MakeScratch
    settings: IngestSettings
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    home: Path = field(default_factory=Path.home)
    running: int = 0

    def roots(self, environ: Mapping[str, str] | None = None) -> list[Root]:
        """Return the folders where the known agents keep their transcripts."""
        if environ is None:
            return default_roots(self.environ, self.home)
        return default_roots(environ, Path(environ.get("HOME") or self.home))

    async def run(
        self, options: ImportOptions, on_progress: OnProgress | None = None, stop: StopSign | None = None
    ) -> ImportReport:
        """Import as the options say."""
        self.running += 1
        try:
            return await self._run(options, on_progress, stop)
        finally:
            self.running -= 1

    async def _run(self, options: ImportOptions, on_progress: OnProgress | None, stop: StopSign | None) -> ImportReport:
        now = self.now()
        stopped_at = options.stopped_at
        # A wrong request is refused before any folder is walked.
        agents = frozenset(agent_named(name, "agents") for name in options.agents)
        since = since_time(options.since, now) if options.since else None
        request = ImportRequest(
            found=self.find(options),
            now=now if stopped_at is None else max(now, stopped_at + IDLE_AFTER),
            agents=agents,
            since=since,
            full=options.full,
            dry_run=options.dry_run,
            keep_images=options.keep_images,
            max_line_bytes=self.settings.max_line_mb << 20,
            seen_at=options.seen_at,
        )
        make = self.readers(options.jobs)
        if not options.dry_run:
            report = await self.importer.run(request, make, on_progress, stop)
            await self._read_beside(request, options, make, report)
            await self._learn_projects(report)
            return report
        async with self.scratch() as journal:
            return await Importer(journal=journal).run(request, make, on_progress, stop)

    async def _read_beside(
        self, request: ImportRequest, options: ImportOptions, make: MakeReaders, report: ImportReport
    ) -> None:
        """Read the files beside the transcripts that tell of their sessions."""
        folders = None if options.allowed is None else self._folders(options.allowed)
        own = {str(root.folder.parent / INDEX) for root in self.roots(options.environ) if root.agent == CODEX}

        def may_read(path: str) -> bool:
            return folders is None or path in own or _is_under(path, folders)

        files = await anyio.to_thread.run_sync(_side_files, request.found, may_read)
        if files:
            files = _changed_side_files(files, await self.importer.journal.sources(), report)
        if files and not report.interrupted:
            again = replace(request, found=files, full=True, since=None)
            await self.importer.run(again, make)

    async def _learn_projects(self, report: ImportReport) -> None:
        """Store the projects of new sessions and the present folders of their transcripts."""
        # An interrupted import may have stored sessions without their project.
        of_file = {session_id: file for file in report.files if not file.places for session_id in file.known}
        for session_id, place in (await self.importer.journal.without_project(of_file)).items():
            of_file[session_id].places[session_id] = [place]
        places: dict[str, list[SessionLocation]] = {}
        for file in report.files:
            # Claude Code alone keeps one folder of transcripts per project.
            folder = str(Path(file.path).parent) if file.agent == CLAUDE else None
            for session_id, given in file.places.items():
                found = [
                    SessionLocation(cwd=one.get("cwd"), repository=one.get("repository"), folder=folder)
                    for one in given
                ]
                places.setdefault(session_id, []).extend(found)
        aliases = self.settings.project_aliases
        found = await anyio.to_thread.run_sync(projects_of, places, aliases)
        moved = (file for file in report.files if file.status == "renamed" and file.agent == CLAUDE)
        renamed = {str(Path(file.path).parent): file.known for file in moved}
        if found.paths or found.sessions or renamed:
            try:
                await self.importer.journal.keep_projects(found.paths, found.sessions, renamed)
            except StorageError as error:
                if not report.files:
                    raise
                next((file for file in report.files if file.places), report.files[0]).fail(error)

    def find(self, options: ImportOptions) -> list[FoundFile]:
        """List the files of the options; raise for a missing or forbidden path."""
        if options.paths:
            if options.allowed is None:
                return find_sessions(options.paths, recursive=options.recursive)
            folders = self._folders(options.allowed)
            for path in options.paths:
                if not _is_under(str(expanded(path)), folders):
                    says = "a path under the agents' own folders, [ingest] roots or the workspace of this server"
                    raise InvalidParameter.invalid(options.argument, says, path)
            found = find_under(options.paths, recursive=options.recursive)
            # A link below an allowed folder may lead out of it.
            return with_sessions([file for file in found if _is_under(file.path, folders)])
        found = with_sessions(discover(self.roots(options.environ)))
        if self.settings.roots:
            seen = {file.path for file in found}
            own = [root for root in self.settings.roots if exists(expanded(root))]
            found += [file for file in with_sessions(find_under(own)) if file.path not in seen]
        return found

    async def kinds(self, options: ImportOptions) -> set[str]:
        """Return the agent kinds of the files of the options, by their first records."""
        found = self.find(options)
        return await anyio.to_thread.run_sync(lambda: {kind for file in found if (kind := _kind_of(file))})

    def _folders(self, allowed: Iterable[str]) -> list[Path]:
        places = [root.folder for root in self.roots()] + [Path(one) for one in (*self.settings.roots, *allowed)]
        return [expanded(place).resolve() for place in places]

    async def watch(self, options: ImportOptions, stop: StopSign) -> AsyncGenerator[ImportReport]:
        """Import now, then after each change, until stopped; yield a report for each change."""
        from shiftlog.ingest.importing.watching import changes, look

        known = [str(root.folder) for root in self.roots(options.environ)]
        folders = list(options.paths) or [*known, *self.settings.roots]
        seen = await look(folders)
        yield await self.run(options, stop=stop)
        async for _ in changes(folders, stop, seen):
            there = [path for path in options.paths if exists(expanded(path))]
            if options.paths and not there:
                continue  # it may come back
            report = await self.run(replace(options, paths=there), stop=stop)
            if any(file.status not in ("unchanged", "skipped") for file in report.files):
                yield report


def _is_under(path: str, folders: Sequence[Path]) -> bool:
    resolved = Path(path).resolve()
    return any(resolved.is_relative_to(folder) for folder in folders)


def _kind_of(file: FoundFile) -> str | None:
    if file.skip is not None:
        return None
    if is_composed(file.path):
        return OPENCODE
    try:
        with LineFile(file.path, SNIFF_BYTES) as lines:
            return recognise(lines.start(SNIFF_BYTES))
    except TranscriptUnreadable:
        return None


def _side_files(found: Iterable[FoundFile], may_read: Callable[[str], bool]) -> list[FoundFile]:
    """List the existing files beside some transcripts."""
    beside = dict.fromkeys(path for file in found if (path := _beside(file.path)) is not None)
    made: list[FoundFile] = []
    for path in beside:
        try:
            status = Path(path).lstat()
        except OSError:
            continue
        if status.st_size and stat.S_ISREG(status.st_mode) and may_read(path):
            made.append(FoundFile.of(path, status))
    return made


def _beside(path: str) -> str | None:
    """Return the path of a transcript's side file; None if its kind has none."""
    if _WORKFLOWS in path:
        return str(Path(path).with_name(JOURNAL))
    if "rollout-" not in path:
        return None
    folder = next((above for above in Path(path).parents if above.name in _ROLLOUTS), None)
    return None if folder is None else str(folder.with_name(INDEX))


def _changed_side_files(files: Iterable[FoundFile], known: Iterable[Source], report: ImportReport) -> list[FoundFile]:
    """Return the files that changed since they were read, or may tell of new sessions."""
    read = {source.path: source for source in known}
    new = {file.agent for file in report.files if file.new}
    chosen: list[FoundFile] = []
    for file in files:
        source = read.get(file.path)
        agent = CODEX if file.path.endswith(INDEX) else CLAUDE
        if source is None or (source.size, source.mtime_ns) != (file.size, file.mtime_ns) or agent in new:
            chosen.append(file)
    return chosen


def since_time(text: str, now: datetime) -> datetime:
    """Return the time of a span such as `7d` or `12h`, a date or a time."""
    relative = read_relative(text, now)
    if isinstance(relative, datetime):
        return relative
    try:
        at = read_iso(relative or text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidParameter.invalid("since", f"a date, a time or {AGES}", text) from None
