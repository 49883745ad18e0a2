"""From the arguments of open_shell to a live shell: which fit together, what the operator permits, where it lives.

Everything that can be refused is refused before a session is opened or a target contacted.
"""

import itertools
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from shiftlog.model.caller import Caller
from shiftlog.model.shell_errors import OpenFailed, TransportNotAllowed, WorkspaceInvalid
from shiftlog.params.arguments import conflict, missing, must_be
from shiftlog.shell.guarding import NoGuard, ShellGuard
from shiftlog.shell.outputs.view import View
from shiftlog.shell.ports import LiveShell, ShellSpec, Target, Transport
from shiftlog.shell.recording import ShellJournal

SSH_ARGUMENTS = ("host", "port", "user", "password", "key_path", "fingerprint")
DOCKER_ARGUMENTS = ("container",)
LABEL_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A shell that lives and is not recorded yet."""

    shell_id: str
    transport: Transport
    target: str | None
    live: LiveShell
    guard: ShellGuard
    startup_output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a shell will live: the target, how its id names it, and how results name it."""

    target: Target
    label: str
    shown: str | None


class Places(Protocol):
    """Knows the targets of one transport; raises what the operator does not permit, before any contact."""

    async def check(self, values: Mapping[str, Any], caller: Caller) -> None:
        """Refuse what is not permitted."""
        ...

    def place(self, values: Mapping[str, Any], guard: ShellGuard) -> Place:
        """Return the place that the arguments name."""
        ...


class Rules(Protocol):
    """What the operator set."""

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Refuse what is not permitted, and fill in the sandbox mode that follows from the rest."""
        ...

    async def guard(self, values: Mapping[str, Any], caller: Caller) -> ShellGuard:
        """Return the guard of a shell that is about to open."""
        ...


class NoRules:
    """The operator set nothing."""

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Refuse nothing."""

    async def guard(self, values: Mapping[str, Any], caller: Caller) -> ShellGuard:
        """Set no rule."""
        return NoGuard()


@dataclass(slots=True, kw_only=True)
class Opener:
    """Opens shells and names them."""

    journal: ShellJournal
    places: Mapping[str, Places]
    rules: Rules = field(default_factory=NoRules)
    data: Path | None = None
    ready_s: float = 8.0
    _run: str = ""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Refuse arguments that do not fit together or are not permitted; fill in what follows from others."""
        transport = values.setdefault("transport", "local")
        if transport not in self.places:
            raise TransportNotAllowed(
                f"transport '{transport}' is not permitted by the operator",
                details={"kind": "transport", "value": transport},
            )
        for name in SSH_ARGUMENTS:
            if values.get(name) is not None and transport != "ssh":
                raise conflict(name, f'transport: "{transport}"')
        for name in DOCKER_ARGUMENTS:
            if values.get(name) is not None and transport != "docker":
                raise conflict(name, f'transport: "{transport}"')
        if transport == "ssh" and values.get("host") is None:
            raise missing("host")
        if transport == "docker" and values.get("container") is None:
            raise missing("container")
        for name in ("paths", "checkpoint_ignores", "include_ignored"):
            if values.get(name) and values.get("workspace") is None:
                raise conflict(name, "no workspace")
        for number, path in enumerate(values.get("paths", ())):
            if path.startswith("/") or ".." in path.split("/"):
                raise must_be(f"paths[{number}]", "a relative path without ..", "format")
        if values.get("workspace") is not None:
            self._check_workspace(values)
        await self.rules.check(values, caller)
        await self.places[transport].check(values, caller)
        if transport == "local":
            values["cwd"] = _local_cwd(values, caller)

    def _check_workspace(self, values: dict[str, Any]) -> None:
        path: str = values["workspace"]
        if not path.startswith("/"):
            raise must_be("workspace", "an absolute path", "format")
        if "\0" in path:
            raise _unusable(path, "no path has a NUL in it")
        if values["transport"] != "local":
            return
        real = Path(os.path.realpath(path))
        if real == Path("/"):
            raise _unusable(path, "it is the root of the file system")
        if not real.is_dir():
            raise _unusable(path, "it is not a directory" if real.exists() else "it does not exist")
        if self.data is not None and real.is_relative_to(self.data.resolve()):
            raise _unusable(path, "it lies inside Shiftlog's own data")
        values["workspace"] = str(real)

    async def open(self, values: Mapping[str, Any], caller: Caller) -> Ready:
        """Start the shell; raises `OpenFailed` and its like when it does not come up."""
        guard = await self.rules.guard(values, caller)
        try:
            place = self.places[values["transport"]].place(values, guard)
            spec = ShellSpec(
                shell=values.get("shell", "auto"),
                cwd=values.get("cwd") or values.get("workspace"),
                env=values.get("env", {}),
                login=values.get("login", values["transport"] == "ssh"),
                ready_s=self.ready_s,
            )
            live = await place.target.open(spec)
        except BaseException:
            await guard.close()
            raise
        return Ready(
            shell_id=f"{await self._run_name()}-{next(self._numbers)}_{place.label}",
            transport=cast("Transport", values["transport"]),
            target=place.shown,
            live=live,
            guard=guard,
            startup_output=_viewed(live.startup_output),
        )

    async def _run_name(self) -> str:
        while not self._run:
            drawn = secrets.token_hex(2)
            if not await self.journal.knows_run(drawn):
                self._run = drawn
        return self._run


def _viewed(output: bytes) -> str:
    """Return what profile files printed as outputs of commands are shown."""
    view = View()
    return (view.feed(output) + view.finish()).decode()


def _unusable(path: str, why: str) -> WorkspaceInvalid:
    return WorkspaceInvalid(f"workspace {path} cannot be used: {why}", details={"why": why})


def label_part(text: str) -> str:
    """Return a name as ids of shells hold it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:LABEL_CHARS]


def _local_cwd(values: Mapping[str, Any], caller: Caller) -> str:
    base = values.get("workspace") or caller.cwd or str(Path.cwd())
    cwd = values.get("cwd") or base
    path = Path(base, cwd)
    if not path.is_dir():
        reason = f"cwd {cwd} is not a directory" if path.exists() else f"cwd {cwd} does not exist"
        raise OpenFailed.because(reason)
    return os.path.normpath(path)
