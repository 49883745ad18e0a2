"""The table of transcript formats: how each agent's transcripts are recognised, and the reader that takes them.

The content of a file decides, never its name or folder. Names and folders of agents are in `model/agents.py`. A new
format is a reader module, a row there and a row here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import msgspec

from shiftlog.facts.transcript import ReaderFactory
from shiftlog.ingest.readers.records import Object, object_in, read_line, text_in, utc
from shiftlog.model.agents import CLAUDE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE

MAX_RECORDS = 64
MAX_BYTES = 1024 * 1024
CUT_BYTES = 65536
_SQLITE = b"SQLite format 3\x00"
_BOM = b"\xef\xbb\xbf"

_CLAUDE_TURNS = frozenset("user assistant system attachment progress".split())
_CLAUDE_SMALL = {
    "summary": "leafUuid",
    "file-history-snapshot": "messageId",
    "queue-operation": "operation",
    "started": "agentId",
    "result": "agentId",
}
_CLAUDE_IDS = ("sessionId", "uuid", "parentUuid", "leafUuid")
_CODEX_ENVELOPES = frozenset(
    "session_meta turn_context event_msg response_item compacted world_state inter_agent_communication".split()
)
_CODEX_ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call "
    "tool_call tool_result web_search_call".split()
)
_ROLES = ("user", "assistant", "system", "developer")
_GEMINI_TYPES = frozenset("user gemini info error warning".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The recognition and reading of one agent's transcripts."""

    agent: str
    reader: str
    """Module and class below this package; imported with the first file of the agent, because start-up time counts."""
    has_record: Callable[[Object], bool]
    is_document: bool = False
    """True if a file may be one JSON document over many lines."""
    has_start: Callable[[bytes], bool] | None = None
    """Recognises a first record that is longer than what was read."""


# -- how the records of each agent look --------------------------------------------------------------------------------


def _is_codex(record: Object) -> bool:
    kind = text_in(record, "type")
    if kind in _CODEX_ENVELOPES and isinstance(record.get("payload"), dict):
        return True
    if any(name in record for name in _CLAUDE_IDS) or "message" in record:
        return False
    if kind in _CODEX_ITEMS or record.get("record_type") == "state":
        return True
    if record.get("role") in _ROLES and "content" in record:
        return True
    if kind is None and "thread_name" in record and "id" in record:
        return True
    # The header of the first rollouts stands without an envelope.
    return all(name in record for name in ("id", "timestamp", "instructions"))


def _is_claude(record: Object) -> bool:
    kind = text_in(record, "type")
    if kind in _CLAUDE_TURNS:
        return any(name in record for name in _CLAUDE_IDS)
    if kind is None:
        return False
    mark = _CLAUDE_SMALL.get(kind)
    if mark is not None:
        return mark in record
    return isinstance(record.get("sessionId"), str) and "." not in kind and "projectHash" not in record


def _is_copilot(record: Object) -> bool:
    kind = record.get("type")
    return isinstance(kind, str) and "." in kind and isinstance(record.get("data"), dict)


def _is_gemini(record: Object) -> bool:
    if "projectHash" in record and "sessionId" in record:
        return True
    if "$set" in record or "$rewindTo" in record:
        return True
    typed = text_in(record, "type") in _GEMINI_TYPES and "id" in record and "content" in record
    return typed and not any(name in record for name in (*_CLAUDE_IDS, "message"))


def _is_opencode(record: Object) -> bool:
    if isinstance(record.get("info"), dict) and isinstance(record.get("messages"), list):
        return True
    if "sessionID" in record or "messageID" in record:
        return True
    return "projectID" in record and "directory" in record


def _is_cursor(record: Object) -> bool:
    if record.get("type") == "turn_ended":
        return not any(name in record for name in _CLAUDE_IDS)
    if "type" in record or record.get("role") not in _ROLES:
        return False
    return "content" in object_in(record, "message")


# A first record or document may be longer than what was read; then its start is all there is.


def _starts_gemini(start: bytes) -> bool:
    return b'"projectHash"' in start


