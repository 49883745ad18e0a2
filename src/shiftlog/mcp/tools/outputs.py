"""The output schemas of the native tools."""

from typing import Any

Schema = dict[str, Any]


TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
NUMBER: Schema = {"type": "integer"}
NUMBER_OR_NULL: Schema = {"type": ["integer", "null"]}
FLAG: Schema = {"type": "boolean"}
OPEN_OBJECT: Schema = {"type": "object"}
OBJECT_OR_NULL: Schema = {"type": ["object", "null"]}
OBJECTS: Schema = {"type": "array", "items": OPEN_OBJECT}


def record(properties: Schema, *, null: bool = False, also: tuple[str, ...] = ()) -> Schema:
    """Describe an object; every property is always there but those in `also`."""
    return {
        "type": ["object", "null"] if null else "object",
        "properties": properties,
        "required": [name for name in properties if name not in also],
    }


RECEIPT = record(
    {
        "code": {"type": "string", "enum": ["persisted", "unchanged", "queued"]},
        "session_id": TEXT,
        "seq": NUMBER_OR_NULL,
        "hash": TEXT_OR_NULL,
        "redactions": NUMBER,
    }
)
LEASE = record({"fence": NUMBER, "expires_at": TEXT_OR_NULL})


def _written(properties: Schema) -> Schema:
    return record({**properties, "receipt": RECEIPT, "warnings": OBJECTS})


OPEN_SESSION = _written(
    {
        "session_id": TEXT,
        "run_id": NUMBER_OR_NULL,
        "agent": TEXT,
        "agent_id": TEXT,
        "state": TEXT,
        "started": TEXT,
        "lease": LEASE,
        "resonance_tier": TEXT_OR_NULL,
        "model": TEXT_OR_NULL,
        "reasoning_effort": TEXT_OR_NULL,
        "predecessor": record({"session_id": TEXT, "state": TEXT, "last_activity": TEXT, "title": TEXT}, null=True),
        "joined": FLAG,
    }
)
BEGIN_TURN = _written(
    {
        "session_id": TEXT,
        "request_id": TEXT,
        "status": TEXT,
        "timestamp": TEXT,
        "superseded_request_id": TEXT_OR_NULL,
    }
)
UPDATE_TURN = _written(
    {
        "session_id": TEXT,
        "request_id": TEXT,
        "updated": FLAG,
        "last_updated": TEXT,
        "dialog_items": NUMBER,
        "actions": NUMBER,
    }
)
FINISH_TURN = _written(
    {
        "session_id": TEXT,
        "request_id": TEXT,
        "status": TEXT,
        "finished_at": TEXT_OR_NULL,
        "error_code": TEXT,
    }
)
QUERY_HISTORY = record(
    {
        "items": OBJECTS,
        "total": NUMBER,
        "next_cursor": TEXT_OR_NULL,
        "truncated": FLAG,
        "session": OPEN_OBJECT,
        "session_id": TEXT,
        "turn": OPEN_OBJECT,
        "note": TEXT,
        "total_is_lower_bound": FLAG,
        "warnings": OBJECTS,
    },
    also=("session", "session_id", "turn", "note", "total_is_lower_bound", "warnings"),
)


def _shell(data: Schema, always: tuple[str, ...]) -> Schema:
    """Describe an answer whose data has more keys in the larger profiles."""
    return record(
        {
            "ok": FLAG,
            "tool_name": TEXT,
            "response_profile": TEXT,
            "ritual_stripped": FLAG,
            "session_id": TEXT,
            "agent_id": TEXT,
            "status": TEXT,
            "data": record(data, also=tuple(data.keys() - set(always))),
            "warnings": OBJECTS,
        }
    )


_TOKEN: Schema = {"recovery_token": TEXT_OR_NULL, "recovery_token_expires_at": TEXT_OR_NULL}

CLOSE_SESSION = _shell(
    {
        "session_id": TEXT,
        "status": TEXT,
        "state": TEXT,
        **_TOKEN,
        "next_action": OBJECT_OR_NULL,
        "reason": TEXT_OR_NULL,
        "succession_policy": TEXT_OR_NULL,
        "closed_at": TEXT_OR_NULL,
        "summary": OPEN_OBJECT,
        "successor_deadline": TEXT_OR_NULL,
        "capsule": OPEN_OBJECT,
        "receipt": OBJECT_OR_NULL,
        "head_hash": TEXT,
        "entry_count": NUMBER,
    },
    always=("session_id", "status", "state", *_TOKEN, "next_action"),
)
RESUME_SESSION = _shell(
    {
        "resumed_session_id": TEXT,
        "resume_mode": {"type": "string", "enum": ["reattached", "reopened", "forked", "read_only"]},
        "state": TEXT,
        **_TOKEN,
        "lease": record({"fence": NUMBER, "expires_at": TEXT_OR_NULL}, null=True),
        "how_to_reattach": OPEN_OBJECT,
        "state_before": TEXT,
        "attested": FLAG,
        "last_activity": TEXT,
        "capsule": OPEN_OBJECT,
        "vendor_resume": TEXT_OR_NULL,
        "drift": OBJECT_OR_NULL,
        "other_candidates": OBJECTS,
    },
    always=("resumed_session_id", "resume_mode", "state", *_TOKEN, "lease", "how_to_reattach"),
)
