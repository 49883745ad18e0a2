"""The door of continuity: close, suspend, resume and hand over sessions.

Requests are checked and transactions opened here; `closing`, `resuming`, `leases` and `handover` do the work.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import anyio

from shiftlog.guard.secrets.off_loop import run_off_loop
from shiftlog.journal.continuity.closing import Closer, Ending
from shiftlog.journal.continuity.drift import look
from shiftlog.journal.continuity.file_states import with_git
from shiftlog.journal.continuity.handover import END_OFFER, OFFER, Handover, offered
from shiftlog.journal.continuity.leases import Leases
from shiftlog.journal.continuity.requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.journal.continuity.resuming import Resumer
from shiftlog.journal.continuity.selection import check_final
from shiftlog.journal.journal import Answered, Check, Journal, Request, find_session
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import SESSION_ID
from shiftlog.journal.runs.requests import CLOSE_RUN
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.signing.keys import Keys
from shiftlog.journal.signing.tokens import Tokens
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import agent_key
from shiftlog.model.times import precise, shown
from shiftlog.params.fields import Record
from shiftlog.store.protocol import Reader, Writer

REISSUE = Record(fields={"session_id": SESSION_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The operator's settings for continuity; without `sees_workspaces` those are on other machines."""

    token_ttl: timedelta = timedelta(days=30)
    require_token: bool = False
    sees_workspaces: bool = True


