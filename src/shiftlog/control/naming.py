"""Names of sessions and turns as a person types them: an id, a number, `last`, or the beginning of an id.

Agents name sessions and turns in full: `journal.find_session` serves them, and its forms are tried first here too.
"""

import re
from collections.abc import Iterable, Sequence

from shiftlog.journal.journal import find_session
from shiftlog.model.errors import InvalidParameter, InvalidSessionId, SessionNotFound, TurnNotFound
from shiftlog.model.ids import LEAST_TYPED_CHARS, begins_id, begins_session, is_alias, short_id
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader

LAST = "last"
FORMS = f"shiftlog sessions lists the ids; {LEAST_TYPED_CHARS} characters of one are enough, and `{LAST}` is the newest"
CANDIDATES_SHOWN = 10
TURNS_AT_ONCE = 1_000

# The beginning of an id, of ours or of a vendor.
_BEGINNING = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*", re.ASCII)


def named_session(reader: Reader, typed: str) -> Session:
    """Return the session that a person means; a beginning that fits a session and its subagents means the session."""
    if typed == LAST:
        newest = reader.find_sessions(Filter(), Page(limit=1), by_activity=True)
        if not newest:
            raise SessionNotFound("There is no session yet", hint="shiftlog run records a demo session")
        return newest[0].session
    try:
        return find_session(reader, typed)
    except (SessionNotFound, InvalidSessionId, InvalidParameter):  # a vendor's id may fit several
        if _BEGINNING.fullmatch(typed) is None:
            raise
        found = _begun_with(reader, typed)
    if not found:
        raise SessionNotFound(f"Session not found: {typed}", details={"session_id": typed}, hint=FORMS)
    if len(found) > 1:
        raise _ambiguous("session_id", typed, "session", [_described(session) for session in found])
    return found[0]


def _begun_with(reader: Reader, typed: str) -> list[Session]:
    """Return the sessions whose names begin so, the newest first; subagents of a found session are left out."""
    if len(typed) < LEAST_TYPED_CHARS:
        return []
    fitting = {name for name, vendor_id in reader.session_names() if begins_session(typed, name, vendor_id)}
    found = [session for name in fitting if (session := reader.session(name)) is not None]
    heads = [session for session in found if session.parent_session_id not in fitting]
    return sorted(heads, key=lambda session: (session.last_activity, session.id), reverse=True)


def _described(session: Session) -> dict[str, object]:
    at = shown(session.last_activity)
    return {"id": short_id(session.id), "session_id": session.id, "title": session.title, "last_activity": at}


def named_turn(reader: Reader, session: Session, typed: str) -> Turn:
    """Return the turn of a session that a person means: by number, id, beginning of it, or `last`."""
    exact = reader.turn(session.id, typed)
    if exact is not None:
        return exact
    turns: list[Turn] = []
    while more := reader.turns(session.id, after=turns[-1].ordinal if turns else 0, limit=TURNS_AT_ONCE):
        turns += more
    if typed == LAST:
        found = turns[-1:]
    elif is_alias(typed):
        found = [turn for turn in turns if str(turn.ordinal) == typed]
    else:
        names = _fitting(typed, (turn.request_id for turn in turns))
        found = [turn for turn in turns if turn.request_id in names]
    if not found:
        raise TurnNotFound(
            f"Turn not found: {typed}",
            details={"session_id": session.id, "request_id": typed},
            hint=f"shiftlog show {short_id(session.id)} lists the session's turns",
        )
    if len(found) > 1:
        raise _ambiguous("turn", typed, "turn", [{"id": turn.request_id, "title": turn.query_title} for turn in found])
    return found[0]


def named_request(typed: str, known: Sequence[str]) -> str:
    """Return the known request id that a person means; a text that fits none is returned as it is."""
    found = [typed] if typed in known else _fitting(typed, dict.fromkeys(known))
    if len(found) > 1:
        raise _ambiguous("turn", typed, "turn", [{"id": name} for name in found])
    return found[0] if found else typed


def _fitting(typed: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if begins_id(typed, name)] if len(typed) >= LEAST_TYPED_CHARS else []


def _ambiguous(parameter: str, typed: str, what: str, candidates: Sequence[dict[str, object]]) -> InvalidParameter:
    shown_ones = list(candidates[:CANDIDATES_SHOWN])
    return InvalidParameter(
        f"'{typed}' fits {len(candidates):,} {what}s",
        details={"parameter": parameter, "value": typed, "candidates": shown_ones, "total": len(candidates)},
        hint="Type more of it, or one of these ids",
    )
