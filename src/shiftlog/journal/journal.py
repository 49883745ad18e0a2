"""The one way in for every write: validate → redact → decide → append and project, in one transaction.

A service hands in a rule that writes with a pen. Finding a session by any of its names, leases, idempotency keys and
receipts are handled here and nowhere else.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from shiftlog.guard.secrets.off_loop import run_off_loop
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.journal.clock import Clock
from shiftlog.journal.holders import Holders, check_fence, held, lease_of, shown_holder
from shiftlog.journal.pen import Pen
from shiftlog.model.caller import Caller
from shiftlog.model.canonical import canonical
from shiftlog.model.entry import Kind
from shiftlog.model.errors import (
    IdempotencyConflict,
    InvalidParameter,
    InvalidSessionId,
    SessionClosed,
    SessionNotFound,
    SessionSucceeded,
    ShiftlogError,
)
from shiftlog.model.ids import (
    MAX_ALIAS_DIGITS,
    check_request_id,
    check_session_id,
    is_alias,
    is_session_id,
    is_vendor_id,
)
from shiftlog.model.limits import CONTINUITY_KEYS_KEPT, KEYS_KEPT
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown_or_none
from shiftlog.params.fields import Record, SessionRef, replaced_controls
from shiftlog.store.protocol import About, Answer, Reader, Store, Writer

T = TypeVar("T")
Answered = dict[str, Any]
Rule = Callable[[Pen, Mapping[str, Any]], Answered]
Check = Callable[[Mapping[str, Any]], object]
# A session, a turn in it, and the kind of the entry that began or ended the turn.
Move = tuple[str, str, Kind]
# Called after a turn began or ended; the answer waits for it.
TurnMoved = Callable[[str, str, Kind], Awaitable[None]]

# The warning about control characters that became visible signs.
CONTROLS_REPLACED = "control_characters_replaced"
# The hint for a client that wants to close what another client of its agent holds.
TAKE_IT_OVER = "Pass on_held: take_over"
# The hints for a session that cannot be resumed.
_CLOSED_HINTS = {SessionState.SEALED: "Open a new session", SessionState.SUCCEEDED: SessionSucceeded.hint}

_KEPT_OTHERWISE = {"close_session": CONTINUITY_KEYS_KEPT, "resume_session": CONTINUITY_KEYS_KEPT}
# Names, not text: they are compared as given and have formats of their own.
_NOT_REDACTED = frozenset(
    {"session_id", "request_id", "idempotency_key", "parent_session_id", "agent", "cursor", "recovery_token"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A checked and redacted request. `masked` counts secrets; `replaced` names texts that had control characters."""

    operation: str
    values: dict[str, Any]
    masked: int
    caller: Caller
    replaced: Sequence[str] = ()

    @property
    def key(self) -> str | None:
        """Return the idempotency key, if one was given."""
        key = self.values.get("idempotency_key")
        return key or None

    def fingerprint(self, scope: str) -> str:
        """Return the hash by which a repeated request is recognised; any name of its session gives the same hash."""
        apart = ("idempotency_key", "session_id", "agent") if is_session_id(scope) else ("idempotency_key",)
        asked = {name: value for name, value in self.values.items() if name not in apart}
        return hashlib.sha256(canonical(asked)).hexdigest()


def masked(error: ShiftlogError, redactor: Redactor) -> ShiftlogError:
    """Return an error without the secrets in it."""
    error.details = redactor.value(error.details)[0]
    error.message = redactor.text(error.message).text
    return error


