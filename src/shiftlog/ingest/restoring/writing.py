"""Choose the writer of a vendor's transcript, and count what stays masked in it."""

import json
import re
import uuid
from collections.abc import Iterable, Iterator

from shiftlog.ingest.restoring.claude import SPACE, ClaudeWriter
from shiftlog.ingest.restoring.codex import CodexWriter
from shiftlog.ingest.restoring.transcript import Ancestry, Record, RestoredTranscript, TurnDialog
from shiftlog.model.agents import BY_NAME
from shiftlog.model.nouns import Session

_MASKED = re.compile(r"\[REDACTED(?::[a-z_]+)?\]|\[BLOB:[^\]\s]+\]")


def restore(
    session: Session,
    dialog: Iterable[TurnDialog],
    vendor: str,
    *,
    session_id: str | None = None,
    model_provider: str | None = None,
    ancestry: Ancestry | None = None,
) -> RestoredTranscript:
    """Return the transcript of a session in a vendor's format.

    A session of that vendor keeps its model provider and, unless another id is given, its own and where it came from.
    """
    is_own = session.agent == BY_NAME[vendor].kind
    own = session.vendor_session_id if is_own else None
    name = session_id or own or str(uuid.uuid5(SPACE, f"{vendor}:{session.id}"))
    cwd = session.cwd or session.workspace or "/"
    provider = model_provider if is_own else None
    known = ancestry if is_own and name == own else None
    restored = RestoredTranscript(
        vendor=vendor,
        session_id=name,
        cwd=cwd,
        started=session.started,
        model_provider=provider,
        ancestry=known or Ancestry(),
    )
    writer = ClaudeWriter(session, restored) if vendor == "claude" else CodexWriter(session, restored)
    restored.records = _counted(writer.records(dialog), restored)
    return restored


def _counted(records: Iterator[Record], restored: RestoredTranscript) -> Iterator[Record]:
    for record in records:
        restored.masked += len(_MASKED.findall(json.dumps(record, ensure_ascii=False)))
        yield record
