"""The checkpoints before and after a turn, between which what it changed can be seen."""

from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Reader


def checkpoints_around(reader: Reader, session: Session, turn: Turn) -> tuple[Entry, Entry | None] | None:
    """Return the checkpoints of this machine before and after a turn's work; None for the second means now."""
    if not session.workspace:
        return None
    saved = reader.entries(session.id, until=session.head_seq, kinds=(Kind.CHECKPOINT_SAVED,))
    usable = [entry for entry in saved if entry.body is not None and not entry.facts.get("target")]
    before = next((entry for entry in usable if turn.begun_seq <= entry.seq <= turn.last_seq), None)
    before = before or next((entry for entry in reversed(usable) if entry.seq < turn.begun_seq), None)
    if before is None:
        return None
    place = before.facts.get("workspace")
    later = (entry for entry in usable if entry.seq > turn.last_seq and entry.facts.get("workspace") == place)
    return before, next(later, None)
