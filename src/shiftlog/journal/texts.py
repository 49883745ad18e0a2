"""The words of an entry: the text that searches find it by, its facet, and a one-line summary for lists."""

from collections.abc import Mapping
from typing import Any, cast

from shiftlog.model.entry import CLOCK_SET_BACK, Body, Entry, Kind
from shiftlog.text.printable import one_line

DECISION = "decision"
COMMAND = "command"
SHELL = "shell"
CHECKPOINT = "checkpoint"
RESTORE = "restore"

# Values that are names, not words to search for.
_UNSEARCHED = frozenset(
    {
        "timestamp",
        "as_of",
        "started",
        "seal",
        "role",
        "status",
        "test_clock",
        CLOCK_SET_BACK,
        "order",
        "client_id",
        "policy",
        "hash",
        "head_hash",
        "remove",
        "drop",
        "current_turn",
        "between",
        "checkpoint_id",
        "command_id",
        "enforcement",
        "shell_id",
        "sha256",
        "verdict",
    }
)
_SEARCHED_KINDS = frozenset(
    {
        Kind.SESSION_OPENED,
        Kind.SESSION_UPDATED,
        Kind.SESSION_CLOSED,
        Kind.TURN_BEGUN,
        Kind.TURN_UPDATED,
        Kind.DIALOG,
        Kind.ACTION,
        Kind.TURN_COMPLETED,
        Kind.TURN_FAILED,
        Kind.COMMAND_STARTED,
        Kind.COMMAND_FINISHED,
        Kind.IMPORT_NOTED,
    }
)

_WORDLESS = frozenset({int, float, bool, type(None)})


def search_text(kind: Kind, facts: Body) -> str:
    """Return the text that an entry of a kind with this body is found by."""
    if kind not in _SEARCHED_KINDS:
        return ""
    if kind is Kind.DIALOG:
        return str(facts.get("content", ""))
    return "\n".join(_words(facts))


def _words(facts: Body) -> list[str]:
    words: list[str] = []
    _add_words(facts, "", words)
    return words


def _add_words(value: object, name: str, words: list[str]) -> None:
    if name in _UNSEARCHED:
        return
    if isinstance(value, str):
        words.append(value)
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            if type(item) not in _WORDLESS:
                _add_words(item, key, words)
    elif isinstance(value, list | tuple):
        for item in cast(list[Any], value):
            _add_words(item, name, words)


def facet(kind: Kind, facts: Body) -> str | None:
    """Return `decision`, `command`, `shell`, `checkpoint` or `restore` for entries that are listed as such."""
    if kind is Kind.DIALOG:
        return DECISION if facts.get("category") == "decision" else None
    if kind is Kind.ACTION:
        return DECISION if facts.get("type") == "design_decision" else None
    if kind is Kind.TURN_UPDATED:
        return DECISION if "design_decisions" in facts.get("add", {}) else None
    if kind is Kind.SHELL_OPENED:
        return SHELL
    if kind is Kind.CHECKPOINT_SAVED:
        return CHECKPOINT
    if kind is Kind.CHECKPOINT_RESTORED:
        return RESTORE
    return COMMAND if kind is Kind.COMMAND_STARTED else None


def summary(entry: Entry, *, max_chars: int = 160) -> str:
    """Return one line that tells what an entry is about."""
    facts: dict[str, Any] = entry.facts
    if entry.body is None:
        return "(erased)"
    for name in (
        "content",
        "description",
        "query_title",
        "response",
        "failure_note",
        "title",
        "reason",
        "command",
    ):
        text = facts.get(name)
        if isinstance(text, str) and text.strip():
            return one_line(text, max_chars)
    return one_line(_told(entry.kind, facts) or " ".join(_words(facts)), max_chars) or str(entry.kind)


def _told(kind: Kind, facts: Mapping[str, Any]) -> str:
    """Describe an entry of a kind without a text of its own; empty for other kinds."""
    if kind in (Kind.USAGE, Kind.RUN_UPDATED):
        return _figures(facts)
    if kind is Kind.CLIENT_JOINED:
        return f"{facts.get('face', '')} joined, known by {str(facts.get('by', '')).replace('_', ' ')}"
    if kind is Kind.LEASE_TAKEN:
        return f"fence {facts.get('fence')} for {facts.get('agent_id', '')}"
    if kind is Kind.CAPSULE_SAVED:
        capsule: Mapping[str, Any] = facts.get("capsule") or facts.get("statement") or {}
        goal: Any = capsule.get("goal")
        text: Any = cast("Mapping[str, Any]", goal).get("text") if isinstance(goal, Mapping) else goal
        return f"{facts.get('origin', '')} capsule: {text or 'without a goal'}"
    if kind is Kind.TURN_UPDATED:
        return _changes(facts)
    return ""


def _changes(facts: Mapping[str, Any]) -> str:
    """Describe the changes of a turn: the names of removed parts, the words of added ones."""
    gone = [*facts.get("remove", ()), *facts.get("drop", ())]
    parts = [
        "deleted" if facts.get("deleted") else "",
        f"cleared {', '.join(facts['clear'])}" if facts.get("clear") else "",
        f"removed from {', '.join(gone)}" if gone else "",
        *_words({name: facts[name] for name in ("set", "add") if name in facts}),
        _figures(facts.get("set", {})),
    ]
    return " ".join(part for part in parts if part)


def _figures(facts: Mapping[str, Any]) -> str:
    """Return the numbers among facts with their names, and the state that goes with them."""
    shown = (
        f"{name} {value}"
        for name, value in facts.items()
        if name == "status" or (isinstance(value, int | float) and not isinstance(value, bool))
    )
    return ", ".join(shown)
