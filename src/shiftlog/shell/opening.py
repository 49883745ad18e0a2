"""Opens shells: checks the arguments of open_shell, applies the operator's rules, and starts the shell on its target.

Every check comes before a session is opened or a target contacted. Recording is the service's.
"""

import errno
import itertools
import os
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from anyio.abc import TaskGroup

from shiftlog.guard.directories import OpenDirectory, open_directory, open_real
from shiftlog.guard.secrets.redactor import learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.shell_errors import OpenFailed
from shiftlog.model.shells import ShellHome
from shiftlog.params.wording import conflict, missing, must_be
from shiftlog.shell.askpass.door import AVAILABLE, AskpassDoor
from shiftlog.shell.engine.holders import ShellHolders
from shiftlog.shell.engine.local import LocalTarget, base_environment
from shiftlog.shell.guard import FULL_ACCESS, ShellGuard, ShellPolicy, transport_not_allowed, unusable
from shiftlog.shell.notes import given
from shiftlog.shell.ports import LiveShell, ShellJournal, ShellSpec, Target, Targets, Transport
from shiftlog.shell.sandbox.launch import Launch
from shiftlog.shell.state import Shell
from shiftlog.shell.temps import SessionTemps

TRANSPORT_ARGUMENTS = {
    "ssh": ("host", "port", "user", "password", "key_path", "fingerprint"),
    "docker": ("container",),
}


class LocalTargets:
    """This machine, as the one target of the local transport."""

    def __init__(
        self, environ: Mapping[str, str], passed: Sequence[str] = (), holders: ShellHolders | None = None
    ) -> None:
        self._environment = base_environment(environ, passed)
        self._holders = holders

    async def check(self, values: Mapping[str, Any]) -> None:
        """Permit it; the operator's policy has decided already."""

    def find(self, values: Mapping[str, Any], launcher: Launch | None = None) -> LocalTarget:
        return LocalTarget(environment=self._environment, launcher=launcher, holders=self._holders)


@dataclass(slots=True, kw_only=True)
class Opener:
    """Opens shells and gives them their ids."""

    journal: ShellJournal
    targets: Mapping[str, Targets]
    policy: ShellPolicy
    data: Path
    temps: SessionTemps
    now: Callable[[], datetime]
    ready_s: float = 8.0
    _run: str = ""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Reject arguments that conflict or are not permitted; fill in transport, cwd and sandbox."""
        transport = values.setdefault("transport", "local")
        if transport not in self.targets:
            raise transport_not_allowed(transport)
        for needed, names in TRANSPORT_ARGUMENTS.items():
            for name in names:
                if values.get(name) is not None and transport != needed:
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
        await self.policy.check(values, caller)
        await self.targets[transport].check(values)
        if transport == "local":
            values["cwd"] = _local_cwd(values, caller)

    def _check_workspace(self, values: dict[str, Any]) -> None:
        path: str = values["workspace"]
        if not path.startswith("/"):
            raise must_be("workspace", "an absolute path", "format")
        if "\0" in path:
            raise unusable(path, "no path has a NUL in it")
        if values["transport"] != "local":
            return
        try:
            judged = open_real(path)
        except OSError as error:
            raise unusable(path, _why_not(error)) from None
        judged.close()
        if judged.path == "/":
            raise unusable(path, "it is the root of the file system")
        if Path(judged.path).is_relative_to(self.data.resolve()):
            raise unusable(path, "it lies inside Shiftlog's own data")
        values["workspace"], values["judged"] = judged.path, judged

    async def open(self, values: Mapping[str, Any], home: ShellHome, tasks: TaskGroup, client_id: str | None) -> Shell:
        """Start a shell with its background work in `tasks`; raises `OpenFailed` and its like if that fails."""
        learned = learnable_values(" ".join(f"{name}={value}" for name, value in values.get("env", {}).items()))
        if values.get("password"):
            learned |= {values["password"]}
        redactor, name = self.policy.redactor, values.get("name")
        run = await self._run_name()
        with _opened(values) as workspace:
            guard, target, live, askpass = await self._start(values, home, workspace, tasks)
        return Shell(
            shell_id=f"{run}-{next(self._numbers)}_{target.label}",
            session_id=home.session_id,
            implicit=home.implicit,
            transport=cast("Transport", values["transport"]),
            target=target.shown,
            name=redactor.text(name, by_rule=True).text if name else None,
            live=live,
            guard=guard,
            tasks=tasks,
            redactor=redactor.learning(learned) if learned else redactor,
            workspace=values.get("workspace"),
            timeout_s=values["timeout_s"],
            used_by=client_id,
            budget=values["output_budget"],
            created_at=self.now(),
            askpass=askpass,
            cwd=live.cwd,
            learned=learned,
            given=given(values),
        )

    async def _start(
        self, values: Mapping[str, Any], home: ShellHome, workspace: OpenDirectory | None, tasks: TaskGroup
    ) -> tuple[ShellGuard, Target, LiveShell, AskpassDoor | None]:
        confined = values.get("sandbox", FULL_ACCESS) != FULL_ACCESS
        guard = await self.policy.guard(values, workspace, self.temps.open(home.session_id) if confined else None)
        askpass = None
        try:
            askpass = self._askpass(values, guard)
            target = self.targets[values["transport"]].find(values, cast("Launch | None", guard.launcher))
            spec = ShellSpec(
                shell=values.get("shell", "auto"),
                cwd=values.get("cwd") or values.get("workspace"),
                env={**(askpass.variables() if askpass else {}), **values.get("env", {})},
                login=values.get("login", values["transport"] == "ssh"),
                ready_s=self.ready_s,
                directories=(askpass.directory,) if askpass else (),
            )
            live = await target.open(spec, tasks)
        except BaseException:
            guard.close()
            if askpass is not None:
                askpass.close()
            raise
        return guard, target, live, askpass

    def _askpass(self, values: Mapping[str, Any], guard: ShellGuard) -> AskpassDoor | None:
        """Make the place where programs of a local shell ask for passwords, unless the operator forbids it."""
        if values["transport"] != "local" or not self.policy.policy.askpass or not AVAILABLE:
            return None
        return AskpassDoor(guard.temp)

    async def _run_name(self) -> str:
        while not self._run:
            drawn = secrets.token_hex(2)
            if not await self.journal.knows_run(drawn):
                self._run = drawn
        return self._run


@contextmanager
def _opened(values: Mapping[str, Any]) -> Generator[OpenDirectory | None]:
    """Open the workspace that was judged; its descriptor is open until the shell has started."""
    judged: OpenDirectory | None = values.get("judged")
    if judged is None:
        yield None
        return
    try:
        opened = open_directory(judged.path)
    except OSError as error:
        raise unusable(judged.path, _why_not(error)) from None
    with opened:
        if not opened.is_same(judged):
            raise unusable(judged.path, "it was replaced while the shell opened")
        yield opened


def _why_not(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it was replaced while it was opened"
    reasons = {errno.ENOENT: "it does not exist", errno.ENOTDIR: "it is not a directory"}
    return reasons.get(error.errno or 0) or f"it cannot be opened: {error.strerror}"


def _local_cwd(values: Mapping[str, Any], caller: Caller) -> str:
    base = values.get("workspace") or caller.cwd or str(Path.cwd())
    cwd = values.get("cwd") or base
    path = Path(base, cwd)
    if not path.is_dir():
        reason = f"cwd {cwd} is not a directory" if path.exists() else f"cwd {cwd} does not exist"
        raise OpenFailed.because(reason)
    return os.path.normpath(path)
