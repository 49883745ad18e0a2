"""Forking: a new session that continues another one, with a link in both journals, in one transaction."""

import re
from typing import Any

from shiftlog.journal.continuity.closing import fail_open_turns
from shiftlog.journal.journal import Journal
from shiftlog.journal.sessions import spelling, take_lease
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.ids import AGENT_PATTERN, agent_key, free_id, mint_session_id
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader, Writer


def fork(
    journal: Journal,
    writer: Writer,
    predecessor: Session,
    caller: Caller,
    *,
    agent_id: str,
    capsule: dict[str, Any],
    beside: bool,
) -> tuple[Session, dict[str, Any]]:
    """Open the successor of a session for an agent and return it with its lease.

    With `beside` the predecessor is left as it is; else it is succeeded, and what was open in it is failed.
    """
    kind = _kind(writer, agent_id, predecessor)
    minted = mint_session_id(kind, predecessor.title, journal.clock.now())
    session_id = free_id(minted, lambda name: writer.head(name) is not None)
    pen = journal.pen(writer, session_id, None)
    facts: dict[str, Any] = {
        "agent": kind,
        "agent_id": _spelling(writer, agent_id, predecessor),
        "title": predecessor.title,
        "workspace": caller.workspace or predecessor.workspace,
        "cwd": caller.cwd or predecessor.cwd,
        "tags": list(predecessor.tags),
        "exclusive": predecessor.exclusive,
        "predecessor": {
            "session_id": predecessor.id,
            "seq": predecessor.head_seq,
            "head_hash": predecessor.head_hash,
        },
    }
    pen.write(Kind.SESSION_OPENED, {name: value for name, value in facts.items() if value})
    pen.write(Kind.CAPSULE_SAVED, {"origin": capsule["origin"], "capsule": capsule, "session_id": predecessor.id})
    lease = take_lease(writer, pen, caller)
    if not beside:
        _succeed(journal, writer, predecessor, pen.session)
    pen.commit(writer)
    return pen.session, lease


def _succeed(journal: Journal, writer: Writer, predecessor: Session, successor: Session) -> None:
    pen = journal.pen(writer, predecessor.id, predecessor)
    pen.automatic = True
    note = f"superseded: Continued in {successor.id}"
    fail_open_turns(pen, {"failure_note": note, "error_code": "superseded"})
    link = {"agent_id": successor.agent_id, "session_id": successor.id, "head_hash": successor.head_hash}
    if predecessor.offer is not None:
        pen.write(Kind.HANDOFF_ACCEPTED, link)
    state = {"state": str(SessionState.SUCCEEDED), "successor_session_id": successor.id}
    pen.write(Kind.SESSION_UPDATED, {**state, "successor_head_hash": successor.head_hash})
    pen.commit(writer)
    writer.end_lease(predecessor.id)
    writer.revoke_tokens(predecessor.id, pen.now)


def _spelling(reader: Reader, agent_id: str, predecessor: Session) -> str:
    offered = predecessor.offer.agent_id if predecessor.offer else None
    same = offered is not None and agent_key(offered) == agent_key(agent_id)
    return spelling(reader, offered if same and offered else agent_id)


def _kind(reader: Reader, agent_id: str, predecessor: Session) -> str:
    """Return which kind of agent goes on: as it was known before, as its id says, else as the predecessor's."""
    key = agent_key(agent_id)
    if key == predecessor.agent_key:
        return predecessor.agent
    rows = reader.find_sessions(Filter(agent_key=key), Page(limit=1), by_activity=True)
    if rows:
        return rows[0].session.agent
    is_kind = len(agent_id) <= 64 and re.fullmatch(AGENT_PATTERN, agent_id, re.ASCII)
    return agent_id if is_kind else predecessor.agent
