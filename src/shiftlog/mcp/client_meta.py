"""Facts about an agent's client in the metadata of a tool call: their session and their id of the call."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from shiftlog.model.agents import CODEX
from shiftlog.model.caller import META, ClientSigns
from shiftlog.model.ids import is_call_id, is_vendor_id

# Claude Code names the call, Codex the thread: of a subagent its own.
TOOL_CALLS = ("claudecode/toolUseId", "callId")
CODEX_THREAD = "threadId"
CODEX_TURN = "x-codex-turn-metadata"


def with_meta(signs: ClientSigns, meta: Mapping[str, Any] | None) -> ClientSigns:
    """Return the signs of a caller with those of one call."""
    if not meta:
        return signs
    call = next((found for name in TOOL_CALLS if (found := _call(meta.get(name))) is not None), None)
    turn: object = meta.get(CODEX_TURN)
    of_turn = _id(cast(Mapping[str, Any], turn).get("thread_id")) if isinstance(turn, Mapping) else None
    # `threadId` alone may be any client's; with its turn beside it, it is Codex's.
    thread = (_id(meta.get(CODEX_THREAD)) or of_turn) if of_turn is not None else None
    if thread is not None:
        return replace(signs, vendor_ids={CODEX: thread}, via=META, tool_call=call)
    return signs if call is None else replace(signs, tool_call=call)


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and is_vendor_id(value) else None


def _call(value: object) -> str | None:
    return value if isinstance(value, str) and is_call_id(value) else None
