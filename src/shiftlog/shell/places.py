"""The targets that shells can be opened on, by transport: what of the arguments names them and what is permitted.

Here is this machine; hosts over ssh and containers have files of their own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftlog.model.caller import Caller
from shiftlog.shell.engine.local import LocalTarget, base_environment
from shiftlog.shell.guarding import ShellGuard
from shiftlog.shell.opening import Place


class LocalPlaces:
    """This machine."""

    def __init__(self, environ: Mapping[str, str], passed: Sequence[str] = (), runtime_dir: Path | None = None) -> None:
        self._environment = base_environment(environ, passed)
        self._runtime_dir = runtime_dir

    async def check(self, values: Mapping[str, Any], caller: Caller) -> None:
        """Refuse nothing: who may open shells here is decided before."""

    def place(self, values: Mapping[str, Any], guard: ShellGuard) -> Place:
        """Return this machine, behind the guard's launcher where it has one."""
        launcher = guard.launcher
        runtime_dir = getattr(launcher, "runtime_dir", None) or self._runtime_dir
        target = LocalTarget(environment=self._environment, runtime_dir=runtime_dir, launcher=launcher)
        return Place(target=target, label="local", shown=None)
