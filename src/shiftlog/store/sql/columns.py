"""The parts of sessions and turns in columns of their own beside the document, to be filtered and sorted by."""

from typing import cast

from shiftlog.model.moves import UNFINISHED
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import millis
from shiftlog.store.sql.rows import whole_second_ms
from shiftlog.store.sql.tallies import project_of


def tags_of_turn(turn: Turn) -> tuple[str, ...]:
    """Return a turn's tags with those that came later for it."""
    later = [tag for amendment in turn.amendments for tag in cast("list[str]", amendment.fields.get("tags", ()))]
    return (*turn.tags, *later) if later else turn.tags


TURN_COLUMNS = ("status", "updated_ms", "plan_file", "todo_id")


def turn_columns(turn: Turn) -> tuple[str, int, str, str]:
    """Return the values of a turn that can change and have columns of their own."""
    return turn.status.value, whole_second_ms(turn.last_updated), turn.plan_file, turn.todo_id


def session_columns(session: Session) -> dict[str, str | int | None]:
    """Return the values of a session that have columns of their own, except the count of its entries."""
    run = session.run
    return {
        "id": session.id,
        "agent": session.agent,
        "agent_id": session.agent_id,
        "agent_key": session.agent_key,
        "state": session.state.value,
        "model": session.model,
        "workspace": session.workspace,
        "project": project_of(session.workspace),
        "vendor_id": session.vendor_session_id.lower() if session.vendor_session_id else None,
        "parent_id": session.parent_session_id,
        "predecessor_id": session.predecessor_session_id,
        "offered_to": (session.offer.agent_key or "") if session.offer else None,
        "hidden": int(session.hidden),
        "unfinished": int(session.state in UNFINISHED),
        "started_ms": millis(session.started),
        "active_ms": whole_second_ms(session.last_activity),
        "run_alias": run.alias if run else None,
        "run_status": run.status.value if run else None,
        "backend": run.backend if run else None,
        "caller": run.caller if run else None,
    }
