"""Activity: the entries that record an act of an agent or a person. Last activities and idle limits follow from them.

Bookkeeping is no activity: leases, suspensions, ends of shells, checkpoints, restores, runs, capsules made here, and
any entry that no agent or person caused (`automatic`).
"""

from collections.abc import Iterable
from datetime import datetime

from shiftlog.model.entry import CLOCK_SET_BACK, Body, Entry, Kind

AUTOMATIC = "automatic"
BY = "by"
PERSON = "person"

_DEEDS = frozenset(
    {
        Kind.SESSION_OPENED,
        Kind.SESSION_UPDATED,
        Kind.SESSION_RESUMED,
        Kind.SESSION_CLOSED,
        Kind.TURN_BEGUN,
        Kind.TURN_UPDATED,
        Kind.DIALOG,
        Kind.ACTION,
        Kind.TURN_COMPLETED,
        Kind.TURN_FAILED,
        Kind.USAGE,
        Kind.SHELL_OPENED,
        Kind.COMMAND_STARTED,
        Kind.COMMAND_FINISHED,
        Kind.COMMAND_INPUT,
        Kind.COMMAND_ASKED,
        Kind.COMMAND_DECIDED,
        Kind.HANDOFF_OFFERED,
    }
)


def is_activity(entry: Entry) -> bool:
    """Return True if the entry records an act of an agent or a person."""
    facts = entry.facts
    if facts.get(AUTOMATIC):
        return False
    if entry.kind is Kind.CAPSULE_SAVED:
        return "statement" in facts
    # An import's note with fields adds to a turn what was said or done in it; others only tell of the import.
    return entry.kind in _DEEDS or (entry.kind is Kind.IMPORT_NOTED and "fields" in facts)


def is_of_agent(entry: Entry) -> bool:
    """Return True if the entry records an act of the session's own agent."""
    return is_activity(entry) and entry.kind is not Kind.COMMAND_DECIDED and entry.facts.get(BY) != PERSON


def moment(entry: Entry) -> datetime:
    """Return the time of the recorded fact: when it was written, or for imports the time that came with it."""
    as_of = entry.facts.get("as_of")
    return datetime.fromisoformat(as_of) if isinstance(as_of, str) else entry.at


def later(known: datetime, at: datetime, facts: Body) -> datetime:
    """Return the later of a known time and an entry's moment; that moment if the clock was set back before it."""
    return at if CLOCK_SET_BACK in facts else max(known, at)


def last_of_agent(entries: Iterable[Entry]) -> datetime | None:
    """Return the time of the agent's last act; None if the entries record none."""
    last: datetime | None = None
    for entry in entries:
        if is_of_agent(entry):
            at = moment(entry)
            last = later(last or at, at, entry.facts)
    return last
