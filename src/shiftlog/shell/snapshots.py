"""What the shell service asks of checkpoints: one when a shell opens on a workspace, and one before each command."""

from collections.abc import Mapping
from typing import Any, Protocol

from shiftlog.shell.state import Command, Shell


class Snapshots(Protocol):
    """Takes checkpoints for shells; both verbs leave a shell without workspace alone."""

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse what cannot be covered as asked, before a shell is opened."""
        ...

    async def attach(self, shell: Shell, values: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to cover a shell's workspace; return the `checkpoints` object of its result."""
        ...

    async def before(self, shell: Shell, command: Command) -> str | None:
        """Return the checkpoint that undoes a command that is about to run, None where nothing is covered."""
        ...


class NoSnapshots:
    """Covers nothing."""

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse nothing."""

    async def attach(self, shell: Shell, values: Mapping[str, Any]) -> dict[str, Any]:
        """Say that nothing is covered."""
        return {"enabled": False, "reason": "git_missing" if shell.workspace else "no_workspace", "baseline_id": None}

    async def before(self, shell: Shell, command: Command) -> str | None:
        """Take nothing."""
        return None
