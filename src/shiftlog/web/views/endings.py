"""The endings of entries: every page tells failed, refused, timed-out and cancelled ones apart by these rules."""

from collections.abc import Mapping
from typing import Any

from shiftlog.model.entry import Entry, Kind


def failing(entry: Entry) -> str | None:
    """Return how an entry went wrong: `failed`, `refused`, `timed out`, `cancelled`; None if it did not."""
    facts = entry.facts
    match entry.kind:
        case Kind.COMMAND_FINISHED:
            return ending_of(facts)
        case Kind.DIALOG if facts.get("category") == "tool_result":
            if facts.get("denied"):
                return "refused"
            if facts.get("interrupted"):
                return "cancelled"
            return "failed" if facts.get("is_error") or facts.get("exit_code") else None
        case Kind.ACTION | Kind.RUN_UPDATED:
            return "failed" if facts.get("status") == "failed" else None
        case Kind.TURN_FAILED:
            return "failed"
        case Kind.CHECKPOINT_RESTORED:
            return "failed" if facts.get("failed") else None
        case _:
            return None


def ending_of(facts: Mapping[str, Any]) -> str | None:
    """Return how a command that has ended went wrong; None if it did not."""
    state = str(facts.get("state") or "")
    if facts.get("refusal") or state == "refused":
        return "refused"
    if state in ("timed_out", "cancelled"):
        return state.replace("_", " ")
    return "failed" if facts.get("exit_code") or state not in ("exited", "completed", "ok", "finished") else None
