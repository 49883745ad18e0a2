"""Answers to agents' hooks: the brief of a session that starts, and the guard's answer before a tool call.

The events themselves reach the journal through the spool: see `hooks`.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from shiftlog.app.hooks import Hooks
from shiftlog.app.turn_checkpoints import HookedTurn
from shiftlog.ingest.hooks.events import Spooled, fact_of, is_own_call, name_of
from shiftlog.journal.intake.start_brief import start_brief
from shiftlog.journal.vendor_names import known_session
from shiftlog.link import cursor_events, processes
from shiftlog.model.agents import CURSOR, GEMINI
from shiftlog.model.limits import HOOK_CHECKPOINT_S, HOOK_LATE_S
from shiftlog.model.times import precise


class HookAnswers:
    """Answers the hooks of one state directory."""

    def __init__(self, hooks: Hooks) -> None:
        self._app = hooks.app
        self._hooks = hooks

    async def brief(self, params: Mapping[str, Any]) -> str | None:
        """Return the brief that a session starts with, as its hook asks for it."""
        if not self._app.config.hooks.brief:
            return None
        given = {name: params.get(name) for name in ("source", "cwd", "agent", "session_id")}
        texts = {name: value if isinstance(value, str) else None for name, value in given.items()}
        await self._hooks.caught_up()
        pid, now = params.get("pid"), self._app.clock.now()
        return await self._app.store.read(
            lambda reader: start_brief(
                reader,
                source=texts["source"],
                session_id=known_session(reader, texts["agent"] or "", texts["session_id"] or ""),
                cwd=texts["cwd"],
                pid=pid if isinstance(pid, int) else None,
                is_alive=processes.alive,
                now=now,
            )
        )

    async def answer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a hook prints, once the checkpoint for its event is made, or is late.

        The spool has the event already. A tool call is spooled only if its hook gets no answer.
        """
        event: Mapping[str, Any] = params.get("event") or {}
        agent = str(params.get("agent"))
        if is_own_call(event.get("tool_name")):
            await self._note_caller(agent, dict(event))
            return {"print": ""}
        await self._hooks.caught_up(HOOK_LATE_S)
        is_call = name_of(dict(event)) == "PreToolUse"
        is_guarded = self._hooks.guard_state.of(agent).mode != "off"
        turn = None
        if is_call or is_guarded:
            turn = await self._hooks.turns.turn_of(agent, str(event.get("session_id") or ""))
        if is_call:
            await self._await_checkpoint(turn, event.get("tool_use_id"))
        else:
            await self._hooks.turns.settle(HOOK_CHECKPOINT_S)
        if not is_guarded:
            return {"print": ""}
        message = await self._hooks.guard.changed(agent, event, turn)
        output = await self._hooks.guard.answer(agent, event, turn) if is_call else None
        return {"print": _printed(agent, message, output or {})}

    async def _await_checkpoint(self, turn: HookedTurn | None, call_id: object) -> None:
        if turn is None or not self._hooks.turns.is_on:
            return
        ready = await self._hooks.turns.before_call(turn, call_id if isinstance(call_id, str) else None)
        if ready == "late":
            note = {"checkpoint": ready, "tool_use_id": call_id}
            await self._hooks.intake.note(turn.session_id, turn.request_id, note)

    async def _note_caller(self, agent: str, event: dict[str, Any]) -> None:
        """Remember which agent makes the next call of our tools: the main agent or a subagent."""
        await self._hooks.caught_up(HOOK_LATE_S)
        name, now = f"asked:{event.get('tool_use_id')}", precise(datetime.now(UTC))
        spooled = Spooled(id=name[:200], at=now, agent=agent, event=event)
        await self._hooks.intake.take(fact_of(spooled, self._hooks.composer))


def _printed(agent: str, message: str | None, output: dict[str, Any]) -> str:
    """Return the text that a hook prints: a message to the user, and the guard's answer in the client's format."""
    if agent == CURSOR:
        told = cursor_events.answer(output, message)
        return json.dumps(told) if told else ""
    said: dict[str, Any] = {"systemMessage": message} if message else {}
    if output and agent == GEMINI:
        decision, reason = output.get("permissionDecision"), output.get("permissionDecisionReason")
        said = {**said, **({"decision": decision, "reason": reason} if decision else {})}
        if "updatedInput" in output:
            said["hookSpecificOutput"] = {"hookEventName": "BeforeTool", "tool_input": output["updatedInput"]}
    elif output:
        said = {**said, "hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}
    return json.dumps(said) if said else ""
