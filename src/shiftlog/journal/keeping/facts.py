"""The facts about keeping that lists and pages show of a session: a legal hold, an archive, bytes."""

from collections.abc import Sequence
from typing import Any

from shiftlog.journal.keeping.holds import hold_on
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader


def kept_facts(reader: Reader, sessions: Sequence[Session], *, sizes: bool) -> dict[str, dict[str, Any]]:
    """Return the legal hold, the archive and, with `sizes`, the bytes of each session, as far as it has them."""
    holds = reader.holds()
    taken = reader.bytes_of(session.id for session in sessions) if sizes else {}
    facts: dict[str, dict[str, Any]] = {}
    for session in sessions:
        own: dict[str, Any] = {}
        if hold := hold_on(session, holds):
            own["legal_hold"] = {"scope": hold.scope, "reason": hold.reason, "by": hold.by, "since": shown(hold.at)}
        if archived := reader.archived(session.id):
            own["archived"] = {"file": archived.file, "at": shown(archived.at)}
        if size := taken.get(session.id):
            parts = {"entries": size.entries, "texts": size.texts, "projections": size.projections}
            own["bytes"] = {"total": size.total, **parts}
        facts[session.id] = own
    return facts
