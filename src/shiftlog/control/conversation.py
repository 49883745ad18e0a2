"""The conversation of a session in its vendor's order: first the turns that a fork inherited, then its own."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shiftlog.dialects.mcpserver.objects import turns_with_items
from shiftlog.ingest.restoring.transcript import Ancestry, Places, TurnDialog, ids_of, late_dialog
from shiftlog.journal.continuity.lineage import origin_named
from shiftlog.link.files import open_regular
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader

_MOST_ORIGINS = 64
_FIRST_LINE_BYTES = 8 << 20
_PLACES = (Kind.SESSION_OPENED, Kind.SESSION_UPDATED)
_BESIDE = (Kind.TURN_BEGUN, Kind.USAGE, Kind.IMPORT_NOTED)


def dialog_of(reader: Reader, session: Session, depth: int = 0) -> list[TurnDialog]:
    """Return the conversation of a session, with the turns that a fork inherited."""
    inherited = [each for note in session.shared for each in _inherited(reader, note, depth)]
    own = _own(reader, session)
    return [*_left(inherited, own), *own]


def provider_of(reader: Reader, session: Session) -> str | None:
    """Return the model provider of a session of Codex: from the journal, else from its rollout; None if neither has it.

    Imports record it. For a session that hooks opened, only the first line of its rollout has it.
    """
    if (found := _said_at_opening(reader, session, "model_provider")) is not None:
        return found
    try:
        with open(open_regular(session.transcript_path or ""), "rb") as file:  # noqa: PTH123 - a descriptor has no path
            payload: Any = json.loads(file.readline(_FIRST_LINE_BYTES)).get("payload")
        named: Any = payload.get("model_provider")
    except (OSError, ValueError, AttributeError):
        return None
    return named if isinstance(named, str) else None


def ancestry_of(reader: Reader, session: Session) -> Ancestry:
    """Return the vendor's ids of the sessions that a session came from."""
    origin = origin_named(reader, session.forked_from)
    forked_from = (origin.vendor_session_id if origin else None) or session.forked_from
    path = _said_at_opening(reader, session, "agent_path")
    above = session
    for _ in range(_MOST_ORIGINS):
        if not above.subagent or (parent := reader.session(above.parent_session_id or "")) is None:
            break
        above = parent
    if above is session:
        return Ancestry(forked_from=forked_from)
    return Ancestry(parent=above.vendor_session_id, parent_cwd=above.cwd, forked_from=forked_from, agent_path=path)


def _said_at_opening(reader: Reader, session: Session, name: str) -> str | None:
    """Return a text of the vendor's header, as the session's opening recorded it."""
    opened = reader.entries(session.id, kinds=(Kind.SESSION_OPENED,))
    return next((found for entry in opened if isinstance(found := entry.facts.get(name), str)), None)


def _inherited(reader: Reader, note: dict[str, Any], depth: int) -> Iterator[TurnDialog]:
    """Yield the turns of an origin that a fork shares, and the dialog between them."""
    origin = origin_named(reader, note.get("session")) if depth < _MOST_ORIGINS else None
    if origin is None:
        return
    shared: set[str] = set(note.get("turns") or ())
    whole = dialog_of(reader, origin, depth + 1)
    last = max((at for at, each in enumerate(whole) if each.turn and each.turn.request_id in shared), default=-1)
    for each in whole[: last + 1]:
        if each.turn is None or each.turn.request_id in shared:
            yield each


def _left(inherited: list[TurnDialog], own: list[TurnDialog]) -> list[TurnDialog]:
    """Cut the last inherited turn where a fork left it: if it answers that prompt anew, it has none of its own."""
    first = next((each for each in own if each.turn), None)
    if not inherited or first is None or first.has_prompt:
        return inherited
    *whole, last = inherited
    left_at = next((ids_of(entry.facts).get("parent_uuid") for entry in first.entries), None)
    names = [ids_of(entry.facts).get("uuid") for entry in last.entries]
    if left_at is None or left_at not in (last.vendor_id, *names):
        return inherited
    kept = max((at + 1 for at, name in enumerate(names) if name == left_at), default=0)
    return [*whole, replace(last, entries=last.entries[:kept], is_cut=True)]


def _own(reader: Reader, session: Session) -> list[TurnDialog]:
    places = Places([(entry.seq, entry.facts) for entry in reader.entries(session.id, kinds=_PLACES)])
    beside: dict[str | None, list[Entry]] = defaultdict(list)
    for entry in reader.entries(session.id, kinds=_BESIDE):
        # Usage that came for a turn after its end names it.
        beside[entry.turn or entry.facts.get("request_id")].append(entry)
    dialog: list[tuple[int, TurnDialog]] = []
    for turn, entries in turns_with_items(reader, session.id):
        about = beside[turn.request_id]
        begun = next((entry.facts for entry in about if entry.kind is Kind.TURN_BEGUN), dict[str, Any]())
        gone = [
            name for entry in about if entry.kind is Kind.IMPORT_NOTED for name in entry.facts.get("abandoned") or ()
        ]
        said = [*(entry for entry in entries if entry.kind is Kind.DIALOG), *late_dialog(turn)]
        usage = [entry for entry in about if entry.kind is Kind.USAGE]
        one = TurnDialog(turn=turn, entries=said, places=places, begun=begun, usage=usage, abandoned=frozenset(gone))
        dialog.append((turn.begun_seq, one))
    loose = [entry for entry in reader.entries(session.id, kinds=(Kind.DIALOG,)) if entry.turn is None]
    dialog += [(entry.seq, TurnDialog(turn=None, entries=[entry], places=places)) for entry in loose]
    dialog += [
        (note.seq, TurnDialog(turn=None, entries=[], places=places, abandoned=frozenset(note.facts["abandoned"])))
        for note in beside[None]
        if note.facts.get("abandoned")
    ]
    dialog.sort(key=lambda each: each[0])
    return _joined([one for _, one in dialog])


def _joined(dialog: list[TurnDialog]) -> list[TurnDialog]:
    """Join dialog that lies between the same two turns."""
    joined: list[TurnDialog] = []
    for each in dialog:
        before = joined[-1] if joined else None
        if before is not None and each.turn is None and before.turn is None:
            said, gone = [*before.entries, *each.entries], before.abandoned | each.abandoned
            joined[-1] = TurnDialog(turn=None, entries=said, places=each.places, abandoned=gone)
        else:
            joined.append(each)
    return joined
