"""Continuity: closing, resuming, suspending and handing over sessions, as faces see it.

What each of them does stands in `closing`, `resuming`, `holding` and `handover`; here they are joined.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shiftlog.journal.closing import Closing, Ending
from shiftlog.journal.continuity_requests import CLOSE_SESSION, RESUME_SESSION, unreserved
from shiftlog.journal.drift import look
from shiftlog.journal.holding import Holding
from shiftlog.journal.journal import Answered, Journal
from shiftlog.journal.keys import Keys
from shiftlog.journal.pen import Pen
from shiftlog.journal.resuming import Resuming
from shiftlog.journal.runs import CLOSE_RUN, Runs
from shiftlog.journal.tokens import Tokens
from shiftlog.model.caller import Caller
from shiftlog.model.ids import agent_key
from shiftlog.store.protocol import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the operator decides about continuity."""

    token_ttl: timedelta = timedelta(days=30)
    require_token: bool = False
    idle_limit: timedelta = timedelta(minutes=90)


class Continuity:
    """Close, suspend, resume and hand over sessions."""

    def __init__(
        self,
        journal: Journal,
        keys: Keys,
        runs: Runs,
        process_started: Callable[[int], str | None],
        host: str,
        terms: Terms,
    ) -> None:
        self._journal = journal
        self._runs = runs
        # Whoever keeps shells alive puts the ids of those that live here.
        self.live_shells: Callable[[], Collection[str]] = tuple
        self._holding = Holding(journal, runs, process_started, host, terms.idle_limit)
        self._tokens = Tokens(keys, terms.token_ttl)
        self._closing = Closing(journal, keys, runs, self._tokens, self._holding, require_token=terms.require_token)
        self._resuming = Resuming(journal, self._tokens, self._holding, require_token=terms.require_token)

    async def close_session(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a session and return the whole answer; `profiles.presented` shows the part that was asked for."""
        request = self._journal.request("close_session", CLOSE_SESSION, unreserved(arguments), caller)
        return await self._journal.transaction(request, lambda writer: self._closing.close(writer, request))

    async def close_run(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a run as its launcher reports it, and close its session unless another client works in it."""
        request = self._journal.request("close_run", CLOSE_RUN, arguments, caller)

        def close_session(writer: Writer, pen: Pen, reason: str) -> bool:
            if self._holding.other_holder(writer, pen.session, caller, pen.now) is not None:
                return False
            self._closing.end(writer, pen, Ending(reason=reason))
            return True

        return await self._journal.transaction(request, lambda writer: self._runs.close(writer, request, close_session))

    async def resume_session(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Continue a session of an agent and return the whole answer. Never opens an empty one."""
        request = self._journal.request("resume_session", RESUME_SESSION, unreserved(arguments), caller)
        agent_key(request.values["agent_id"])
        answered, left = await self._journal.transaction(request, lambda w: self._resuming.resume(w, request))
        return {**answered, "data": {**answered["data"], "drift": await look(left, self.live_shells())}}

    # Leases and suspension

    async def client_gone(self, client_id: str) -> None:
        """Let the leases of a client whose connection closed run out now."""
        await self._holding.renew([client_id], timedelta(0))

    async def renew(self, client_ids: list[str]) -> None:
        """Prolong the leases of clients that are still connected."""
        await self._holding.renew(client_ids)

    async def suspend_stale(self, idle_limit: timedelta) -> list[str]:
        """Suspend open sessions whose holder or run is gone, or that idle for longer than the limit (0: never)."""
        return await self._holding.suspend_stale(idle_limit)
