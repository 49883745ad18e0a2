"""Names of sessions that facts from elsewhere belong to: minted ids, names of origins, and sessions recorded live."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from shiftlog.facts.batch import Incoming
from shiftlog.model.ids import slug
from shiftlog.store.protocol import Reader, Writer

UNTITLED = "(untitled)"


def stamp_of(at: str) -> str:
    """Return a time of a fact as ids show it."""
    return at.replace("-", "").replace(":", "")[:15] + "Z"


def minted_id(agent: str, at: str, vendor_id: str, agent_id: str | None) -> str:
    """Return the id of a session that is known by its vendor's ids; it may be taken."""
    tail = slug(vendor_id, "session")
    if agent_id is not None:
        tail = f"{slug(vendor_id[:8], 'session')}-agent-{slug(agent_id, 'child')}"
    return f"{agent}-{stamp_of(at)}-{tail}"


def worked_in(reader: Reader, agent: str, items: Sequence[Incoming], *, taken: Collection[str | None]) -> str | None:
    """Return the session that an agent opened with our own tools, not saying whose it is, and began a turn in.

    A subagent works in the session of its parent, which is not its own.
    """
    for item in items:
        body = item.body or {}
        if item.what == "session_opened" and (body.get("parent") or body.get("subagent")):
            return None
        named, turn = str(body.get("session_id") or ""), str(body.get("request_id") or "")
        if item.what != "adopt" or not named or named in taken:
            continue
        session = reader.session(named)
        if session is None or session.agent != agent or session.vendor_session_id or session.parent_session_id:
            continue
        if not session.subagent and reader.turn(named, turn) is not None:
            return named
    return None


def add_redactions(writer: Writer, session_id: str, masked: Mapping[str, int]) -> None:
    """Add to the count of secrets that were masked in a session, by rule."""
    known = writer.imported(session_id) or {}
    total = Counter[str](known.get("redactions", {})) + Counter(masked)
    writer.put_imported(session_id, {**known, "redactions": dict(sorted(total.items()))})
