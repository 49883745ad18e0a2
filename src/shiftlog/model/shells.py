"""Shells and commands as the journal knows them: what the shell service asks of it and gets back."""

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
    """How a command began and, once it is over, how it ended; a refused one has no beginning."""

    session_id: str
    request_id: str | None
    started: Facts | None
    finished: Facts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownShell:
    """The facts of a shell's opening and, once it is over, of its end; of the command that came last, as it is known
    last; and of those whose end nobody recorded."""

    session_id: str
    opened_at: datetime
    opened: Facts
    ended_at: datetime | None = None
    ended: Facts | None = None
    last_command: Facts | None = None
    unfinished: Sequence[KnownCommand] = ()

    @property
    def shell_id(self) -> str:
        """Return its id, empty once the entry was erased."""
        return str(self.opened.get("shell_id", ""))
