"""Events and answers of Cursor's hooks, from and into the words of Claude Code, which everything behind the hook knows.

Standard library only: the hook program uses it inside every turn. The words are those of Cursor's documentation.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVENTS = {
    "sessionStart": "SessionStart",
    "beforeSubmitPrompt": "UserPromptSubmit",
    "preToolUse": "PreToolUse",
    "subagentStart": "SubagentStart",
    "subagentStop": "SubagentStop",
    "preCompact": "PreCompact",
    "stop": "Stop",
    "sessionEnd": "SessionEnd",
}
STARTED = "startup"
INTERRUPTED = "interrupted"


def told(event: "dict[str, Any]") -> "dict[str, Any]":
    """Return an event of Cursor as Claude Code would tell it, with the fields that only Cursor has."""
    name = event.get("hook_event_name")
    roots: Any = event.get("workspace_roots")
    root: Any = roots[0] if roots.__class__ is list and roots else None
    said: dict[str, Any] = {
        **event,
        "hook_event_name": EVENTS.get(str(name), name),
        "session_id": event.get("conversation_id") or event.get("session_id"),
        "cwd": event.get("cwd") or root,
    }
    if name == "sessionStart":
        said["source"] = STARTED  # it comes for new conversations alone
    elif name in ("subagentStart", "subagentStop"):
        said["session_id"] = event.get("parent_conversation_id") or said["session_id"]
        said["agent_id"], said["agent_type"] = event.get("subagent_id"), event.get("subagent_type")
    elif name == "stop" and event.get("status") in ("aborted", "error"):
        said["hook_event_name"] = "StopFailure"
        is_interrupted = event["status"] == "aborted"
        said["reason"] = INTERRUPTED if is_interrupted else None
        said["error"] = "Turn aborted: interrupted" if is_interrupted else "The agent stopped with an error"
    return said


def answer(output: "dict[str, Any]", message: "str | None" = None) -> "dict[str, Any]":
    """Return the guard's answer before a tool call, and a message to the user, in the fields that Cursor reads."""
    decision, reason = output.get("permissionDecision"), output.get("permissionDecisionReason")
    said: dict[str, Any] = {}
    if decision:
        said = {"permission": decision, "user_message": reason, "agent_message": reason}
    elif message:
        said = {"user_message": message}
    if "updatedInput" in output:
        said["updated_input"] = output["updatedInput"]
    return said
