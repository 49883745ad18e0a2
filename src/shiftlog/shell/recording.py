"""What the shell service asks of the journal: a session to belong to, and a place for every fact.

The service hands over plain facts, already masked; how they become entries is the journal's. Both meet in `app`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from shiftlog.model.caller import Caller
from shiftlog.model.shells import Facts, KnownCommand, KnownShell, ShellHome


class ShellJournal(Protocol):
    """The journal as shells need it; a fact is durable when the call returns. Failing to write raises StorageError.

    The start of a command that the caller waits for survives this process, and a loss of power once `sync` or any
    later fact is through: nobody was told of it before, and waiting for the disk twice is most of a short command.
    """

    async def home(self, session_id: str | None, caller: Caller) -> ShellHome:
        """Find the session to belong to: the one named, else the one the caller has open, else a new implicit one."""
        ...

    async def session_id(self, name: str) -> str:
        """Return the id of the session that a name of any form names."""
        ...

    async def abandon(self, session_id: str) -> None:
        """Close an implicit session whose shell never came up."""
        ...

    async def shell_opened(self, session_id: str, facts: Facts) -> None: ...

    async def shell_ended(self, session_id: str, facts: Facts, *, close_session: bool) -> None:
        """Record an end; an implicit session ends with its last shell."""
        ...

    async def command_started(self, session_id: str, facts: Facts, caller: Caller, *, waited_for: bool) -> str | None:
        """Record a start and return the turn that is open, if one is; raise what keeps the caller from writing."""
        ...

    async def sync(self) -> None:
        """Make the starts durable that are not yet."""
        ...

    async def command_finished(self, session_id: str, request_id: str | None, facts: Facts) -> None:
        """Record an end, and the command as an action of the turn it began in."""
        ...

    async def command_refused(self, session_id: str, facts: Facts, caller: Caller) -> str | None:
        """Record a command that never ran, and as an action of the turn that is open, which is returned."""
        ...

    async def approval_asked(self, session_id: str, facts: Facts) -> None: ...

    async def approval_decided(self, session_id: str, facts: Facts) -> None: ...

    async def command_input(self, session_id: str, facts: Facts) -> None: ...

    async def shells(self, since: datetime) -> Sequence[KnownShell]:
        """Return the shells that were opened since a time, newest first."""
        ...

    async def left(self, now: datetime) -> Sequence[KnownShell]:
        """Return the shells of the last month whose end nobody recorded."""
        ...

    async def shell(self, shell_id: str) -> KnownShell | None: ...

    async def command(self, command_id: str) -> KnownCommand | None: ...

    async def knows_run(self, run: str) -> bool:
        """Tell whether any shell's id begins with these four digits."""
        ...
