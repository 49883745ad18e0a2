"""Lineage: which sessions continue, fork from or were spawned by which others, as a tree."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader

MOST_SESSIONS = 500
# So far it goes up and down from the session at hand; agents that go on night after night make chains without end.
GENERATIONS = 50

Node = dict[str, Any]


def lineage(reader: Reader, session: Session) -> Node:
    """Return the tree of sessions that a session belongs to, from the one that everything began with.

    Of a long chain it is the part around the session: `earlier_session_id` says what the first one continues, and
    `left_out` how many more continue a session or were spawned by it.
    """
    path = _path(reader, session)
    earlier, path = path[:-GENERATIONS], path[-GENERATIONS:]
    top = _tree(reader, path[0], {one.id for one in path}, GENERATIONS + len(path) - 1)
    return top | {"earlier_session_id": earlier[-1].id if earlier else None}


def _path(reader: Reader, session: Session) -> list[Session]:
    """Return the session and those that it came from, the earliest first, and one beyond those that are shown."""
    path = [session]
    while len(path) <= GENERATIONS:
        above = path[0].predecessor_session_id or path[0].parent_session_id
        found = reader.session(above) if above and all(above != one.id for one in path) else None
        if found is None or found.hidden:
            break
        path.insert(0, found)
    return path


def _tree(reader: Reader, root: Session, path: set[str], deepest: int) -> Node:
    # A stack of our own: chains of sessions may be longer than the interpreter's.
    top = _node(root, "root")
    waiting, seen = deque([(root, top, 0)]), {root.id}
    while waiting:
        session, node, depth = waiting.popleft()
        for below, how in _below(reader, session):
            if below.id in seen:
                continue
            if depth == deepest or (len(seen) >= MOST_SESSIONS and below.id not in path):
                node["left_out"] += 1
                continue
            seen.add(below.id)
            inner = _node(below, how)
            node["children"].append(inner)
            waiting.append((below, inner, depth + 1))
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
        "left_out": 0,
    }
