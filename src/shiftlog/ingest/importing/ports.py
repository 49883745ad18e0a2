"""The import's interface to other packages: options, settings, progress, stop sign, and the journal it needs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import anyio

from shiftlog.facts.batch import Batch
from shiftlog.store.sources import Source

# Prefix of unknown record types among the counts of a file.
UNKNOWN = "unknown/"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """The operator's settings for imports."""

    roots: tuple[str, ...] = ()
    max_line_mb: int = 128
    project_aliases: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """A request of a face; without paths the known folders are searched.

    `allowed` are the folders that may be read besides the known ones; None allows every folder.
    """

    paths: Sequence[str] = ()
    agents: Sequence[str] = ()
    since: str | None = None
    full: bool = False
    dry_run: bool = False
    jobs: int | None = None
    keep_images: bool = False
    recursive: bool = True
    allowed: Sequence[str] | None = None
    environ: Mapping[str, str] | None = None
    """The operator's environment, which may move the known folders; None for the daemon's."""
    stopped_at: datetime | None = None
    """When a hook reported that the agent stopped: turns that are quiet since then have ended."""
    seen_at: datetime | None = None
    """When a hook told that the files grew; it stands for the times of files that have none."""
    argument: str = "paths"
    """The face's name for `paths`, for errors."""


class BatchResult(Protocol):
    """The journal's answer to a batch."""

    @property
    def entries(self) -> int: ...
    @property
    def sessions(self) -> dict[str, bool]: ...
    @property
    def new(self) -> list[str]: ...
    @property
    def counts(self) -> "Counter[str]": ...
    @property
    def redactions(self) -> "Counter[str]": ...
    @property
    def sealed(self) -> list[str]: ...
    @property
    def places(self) -> "dict[str, list[dict[str, str | None]]]": ...


class ImportJournal(Protocol):
    """The part of the journal that an import uses."""

    async def write(
        self, batch: Batch, source: Source, *, moved_from: str | None = None, follows: int | None = None
    ) -> BatchResult: ...
    async def secure(self, path: str) -> None: ...
    async def sources(self) -> list[Source]: ...
    async def states(self, paths: Iterable[str]) -> dict[str, bytes]: ...
    async def without_project(self, session_ids: Iterable[str]) -> dict[str, dict[str, str | None]]: ...
    async def keep_projects(
        self, paths: dict[str, str], sessions: dict[str, dict[str, str]], moved: dict[str, tuple[str, ...]]
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """The progress of an import."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


OnProgress = Callable[[ImportProgress], Awaitable[None]]


class StopSign:
    """Stops a running import after its current batch."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def set(self) -> None:
        """Request the stop."""
        self.event.set()

    def is_set(self) -> bool:
        """Return True if the stop was requested."""
        return self.event.is_set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for the request, at most `timeout_s`."""
        with anyio.move_on_after(timeout_s):
            await self.event.wait()
