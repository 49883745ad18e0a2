"""The call that helps after an error: a tool's name and its arguments, ready to be sent.

It stands in the error's details as `next_call`. An error whose cure only the agent knows (another program, another
argument) has none; its hint says what to change. Nothing of the journal's text is put into a call, only ids.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shiftlog.model.errors import ShiftlogError

Arguments = Mapping[str, Any]
Remedy = Callable[[Arguments, Mapping[str, Any]], dict[str, Any] | None]

WAIT_S = 60
_TURN = {"query_title": "<the request in one line>", "query_text": "<the request in full>"}
_WHERE = ("shell_id", "workspace")


def add_next_call(error: ShiftlogError, tool: str, arguments: Arguments) -> None:
    """Put the call that helps into the details of an error, if there is one."""
    remedy = _REMEDIES.get((tool, error.code)) or _REMEDIES.get(error.code)
    if remedy is not None and (call := remedy(arguments, error.details)) is not None:
        error.details = {**error.details, "next_call": call}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {key: value for key, value in arguments.items() if value is not None}}


def _begin(given: Arguments, _: Mapping[str, Any]) -> dict[str, Any]:
    return _call("begin_turn", session_id=given.get("session_id"), **_TURN)


def _resume(given: Arguments, details: Mapping[str, Any]) -> dict[str, Any] | None:
    held_by: Arguments = details.get("held_by") or {}
    agent_id = details.get("agent_id") or held_by.get("agent_id") or given.get("agent_id")
    if agent_id is None:
        return None
    return _call("resume_session", agent_id=agent_id, session_id=given.get("session_id"))


def _reopen(given: Arguments, details: Mapping[str, Any]) -> dict[str, Any] | None:
    if details.get("state") == "succeeded":
        return _successor(given, details)
    return _read(given, details) if details.get("state") == "sealed" else _resume(given, details)


def _read(given: Arguments, _: Mapping[str, Any]) -> dict[str, Any]:
    return _call("query_history", session_id=given.get("session_id"))


def _checkpoints(given: Arguments, _: Mapping[str, Any]) -> dict[str, Any]:
    return _call("list_checkpoints", **{name: given.get(name) for name in _WHERE})


def _successor(given: Arguments, details: Mapping[str, Any]) -> dict[str, Any] | None:
    successor = details.get("successor_session_id")
    return None if successor is None else _call("query_history", session_id=successor)


def _safety(given: Arguments, details: Mapping[str, Any]) -> dict[str, Any]:
    where = {name: given.get(name) for name in _WHERE}
    return _call("restore_checkpoint", **where, checkpoint_id=details.get("safety_checkpoint_id"))


_REMEDIES: dict[str | tuple[str, str], Remedy] = {
    "session_not_found": lambda _given, _details: _call("query_history"),
    "session_closed": _reopen,
    "session_sealed": _read,
    "session_succeeded": _successor,
    "session_held": lambda given, _: _read(given, _) if given.get("session_id") is not None else None,
    ("resume_session", "session_held"): lambda given, details: _call(
        "resume_session", agent_id=given.get("agent_id"), session_id=details.get("session_id"), on_held="fork"
    ),
    "lease_lost": _resume,
    "no_resumable_session": lambda given, _: _call(
        "open_session", agent="Agent", title="<what the work is for>", agent_id=given.get("agent_id")
    ),
    "turn_not_found": _begin,
    "turn_immutable": _begin,
    ("query_history", "turn_not_found"): _read,
    ("diff_checkpoint", "turn_not_found"): _checkpoints,
    ("restore_checkpoint", "turn_not_found"): _checkpoints,
    "checkpoint_not_found": _checkpoints,
    "nothing_to_restore": _checkpoints,
    "restore_incomplete": _safety,
    "workspace_required": lambda _given, _details: _call("open_shell", workspace="<absolute path of the project>"),
    "shell_not_found": lambda _given, _details: _call("list_shells"),
    "command_not_found": lambda _given, _details: _call("list_shells"),
    "shell_ended": lambda _, details: _call("open_shell", cwd=details.get("cwd")),
    "shell_busy": lambda _, details: _call(
        "read_output", command_id=details.get("command_id"), wait_s=WAIT_S, wait_for="end"
    ),
    "command_not_running": lambda given, _: _call("read_output", command_id=given.get("command_id")),
    "cursor_invalid": lambda given, _: _call("read_output", command_id=given.get("command_id"), from_line=1),
    "approval_required": lambda given, _: {"name": "run_command", "arguments": dict(given)},
}