def _starts_opencode(start: bytes) -> bool:
    if _starts_gemini(start) or b"\n" not in start.rstrip():
        return False
    return b'"messages"' in start and b'"info"' in start


def _starts_codex(start: bytes) -> bool:
    if b"\n" in start.strip() or b'"payload"' not in start:
        return False
    return b'"session_meta"' in start or b'"response_item"' in start or b'"event_msg"' in start


def _starts_claude(start: bytes) -> bool:
    if b"\n" in start.strip() or _starts_codex(start):
        return False
    return b'"sessionId"' in start and (b'"parentUuid"' in start or b'"uuid"' in start)


# -- the table ---------------------------------------------------------------------------------------------------------

# The first row that fits a record takes it.
FORMATS = (
    Format(
        agent=OPENCODE,
        reader="plain.opencode:OpenCodeReader",
        has_record=_is_opencode,
        is_document=True,
        has_start=_starts_opencode,
    ),
    Format(
        agent=GEMINI,
        reader="plain.gemini:GeminiReader",
        has_record=_is_gemini,
        is_document=True,
        has_start=_starts_gemini,
    ),
    Format(agent=COPILOT, reader="plain.copilot:CopilotReader", has_record=_is_copilot),
    Format(agent=CLAUDE, reader="claude.reader:ClaudeReader", has_record=_is_claude, has_start=_starts_claude),
    Format(agent=CODEX, reader="codex.reader:CodexReader", has_record=_is_codex, has_start=_starts_codex),
    Format(agent=CURSOR, reader="plain.cursor:CursorReader", has_record=_is_cursor),
)
_READERS = {row.agent: row.reader for row in FORMATS}


def reader_for(agent: str) -> ReaderFactory:
    """Return the reader class for an agent's transcripts."""
    module, name = _READERS[agent].split(":")
    return cast(ReaderFactory, getattr(import_module(f"shiftlog.ingest.readers.{module}"), name))


def recognise(head: bytes) -> str | None:
    """Return the agent kind whose records a file begins with; None if no format fits."""
    if head.startswith(_SQLITE):
        return OPENCODE
    head = head[:MAX_BYTES].removeprefix(_BOM)
    votes: Counter[str] = Counter()
    for record in _records(head):
        agent = next((row.agent for row in FORMATS if row.has_record(record)), None)
        if agent is not None:
            votes[agent] += 1
            if votes[agent] > MAX_RECORDS // 2:
                return agent  # the rest cannot outvote it
    if votes:
        # Of equals the first one wins: a counter keeps the order.
        return votes.most_common(1)[0][0]
    return _recognised_document(head) or _recognised_start(head)


def is_one_document(head: bytes) -> bool:
    """Return True if a file that begins so is one JSON document over many lines, not a record a line."""
    head = head[:MAX_BYTES].removeprefix(_BOM).lstrip()
    first = read_line(head.partition(b"\n")[0])
    if not head.startswith(b"{") or (first is not None and first.record is not None):
        return False
    return _recognised_document(head) is not None or _recognised_start(head) is not None


def first_time(head: bytes) -> str | None:
    """Return the first timestamp in a file's first records."""
    return next((at for record in _records(head[:MAX_BYTES]) if (at := utc(record.get("timestamp")))), None)


def _records(head: bytes) -> Iterator[Object]:
    count = start = 0
    while count < MAX_RECORDS and start < len(head):
        end = head.find(b"\n", start)
        end = len(head) if end < 0 else end
        read = read_line(head[start:end])
        start = end + 1
        if read is not None and read.record is not None:
            count += 1
            yield read.record


def _recognised_document(head: bytes) -> str | None:
    try:
        document = msgspec.json.decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    record = cast("Object", document)
    return next((row.agent for row in FORMATS if row.is_document and row.has_record(record)), None)


def _recognised_start(head: bytes) -> str | None:
    if len(head) < MAX_BYTES - len(_BOM) or not head.lstrip().startswith(b"{"):
        return None
    start = head[:CUT_BYTES]
    return next((row.agent for row in FORMATS if row.has_start is not None and row.has_start(start)), None)
