"""Whose transcript is it? Decided by what the first records hold, never by the name or folder of the file."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from shiftlog.ingest.readers.records import Object, object_in, read_line, text_in, utc

MAX_RECORDS = 64
MAX_BYTES = 1024 * 1024

CLAUDE, CODEX = "ClaudeCode", "Codex"
GEMINI, COPILOT, OPENCODE, CURSOR = "GeminiCli", "CopilotCli", "OpenCode", "Cursor"

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
_SQLITE = b"SQLite format 3\x00"
_BOM = b"\xef\xbb\xbf"


def sniff(head: bytes) -> str | None:
    """Return the agent kind whose records a file begins with, None for a file of nobody known."""
    if head.startswith(_SQLITE):
        return OPENCODE
    head = head[:MAX_BYTES].removeprefix(_BOM)
    votes: Counter[str] = Counter()
    for record in _records(head):
        kind = kind_of_record(record)
        if kind is not None:
            votes[kind] += 1
            if votes[kind] > MAX_RECORDS // 2:
                return kind  # whatever the rest says
    if votes:
        # Of equals the one seen first: a counter keeps that order.
        return votes.most_common(1)[0][0]
    return _kind_of_document(head) or _kind_of_cut_line(head)


def first_time(head: bytes) -> str | None:
    """Return the first time that any of a file's first records has."""
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


def kind_of_record(record: Object) -> str | None:
    """Return the agent kind that writes such records."""
    return next((kind for kind, fits in _RULES if fits(record)), None)


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


_RULES: tuple[tuple[str, Callable[[Object], bool]], ...] = (
    (OPENCODE, _is_opencode),
    (GEMINI, _is_gemini),
    (COPILOT, _is_copilot),
    (CLAUDE, _is_claude),
    (CODEX, _is_codex),
    (CURSOR, _is_cursor),
)


def _kind_of_document(head: bytes) -> str | None:
    # One JSON document over many lines; the vendors who write such are few.
    try:
        document = msgspec.json.decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    record = cast("Object", document)
    return next((kind for kind in (OPENCODE, GEMINI) if dict(_RULES)[kind](record)), None)


def _kind_of_cut_line(head: bytes) -> str | None:
    # A first record, or document, longer than what was read.
    if len(head) < MAX_BYTES - len(_BOM) or not head.lstrip().startswith(b"{"):
        return None
    start = head[:65536]
    if b'"projectHash"' in start:
        return GEMINI
    if b"\n" in start.rstrip() and b'"messages"' in start and b'"info"' in start:
        return OPENCODE
    if b"\n" in start.strip():
        return None
    if b'"payload"' in start and (b'"session_meta"' in start or b'"response_item"' in start or b'"event_msg"' in start):
        return CODEX
    if b'"sessionId"' in start and (b'"parentUuid"' in start or b'"uuid"' in start):
        return CLAUDE
    return None
