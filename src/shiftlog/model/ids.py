"""Ids of sessions, turns and agents: their formats, how they are checked and how they are made."""

import hashlib
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from shiftlog.model.errors import InvalidParameter, InvalidRequestId, InvalidSessionId, shown_value
from shiftlog.model.times import compact

SESSION_FORMAT = "<Agent>-<yyyyMMddTHHmmssZ>-<suffix>"
SESSION_REGEX = r"^[A-Z][A-Za-z0-9]*-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*$"
REQUEST_FORMAT = "req-<yyyyMMddTHHmmssZ>-<slugOrOrdinal>"
REQUEST_REGEX = r"^req-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*$"
AGENT_PATTERN = r"[A-Z][A-Za-z0-9]*"
MAX_ID_CHARS = 200
MAX_AGENT_CHARS = 64
# So much of a refused id is shown, so that a client recognises it.
SHOWN_ID_CHARS = 1_000
# No alias has more digits: stores keep it in 64 bits.
MAX_ALIAS_DIGITS = 18
# Of a short id, and the least that a person types of any id.
SHORT_ID_CHARS = 8
LEAST_TYPED_CHARS = 4

_SESSION = re.compile(SESSION_REGEX[1:-1], re.ASCII)
_REQUEST = re.compile(REQUEST_REGEX[1:-1], re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_CALL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}", re.ASCII)
_ALIAS = re.compile(r"[1-9][0-9]{0,199}", re.ASCII)
_UNSTABLE = re.compile(r"agent-[0-9a-f]{12,}|[0-9a-f]{24,}", re.IGNORECASE | re.ASCII)


def _is_instant(text: str) -> bool:
    try:
        # The same form as COMPACT; `strptime` would take half the time of a new turn's checks.
        datetime(*map(int, (text[:4], text[4:6], text[6:8], text[9:11], text[11:13], text[13:15])), tzinfo=UTC)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def is_session_id(text: str) -> bool:
    """Return True if a text is a well-formed journal id of a session."""
    if len(text) > MAX_ID_CHARS or not _SESSION.fullmatch(text):
        return False
    agent, at, _ = text.split("-", 2)
    return len(agent) <= MAX_AGENT_CHARS and _is_instant(at)


def is_call_id(text: str) -> bool:
    """Return True if a text can be an agent's own id of a tool call."""
    return _CALL.fullmatch(text) is not None


def check_session_id(text: str, agent: str | None = None) -> str:
    """Return a session id that has the canonical format and, where given, the agent's prefix."""
    if not is_session_id(text):
        raise InvalidSessionId("Session ID does not conform to canonical format", details=_given(text))
    if agent is not None and text.split("-", 1)[0] != agent:
        raise InvalidSessionId("Session ID prefix must match agent name", details={**_given(text), "agent": agent})
    return text


def _given(text: str) -> dict[str, object]:
    return {"providedId": shown_value(text, SHOWN_ID_CHARS), "expectedFormat": SESSION_FORMAT, "regex": SESSION_REGEX}


@lru_cache(maxsize=1024)
def is_request_id(text: str) -> bool:
    """Return True if a text is a well-formed request id of a turn."""
    return len(text) <= MAX_ID_CHARS and bool(_REQUEST.fullmatch(text)) and _is_instant(text.split("-")[1])


def check_request_id(text: str) -> str:
    """Return a turn's request id that has the canonical format."""
    if not is_request_id(text):
        raise InvalidRequestId(
            "Request ID does not conform to canonical format",
            details={
                "providedId": shown_value(text, SHOWN_ID_CHARS),
                "expectedFormat": REQUEST_FORMAT,
                "regex": REQUEST_REGEX,
            },
        )
    return text


def is_alias(text: str) -> bool:
    """Return True if a text is the integer alias of a run."""
    return bool(_ALIAS.fullmatch(text))


def is_vendor_id(text: str) -> bool:
    """Return True if a text is a UUID, the form of the vendors' own session ids."""
    return bool(_UUID.fullmatch(text))


def short_id(session_id: str) -> str:
    """Return the short name of a session for lists: the beginning of its id's SHA-256, never the form of an alias."""
    digest = _digest(session_id)
    return next((digest[:end] for end in range(SHORT_ID_CHARS, len(digest)) if not is_alias(digest[:end])), digest)


def begins_session(typed: str, session_id: str, vendor_id: str | None) -> bool:
    """Return True if a text begins a session's id, the part after its time, its vendor's id or its short id."""
    names = (vendor_id or "", _digest(session_id))
    return begins_id(typed, session_id) or any(name.casefold().startswith(typed.casefold()) for name in names)


def begins_id(typed: str, full_id: str) -> bool:
    """Return True if a text begins the id of a session or turn, or the part of it after agent and time."""
    wanted, whole = typed.casefold(), full_id.casefold()
    return whole.startswith(wanted) or "".join(whole.split("-", 2)[2:]).startswith(wanted)


def _digest(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()


def slug(text: str, fallback: str) -> str:
    """Make the last part of an id from free text."""
    made = re.sub(r"[^a-z0-9]+", "-", text.strip().lower()).strip("-")[:48].strip("-")
    return made or fallback


def mint_session_id(agent: str, title: str, now: datetime) -> str:
    """Make a session id from agent, time and title."""
    return f"{agent}-{compact(now)}-{slug(title, 'session')}"


def mint_request_id(title: str, now: datetime) -> str:
    """Make a turn's request id from time and title."""
    return f"req-{compact(now)}-{slug(title, 'turn')}"


def free_id(minted: str, is_taken: Callable[[str], bool]) -> str:
    """Return a minted id or, if it is taken, one with a free number: `-2`, `-3` …

    The number doubles until one is free; then the range between is halved. So a thousand ids of one second need twenty
    lookups each, not a thousand.
    """
    if not is_taken(minted):
        return minted
    taken, free = 1, 2
    while is_taken(f"{minted}-{free}"):
        taken, free = free, 2 * free
    while free - taken > 1:
        middle = (taken + free) // 2
        if is_taken(f"{minted}-{middle}"):
            taken = middle
        else:
            free = middle
    return f"{minted}-{free}"


def agent_key(agent_id: str) -> str:
    """Return the form in which agent ids are compared; raise InvalidParameter for one without a key."""
    folded = unicodedata.normalize("NFKC", agent_id).casefold()
    key = re.sub(r"[^\w.:@]+", "-", folded).strip("-")
    if not key or len(agent_id) > MAX_ID_CHARS:
        raise InvalidParameter.invalid(
            "agent_id", "1..200 characters with at least one letter, digit or one of . _ : @", agent_id
        )
    return key


def is_unstable_agent_id(agent_id: str) -> bool:
    """Return True if an agent id looks like one that is drawn for each run."""
    key = agent_key(agent_id)
    return bool(_UUID.fullmatch(key) or _UNSTABLE.fullmatch(key))
