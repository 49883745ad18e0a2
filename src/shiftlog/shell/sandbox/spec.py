"""What a sandboxed shell is held to, as whoever opens it says it, and what several parts ask about that.

Whether a machine can hold it is `sandbox`'s question, how a shell is started under it `launch`'s.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shiftlog.model.shell_errors import SandboxUnavailable
from shiftlog.shell.sandbox.programs import ExecRules
from shiftlog.shell.sandbox.starts import JudgeSpec, StartedFile

Mode = Literal["read-only", "workspace-write", "full-access"]
Enforcement = Literal["none", "syntax", "kernel", "syntax+kernel"]

ALLOW_ALL = JudgeSpec(factory="shiftlog.shell.sandbox.spec:AllowAll")


class AllowAll:
    """The judge of a shell without lists: its starts are recorded, none is refused."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Allow the start."""
        return True, "allowed", os.path.basename(path), None

    def permit(self, entries: Sequence[str]) -> None:
        """Nothing is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What a shell is to be held to; paths are absolute."""

    mode: Mode
    state_dir: str
    workspace: str | None = None
    cwd: str | None = None
    rules: ExecRules | None = None
    judge: JudgeSpec = ALLOW_ALL
    network: bool = True
    write_extra: tuple[str, ...] = ()
    require_kernel: bool = False
    require_bwrap: bool = False
    shows_cwd: bool = False
    """Whether `cwd` is shown where the sandbox has a directory of its own: who may have full access may see it."""

    @property
    def confined(self) -> bool:
        """Whether the mode bounds what may be written."""
        return self.mode != "full-access"

    @property
    def asks_for_kernel(self) -> bool:
        """Whether anything is set that the kernel is to hold."""
        return self.confined or self.rules is not None or self.require_kernel

    def writable_places(self) -> tuple[str, ...]:
        """Return the real paths of the workspace and the operator's further places; none unless in workspace-write."""
        if self.mode != "workspace-write" or self.workspace is None:
            return ()
        places = (self.workspace, *(os.path.expanduser(place) for place in self.write_extra))
        return tuple(dict.fromkeys(os.path.realpath(place) for place in places))


def unavailable(mode: Mode, why: str) -> SandboxUnavailable:
    """Make the error of a mode that cannot be held."""
    return SandboxUnavailable(f"sandbox '{mode}' cannot be enforced here: {why}", details={"mode": mode, "why": why})


def is_below(path: str, place: str) -> bool:
    """Return True if a path is a place or lies below it."""
    return path == place or path.startswith(place.rstrip("/") + "/")