class Journal:
    """The write path over one store."""

    def __init__(
        self, store: Store, redactor: Redactor, clock: Clock, holders: Holders, turn_moved: TurnMoved | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.holders = holders
        self._redactor = redactor
        self._turn_moved = turn_moved
        # The turns that the running work begins or ends. Works run one at a time, on the store's writer thread.
        self._moves: list[Move] = []

    def request(
        self, operation: str, fields: Record, arguments: Mapping[str, Any], caller: Caller, check: Check | None = None
    ) -> Request:
        """Check the arguments against their fields, then the formats of ids, and mask the secrets in them.

        `check` refuses what no single field can; it comes before the formats of ids.
        """
        try:
            with replaced_controls() as replaced:
                values = fields.read(arguments)
            if check is not None:
                check(values)
            _check_formats(values, fields)
        except ShiftlogError as error:
            raise self.masked(error) from None
        texts = {name: value for name, value in values.items() if name not in _NOT_REDACTED}
        masked = 0
        if not self._redactor.has_nothing_in(texts):
            for name, value in texts.items():
                values[name], count, _ = self._redactor.value(value)
                masked += count
        return Request(operation=operation, values=values, masked=masked, replaced=replaced, caller=caller)

    async def request_off_loop(
        self, operation: str, fields: Record, arguments: Mapping[str, Any], caller: Caller, check: Check | None = None
    ) -> Request:
        """Check and mask as `request` does; long arguments in a thread, so that no other client waits."""
        return await run_off_loop(arguments, self.request, operation, fields, arguments, caller, check)

    def refuse_secrets(self, values: Mapping[str, Any], *names: str) -> None:
        """Refuse a new name that holds a secret: names are stored as given and cannot be masked."""
        for name in names:
            given = values.get(name)
            if given and self._redactor.text(given).count:
                raise InvalidParameter.invalid(name, "a name that holds no secret")

    def masked(self, error: ShiftlogError) -> ShiftlogError:
        """Mask the secrets of the request that an error repeats."""
        return masked(error, self._redactor)

    def masked_text(self, text: str) -> str:
        """Return a text without its secrets."""
        return self._redactor.text(text).text

    async def write(self, request: Request, rule: Rule) -> Answered:
        """Run a rule on the session that the request names, and store what it writes."""
        return await self.transaction(request, lambda writer: self._apply(writer, request, rule))

    async def transaction(self, request: Request, work: Callable[[Writer], T]) -> T:
        """Run work as one transaction, then report the turns that it began or ended; errors name the operation."""

        def noting(writer: Writer) -> tuple[T, list[Move]]:
            self._moves = []
            return work(writer), self._moves

        try:
            result, moves = await self.store.write(noting, about=_about(request))
        except ShiftlogError as error:
            raise self._named(error, request) from None
        if self._turn_moved is not None:
            for move in moves:
                await self._turn_moved(*move)
        return result

    async def read(self, request: Request, work: Callable[[Reader], T]) -> T:
        """Run work over one consistent state; errors name the operation."""
        try:
            return await self.store.read(work)
        except ShiftlogError as error:
            raise self._named(error, request) from None

    def _named(self, error: ShiftlogError, request: Request) -> ShiftlogError:
        if error.code in ("session_not_found", "turn_not_found"):
            error.details.setdefault("operation", request.operation)
        return self.masked(error)

    def _apply(self, writer: Writer, request: Request, rule: Rule) -> Answered:
        session = find_session(writer, request.values["session_id"])
        first = self.replay(writer, request, session.id)
        if first is not None:
            return first
        if not session.is_live:
            raise closed_error(session)
        pen = self.pen(writer, session.id, session)
        pen.signs = request.caller.signs
        if session.state is SessionState.SUSPENDED:
            pen.write(Kind.SESSION_RESUMED, {"via": "write"})
        before = pen.written
        answered = rule(pen, request.values)
        # Turn errors come before those of the lease; the pen has stored nothing yet.
        fence = self.check_writer(writer, session, request.caller, request.values.get("fence"))
        if pen.written == before:
            pen.discard()
        self._keep_lease(writer, pen, request.caller, fence)
        return self.answer(writer, request, pen, answered, session.id)

    def check_writer(self, reader: Reader, session: Session, caller: Caller, given: int | None = None) -> int | None:
        """Refuse a writer whose fence is old, and the client of another agent while the session is held.

        Return the fence, which is the one given, else that of the client's grant, if it has one.
        """
        client = caller.client_id
        grant = reader.grant(session.id, client) if given is None and client else None
        fence = grant if given is None else given
        check_fence(reader, session, fence)
        if fence is not None or client is None or reader.agent_of(client) in (None, session.agent_key):
            return fence
        self.check_not_held(reader, session, caller)
        return None

    def check_not_held(self, reader: Reader, session: Session, caller: Caller) -> None:
        """Refuse a writer of another agent while a client holds the session."""
        lease = self.holders.other(reader, session, caller, self.clock.now())
        if lease is not None:
            raise held(session, lease, hint="Work in a session of your own: call open_session")

    def _keep_lease(self, writer: Writer, pen: Pen, caller: Caller, fence: int | None) -> None:
        """Warn clients that write the same session beside each other.

        A writer gets back the lease that a suspension ended, unless another client took the session since.
        """
        session = pen.session
        if caller.client_id is None or not caller.holds_leases:
            return
        lease = writer.lease(session.id)
        if lease is None and pen.written and writer.grant(session.id, caller.client_id) == session.fence:
            writer.put_lease(lease_of(session, caller, pen.clock_now))
        if fence is None:
            self._warn_beside_holder(writer, pen, caller)
        elif lease is not None and lease.other_writer is not None:
            says = "Another client has written this session since your last write"
            pen.warn("other_writer", says, writer=lease.other_writer)
            writer.put_lease(replace(lease, other_writer=None))

    def _warn_beside_holder(self, writer: Writer, pen: Pen, caller: Caller) -> None:
        session = pen.session
        lease = self.holders.other(writer, session, caller, pen.clock_now)
        if lease is not None:
            who = shown_holder(session, lease)
            pen.warn("other_writer", "Another client holds this session and writes it too", writer=who)
            writer.put_lease(replace(lease, other_writer={"face": caller.face, "host": caller.host, "pid": caller.pid}))

    def pen(self, reader: Reader, session_id: str, session: Session | None) -> Pen:
        """Return a pen for a session at this moment."""
        return Pen(
            reader,
            session_id,
            session,
            self.clock,
            turn_moved=lambda turn, kind: self._moves.append((session_id, turn, kind)),
        )

    def replay(self, reader: Reader, request: Request, scope: str) -> Answered | None:
        """Return the first answer to the request's idempotency key, if there is one."""
        first = self.first_answer(reader, request, scope)
        return None if first is None else dict(first.answer)

    def first_answer(self, reader: Reader, request: Request, scope: str) -> Answer | None:
        """Return the first answer to the request's idempotency key with its time, unless that was too long ago."""
        if request.key is None:
            return None
        first = reader.answer(_scope(request, scope), _hashed(request.key))
        kept = _KEPT_OTHERWISE.get(request.operation, KEYS_KEPT)
        if first is None or self.clock.now() - first.at >= kept:
            return None
        if first.request_hash != request.fingerprint(scope):
            raise IdempotencyConflict("Idempotency key reused with other parameters")
        return first

    def has_answered(self, reader: Reader, request: Request, scope: str) -> bool:
        """Return True if this very request was answered before, going by its idempotency key."""
        try:
            return self.first_answer(reader, request, scope) is not None
        except IdempotencyConflict:
            return False

    def answer(
        self,
        writer: Writer,
        request: Request,
        pen: Pen,
        answered: Answered,
        scope: str,
    ) -> Answered:
        """Commit a pen and complete the answer with receipt and warnings; remember it for repeats."""
        for path in request.replaced:
            pen.warn(CONTROLS_REPLACED, f"Control characters in {path} were replaced by visible signs", param=path)
        changed = pen.commit(writer)
        session = pen.session
        receipt = {
            "code": "persisted" if changed else "unchanged",
            "session_id": session.id,
            "seq": session.head_seq,
            "hash": session.head_hash,
            "redactions": request.masked if changed else 0,
        }
        answered = {**answered, "receipt": receipt, "warnings": pen.warnings}
        self.remember(writer, request, scope, answered, receipt)
        return answered

    def remember(
        self,
        writer: Writer,
        request: Request,
        scope: str,
        answered: Answered,
        receipt: Answered,
        *,
        since: datetime | None = None,
    ) -> None:
        """Keep an answer for its idempotency key, from `since` on, and for a client that lost the connection."""
        now = self.clock.now()
        if request.key is not None:
            kept = Answer(request_hash=request.fingerprint(scope), answer=answered, at=since or now)
            writer.put_answer(_scope(request, scope), _hashed(request.key), kept)
        caller = request.caller
        if caller.client_id and caller.call_id:
            writer.put_outcome(caller.client_id, caller.call_id, receipt, now)


def _about(request: Request) -> About:
    name = request.values.get("session_id")
    return About(session_id=name if name and is_session_id(name) else None, client_id=request.caller.client_id)


def _check_formats(values: Mapping[str, Any], fields: Record) -> None:
    for parameter in ("session_id", "parent_session_id"):
        name = values.get(parameter)
        # A blank one names no session; only where a new one is being named may it be left blank.
        if name is None or not (name or isinstance(fields.fields[parameter], SessionRef)):
            continue
        if not is_alias(name) and not is_vendor_id(name):
            try:
                _check_known(name) if isinstance(fields.fields[parameter], SessionRef) else check_session_id(name)
            except InvalidSessionId as error:
                if parameter != "session_id":
                    error.details["parameter"] = parameter
                raise
    if values.get("request_id"):
        check_request_id(values["request_id"])


def _scope(request: Request, scope: str) -> str:
    return f"{request.operation} {scope}"


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


def find_session(reader: Reader, name: str, parameter: str = "session_id") -> Session:
    """Return the session with that journal id, run alias or vendor id."""
    session_id = resolve_session_id(reader, name, parameter)
    session = reader.session(session_id) if session_id else None
    if session is None or session.hidden:
        raise SessionNotFound(f"Session not found: {name}", details={"session_id": name})
    return session


def resolve_session_id(reader: Reader, name: str, parameter: str = "session_id") -> str | None:
    """Return the journal id that a session's name stands for, or None for an unknown alias or vendor id."""
    if is_alias(name):
        return reader.session_id_of_alias(int(name)) if len(name) <= MAX_ALIAS_DIGITS else None
    if is_vendor_id(name):
        fitting = reader.session_ids_of_vendor(name)
        if len(fitting) > 1:
            raise InvalidParameter.invalid(
                parameter, "the vendor session id fits more than one session", name, allowed=fitting
            )
        return fitting[0] if fitting else None
    return _check_known(name)


def _check_known(name: str) -> str:
    """Check the journal id of a session that should exist."""
    try:
        return check_session_id(name)
    except InvalidSessionId as error:
        error.hint = "Use the session_id that open_session returned, the number of its run or the vendor's own id"
        raise


def closed_error(session: Session) -> SessionClosed:
    """Return the error that answers an ordinary write to a session that has ended or was deleted.

    A session that was deleted while it was open is closed since then: its last entry is the deletion.
    """
    closing = session.closing
    deleted = session.hidden and closing is None
    ended_at = session.last_activity if deleted else closing.at if closing else None
    details = {
        "session_id": session.id,
        "agent_id": session.agent_id,
        "state": str(SessionState.CLOSED if deleted else session.state),
        "closed_at": shown_or_none(ended_at),
        "policy": str(closing.policy) if closing else None,
    }
    if session.successor_session_id:
        details["successor_session_id"] = session.successor_session_id
    return SessionClosed(
        "Session is closed",
        details=details,
        hint=_CLOSED_HINTS.get(session.state),
    )
