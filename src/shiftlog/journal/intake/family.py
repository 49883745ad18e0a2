"""Lineage of imported sessions: links each child to the turn and call of its parent, in any order of import.

Each side leaves what it knows under the names that the other side will look up. Once both are known, the child gets
its parent, and the parent's turn an action that points to the child.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shiftlog.facts.transcript import VendorSession
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import Pens
from shiftlog.journal.intake.turns import amend, write
from shiftlog.journal.pen import Pen
from shiftlog.journal.rules import next_order
from shiftlog.model.entry import Kind
from shiftlog.model.nouns import Turn
from shiftlog.model.times import precise

Document = dict[str, Any]

WHOLE_SESSION = 99
BY_TIME = 98


class Family:
    """Parents and children among sessions, as one batch changes them."""

    def __init__(self, origins: Origins, pens: Pens, agent: str) -> None:
        self._origins = origins
        self._pens = pens
        self._agent = agent

    def parent_of(self, name: VendorSession, body: Document) -> Document:
        """Return the known facts about the parent of a child that opens."""
        parent: Document = body.get("parent") or {}
        link = self._best_link(name, body)
        if link is not None:
            return _shown(link)
        return {"vendor_session": parent["vendor_session"]} if parent.get("vendor_session") else {}

    def subagent_of(self, name: VendorSession, body: Document) -> Document:
        """Return the facts that a child states about itself; without a name it gets the one that its parent uses."""
        known: Document = body.get("subagent") or {}
        link = self._best_link(name, body) if known else None
        return known if link is None else _named(known, link)

    def add_child(self, session_id: str, name: VendorSession, body: Document) -> None:
        """Register a child under every name that its parent may use, and link it if its parent has named it already."""
        if not (body.get("parent") or body.get("subagent")):
            return
        for each in _names_of_child(name, body):
            children: list[str] = (self._origins.document(f"child:{each}") or {}).get("children", [])
            if session_id not in children:
                self._origins.keep(f"child:{each}", session_id, {"children": [*children, session_id]})
        link = self._best_link(name, body)
        if link is not None:
            self._join(session_id, link)

    def add_parent(self, session_id: str, name: VendorSession) -> None:
        """Register a session that children may have waited for."""
        if name.agent_id is None:
            link: Document = {"session": session_id, "turn": None, "call": None, "rank": WHOLE_SESSION}
            self._offer(f"parent:{name.vendor_id}", session_id, link)

    def link(self, session_id: str, turn: str | None, at: str, name: VendorSession, body: Document) -> None:
        """Record the link of a parent to one of its children."""
        link: Document = {
            "session": session_id,
            "turn": turn,
            "call": body.get("call_id"),
            "rank": int(body.get("rank") or 9),
            "name": body.get("name"),
            "description": body.get("description"),
            "at": at,
        }
        for each in _names_in_link(name, body):
            self._offer(each, session_id, link)

    def finish(self, names: Sequence[VendorSession], ids: Mapping[int, str]) -> None:
        """Give children that only know their parent's session the turn that was open as they started."""
        for index, session_id in ids.items():
            name = names[index]
            if name.agent_id is not None or self._agent != "Codex":
                continue
            waiting: Document = self._origins.document(f"child:parent:{name.vendor_id}") or {}
            for child in waiting.get("children", ()):
                self._link_by_time(child, session_id)
            own = self._pens[session_id]
            if own.exists and own.session.parent_session_id and not own.session.parent_turn:
                self._link_by_time(session_id, own.session.parent_session_id)

    def _link_by_time(self, child: str, parent: str) -> None:
        started = self._pens[child].session.started
        for turn in self._pens[parent].turns():
            ended = turn.finished_at or turn.last_updated
            if turn.begun_at <= started <= ended:
                link = {"session": parent, "turn": turn.request_id, "call": None, "rank": BY_TIME}
                self._join(child, {**link, "at": precise(started)})
                return

    def _offer(self, name: str, session_id: str, link: Document) -> None:
        known = self._origins.document(f"link:{name}")
        if not _is_better(known, link):
            return
        self._origins.keep(f"link:{name}", session_id, link)
        waiting: Document = self._origins.document(f"child:{name}") or {}
        for child in waiting.get("children", ()):
            if child != link["session"]:
                self._join(child, link)

    def _best_link(self, name: VendorSession, body: Document) -> Document | None:
        best: Document | None = None
        for each in _names_of_child(name, body):
            found = self._origins.document(f"link:{each}")
            if found is not None and _is_better(best, found):
                best = found
        return best

    def _join(self, child_id: str, link: Document) -> None:
        """Write a link in both sessions, unless they have a better one."""
        child = self._pens[child_id]
        if not child.exists:
            return
        session = child.session
        joined = self._origins.document(f"joined:{child_id}")
        if joined is not None and not _is_better(joined, link):
            return
        self._origins.keep(f"joined:{child_id}", child_id, link)
        changes: Document = {}
        if (session.parent_session_id, session.parent_turn, session.parent_call) != (
            link["session"],
            link["turn"],
            link["call"],
        ):
            changes["parent"] = _shown(link)
        if (subagent := _named(session.subagent, link)) != session.subagent:
            changes["subagent"] = subagent
        if changes and not child.is_sealed:
            write(child, Kind.SESSION_UPDATED, link.get("at") or precise(session.started), changes)
        if link["turn"] and (joined is None or joined.get("turn") != link["turn"]):
            self._point(child_id, link)

    def _point(self, child_id: str, link: Document) -> None:
        parent = self._pens[link["session"]]
        turn = parent.turn(link["turn"]) if parent.exists else None
        if turn is None or parent.is_sealed:
            return
        action = pointer(parent, link.get("name") or "subagent", child_id, turn)
        if link.get("call"):
            action["call_id"] = link["call"]
        if turn.is_terminal:
            amend(parent, turn, precise(turn.last_updated), {"actions": [action]})
        else:
            write(parent, Kind.ACTION, link.get("at") or precise(turn.last_updated), action, turn.request_id)


