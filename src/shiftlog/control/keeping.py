"""Questions about how long sessions are kept: legal holds and retention."""

from typing import Any, cast

import msgspec

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.journal.keeping.retention import Due
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.times import shown
from shiftlog.store.keeping import Hold, Scope


def _facts(hold: Hold) -> dict[str, Any]:
    times = {name: shown(at) for name, at in (("at", hold.at), ("lifted_at", hold.lifted_at)) if at is not None}
    return {name: value for name, value in msgspec.to_builtins(hold).items() if value is not None} | times


def _target(params: Params) -> tuple[Scope, str]:
    """Return the target of a hold: exactly one of `session_id` and `project`."""
    given = [(scope, str(params[key])) for scope, key in _SCOPES.items() if params.get(key)]
    if len(given) != 1:
        raise InvalidParameter.invalid("session", "either a session or a project")
    return cast("Scope", given[0][0]), given[0][1]


_SCOPES = {"session": "session_id", "project": "project"}


async def _hold(app: App, params: Params, caller: Caller) -> object:
    change = app.holds.lift if params.get("lift") else app.holds.place
    return _facts(await change(*_target(params), str(params.get("reason") or ""), str(params.get("by") or "unknown")))


async def _holds(app: App, params: Params, caller: Caller) -> object:
    return {"holds": [_facts(hold) for hold in await app.holds.all(lifted=bool(params.get("all")))]}


async def _retention(app: App, params: Params, caller: Caller) -> object:
    """Return the sessions that `[retention]` would erase now."""
    terms = app.config.retention
    due = await app.retention.due()
    return {"days": terms.days, "projects": dict(terms.projects), "due": [_due_facts(each) for each in due]}


async def _retain(app: App, params: Params, caller: Caller) -> object:
    """Erase the sessions whose time is over."""
    return {"erased": [_due_facts(each) for each in await app.retention.sweep()]}


def _due_facts(due: Due) -> dict[str, Any]:
    return {
        "session_id": due.session.id,
        "title": due.session.title,
        "days": due.days,
        "entries": len(due.entries),
        "legal_hold": due.held,
    }


QUESTIONS: dict[str, Question] = {"hold": _hold, "holds": _holds, "retention": _retention, "retain": _retain}
