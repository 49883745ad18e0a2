"""Copies files between this machine and a shell over ssh or in a container: judged, recorded and whole or not at all.

A transfer is a command of its shell in the record: its start before it begins, its end with size and digest. It uses
the shell's connection beside the shell itself, so that it neither waits for a running command nor disturbs it.
"""

import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import anyio

from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError, StorageError
from shiftlog.model.shell_errors import SandboxNotAllowed, TransferFailed
from shiftlog.shell import local_files, results, unrun
from shiftlog.shell.engine.protocol import quote
from shiftlog.shell.guard import FULL_ACCESS, ShellPolicy
from shiftlog.shell.local_files import SourceFile
from shiftlog.shell.outputs.keeper import OutputKeeper
from shiftlog.shell.outputs.text import shown_name
from shiftlog.shell.ports import ShellJournal, Snapshots
from shiftlog.shell.registry import ShellRegistry
from shiftlog.shell.remote.files import RemoteFileFailed, fetch_file, send_file
from shiftlog.shell.remote.ports import RemoteHost
from shiftlog.shell.remote.shell import RemoteShell
from shiftlog.shell.state import Command, Shell

Result = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class TransferCount:
    """The progress of a transfer; `total` is None until the size of the file is known."""

    done: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """The file transfers of one server."""

    registry: ShellRegistry
    journal: ShellJournal
    outputs: OutputKeeper
    snapshots: Snapshots
    policy: ShellPolicy
    now: Callable[[], datetime]

    async def put(self, shell_id: str, local: str, remote: str, caller: Caller, count: TransferCount) -> Result:
        """Copy a local file to the shell's target; an existing file there is replaced and keeps its permissions."""
        shell, host = await self._remote(shell_id, caller)
        root = self._writable_root(shell)
        with local_files.reading(local, self.policy, caller) as source:
            count.total = source.size
            command = await self._judged(shell, f"cat > {quote(remote)}", f"shiftlog put {local} {remote}", caller)
            async with self._recorded(shell, command, caller) as facts:
                sha256 = await source.digest()
                with _explained(remote):
                    sent = await send_file(
                        host,
                        _counted(source, count),
                        cwd=shell.cwd,
                        path=remote,
                        name=PurePosixPath(source.path).name,
                        size=source.size,
                        sha256=sha256,
                        mode=source.mode,
                        root=root,
                    )
                facts |= _copied("put", source.path, sent.path, source.size, sha256, sent.compared)
        return results.transferred(shell, command, facts)

    async def get(self, shell_id: str, remote: str, local: str, caller: Caller, count: TransferCount) -> Result:
        """Copy a file of the shell's target to this machine; an existing file is replaced and keeps its permissions."""
        shell, host = await self._remote(shell_id, caller)
        with local_files.writing(local, PurePosixPath(remote).name, self.policy, caller) as part:
            command = await self._judged(shell, f"cat {quote(remote)}", f"shiftlog get {remote} {local}", caller)

            def begin(size: int) -> None:
                count.total = size

            def take(piece: bytes) -> None:
                part.write(piece)
                count.done += len(piece)

            async with self._recorded(shell, command, caller) as facts:
                with _explained(remote):
                    found = await fetch_file(host, cwd=shell.cwd, path=remote, begin=begin, take=take)
                await part.place(found.mode)
                facts |= _copied("get", part.path, remote, found.size, found.sha256, found.compared)
        return results.transferred(shell, command, facts)

    async def _remote(self, shell_id: str, caller: Caller) -> tuple[Shell, RemoteHost]:
        """Return a live shell over ssh or in a container, and its host."""
        shell = await self.registry.usable(shell_id)
        self.registry.check_use(shell.shell_id, caller)
        if not isinstance(shell.live, RemoteShell):
            raise InvalidParameter(
                f"{shell.shell_id} is a shell on this machine",
                details={"parameter": "shell_id"},
                hint="Files are copied to and from shells over ssh and in containers; here, use cp",
            )
        return shell, shell.live.host

    def _writable_root(self, shell: Shell) -> str | None:
        """Return the directory of the target that a file must lie in; None if the operator sets no bounds."""
        most = self.policy.policy.sandbox_max
        if most == FULL_ACCESS:
            return None
        if most == "read-only" or shell.workspace is None:
            why = "read-only" if most == "read-only" else "workspace-write and the shell has no workspace"
            raise SandboxNotAllowed(
                f"no file may be written there: the policy's sandbox_max is {why}",
                details={"mode": FULL_ACCESS, "max": most},
            )
        return shell.workspace

    async def _judged(self, shell: Shell, text: str, shown: str, caller: Caller) -> Command:
        """Judge a transfer as the command that would do the same; the operator who calls has approved it."""
        judgement = shell.guard.judge(text, shell.cwd)
        command = Command(
            command_id=shell.next_command_id(),
            text=shell.mask(shown),
            judgement=judgement,
            shell_id=shell.shell_id,
            session_id=shell.session_id,
            cwd=shell.cwd,
            began_in=shell.cwd,
            background=True,
        )
        if judgement.refusal is not None:
            await unrun.refuse(self.journal, self.outputs, shell, command, caller)
        return command

    @asynccontextmanager
    async def _recorded(self, shell: Shell, command: Command, caller: Caller) -> AsyncGenerator[Result]:
        """Record a transfer around its work; what the work adds to the given facts is part of the record."""
        facts: Result = {}
        try:
            command.checkpoint_id = await self.snapshots.before(shell, command)
            started = results.starting_facts(shell, command)
            command.request_id = await self.journal.command_started(shell.session_id, started, caller, waited_for=False)
        except StorageError as error:
            raise unrun.unavailable(error) from None
        command.state, command.is_queued = "running", False
        command.started_at, command.began = self.now(), time.perf_counter()
        shell.commands[command.command_id] = command
        try:
            yield facts
            command.state, command.exit_code = "finished", 0
        except ShiftlogError as error:
            command.state, command.exit_code = "finished", 1
            facts["error"] = shell.mask(error.message)
            raise
        except BaseException:
            command.state, command.exit_code = "cancelled", unrun.CANCELLED_EXIT
            raise
        finally:
            command.duration_ms = round((time.perf_counter() - command.began) * 1000, 1)
            shell.idle_since = time.monotonic()
            with anyio.CancelScope(shield=True):
                await self._record_end(shell, command, facts)

    async def _record_end(self, shell: Shell, command: Command, facts: Result) -> None:
        ended = results.finishing_facts(shell, command) | {"transfer": facts}
        try:
            await self.journal.command_finished(shell.session_id, command.request_id, ended)
        except (ShiftlogError, LookupError):
            command.recorded = False
        finally:
            command.end()


async def _counted(source: SourceFile, count: TransferCount) -> AsyncGenerator[bytes]:
    async for piece in source.pieces():
        yield piece
        count.done += len(piece)


def _copied(direction: str, local: str, remote: str, size: int, sha256: str, compared: bool) -> Result:
    return {
        "direction": direction,
        "local": shown_name(local),
        "remote": shown_name(remote),
        "bytes": size,
        "sha256": f"sha256:{sha256}",
        "compared": "digest" if compared else "size",
    }


@contextmanager
def _explained(remote: str) -> Generator[None]:
    """Turn what the target says into an error that names the file."""
    try:
        yield
    except RemoteFileFailed as failed:
        raise TransferFailed(f"{remote} cannot be copied: {failed}", details={"path": remote}) from None
    except ConnectionError as lost:
        raise TransferFailed(f"{remote} was not copied: {lost}", details={"path": remote}) from None
