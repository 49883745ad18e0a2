"""The facts that stay when an entry is erased: its names, links, states and figures, never its words.

The `erased` entry keeps them. So the right to continue a session, the number of its run and its deletions stay, and
projections stay a function of the entries. `maintenance.py` does the erasing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from shiftlog.journal.activity import AUTOMATIC, BY
from shiftlog.model.entry import Body, Entry, Kind

_ALWAYS = ("as_of", "test_clock", AUTOMATIC, BY)
_LINEAGE = ("vendor_session_id", "parent", "parent_session_id", "forked_from")
_RUN = (
    "alias",
    "status",
    "started",
    "backend",
    "provider",
    "session_type",
    "resonance_tier",
    "pid",
    "pid_started",
    "host",
    "prompt_chars",
    "ended",
    "returncode",
    "duration_ms",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "total_cost_usd",
    "cost_source",
    "derived",
    "resolved",
)
_KEPT: dict[Kind, tuple[str, ...]] = {
    Kind.SESSION_OPENED: ("agent_id", "exclusive", "state", "started", "predecessor", "run", *_LINEAGE),
    Kind.SESSION_UPDATED: ("hidden", "state", "started", "successor_session_id", *_LINEAGE),
    Kind.SESSION_SUSPENDED: ("cause",),
    Kind.SESSION_CLOSED: ("policy", "reason_class", "successor_deadline"),
    Kind.HANDOFF_OFFERED: ("agent_id", "expires_at"),
    Kind.TOKEN_REISSUED: ("expires_at",),
    Kind.CLIENT_JOINED: ("agent_id", "exclusive"),
    Kind.RUN_UPDATED: _RUN,
    Kind.TURN_BEGUN: ("timestamp", "imported"),
    Kind.TURN_UPDATED: ("deleted", "current_turn", "clear", "set"),
    Kind.TURN_COMPLETED: ("token_count",),
    Kind.TURN_FAILED: ("token_count",),
}
_WITHIN = {"run": _RUN, "set": ("token_count",)}


def kept_of(entries: Iterable[Entry]) -> dict[str, Body]:
    """Return by seq what stays of entries whose bodies are about to be erased."""
    kept = {str(entry.seq): _kept(entry.facts, (*_ALWAYS, *_KEPT.get(entry.kind, ()))) for entry in entries}
    return {seq: facts for seq, facts in kept.items() if facts}


def with_kept(entries: list[Entry]) -> list[Entry]:
    """Return entries to fold: each erased one with what the note of its erasure kept of it."""
    kept: dict[str, Any] = {}
    for entry in entries:
        if entry.kind is Kind.ERASED:
            kept |= entry.facts.get("kept", {})
    if not kept:
        return entries
    return [
        replace(entry, body=kept[str(entry.seq)]) if entry.body is None and str(entry.seq) in kept else entry
        for entry in entries
    ]


def _kept(facts: Mapping[str, Any], names: tuple[str, ...]) -> Body:
    found = {name: facts[name] for name in names if name in facts}
    inner = {name: _kept(cast(Mapping[str, Any], found[name]), _WITHIN[name]) for name in _WITHIN if name in found}
    return {name: value for name, value in (found | inner).items() if value != {}}
