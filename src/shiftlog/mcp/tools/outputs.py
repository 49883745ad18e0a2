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
    """Describe an object whose properties are all required except those in `also`."""
    return {
        "type": ["object", "null"] if null else "object",
        "properties": properties,
        "required": [name for name in properties if name not in also],
    }


def answer(always: Schema, sometimes: Schema) -> Schema:
    """Describe an answer whose empty keys may be left out."""
    return {"type": "object", "properties": {**always, **sometimes}, "required": list(always)}


def said(schema: Schema, description: str) -> Schema:
    """Return a schema with a description."""
    return {**schema, "description": description}


def one_of(*values: str) -> Schema:
    """Describe a text that is one of these words."""
    return {"enum": [*values]}


LEASE: Schema = {
    "type": ["object", "null"],
    "properties": {"fence": NUMBER, "expires_at": TEXT_OR_NULL, "note": TEXT},
    "description": "Your right to write; note says what renews it.",
}
_RECEIPT: Schema = {
    "receipt": {
        "type": "object",
        "properties": {
            "code": one_of("persisted", "unchanged", "queued"),
            "seq": NUMBER_OR_NULL,
            "hash": TEXT_OR_NULL,
        },
        "description": "Where the journal has it; nothing to do.",
    }
}
_WARNINGS: Schema = {"warnings": OBJECTS}
_REQUEST_ID = said(TEXT, "The turn that was taken.")
_TOKEN: Schema = {"recovery_token": said(TEXT_OR_NULL, "Shown once; keep it.")}
_CAPSULE: Schema = {
    "capsule": said(OPEN_OBJECT, "goal, done, next, blockers, do_not, refuted, decisions, files_touched, open_turn …")
}

OPEN_SESSION = answer(
    {
        "run_id": said(NUMBER_OR_NULL, "Short number; pass it as session_id. Null without model."),
        "session_id": TEXT,
        "lease": LEASE,
        "state": TEXT,
        "started": TEXT,
        "predecessor": said(OBJECT_OR_NULL, "resume_session could continue it."),
        **_RECEIPT,
    },
    {"joined": said(FLAG, "You are in the session that your client had."), **_WARNINGS},
)
BEGIN_TURN = answer(
    {"request_id": TEXT, "status": one_of("in_progress"), **_RECEIPT},
    {"superseded_request_id": said(TEXT_OR_NULL, "A turn that was open and has failed now."), **_WARNINGS},
)
UPDATE_TURN = answer({"dialog_items": NUMBER, "actions": NUMBER, **_RECEIPT}, {"request_id": _REQUEST_ID, **_WARNINGS})
FINISH_TURN = answer({"status": one_of("completed", "failed"), **_RECEIPT}, {"request_id": _REQUEST_ID, **_WARNINGS})
QUERY_HISTORY = answer(
    {
        "items": said(
            OBJECTS,
            "Each with kind, session_id, time, summary; all but session and run also request_id; command: command_id; "
            "file: path, changes; run: run_id, model, usage (tokens, cost_usd). A search adds score and snippet.",
        ),
        "total": NUMBER,
        "next_cursor": said(TEXT_OR_NULL, "Null at the end."),
        "truncated": said(FLAG, "Something was cut to max_chars; note says how to read it."),
    },
    {
        "session": said(OPEN_OBJECT, "Facts of session_id: state, counts, tokens, cost, chain."),
        "turn": said(OPEN_OBJECT, "Facts of request_id; items are its actions and dialog."),
        "note": TEXT,
    },
)
# The keys of data depend on response_profile.
CLOSE_SESSION = answer(
    {
        "session_id": TEXT,
        "status": one_of("closed", "already_closed"),
        "data": answer(
            {"state": TEXT, **_TOKEN, "next_action": said(OBJECT_OR_NULL, "The call that continues the session.")},
            {"receipt": said(OBJECT_OR_NULL, "Signed proof of the record."), **_CAPSULE},
        ),
        "warnings": OBJECTS,
    },
    {},
)
RESUME_SESSION = answer(
    {
        "session_id": said(TEXT, "The same as data.resumed_session_id."),
        "status": TEXT,
        "data": answer(
            {
                "resumed_session_id": TEXT,
                "resume_mode": one_of("reattached", "reopened", "forked", "read_only"),
                "lease": LEASE,
                **_TOKEN,
            },
            {**_CAPSULE, "drift": said(OBJECT_OR_NULL, "files_changed, commits_added, shells_gone … since then.")},
        ),
        "warnings": OBJECTS,
    },
    {},
)
