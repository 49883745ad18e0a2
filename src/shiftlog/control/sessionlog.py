"""Questions of the session log's clients and of agents' hooks, and about the spool."""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.dialects.mcpserver.current import Binding, CallContext
from shiftlog.dialects.mcpserver.errors import payload
from shiftlog.journal.sessions import workspace_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import SESSIONLOG_CALL_S


async def _sessionlog(app: App, params: Params, caller: Caller) -> object:
    """Answer one call of the session log. The call carries the binding of its connection; the answer returns it."""
    if _calls_wait(app):
        await app.hooks.carry_out_queued()
    bound: Mapping[str, Any] = params.get("binding") or {}
    binding = Binding(
        session_id=bound.get("session_id"),
        fence=bound.get("fence"),
        earlier=dict(bound.get("earlier") or {}),
        agents=list(bound.get("agents") or ()),
    )
    context = CallContext(
        # The connection chose this id itself, so it stays the same with the next daemon.
        caller=replace(
            caller, client_id=f"repl:{params.get('client')}", call_id=str(params.get("call")), holds_leases=False
        ),
        workspace=workspace_of(str(params["workspace"])),
        agent=params.get("agent"),
        binding=binding,
        timeout_s=_left(params),
        again=bool(params.get("again")),
    )
    try:
        answered = {"result": await app.sessionlog.call(str(params["method"]), params.get("params"), context)}
    except ShiftlogError as error:
        answered = {"error": payload(error)}
    return {**answered, "binding": asdict(binding)}


def _left(params: Params) -> float:
    """Return the seconds that a call still has; a frozen daemon may read it after its client has given up."""
    asked = float(params.get("timeout_s", SESSIONLOG_CALL_S))
    expires = params.get("expires")
    return asked if expires is None else min(asked, max(float(expires) - time.monotonic(), 0.0))


async def _spool(app: App, params: Params, caller: Caller) -> object:
    """Return the waiting and the rejected items of the spool, or the receipt of one queued call."""
    await app.hooks.carry_out_queued()
    if params.get("id"):
        return {"id": params["id"], "receipt": await app.hooks.calls.receipt(str(params["id"]))}
    return {"waiting": app.hooks.spool.waiting(), "set_aside": app.hooks.spool.aside()}


async def _hook_brief(app: App, params: Params, caller: Caller) -> object:
    return {"text": await app.hook_answers.brief(params)}


async def _hook_event(app: App, params: Params, caller: Caller) -> object:
    return await app.hook_answers.answer(params)


def _calls_wait(app: App) -> bool:
    """Return True if a client script queued calls, which come before this one."""
    try:
        with os.scandir(app.home / "spool") as found:
            return any(entry.name.startswith("calls-") for entry in found)
    except OSError:
        return False


QUESTIONS: dict[str, Question] = {
    "sessionlog": _sessionlog,
    "spool": _spool,
    "hook_brief": _hook_brief,
    "hook_event": _hook_event,
}
