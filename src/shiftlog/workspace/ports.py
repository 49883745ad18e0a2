"""The collaborators of checkpoints: a `Runner` that reaches the target, and a `CheckpointLog` for the records.

Data and protocols only; the records are facts for the journal.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

CheckpointKind = Literal["manual", "auto", "open", "turn", "end", "safety"]
FileKind = Literal["file", "link", "directory", "other"]
Env = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The end of a program on the target."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class FileStat(NamedTuple):
    """The state of one path, links not followed; a tuple, because a first scan makes one per file.

    `signature` changes whenever the file may have changed. It is empty if the file is too new to tell, and for older
    files unless requested.
    """

    kind: FileKind
    permissions: int
    size: int
    fresh: bool
    signature: str
    readable: bool


class FileSurvey(NamedTuple):
    """Many files at once: their sizes in order (-1 if missing), and all facts of the unusual ones.

    A usual file has permissions 644 or 755 and is not `fresh`.
    """

    sizes: list[int]
    unusual: dict[bytes, FileStat]


class WorkTree(Protocol):
    """A workspace that is open for file work; paths are relative to it."""

    @property
    def directory(self) -> int | None:
        """The descriptor of its directory; None on another target."""
        ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        """Run a program to its end, on this machine inside the workspace; `files` are descriptors that it gets."""
        ...

    async def stats(self, paths: Sequence[bytes], *, signed: bool = False) -> list[FileStat | None]:
        """Return the state of paths, in order; None if missing. With `signed`, also sign older files."""
        ...

    async def survey(self, paths: Sequence[bytes]) -> FileSurvey:
        """Return the state of many paths, nearly all of them usual files."""
        ...


class Runner(Protocol):
    """Runs programs on one target.

    Programs get `env` and the target's own PATH and HOME, and no other variable.
    """

    @property
    def target(self) -> str | None:
        """The name of the target (`user@host:port`, a container); None is this machine."""
        ...

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Env | None = None, files: Sequence[int] = ()
    ) -> Ran:
        """Run a program to its end; `files` are descriptors that it gets."""
        ...

    def enter(self, path: str, *, create: bool = False) -> AbstractAsyncContextManager[WorkTree]:
        """Open a workspace by its real path; with `create`, make it if it is gone."""
        ...

    def lock(self, path: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock file `path` on the target against all other processes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A workspace as records name it: the target (None is this machine) and the canonical path there."""

    target: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The reason to take or restore a checkpoint; `by` names a client outside the session.

    `command_id` is a command of one of our shells, `call_id` a tool call of an agent's own.
    """

    session_id: str | None = None
    request_id: str | None = None
    command_id: str | None = None
    call_id: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The captured part of a workspace; a checkpoint keeps the scope it was taken with."""

    paths: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    include_ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointChanges:
    """The files that changed between two checkpoints, each with how, and the work that went on meanwhile."""

    since: str
    cause: Cause
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint was taken, or (`reused`) an older one still holds this state."""

    checkpoint_id: str
    tree: str
    kind: CheckpointKind
    label: str
    at: datetime
    cause: Cause = field(default_factory=Cause)
    scope: Scope = field(default_factory=Scope)
    files: int = 0
    files_changed: int = 0
    reused: bool = False
    changes: CheckpointChanges | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A workspace went back to a checkpoint, which is its position from then on.

    `back_to` is when that checkpoint was taken; `changed` names the first files that the restore changed. Of the
    `commands` it took the changes back; those of `brought_back`, which an earlier restore had undone, are there again.
    `turn` is the turn before which it went back, if one was named.
    """

    checkpoint_id: str
    safety_checkpoint_id: str
    at: datetime
    cause: Cause = field(default_factory=Cause)
    paths: tuple[str, ...] = ()
    clean: bool = False
    files_changed: int = 0
    left_in_place: int = 0
    failed: int = 0
    back_to: datetime | None = None
    changed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    brought_back: tuple[str, ...] = ()
    turn: str | None = None


Record = Saved | Restored


class CheckpointLog(Protocol):
    """Keeps the records of every workspace, in order."""

    async def append(self, location: Location, record: Record) -> None:
        """Keep a record; it is durable on return."""
        ...

    async def read(self, location: Location) -> Sequence[Record]:
        """Return a workspace's records, oldest first."""
        ...

    async def turn_began(self, location: Location, request_id: str, session_id: str | None) -> datetime | None:
        """Return when a turn opened, preferably of this session; None if this workspace never saw it."""
        ...

    async def command_began(self, location: Location, command_id: str) -> datetime | None:
        """Return when a command of a shell on this workspace started; None if unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """The command that prevents a restore."""

    shell_id: str
    command_id: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLimits:
    """The limits of a checkpoint: and how many automatic ones are kept."""

    file_bytes: int = 50 * 1024 * 1024
    tree_files: int = 200_000
    tree_bytes: int = 4 * 1024 * 1024 * 1024
    automatic_kept: int = 500
