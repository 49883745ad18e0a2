"""Dialog items and actions as the session log shows them; a log that was read may come back in this form."""

from collections.abc import Mapping
from typing import Any

from shiftlog.journal.projection import ERASED_TEXT
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.times import shown

RESULT_CHARS = 2_000

_ERASED_DIALOG = {"role": "system", "category": "observation", "content": ERASED_TEXT}
_ERASED_ACTION = {"order": 0, "description": ERASED_TEXT, "type": "erased", "status": "completed", "file_path": ""}


def as_shown(entry: Entry) -> Mapping[str, Any]:
    """Return an item with a word for what was erased, and of what an imported call gave back only the beginning."""
    if entry.body is None:
        return {"timestamp": shown(entry.at), **_ERASED_DIALOG} if entry.kind is Kind.DIALOG else _ERASED_ACTION
    facts: Mapping[str, Any] = entry.facts
    content = str(facts.get("content"))
    if "call_id" not in facts or facts.get("category") != "tool_result" or len(content) <= RESULT_CHARS:
        return facts
    return {**facts, "content": f"{content[:RESULT_CHARS]}\n[the first {RESULT_CHARS} of {len(content)} characters]"}
