"""What checkpoints ask of others: a `Runner` that reaches the target, and a `CheckpointLog` that keeps the records.

The records are facts for the journal; nothing here knows how either port is made.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

Kind = Literal["manual", "auto", "open", "turn", "safety"]
FileKind = Literal["file", "link", "directory", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program on the target ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class FileStat(NamedTuple):
    """What the target knows of one path, links not followed; a tuple because a first look makes one per file.

    `signature` changes whenever the file may have changed; it is empty when the file is too fresh to tell, and may be
    when it is not `fresh` and nobody asked.
    """

    kind: FileKind
    permissions: int
    size: int
    fresh: bool
    signature: str
    readable: bool


class Survey(NamedTuple):
    """Many files at a glance: their sizes in order, -1 where nothing is, and all facts of those that are not usual.

    Usual is a file with permissions 644 or 755 that is not `fresh`.
    """

    sizes: list[int]
    unusual: dict[bytes, FileStat]


class Runner(Protocol):
    """A way to run programs on one target.

    Programs start with `env` and the target's own PATH and HOME, and with no other variable.
    """

    @property
    def target(self) -> str | None:
        """Name the target (`user@host:port`, a container); None is this machine."""
        ...

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        """Run a program to its end."""
        ...

    async def stats(self, root: str, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        """Look at paths below `root`, in order; None where nothing is. `signed` wants a signature also of old files."""
        ...

    async def survey(self, root: str, paths: Sequence[bytes]) -> Survey:
        """Look at many paths below `root` of which nearly all are usual files."""
        ...

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock file `path` on the target against every other process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A workspace as records name it: the target (None is this machine) and the canonical path there."""

    target: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """On whose behalf a checkpoint is taken or restored; `by` names a client that asks from outside of the session."""

    session_id: str | None = None
    request_id: str | None = None
    command_id: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which part of a workspace is captured; a checkpoint keeps the scope that it was taken with."""

    paths: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    include_ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint was taken, or (`reused`) an older one was found to hold this very state."""

    checkpoint_id: str
    tree: str
    kind: Kind
    label: str
    at: datetime
    cause: Cause = field(default_factory=Cause)
    scope: Scope = field(default_factory=Scope)
    files: int = 0
    files_changed: int = 0
    reused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A workspace went back to a checkpoint; the position is that checkpoint from then on."""

    checkpoint_id: str
    safety_checkpoint_id: str
    at: datetime
    cause: Cause = field(default_factory=Cause)
    paths: tuple[str, ...] = ()
    clean: bool = False
    files_changed: int = 0
    left_in_place: int = 0
    failed: int = 0


Record = Saved | Restored


class CheckpointLog(Protocol):
    """Keeps the records of every workspace, in order."""

    async def append(self, place: Place, record: Record) -> None:
        """Keep a record; it is durable when this returns."""
        ...

    async def read(self, place: Place) -> Sequence[Record]:
        """Return a workspace's records, oldest first."""
        ...

    async def turn_began(self, place: Place, request_id: str, session_id: str | None) -> datetime | None:
        """Tell when a turn opened, of this session if it has one of that id; None if this workspace never saw it."""
        ...

    async def command_began(self, place: Place, command_id: str) -> datetime | None:
        """Tell when a command of a shell on this workspace started; None if there is none of that id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """The command that keeps a workspace from being restored."""

    shell_id: str
    command_id: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a checkpoint may hold, and how many automatic ones are kept."""

    file_bytes: int = 50 * 1024 * 1024
    tree_files: int = 200_000
    tree_bytes: int = 4 * 1024 * 1024 * 1024
    automatic_kept: int = 500
