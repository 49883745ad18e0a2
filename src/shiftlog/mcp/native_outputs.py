"""The output schemas of the native tools: what a successful answer holds."""

from typing import Any

Schema = dict[str, Any]


def _text(*, null: bool = False) -> Schema:
    return {"type": ["string", "null"] if null else "string"}


def _count(*, null: bool = False) -> Schema:
    return {"type": ["integer", "null"] if null else "integer"}


def _object(properties: Schema, *, null: bool = False, also: tuple[str, ...] = ()) -> Schema:
    """Describe an object; every property is always there but those in `also`."""
    return {
        "type": ["object", "null"] if null else "object",
        "properties": properties,
        "required": [name for name in properties if name not in also],
    }


OPEN_OBJECT: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
RECEIPT = _object(
    {
        "code": {"type": "string", "enum": ["persisted", "unchanged", "queued"]},
        "session_id": _text(),
        "seq": _count(null=True),
        "hash": _text(null=True),
        "redactions": _count(),
    }
)
LEASE = _object({"fence": _count(), "expires_at": _text(null=True)})


def _written(properties: Schema) -> Schema:
    return _object({**properties, "receipt": RECEIPT, "warnings": OBJECTS})


OPEN_SESSION = _written(
    {
        "session_id": _text(),
        "run_id": _count(null=True),
        "agent": _text(),
        "agent_id": _text(),
        "state": _text(),
        "started": _text(),
        "lease": LEASE,
        "resonance_tier": _text(null=True),
        "model": _text(null=True),
        "reasoning_effort": _text(null=True),
        "predecessor": _object(
            {"session_id": _text(), "state": _text(), "last_activity": _text(), "title": _text()}, null=True
        ),
    }
)
BEGIN_TURN = _written(
    {
        "session_id": _text(),
        "request_id": _text(),
        "status": _text(),
        "timestamp": _text(),
        "superseded_request_id": _text(null=True),
    }
)
UPDATE_TURN = _written(
    {
        "session_id": _text(),
        "request_id": _text(),
        "updated": {"type": "boolean"},
        "last_updated": _text(),
        "dialog_items": _count(),
        "actions": _count(),
    }
)
FINISH_TURN = _written(
    {
        "session_id": _text(),
        "request_id": _text(),
        "status": _text(),
        "finished_at": _text(null=True),
        "error_code": _text(),
    }
)
QUERY_HISTORY = _object(
    {
        "items": OBJECTS,
        "total": _count(),
        "next_cursor": _text(null=True),
        "truncated": {"type": "boolean"},
        "session": OPEN_OBJECT,
        "session_id": _text(),
        "turn": OPEN_OBJECT,
        "note": _text(),
        "total_is_lower_bound": {"type": "boolean"},
        "warnings": OBJECTS,
    },
    also=("session", "session_id", "turn", "note", "total_is_lower_bound", "warnings"),
)


def _shell(data: Schema, always: tuple[str, ...]) -> Schema:
    """Describe an answer whose data has more keys in the larger profiles."""
    return _object(
        {
            "ok": {"type": "boolean"},
            "tool_name": _text(),
            "response_profile": _text(),
            "ritual_stripped": {"type": "boolean"},
            "session_id": _text(),
            "agent_id": _text(),
            "status": _text(),
            "data": _object(data, also=tuple(data.keys() - set(always))),
            "warnings": OBJECTS,
        }
    )


_TOKEN: Schema = {"recovery_token": _text(null=True), "recovery_token_expires_at": _text(null=True)}
_OBJECT_OR_NULL: Schema = {"type": ["object", "null"]}

CLOSE_SESSION = _shell(
    {
        "session_id": _text(),
        "status": _text(),
        "state": _text(),
        **_TOKEN,
        "next_action": _OBJECT_OR_NULL,
        "reason": _text(null=True),
        "succession_policy": _text(null=True),
        "closed_at": _text(null=True),
        "summary": OPEN_OBJECT,
        "successor_deadline": _text(null=True),
        "capsule": OPEN_OBJECT,
        "receipt": _OBJECT_OR_NULL,
        "head_hash": _text(),
        "entry_count": _count(),
    },
    always=("session_id", "status", "state", *_TOKEN, "next_action"),
)
RESUME_SESSION = _shell(
    {
        "resumed_session_id": _text(),
        "resume_mode": {"type": "string", "enum": ["reattached", "reopened", "forked", "read_only"]},
        "state": _text(),
        **_TOKEN,
        "lease": _object({"fence": _count(), "expires_at": _text(null=True)}, null=True),
        "how_to_reattach": OPEN_OBJECT,
        "state_before": _text(),
        "attested": {"type": "boolean"},
        "last_activity": _text(),
        "capsule": OPEN_OBJECT,
        "vendor_resume": _text(null=True),
        "drift": _OBJECT_OR_NULL,
        "other_candidates": OBJECTS,
    },
    always=("resumed_session_id", "resume_mode", "state", *_TOKEN, "lease", "how_to_reattach"),
)
