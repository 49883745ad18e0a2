"""Joining: a client that opens a session inside its own session joins that one instead.

The values of its call are merged as an update would: title, tags, and facts of its run that are not known better.
"""

from collections.abc import Mapping
from typing import Any

from shiftlog.facts.batch import origin_key
from shiftlog.journal.clients import UNCERTAIN, ClientPlace
from shiftlog.journal.merge import fresh
from shiftlog.journal.pen import Pen
from shiftlog.journal.requests import RUN_FIELDS
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.moves import SessionState
from shiftlog.store.protocol import Writer
from shiftlog.store.sources import Origin

# Above every source of a title in a transcript: a title that the agent gave stays.
GIVEN_TITLE = 1_000
# Facts that a hook knows better than the agent itself.
_OF_PROCESS = ("pid", "pid_started", "host", "cwd")

Facts = Mapping[str, Any]


def join(
    writer: Writer, pen: Pen, place: ClientPlace, facts: Facts, run: Facts | None, given: frozenset[str], caller: Caller
) -> None:
    """Write that a client joins the pen's session; `facts` are as for a new one, `given` names those of the call."""
    session = pen.session
    if session.state is SessionState.SUSPENDED:
        pen.write(Kind.SESSION_RESUMED, {"via": "join", "state_before": str(session.state)})
    how = {"by": place.by, "via": place.via, "attribution": place.attribution}
    who = {"face": caller.face, "host": caller.host, "pid": caller.pid, "pid_started": caller.pid_started}
    terms = {
        "agent_id": facts["agent_id"] if "agent_id" in given and facts["agent_id"] != session.agent_id else None,
        "exclusive": bool(facts.get("exclusive")) and not session.exclusive,
    }
    body = {**how, **who, **terms}
    pen.write(Kind.CLIENT_JOINED, {name: value for name, value in body.items() if value})
    changes = _changes(pen, facts, given)
    if changes:
        pen.write(Kind.SESSION_UPDATED, changes)
    if "title" in given:
        key = origin_key(session.agent, f"title:{session.id}")
        writer.put_origins({key: Origin(session_id=session.id, doc={"rank": GIVEN_TITLE})})
    if run is not None:
        _merge_run(writer, pen, run, given, caller)
    if place.attribution == UNCERTAIN:
        pen.warn("attribution_uncertain", "Several subagents run; the call was taken for the main agent's")


def _changes(pen: Pen, facts: Facts, given: frozenset[str]) -> dict[str, Any]:
    session = pen.session
    changes = {
        name: facts[name]
        for name in ("title", "model", "transcript_path")
        if name in given and facts.get(name) and facts[name] != getattr(session, name)
    }
    tags = fresh(session.tags, facts.get("tags") or ())
    return changes | ({"tags": [*session.tags, *tags]} if tags else {})


def _merge_run(writer: Writer, pen: Pen, run: Facts, given: frozenset[str], caller: Caller) -> None:
    """Merge the facts of the call's run; an unknown run begins with all of them."""
    known = pen.session.run
    if known is None:
        pen.write(Kind.RUN_UPDATED, {"alias": writer.next_alias(), "host": caller.host, **run})
        return
    told = {name: value for name, value in run.items() if name in given & frozenset(RUN_FIELDS)}
    if "pid" in told:
        told["pid_started"] = run.get("pid_started")
    kept = {name for name in _OF_PROCESS if getattr(known, name, None) is not None}
    changes = {name: value for name, value in told.items() if name not in kept and getattr(known, name) != value}
    if changes:
        pen.write(Kind.RUN_UPDATED, changes)
