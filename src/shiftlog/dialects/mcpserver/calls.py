"""Check, write and read a call of the session log: the transaction around every method.

Checks come in the contract's order: parameters, forms of ids, session, a repeated key, turn, lease. A call that
timed out has written nothing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from shiftlog.dialects.mcpserver.current import (
    CallContext,
    check_binding,
    is_live,
    named_session_id,
    session_of_call,
)
from shiftlog.dialects.mcpserver.naming import Params
from shiftlog.dialects.mcpserver.subagents import SubagentSession, turn_of_subagent
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.continuity.service import Continuity
from shiftlog.journal.journal import CONTROLS_REPLACED, Journal, Request, closed_error, masked
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import NAME_CHARS
from shiftlog.model.entry import Kind
from shiftlog.model.errors import CommandTimeout, ShiftlogError
from shiftlog.model.limits import STALE_CHECK_EVERY
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown
from shiftlog.params.fields import replaced_controls
from shiftlog.store.protocol import Reader, Writer

T = TypeVar("T")
Result = dict[str, Any]
Rule = Callable[[Pen, Mapping[str, Any]], tuple[Result, str | None]]
Prepare = Callable[[Mapping[str, Any]], dict[str, Any]]

IGNORED_SHOWN = 100
# Names, not text: they are compared as given and have formats of their own. An expression is masked term by term.
_NAMES = frozenset({"session_id", "request_id", "turn_request_id", "idempotency_key", "agent", "text"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCall:
    """A checked and redacted call, its origin, and its ignored parameters.

    Its key counts in its session, or in `scope` where the call itself makes the session's id.
    """

    request: Request
    context: CallContext
    warnings: list[dict[str, object]]
    deadline: float
    scope: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Return the checked values."""
        return self.request.values


def check_call(
    redactor: Redactor, method: str, params: Params, given: object, context: CallContext, prepare: Prepare
) -> LogCall:
    """Check a call's parameters and mask the secrets in them; `prepare` sees them before the ids are checked."""
    try:
        with replaced_controls() as mended:
            read, ignored = params.read(given, strict=context.strict)
        values = prepare(read)
        named_session_id(values)
    except ShiftlogError as error:
        raise masked(error, redactor) from None
    replaced = 0
    for name, value in values.items():
        if name not in _NAMES:
            values[name], count, _ = redactor.value(value)
            replaced += count
    # Masked before it is cut, so that no part of a secret stays at its end.
    named = [("ignored_param", redactor.text(name).text[:NAME_CHARS]) for name in ignored[:IGNORED_SHOWN]]
    named += [(CONTROLS_REPLACED, path) for path in mended[:IGNORED_SHOWN]]
    return LogCall(
        request=Request(operation=method, values=values, masked=replaced, caller=context.caller),
        context=context,
        warnings=[{"code": code, "param": name} for code, name in named],
        deadline=time.monotonic() + context.timeout_s,
    )


