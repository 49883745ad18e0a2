"""The output schemas of the native tools."""

from typing import Any

Schema = dict[str, Any]


def text(*, null: bool = False) -> Schema:
    """Describe a text."""
    return {"type": ["string", "null"] if null else "string"}


def number(*, null: bool = False) -> Schema:
    """Describe a whole number."""
    return {"type": ["integer", "null"] if null else "integer"}


def flag() -> Schema:
    """Describe a truth value."""
    return {"type": "boolean"}


def listing(item: Schema) -> Schema:
    """Describe a list."""
    return {"type": "array", "items": item}


def record(properties: Schema, *, null: bool = False, also: tuple[str, ...] = ()) -> Schema:
    """Describe an object; every property is always there but those in `also`."""
    return {
        "type": ["object", "null"] if null else "object",
        "properties": properties,
        "required": [name for name in properties if name not in also],
    }


OPEN_OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
RECEIPT = record(
    {
        "code": {"type": "string", "enum": ["persisted", "unchanged", "queued"]},
        "session_id": text(),
        "seq": number(null=True),
        "hash": text(null=True),
        "redactions": number(),
    }
)
LEASE = record({"fence": number(), "expires_at": text(null=True)})


def _written(properties: Schema) -> Schema:
    return record({**properties, "receipt": RECEIPT, "warnings": OBJECTS})


OPEN_SESSION = _written(
    {
        "session_id": text(),
        "run_id": number(null=True),
        "agent": text(),
        "agent_id": text(),
        "state": text(),
        "started": text(),
        "lease": LEASE,
        "resonance_tier": text(null=True),
        "model": text(null=True),
        "reasoning_effort": text(null=True),
        "predecessor": record(
            {"session_id": text(), "state": text(), "last_activity": text(), "title": text()}, null=True
        ),
    }
)
BEGIN_TURN = _written(
    {
        "session_id": text(),
        "request_id": text(),
        "status": text(),
        "timestamp": text(),
        "superseded_request_id": text(null=True),
    }
)
UPDATE_TURN = _written(
    {
        "session_id": text(),
        "request_id": text(),
        "updated": {"type": "boolean"},
        "last_updated": text(),
        "dialog_items": number(),
        "actions": number(),
    }
)
FINISH_TURN = _written(
    {
        "session_id": text(),
        "request_id": text(),
        "status": text(),
        "finished_at": text(null=True),
        "error_code": text(),
    }
)
QUERY_HISTORY = record(
    {
        "items": OBJECTS,
        "total": number(),
        "next_cursor": text(null=True),
        "truncated": {"type": "boolean"},
        "session": OPEN_OBJECT,
        "session_id": text(),
        "turn": OPEN_OBJECT,
        "note": text(),
        "total_is_lower_bound": {"type": "boolean"},
        "warnings": OBJECTS,
    },
    also=("session", "session_id", "turn", "note", "total_is_lower_bound", "warnings"),
)


def _shell(data: Schema, always: tuple[str, ...]) -> Schema:
    """Describe an answer whose data has more keys in the larger profiles."""
    return record(
        {
            "ok": {"type": "boolean"},
            "tool_name": text(),
            "response_profile": text(),
            "ritual_stripped": {"type": "boolean"},
            "session_id": text(),
            "agent_id": text(),
            "status": text(),
            "data": record(data, also=tuple(data.keys() - set(always))),
            "warnings": OBJECTS,
        }
    )


_TOKEN: Schema = {"recovery_token": text(null=True), "recovery_token_expires_at": text(null=True)}
_OBJECT_OR_NULL: Schema = {"type": ["object", "null"]}

CLOSE_SESSION = _shell(
    {
        "session_id": text(),
        "status": text(),
        "state": text(),
        **_TOKEN,
        "next_action": _OBJECT_OR_NULL,
        "reason": text(null=True),
        "succession_policy": text(null=True),
        "closed_at": text(null=True),
        "summary": OPEN_OBJECT,
        "successor_deadline": text(null=True),
        "capsule": OPEN_OBJECT,
        "receipt": _OBJECT_OR_NULL,
        "head_hash": text(),
        "entry_count": number(),
    },
    always=("session_id", "status", "state", *_TOKEN, "next_action"),
)
RESUME_SESSION = _shell(
    {
        "resumed_session_id": text(),
        "resume_mode": {"type": "string", "enum": ["reattached", "reopened", "forked", "read_only"]},
        "state": text(),
        **_TOKEN,
        "lease": record({"fence": number(), "expires_at": text(null=True)}, null=True),
        "how_to_reattach": OPEN_OBJECT,
        "state_before": text(),
        "attested": {"type": "boolean"},
        "last_activity": text(),
        "capsule": OPEN_OBJECT,
        "vendor_resume": text(null=True),
        "drift": _OBJECT_OR_NULL,
        "other_candidates": OBJECTS,
    },
    always=("resumed_session_id", "resume_mode", "state", *_TOKEN, "lease", "how_to_reattach"),
)
