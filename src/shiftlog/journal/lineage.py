"""Lineage: which sessions continue, fork from or were spawned by which others, as a tree."""

from collections.abc import Iterator
from typing import Any

from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader

MOST_SESSIONS = 500

Node = dict[str, Any]


def lineage(reader: Reader, session: Session) -> Node:
    """Return the tree of sessions that a session belongs to, from the one that everything began with."""
    root = _root(reader, session)
    return _tree(reader, root, "root", {root.id})


def _root(reader: Reader, session: Session) -> Session:
    seen = {session.id}
    while True:
        above = session.predecessor_session_id or session.parent_session_id
        found = reader.session(above) if above and above not in seen else None
        if found is None or found.hidden:
            return session
        session = found
        seen.add(session.id)


def _tree(reader: Reader, root: Session, relation: str, seen: set[str]) -> Node:
    # A stack of our own: chains of sessions may be longer than the interpreter's.
    top = _node(root, relation)
    waiting = [(root, top)]
    while waiting and len(seen) < MOST_SESSIONS:
        session, node = waiting.pop(0)
        for below, how in _below(reader, session):
            if below.id in seen:
                continue
            seen.add(below.id)
            inner = _node(below, how)
            node["children"].append(inner)
            waiting.append((below, inner))
    return top


def _below(reader: Reader, session: Session) -> Iterator[tuple[Session, str]]:
    page = Page(limit=MOST_SESSIONS)
    found = [(row.session, "child") for row in reader.find_sessions(Filter(parent_id=session.id), page)]
    for row in reader.find_sessions(Filter(predecessor_id=session.id), page):
        is_successor = session.successor_session_id == row.session.id
        found.append((row.session, "successor" if is_successor else "fork"))
    yield from sorted(found, key=lambda pair: (pair[0].started, pair[0].id))


def _node(session: Session, relation: str) -> Node:
    return {
        "session_id": session.id,
        "relation": relation,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "started": shown(session.started),
        "offered_to": (session.offer.agent_id or "anyone with the token") if session.offer else None,
        "children": [],
    }