class Continuity:
    """Close, suspend, resume and hand over sessions."""

    def __init__(
        self,
        journal: Journal,
        keys: Keys,
        runs: Runs,
        terms: Terms,
        *,
        live_shells: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._live_shells = live_shells
        self._sees_workspaces = terms.sees_workspaces
        self._leases = Leases(journal, runs)
        self._tokens = Tokens(keys, terms.token_ttl)
        self._closer = Closer(journal, keys, runs, self._tokens, self._leases, require_token=terms.require_token)
        self._handover = Handover(journal, self._tokens, self._closer, self._leases)
        self._resumer = Resumer(journal, self._tokens, self._leases, self._handover, require_token=terms.require_token)

    async def close_session(
        self, arguments: Mapping[str, Any], caller: Caller, fields: Record = CLOSE_SESSION
    ) -> Answered:
        """End a session and return the whole answer. A dialect passes `fields` with parameters of its own."""
        request = await run_off_loop(arguments, self._request, "close_session", fields, arguments, caller)
        answered = await self._journal.transaction(request, lambda writer: self._closer.close(writer, request))
        session = await self._journal.store.read(lambda reader: reader.session(answered["session_id"]))
        data = answered["data"]
        workspace = session.workspace if session and self._sees_workspaces else None
        capsule = await with_git(data["capsule"], workspace)
        return {**answered, "data": {**data, "capsule": capsule}}

    async def end_implicit(self, session_id: str, reason: str) -> None:
        """Close a session that was only opened to record something, if it is still open; that is no activity."""

        def work(writer: Writer) -> None:
            session = writer.session(session_id)
            if session is not None and session.is_live:
                pen = self._journal.pen(writer, session_id, session)
                pen.automatic = True
                self._closer.end(writer, pen, Ending(reason=reason))

        await self._journal.store.write(work)

    def close_within(self, writer: Writer, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a session as a part of a transaction that does more."""
        request = self._request("close_session", CLOSE_SESSION, arguments, caller)
        return self._closer.close(writer, request)

    def has_closed(self, reader: Reader, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Return True if a request with the same key and parameters closed the session before."""
        request = self._request("close_session", CLOSE_SESSION, arguments, caller)
        return self._journal.has_answered(reader, request, arguments["session_id"])

    async def close_run(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End a run as its launcher reports it, and close its session unless another client works in it."""
        request = self._journal.request("close_run", CLOSE_RUN, arguments, caller)

        def close_session(writer: Writer, pen: Pen, reason: str) -> bool:
            if self._journal.holders.other(writer, pen.session, caller, pen.clock_now) is not None:
                return False
            self._closer.end(writer, pen, Ending(reason=reason))
            return True

        return await self._journal.transaction(request, lambda writer: self._runs.close(writer, request, close_session))

    async def resume_session(
        self, arguments: Mapping[str, Any], caller: Caller, fields: Record = RESUME_SESSION
    ) -> Answered:
        """Continue a session of an agent and return the whole answer. Never opens an empty one."""
        request = self._request("resume_session", fields, arguments, caller, lambda given: agent_key(given["agent_id"]))
        answered, left = await self._journal.transaction(request, lambda w: self._resumer.resume(w, request))
        if not self._sees_workspaces:
            left = replace(left, workspace=None)
        data = dict(answered["data"])

        async def see_drift() -> None:
            data["drift"] = await look(left, self._live_shells())

        async def see_files() -> None:
            data["capsule"] = await with_git(data["capsule"], left.workspace)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(see_drift)
            tasks.start_soon(see_files)
        return {**answered, "data": data}

    def _request(
        self,
        tool: str,
        fields: Record,
        arguments: Mapping[str, Any],
        caller: Caller,
        check: Check | None = None,
    ) -> Request:
        """Check a request; an error names all its faults, so that the caller can fix them together."""
        try:
            return self._journal.request(tool, fields, arguments, caller, check)
        except InvalidParameter as error:
            faults = [self._journal.masked(fault).details for fault in fields.faults(arguments)]
            if not faults:
                raise  # each field is right by itself
            error.details["faults"] = faults
            raise

    # Handing over

    async def offer(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Offer a session to an agent, or to anyone who has the returned token."""
        request = self._journal.request("offer", OFFER, arguments, caller)
        return await self._journal.transaction(request, lambda writer: self._handover.offer(writer, request))

    async def decline(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """End an offer for the agent that it was made to."""
        request = self._journal.request("decline", END_OFFER, arguments, caller)
        return await self._journal.transaction(request, lambda writer: self._handover.decline(writer, request))

    async def revoke(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Take an offer back."""
        request = self._journal.request("revoke", END_OFFER, arguments, caller)
        return await self._journal.transaction(request, lambda writer: self._handover.revoke(writer, request))

    async def expire_offers(self) -> list[str]:
        """End the offers whose time is over, and name their sessions."""
        if not await self._journal.store.read(offered):
            return []
        return await self._journal.store.write(self._handover.expire)

    async def reissue_token(self, arguments: Mapping[str, Any], caller: Caller) -> Answered:
        """Replace a token that was lost; the journal notes it, and a final session is refused."""
        request = self._journal.request("reissue_token", REISSUE, arguments, caller)

        def work(writer: Writer) -> Answered:
            session = find_session(writer, request.values["session_id"])
            check_final(session)
            session = self._handover.without_expired_offer(writer, session, self._journal.clock.now())
            pen = self._journal.pen(writer, session.id, session)
            pen.write(Kind.TOKEN_REISSUED, {"expires_at": precise(pen.now + self._tokens.ttl)})
            pen.commit(writer)
            issued = self._tokens.issue(writer, pen.session, pen.now)
            offer = pen.session.offer
            return {
                "session_id": session.id,
                "agent_id": offer.agent_id if offer else session.agent_id,
                "recovery_token": issued.text,
                "recovery_token_expires_at": shown(issued.expires_at),
            }

        return await self._journal.transaction(request, work)

    # Leases and suspension

    async def client_gone(self, client_id: str) -> None:
        """End the leases of a client whose connection closed."""
        await self._leases.leave(client_id)

    async def renew(self, client_ids: list[str]) -> None:
        """Prolong the leases of clients that are still connected."""
        await self._leases.renew(client_ids)

    async def suspend_stale(self, idle_limit: timedelta) -> list[str]:
        """Suspend open sessions whose holder or run is gone, or that idle for longer than the limit (0: never)."""
        return await self._leases.suspend_stale(idle_limit)
