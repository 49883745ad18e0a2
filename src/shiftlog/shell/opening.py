"""Opens shells: checks the arguments of open_shell, applies the operator's rules, and starts the shell on its target.

Every check comes before a session is opened or a target contacted. Recording is the service's.
"""

import itertools
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from anyio.abc import TaskGroup

from shiftlog.guard.secrets.redactor import learnable_values
from shiftlog.model.caller import Caller
from shiftlog.model.shell_errors import OpenFailed
from shiftlog.model.shells import ShellHome
from shiftlog.params.wording import conflict, missing, must_be
from shiftlog.shell.engine.local import LocalTarget, base_environment
from shiftlog.shell.guard import ShellPolicy, transport_not_allowed, unusable
from shiftlog.shell.ports import ShellJournal, ShellSpec, Targets, Transport
from shiftlog.shell.sandbox.launch import Launch
from shiftlog.shell.state import Shell

TRANSPORT_ARGUMENTS = {
    "ssh": ("host", "port", "user", "password", "key_path", "fingerprint"),
    "docker": ("container",),
}


class LocalTargets:
    """This machine, as the one target of the local transport."""

    def __init__(self, environ: Mapping[str, str], passed: Sequence[str] = ()) -> None:
        self._environment = base_environment(environ, passed)

    async def check(self, values: Mapping[str, Any]) -> None:
        """Permit it; the operator's policy has decided already."""

    def find(self, values: Mapping[str, Any], launcher: Launch | None = None) -> LocalTarget:
        return LocalTarget(environment=self._environment, launcher=launcher)


@dataclass(slots=True, kw_only=True)
class Opener:
    """Opens shells and gives them their ids."""

    journal: ShellJournal
    targets: Mapping[str, Targets]
    policy: ShellPolicy
    data: Path
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
        real = Path(os.path.realpath(path))
        if real == Path("/"):
            raise unusable(path, "it is the root of the file system")
        if not real.is_dir():
            raise unusable(path, "it is not a directory" if real.exists() else "it does not exist")
        if real.is_relative_to(self.data.resolve()):
            raise unusable(path, "it lies inside Shiftlog's own data")
        values["workspace"] = str(real)

    async def open(self, values: Mapping[str, Any], home: ShellHome, tasks: TaskGroup) -> Shell:
        """Start a shell with its background work in `tasks`; raises `OpenFailed` and its like if that fails."""
        learned = learnable_values(" ".join(f"{name}={value}" for name, value in values.get("env", {}).items()))
        if values.get("password"):
            learned |= {values["password"]}
        redactor, name = self.policy.redactor, values.get("name")
        guard = await self.policy.guard(values)
        try:
            target = self.targets[values["transport"]].find(values, guard.launcher)
            spec = ShellSpec(
                shell=values.get("shell", "auto"),
                cwd=values.get("cwd") or values.get("workspace"),
                env=values.get("env", {}),
                login=values.get("login", values["transport"] == "ssh"),
                ready_s=self.ready_s,
            )
            run = await self._run_name()
            live = await target.open(spec, tasks)
        except BaseException:
            guard.close()
            raise
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
            budget=values["output_budget"],
            created_at=self.now(),
            cwd=live.cwd,
            learned=learned,
        )

    async def _run_name(self) -> str:
        while not self._run:
            drawn = secrets.token_hex(2)
            if not await self.journal.knows_run(drawn):
                self._run = drawn
        return self._run


def _local_cwd(values: Mapping[str, Any], caller: Caller) -> str:
    base = values.get("workspace") or caller.cwd or str(Path.cwd())
    cwd = values.get("cwd") or base
    path = Path(base, cwd)
    if not path.is_dir():
        reason = f"cwd {cwd} is not a directory" if path.exists() else f"cwd {cwd} does not exist"
        raise OpenFailed.because(reason)
    return os.path.normpath(path)
