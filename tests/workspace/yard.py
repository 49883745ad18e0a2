"""A workspace to try checkpoints on: real files, real git, records in a list, and a clock that moves by itself."""

# ruff: noqa: PTH101, PTH103, PTH114, PTH115, PTH118, PTH120, PTH123
# File names here are bytes, which pathlib does not take.

import os
import shlex
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from shiftlog.workspace.checkpoints import Checkpoints, Workspace
from shiftlog.workspace.history import RestoreTarget
from shiftlog.workspace.ports import Busy, Cause, CheckpointLimits, Location, Ran, Record, Runner, Scope
from shiftlog.workspace.results import Created, RestoreResult
from shiftlog.workspace.runner import CommandRunner, LocalRunner, run_here


@dataclass
class ListLog:
    """Records in the order in which they came, and when turns and commands began."""

    records: dict[Location, list[Record]] = field(default_factory=dict[Location, list[Record]])
    turns: dict[str, datetime] = field(default_factory=dict[str, datetime])
    commands: dict[str, datetime] = field(default_factory=dict[str, datetime])

    async def append(self, location: Location, record: Record) -> None:
        self.records.setdefault(location, []).append(record)

    async def read(self, location: Location) -> Sequence[Record]:
        return list(self.records.get(location, []))

    async def turn_began(self, location: Location, request_id: str, session_id: str | None) -> datetime | None:
        return self.turns.get(request_id)

    async def command_began(self, location: Location, command_id: str) -> datetime | None:
        return self.commands.get(command_id)


@dataclass
class Yard:
    """One workspace and the service that looks after it."""

    path: Path
    data: Path
    runner: Runner
    log: ListLog = field(default_factory=ListLog)
    limits: CheckpointLimits = field(default_factory=CheckpointLimits)
    busy: Busy | None = None
    at: datetime = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)
    commands: int = 0

    def __post_init__(self) -> None:
        self.service = self.fresh_service()

    def fresh_service(self) -> Checkpoints:
        return Checkpoints(self.log, data=str(self.data), busy=lambda _: self.busy, now=self.now, limits=self.limits)

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    async def open(self, **scope: object) -> Workspace:
        self.workspace = await self.service.open(self.runner, str(self.path), Scope(**scope))  # pyright: ignore[reportArgumentType]
        return self.workspace

    async def save(self, label: str | None = None, kind: str = "manual", **cause: str) -> Created:
        return await self.service.save(self.workspace, kind=kind, label=label, cause=Cause(**cause))  # pyright: ignore[reportArgumentType]

    async def before_command(self, turn: str | None = None) -> Created:
        self.commands += 1
        cause = Cause(request_id=turn, command_id=f"4c82-1_local#{self.commands}")
        return await self.service.save(self.workspace, kind="auto", cause=cause)

    async def restore(
        self, checkpoint_id: str | None = None, *, clean: bool = False, dry_run: bool = False, paths: Sequence[str] = ()
    ) -> RestoreResult:
        target = RestoreTarget(checkpoint_id=checkpoint_id)
        return await self.service.restore(self.workspace, target, clean=clean, dry_run=dry_run, paths=paths)

    def write(self, name: str | bytes, text: str | bytes, mode: int = 0o644) -> None:
        file = os.path.join(os.fsencode(self.path), os.fsencode(name))
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as out:
            out.write(text.encode() if isinstance(text, str) else text)
        os.chmod(file, mode)

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def run(self, *argv: str) -> bool:
        """Run a program in the workspace and say whether it succeeded."""
        return subprocess.run(argv, cwd=self.path, check=False, capture_output=True).returncode == 0

    def git(self, *arguments: str, at: Path | None = None) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0", "-c", "init.defaultBranch=main"]
        ran = subprocess.run(["git", *identity, *arguments], cwd=at or self.path, check=True, capture_output=True)
        return ran.stdout.decode()


def tree_of(path: Path, *, but: Sequence[str] = (".git",)) -> dict[bytes, tuple[str, int, bytes]]:
    """Return every file and link below a path: kind, permissions, bytes."""
    found: dict[bytes, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(os.fsencode(path)):
        folders[:] = [name for name in folders if os.fsdecode(name) not in but]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            full = os.path.join(folder, name)
            if os.fsdecode(name) in but:
                continue
            seen = os.lstat(full)
            relative = os.path.relpath(full, os.fsencode(path))
            if stat.S_ISLNK(seen.st_mode):
                found[relative] = ("link", 0, os.readlink(full))
            elif stat.S_ISREG(seen.st_mode):
                with open(full, "rb") as opened:
                    found[relative] = ("file", stat.S_IMODE(seen.st_mode), opened.read())
    return found


def local_runner(_: Path) -> Runner:
    return LocalRunner()


def shell_runner(home: Path) -> Runner:
    """A target reached by a command line, with a home and a hostile git environment of its own."""
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n\tattributesFile = ~/attr\n\texcludesFile = ~/ex\n")
    (home / "attr").write_text("* text eol=crlf\n")
    (home / "ex").write_text("*\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index"}

    async def carry(argv: Sequence[str], stdin: bytes) -> Ran:
        return await run_here(["sh", "-c", shlex.join(argv)], stdin, env)

    return CommandRunner("dev@box:22", carry)
