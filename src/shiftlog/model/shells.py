"""Shells and commands as the journal recorded them, for the shell service to read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellHome:
    """The session that a shell belongs to; an implicit one is closed when its last shell ends."""

    session_id: str
    implicit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCommand:
    """The beginning of a command and, once it is over, its end; a refused one has no beginning."""

    session_id: str
    request_id: str | None
    started: Facts | None
    finished: Facts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownShell:
    """The opening of a shell and, once it is over, its end; its last command, and those without a recorded end."""

    session_id: str
    opened_at: datetime
    opened: Facts
    ended_at: datetime | None = None
    ended: Facts | None = None
    last_command: Facts | None = None
    unfinished: Sequence[KnownCommand] = ()
    numbers: int = 0
    """The highest number that one of its commands has."""

    @property
    def shell_id(self) -> str:
        """Return its id; empty once the entry was erased."""
        return str(self.opened.get("shell_id", ""))