def pointer(pen: Pen, named: str, child_id: str, turn: Turn) -> Document:
    """Return the action of a turn that leads to the session of a subagent."""
    return {
        "order": next_order(pen, turn),
        "description": f"{named}: {child_id}",
        "type": "session_log",
        "status": "completed",
        "file_path": "",
    }


def _named(subagent: Document, link: Document) -> Document:
    given = {name: link[name] for name in ("name", "description") if link.get(name) and not subagent.get(name)}
    return {**subagent, **given} if subagent else subagent


def _shown(link: Document) -> Document:
    return {name: link[name] for name in ("session", "turn", "call") if link.get(name)}


def _names_of_child(name: VendorSession, body: Document) -> Iterator[str]:
    """Yield the names under which a parent may refer to a child."""
    yield f"thread:{name.vendor_id}" if name.agent_id is None else f"agent:{name.vendor_id}:{name.agent_id}"
    parent: Document = body.get("parent") or {}
    vendor = parent.get("vendor_session")
    if vendor:
        if parent.get("call"):
            yield f"call:{vendor}:{parent['call']}"
        if parent.get("run_id"):
            yield f"run:{vendor}:{parent['run_id']}"
        yield f"parent:{vendor}"


def _names_in_link(name: VendorSession, body: Document) -> Iterator[str]:
    """Yield the names of the children that a parent's link refers to."""
    if body.get("child_agent_id"):
        yield f"agent:{name.vendor_id}:{body['child_agent_id']}"
    if body.get("child_thread_id"):
        yield f"thread:{body['child_thread_id']}"
    if body.get("run_id"):
        yield f"run:{name.vendor_id}:{body['run_id']}"


def _is_better(known: Document | None, found: Document) -> bool:
    """Return True if a link says more than the one known: by its rank, else by naming a turn."""
    if known is None:
        return True
    if found["rank"] != known["rank"]:
        return found["rank"] < known["rank"]
    return bool(found.get("turn")) and not known.get("turn")
