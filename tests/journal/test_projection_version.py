"""Stored sessions follow the present rules: a change of what entries become needs another version of the projection."""

import hashlib
import json
from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from shiftlog.journal.maintenance import fold
from shiftlog.journal.projection import VERSION
from shiftlog.journal.texts import facet, search_text
from shiftlog.model.entry import Entry, Kind

#: Entries of a demo session, of two commands of a person, and of an undo.
SAMPLE = Path(__file__).with_name("version_sample.jsonl")
#: The digest of what the sample becomes under the present version.
KNOWN = (4, "d644aeadd78ec97bc4cbf0cf3b23d875d09df091f6c390e51932a36ae9137e5d")


def test_what_entries_become_changes_only_with_the_version_of_the_projection() -> None:
    """A newer daemon computes all sessions anew only under another version; else `verify` calls them forged.

    If this fails, raise VERSION in `journal/projection.py` and put it here with the new digest.
    """
    assert (VERSION, _digest()) == KNOWN


def _digest() -> str:
    sessions: defaultdict[str, list[Entry]] = defaultdict(list)
    for line in SAMPLE.read_text("utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        sessions[row["session"]].append(
            Entry(
                seq=row["seq"],
                kind=Kind(row["kind"]),
                at=datetime.fromisoformat(row["at"]),
                turn=row["turn"],
                body=row["body"],
                salt=None,
                body_hash=row["hash"],
                hash=row["hash"],
            )
        )
    made: list[object] = []
    for session_id, entries in sessions.items():
        session, turns = fold(session_id, entries)
        made.append([session and asdict(session), [asdict(turn) for turn in turns.values()]])
        made.append([[facet(one.kind, one.facts), search_text(one.kind, one.facts)] for one in entries])
    return hashlib.sha256(json.dumps(made, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: object) -> object:
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)
