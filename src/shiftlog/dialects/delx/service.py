"""close_session and resume_session as Delx clients know them: the journal's answers, presented as a call asks.

The journal closes and resumes; here are only Delx's parameters, profiles and prose. Its errors are in `refusals`.
"""

from collections.abc import Mapping
from typing import Any

from shiftlog.dialects.delx.profiles import Presented, present
from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION, unreserved
from shiftlog.journal.continuity.service import Continuity
from shiftlog.model.caller import Caller


class Delx:
    """Close and resume sessions, and present the answers."""

    def __init__(self, continuity: Continuity) -> None:
        self._continuity = continuity

    async def close_session(self, arguments: Mapping[str, Any], caller: Caller) -> Presented:
        """End a session; see `Continuity.close_session`."""
        answered = await self._continuity.close_session(unreserved(arguments), caller, CLOSE_SESSION)
        return present(answered, arguments)

    async def resume_session(self, arguments: Mapping[str, Any], caller: Caller) -> Presented:
        """Continue a session of an agent; see `Continuity.resume_session`."""
        answered = await self._continuity.resume_session(unreserved(arguments), caller, RESUME_SESSION)
        return present(answered, arguments)
