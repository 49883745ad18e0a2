"""How the records of each agent look: one predicate per format, used by the table in `formats`."""

from shiftlog.ingest.readers.records import Object, object_in, text_in

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


def is_codex(record: Object) -> bool:
    """Return True for a record of Codex."""
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


def is_claude(record: Object) -> bool:
    """Return True for a record of Claude Code."""
    kind = text_in(record, "type")
    if kind in _CLAUDE_TURNS:
        return any(name in record for name in _CLAUDE_IDS)
    if kind is None:
        return False
    mark = _CLAUDE_SMALL.get(kind)
    if mark is not None:
        return mark in record
    return isinstance(record.get("sessionId"), str) and "." not in kind and "projectHash" not in record


def is_copilot(record: Object) -> bool:
    """Return True for a record of Copilot CLI."""
    kind = record.get("type")
    return isinstance(kind, str) and "." in kind and isinstance(record.get("data"), dict)


def is_gemini(record: Object) -> bool:
    """Return True for a record of Gemini CLI."""
    if "projectHash" in record and "sessionId" in record:
        return True
    if "$set" in record or "$rewindTo" in record:
        return True
    typed = text_in(record, "type") in _GEMINI_TYPES and "id" in record and "content" in record
    return typed and not any(name in record for name in (*_CLAUDE_IDS, "message"))


def is_opencode(record: Object) -> bool:
    """Return True for a record of OpenCode."""
    if isinstance(record.get("info"), dict) and isinstance(record.get("messages"), list):
        return True
    if "sessionID" in record or "messageID" in record:
        return True
    return "projectID" in record and "directory" in record


def is_cursor(record: Object) -> bool:
    """Return True for a record of Cursor."""
    if record.get("type") == "turn_ended":
        return not any(name in record for name in _CLAUDE_IDS)
    if "type" in record or record.get("role") not in _ROLES:
        return False
    return "content" in object_in(record, "message")


# -- starts of a first record or document that is longer than what was read --------------------------------------------


def starts_gemini(start: bytes) -> bool:
    """Return True for the start of a Gemini CLI document."""
    return b'"projectHash"' in start


def starts_opencode(start: bytes) -> bool:
    """Return True for the start of an OpenCode export."""
    if starts_gemini(start) or b"\n" not in start.rstrip():
        return False
    return b'"messages"' in start and b'"info"' in start


def starts_codex(start: bytes) -> bool:
    """Return True for the start of a Codex record."""
    if b"\n" in start.strip() or b'"payload"' not in start:
        return False
    return b'"session_meta"' in start or b'"response_item"' in start or b'"event_msg"' in start


def starts_claude(start: bytes) -> bool:
    """Return True for the start of a Claude Code record."""
    if b"\n" in start.strip() or starts_codex(start):
        return False
    return b'"sessionId"' in start and (b'"parentUuid"' in start or b'"uuid"' in start)
