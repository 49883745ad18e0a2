"""Entries that are shown as a line: what they say, which facts fit, and which are bookkeeping."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from shiftlog.journal.seen_files import read_seen
from shiftlog.model.entry import Entry, Kind

Step = dict[str, Any]

# Bookkeeping: folded behind one switch of the page.
QUIET = frozenset(
    {
        Kind.USAGE,
        Kind.RUN_UPDATED,
        Kind.SESSION_OPENED,
        Kind.CLIENT_JOINED,
        Kind.LEASE_TAKEN,
        Kind.CAPSULE_SAVED,
        Kind.SHELL_OPENED,
        Kind.SHELL_ENDED,
        Kind.TURN_UPDATED,
        Kind.IMPORT_NOTED,
        Kind.TOKEN_REISSUED,
    }
)
# What a person changes of a session is part of its story.
_BY_PERSON = ("title", "tags", "note")
# Of these a reader of the story wants only some facts; the entry itself has all.
_TOLD = {
    Kind.SESSION_CLOSED: ("reason", "closing_note", "policy"),
    Kind.COMMAND_ASKED: ("command", "prompt"),
    Kind.COMMAND_INPUT: ("text", "signal", "eof", "bytes"),
    Kind.COMMAND_DECIDED: ("state", "by", "reason"),
}
# The facts that say most of an entry, the most telling first.
_TELLING = (
    "command",
    "content",
    "description",
    "failure_note",
    "error_message",
    "error",
    "query_title",
    "title",
    "response",
    "label",
    "reason",
    "status",
    "state",
)
SAYS = {
    Kind.SESSION_OPENED: "Session opened",
    Kind.SESSION_SUSPENDED: "Session suspended",
    Kind.SESSION_RESUMED: "Session resumed",
    Kind.SESSION_CLOSED: "Session closed",
    Kind.SHELL_OPENED: "Shell opened",
    Kind.SHELL_ENDED: "Shell ended",
    Kind.COMMAND_INPUT: "Input",
    Kind.COMMAND_ASKED: "Asked for your approval:",
    Kind.COMMAND_DECIDED: "Approval decided",
    Kind.HANDOFF_OFFERED: "Hand-over offered",
    Kind.HANDOFF_ACCEPTED: "Hand-over accepted",
    Kind.HANDOFF_ENDED: "Hand-over ended",
    Kind.TOKEN_REISSUED: "Recovery token reissued",
    Kind.IMPORT_NOTED: "Noted by the import",
    Kind.ERASED: "Bodies erased",
    Kind.USAGE: "Usage",
    Kind.RUN_UPDATED: "Run updated",
    Kind.SESSION_UPDATED: "Session updated",
    Kind.CLIENT_JOINED: "Client joined",
    Kind.LEASE_TAKEN: "Lease taken",
    Kind.CAPSULE_SAVED: "Capsule saved",
    Kind.TURN_UPDATED: "Turn updated",
}


# What checkpoints tell of a turn's files.
SEEN = "Files seen to change"


def note_of(entry: Entry) -> Step:
    """Return type and contents of the step that an entry without a shape of its own becomes."""
    facts = entry.facts
    decisions = facts.get("add", {}).get("design_decisions") if entry.kind is Kind.TURN_UPDATED else None
    if decisions:
        content = "\n".join(f"- {text}" for text in decisions) if len(decisions) > 1 else decisions[0]
        return {"type_": "decision", "role": "model", "content": content}
    if entry.kind is Kind.RUN_UPDATED:
        return _run(entry)
    # An import finds every session at rest.
    seen = read_seen(entry) if entry.kind in (Kind.IMPORT_NOTED, Kind.TURN_UPDATED) else None
    if seen is not None:
        return {
            "type_": "note",
            "says": SEEN,
            "facts": [(how, path) for path, how in seen.files.items()],
            "quiet": True,
        }
    quiet = entry.kind in QUIET or facts.get("cause") == "imported"
    if entry.kind is Kind.SESSION_UPDATED:
        quiet = facts.get("by") is None or not any(name in facts for name in _BY_PERSON)
    says = SAYS.get(entry.kind, str(entry.kind))
    told = {name: facts[name] for name in _TOLD[entry.kind] if name in facts} if entry.kind in _TOLD else facts
    lines = plain_facts(told)
    if entry.kind is Kind.COMMAND_ASKED:
        lines = [("", said) for _, said in lines]
    return {"type_": "note", "says": says, "facts": lines, "quiet": quiet}


def said_by(entry: Entry) -> str:
    """Return the words of an entry that tell it from others of its kind; empty if it has none."""
    return str(next((entry.facts[name] for name in _TELLING if entry.facts.get(name)), ""))


def _run(entry: Entry) -> Step:
    """Return the step of a run update; one that failed is shown openly, its outcome before its figures."""
    status = entry.facts.get("status")
    first = {name: entry.facts[name] for name in ("status", "returncode", "error") if name in entry.facts}
    facts = plain_facts({name: value for name, value in (first | dict(entry.facts)).items() if name != "derived"})
    bad = status in ("failed", "orphaned")
    return {"type_": "note", "says": SAYS[entry.kind], "facts": facts, "quiet": not bad, "error": status == "failed"}


def plain_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a note that fit on a line."""
    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        if name in ("test_clock", "vendor", "title_source", "capsule", "raw") or value in (None, "", [], {}, False):
            continue
        if isinstance(value, dict | list):
            said = ", ".join(_texts(cast(object, value)))
        else:
            said = str(cast(object, value))
        lines.append((name.replace("_", " "), said[:400]))
    return lines


def _texts(value: object, depth: int = 0) -> Iterable[str]:
    if isinstance(value, dict) and depth < 3:
        for name, item in cast(dict[str, object], value).items():
            if item not in (None, "", [], {}):
                yield f"{name} {' '.join(_texts(item, depth + 1))}"
    elif isinstance(value, list) and depth < 3:
        for item in cast(list[object], value)[:20]:
            yield from _texts(item, depth + 1)
    else:
        yield str(cast(object, value))[:200]
