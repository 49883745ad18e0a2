"""The bounds of a caller that runs inside a shell: it may not reach further through the daemon than that shell does.

The daemon knows from the kernel whether a caller is inside; `registry` finds the shells around it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.guard.policy.operator import SANDBOXES
from shiftlog.model.shell_errors import SandboxNotAllowed
from shiftlog.shell.guard import FULL_ACCESS, is_looser
from shiftlog.shell.sandbox.spec import is_below
from shiftlog.shell.state import Shell


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellBounds:
    """The reach of a shell: its mode, its workspace, and the lists that it was opened with."""

    mode: str = FULL_ACCESS
    workspace: str | None = None
    deny: frozenset[str] = frozenset()
    allow: frozenset[str] | None = None

    def excess_of(self, wanted: "ShellBounds") -> str | None:
        """Return what another shell would permit beyond this one; None if nothing."""
        if is_looser(wanted.mode, self.mode):
            return f"sandbox '{wanted.mode}' is not permitted"
        if wanted.mode == self.mode == "workspace-write" and not _holds(self.workspace, wanted.workspace):
            return f"workspace {wanted.workspace} is outside of the calling shell's workspace"
        missing = sorted(self.deny - wanted.deny)
        if missing:
            return f"the calling shell denies '{missing[0]}', and this shell does not"
        if self.allow is not None and not (wanted.allow is not None and wanted.allow <= self.allow):
            return "the calling shell has an allow list, and this shell permits more"
        return None


# A process that left its shell, as by ending the shell's reaper: which bounds it had is not known any more.
_ORPHANS_HINT = "The calling process has the mark of a shell but runs in none; connect from outside of all shells"
OF_AN_ORPHAN = ShellBounds(mode=SANDBOXES[0])


def bounds_of(shell: Shell | None) -> ShellBounds:
    """Return the bounds of a shell; without one, no bounds."""
    if shell is None:
        return ShellBounds()
    rules = shell.guard.rules
    own = [
        frozenset(entry.text for entry in listed) for listed in rules.allow if listed and listed[0].source == "shell"
    ]
    return ShellBounds(
        mode=shell.guard.sandbox,
        workspace=shell.workspace,
        deny=frozenset(entry.text for entry in rules.deny if entry.source == "shell"),
        allow=own[0] if own else None,
    )


def asked_bounds(values: Mapping[str, Any]) -> ShellBounds:
    """Return the bounds of a shell that is about to open."""
    return ShellBounds(
        mode=values.get("sandbox") or FULL_ACCESS,
        workspace=values.get("workspace"),
        deny=frozenset(values.get("deny") or ()),
        allow=frozenset(values["allow"]) if values.get("allow") else None,
    )


def check(held: ShellBounds, wanted: ShellBounds) -> None:
    """Reject a request that reaches beyond the bounds of the caller."""
    why = held.excess_of(wanted)
    if why is not None:
        hint = _ORPHANS_HINT if held is OF_AN_ORPHAN else None
        raise SandboxNotAllowed(why, details={"mode": wanted.mode, "max": held.mode}, hint=hint)


def _holds(place: str | None, wanted: str | None) -> bool:
    return place is not None and wanted is not None and is_below(wanted, place)