class Calls:
    """The write and read path of the session log over the journal."""

    def __init__(self, journal: Journal, redactor: Redactor, continuity: Continuity, idle_limit: timedelta) -> None:
        self.journal = journal
        self.redactor = redactor
        self._continuity = continuity
        self._idle_limit = idle_limit
        self._looked_at: datetime | None = None

    async def _suspend_stale(self) -> None:
        """Suspend sessions that idle or lost their holder, so that no answer calls them open."""
        now = self.journal.clock.now()
        if self._looked_at is None or abs(now - self._looked_at) >= STALE_CHECK_EVERY:
            self._looked_at = now
            await self._continuity.suspend_stale(self._idle_limit)

    async def write(
        self, call: LogCall, rule: Rule, then: Callable[[Writer, Result], Result] = lambda _, result: result
    ) -> Result:
        """Run a rule on the current session and store its entries and the changes of `then`, all of them or none."""
        return await self.transaction(call, lambda writer: then(writer, self._apply(writer, call, rule)))

    def _apply(self, writer: Writer, call: LogCall, rule: Rule) -> Result:
        session = session_of_call(
            writer,
            call.values,
            call.context,
            lambda ended: self.journal.has_answered(writer, call.request, ended.id),
        )
        first = self.repeated(writer, call, session.id)
        if first is not None:
            return first
        if not is_live(session):
            raise closed_error(session)
        found = turn_of_subagent(writer, session, call.values.get("request_id"))
        if found is not None:
            try:
                return self._apply_to_child(writer, call, rule, session, *found)
            except ShiftlogError as error:
                if error.details.get("session_id") == found[0].session.id:
                    error.details = {**error.details, "session_id": session.id}
                raise
        pen = self.journal.pen(writer, session.id, session)
        pen.signs = call.context.caller.signs
        wake(pen)
        before = pen.written
        result, turn = rule(pen, call.values)
        check_binding(self.journal, writer, session, call.context, call.values)
        if pen.written == before:
            return self.unchanged(writer, call, pen, session, result, turn)
        return self.stored(writer, call, pen, result, turn)

    def _apply_to_child(
        self, writer: Writer, call: LogCall, rule: Rule, parent: Session, child: SubagentSession, turn: Turn
    ) -> Result:
        """Run a rule on a turn of a subagent, which has another id in the subagent's own session."""
        session, name = child.session, call.values["request_id"]
        first = self.repeated(writer, call, session.id)
        if first is not None:
            return first
        if not is_live(session):
            raise closed_error(session)
        pen = self.journal.pen(writer, session.id, session)
        wake(pen)
        before = pen.written
        try:
            result, _ = rule(pen, {**call.values, "request_id": turn.request_id})
        except ShiftlogError as error:
            error.details = {key: name if value == turn.request_id else value for key, value in error.details.items()}
            raise
        check_binding(self.journal, writer, parent, call.context, call.values)
        result = {key: name if value == turn.request_id else value for key, value in result.items()}
        if pen.written == before:
            if "lastUpdated" in result:
                result["lastUpdated"] = shown(max(session.last_activity, parent.last_activity))
            return self._remembered(writer, call, pen, session, result, name, changed=False)
        whole = self.journal.pen(writer, parent.id, parent)
        wake(whole)
        if not whole.written and shown(parent.last_activity) < shown(whole.now):
            # The log shows the turn as the parent's, so the parent counts as updated.
            whole.write(Kind.SESSION_UPDATED, {})
        whole.commit(writer)
        return self.stored(writer, call, pen, result, name)

    async def transaction(self, call: LogCall, work: Callable[[Writer], Result]) -> Result:
        """Run work as one transaction; roll it back when the call times out."""

        def timed(writer: Writer) -> Result:
            result = self._lost(writer, call) or work(writer)
            if time.monotonic() > call.deadline:
                raise timed_out(call.context)
            return result

        await self._suspend_stale()
        return await self.journal.transaction(call.request, timed)

    async def read(self, call: LogCall, work: Callable[[Reader], T]) -> T:
        """Run work over one consistent state."""
        await self._suspend_stale()
        return await self.journal.read(call.request, work)

    def _lost(self, reader: Reader, call: LogCall) -> Result | None:
        """Return the answer that a client lost with its connection, if the call was carried out."""
        outcome, session = self.outcome(reader, call)
        if session is None:
            return None
        call.context.binding.bind(session)
        return outcome.get("result")

    def outcome(self, reader: Reader, call: LogCall) -> tuple[Mapping[str, Any], Session | None]:
        """Return the outcome and the session of a call whose answer was lost, if the call was carried out."""
        caller = call.context.caller
        if not call.context.again or caller.client_id is None or caller.call_id is None:
            return {}, None
        outcome = reader.outcome(caller.client_id, caller.call_id) or {}
        return outcome, reader.session(outcome["session_id"]) if outcome else None

    def repeated(self, reader: Reader, call: LogCall, scope: str) -> Result | None:
        """Return the first result of a call whose key was used before."""
        first = self.journal.replay(reader, call.request, scope)
        return None if first is None else first["result"]

    def stored(self, writer: Writer, call: LogCall, pen: Pen, result: Result, turn: str | None) -> Result:
        """Commit a pen and complete the result."""
        pen.commit(writer)
        return self._remembered(writer, call, pen, pen.session, result, turn, changed=True)

    def unchanged(
        self, writer: Writer, call: LogCall, pen: Pen, session: Session, result: Result, turn: str | None
    ) -> Result:
        """Complete the result of a call that stores nothing."""
        if "lastUpdated" in result:
            result = {**result, "lastUpdated": shown(session.last_activity)}
        return self._remembered(writer, call, pen, session, result, turn, changed=False)

    def _remembered(
        self,
        writer: Writer,
        call: LogCall,
        pen: Pen,
        session: Session,
        result: Result,
        turn: str | None,
        *,
        changed: bool,
    ) -> Result:
        journal: Result = {"sessionId": session.id}
        if turn is not None:
            journal["turnRequestId"] = turn
        journal |= {
            "seq": session.head_seq,
            "hash": session.head_hash,
            "changed": changed,
            "redactions": call.request.masked if changed else 0,
        }
        result = with_warnings({**result, "journal": journal}, [*call.warnings, *pen.warnings])
        self.keep(writer, call, result)
        return result

    def keep(self, writer: Writer, call: LogCall, result: Result) -> None:
        """Keep a result for its key and for a client that loses it."""
        journal: Result = result["journal"]
        changed, session_id = journal["changed"], journal["sessionId"]
        receipt = {
            "code": "persisted" if changed else "unchanged",
            "session_id": session_id,
            **{name: journal[name] for name in ("seq", "hash", "redactions")},
        }
        if changed or call.context.strict or call.request.key is not None:
            # A connection that may ask again needs the result; repeated, a call that changed nothing changes nothing.
            outcome = receipt if call.context.strict else {**receipt, "result": result}
            scope = session_id if call.scope is None else call.scope
            self.journal.remember(writer, call.request, scope, {"session_id": session_id, "result": result}, outcome)


def wake(pen: Pen) -> None:
    """Resume a suspended session with the next write."""
    if pen.session.state is SessionState.SUSPENDED:
        pen.write(Kind.SESSION_RESUMED, {"via": "write"})


def with_warnings(result: Result, warnings: list[Any]) -> Result:
    """Return a result with its warnings, if there are any."""
    return {**result, "warnings": warnings} if warnings else result


def timed_out(context: CallContext) -> CommandTimeout:
    """Return the error for a call that timed out and was rolled back."""
    return CommandTimeout("Command timed out", details={"reason": f"not done within {context.timeout_s:g} s"})
