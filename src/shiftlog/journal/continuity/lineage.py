"""Lineage: which sessions continue, fork from or were spawned by which others, as a tree."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from shiftlog.model.ids import is_session_id
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
    top = _tree(reader, path, GENERATIONS + len(path) - 1)
    return top | {"earlier_session_id": earlier[-1].id if earlier else None}


def _path(reader: Reader, session: Session) -> list[Session]:
    """Return the session and those that it came from, the earliest first, and one beyond those that are shown."""
    path = [session]
    while len(path) <= GENERATIONS:
        above = path[0].predecessor_session_id or path[0].parent_session_id
        found = reader.session(above) if above else origin_named(reader, path[0].forked_from)
        if found is None or found.hidden or any(found.id == one.id for one in path):
            break
        path.insert(0, found)
    return path


def origin_named(reader: Reader, name: str | None) -> Session | None:
    """Return the session that a vendor's fork comes from, which it names by our id or by the vendor's."""
    if not name:
        return None
    found = [name] if is_session_id(name) else reader.session_ids_of_vendor(name)
    return reader.session(found[0]) if found else None


def _tree(reader: Reader, path: Sequence[Session], deepest: int) -> Node:
    # A stack of our own: chains of sessions may be longer than the interpreter's.
    root, on_path = path[0], {one.id for one in path}
    forks = {above.id: below for above, below in pairwise(path) if not _is_linked(below)}
    top = _node(root, "root")
    waiting, seen = deque([(root, top, 0)]), {root.id}
    while waiting:
        session, node, depth = waiting.popleft()
        for below, how in _below(reader, session, forks.get(session.id)):
            if below.id in seen:
                continue
            if depth == deepest or (len(seen) >= MOST_SESSIONS and below.id not in on_path):
                node["left_out"] += 1
                continue
            seen.add(below.id)
            inner = _node(below, how)
            node["children"].append(inner)
            waiting.append((below, inner, depth + 1))
    return top


def _is_linked(session: Session) -> bool:
    return bool(session.predecessor_session_id or session.parent_session_id)


def _below(reader: Reader, session: Session, fork: Session | None) -> Iterator[tuple[Session, str]]:
    page = Page(limit=MOST_SESSIONS)
    found = [(fork, "fork")] if fork is not None else []
    found += [(row.session, "child") for row in reader.find_sessions(Filter(parent_id=session.id), page)]
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
