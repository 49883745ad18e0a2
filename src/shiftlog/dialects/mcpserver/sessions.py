"""The session log's rules for whole sessions: open or join, rename, delete, import."""

from collections.abc import Callable, Mapping
from typing import Any

from shiftlog.dialects.mcpserver import imports
from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.errors import status_of
from shiftlog.dialects.mcpserver.objects import shown_tags
from shiftlog.dialects.mcpserver.subagents import subagents_of
from shiftlog.journal.clients import place_of
from shiftlog.journal.journal import closed_error
from shiftlog.journal.merge import is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.errors import SessionAlreadyExists
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader

Values = Mapping[str, Any]


def opening_facts(reader: Reader, values: Values, context: CallContext) -> dict[str, Any]:
    """Return the facts of a new session: who works, where, and what the call says of it."""
    agent = values["agent"]
    known = reader.find_sessions(Filter(agent_key=agent_key(agent)), Page(limit=1), by_activity=True)
    own = place_of(reader, context.caller).session
    return {
        "parent_session_id": own.id if own is not None and own.is_live else None,
        "agent": agent,
        "agent_id": known[0].session.agent_id if known else agent,
        "workspace": context.workspace,
        "cwd": context.caller.cwd,
        **imports.session_facts(values),
    }


def open_session(pen: Pen, values: Values, context: CallContext) -> dict[str, Any]:
    """Write the opening of a session; clients of the session log hold no lease."""
    facts = opening_facts(pen.reader, values, context)
    pen.write(Kind.SESSION_OPENED, {name: value for name, value in facts.items() if value})
    session = pen.session
    return {"sessionId": session.id, "started": shown(session.started), "agent": session.agent, "opened": True}


def already_exists(reader: Reader, session: Session) -> SessionAlreadyExists:
    """Return the error that answers opening a session under a taken id."""
    status = status_of(session, [child.session for child in subagents_of(reader, session)])
    return SessionAlreadyExists(
        f"Session with ID {session.id} already exists",
        details={"session_id": session.id, "status": status, "started": shown(session.started)},
    )


def facts_lacking(session: Session, values: Values) -> dict[str, Any]:
    """Return the title and model that a session lacks; a title that is only its id counts as missing."""
    facts: dict[str, Any] = {}
    if session.title in ("", session.id) and values.get("title") not in (None, session.title):
        facts["title"] = values["title"]
    if session.model is None and not is_empty("model", values.get("model")):
        facts["model"] = values["model"]
    return facts


def update_session(pen: Pen, values: Values) -> dict[str, Any]:
    """Give a session another title or model; an empty value changes nothing."""
    session = pen.session
    changes = {
        name: values[name]
        for name in ("title", "model")
        if not is_empty(name, values.get(name)) and values[name] != getattr(session, name)
    }
    if changes:
        pen.write(Kind.SESSION_UPDATED, changes)
    return {"updated": True, "lastUpdated": shown(pen.session.last_activity)}


def delete_session(pen: Pen) -> None:
    """Hide a session from every list and search; its journal stays, and its id stays taken."""
    if pen.session.hidden:
        raise closed_error(pen.session)
    pen.write(Kind.SESSION_UPDATED, {"hidden": True})


def import_session(
    pen: Pen,
    existing: Session | None,
    values: Values,
    context: CallContext,
    children: Callable[[Pen, imports.Tally], bool],
) -> dict[str, Any]:
    """Write the contents of an import and return the outcome of its turns; `children` stores those of other threads."""
    if existing is not None and (existing.hidden or existing.state is SessionState.SEALED):
        raise closed_error(existing)
    if existing is None:
        imports.create_session(pen, values, opening_facts(pen.reader, values, context))
    else:
        # Tags of its turns stay theirs alone.
        known = shown_tags(pen.reader, existing, subagents_of(pen.reader, existing))
        tags = [tag for tag in values.get("tags") or () if tag not in known]
        imports.merge_session(pen, {**values, "tags": tags})
    tally = imports.Tally()
    imports.import_turns(pen, values.get("turns") or (), tally)
    changed = children(pen, tally)
    if existing is None:
        imports.close_created(pen, values)
    submit_id = imports.note_import(pen, tally, elsewhere=changed)
    of_children = sum(child.session.turns_total for child in subagents_of(pen.reader, pen.session))
    return {
        "sourceType": pen.session.agent,
        "sessionId": pen.session.id,
        "existingSessionFound": existing is not None,
        "importedTurns": tally.imported,
        "mergedTurns": tally.merged,
        "skippedTurns": tally.skipped,
        "totalTurns": pen.session.turns_total + of_children,
        "submitId": submit_id,
        "amendedTurns": tally.amended,
    }
