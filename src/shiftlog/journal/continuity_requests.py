"""The parameters of closing and resuming, and the classes of reasons."""

import re

from shiftlog.journal.requests import FENCE, IDEMPOTENCY_KEY, SESSION_ID
from shiftlog.model.fields import Boolean, Choice, Field, Integer, Number, Record, SessionRef, Text

REASON_CHARS = 4_000
NOTE_CHARS = 20_000

_REASON_CLASSES = {
    "end_of_shift": "end_of_shift",
    "task_completed": "completed",
    "completed": "completed",
    "done": "completed",
    "manual_close": "manual",
    "failed": "failed",
    "error": "failed",
    "crash": "failed",
}

ON_HELD = Choice(
    values=("refuse", "take_over"),
    description="When another client holds the session: refuse (default) or take_over.",
)

FIGURES: dict[str, Field] = {
    "returncode": Integer(minimum=-(2**31), maximum=2**31, description="Exit code of the run; default 0."),
    "duration_ms": Integer(minimum=0, description="Duration of the run; 0: derived from start and now."),
    "input_tokens": Integer(minimum=0, description="Input tokens of the run."),
    "cached_input_tokens": Integer(minimum=0, description="Cached input tokens of the run."),
    "output_tokens": Integer(minimum=0, description="Output tokens of the run."),
    "total_cost_usd": Number(description="Cost of the run where the client knows it."),
    "telemetry_source": Text(max_chars=100, description="Where the tokens come from."),
    "cost_source": Text(max_chars=100, description="Where the cost comes from."),
    "error": Text(lines=True, description="Error of the run, which makes it failed; 65,536 characters are kept."),
}

CLOSE_SESSION = Record(
    fields={
        "session_id": SESSION_ID,
        "reason": Text(
            lines=True, max_chars=REASON_CHARS, description="Why, in any words; default manual_close."
        ),
        "epitaph": Text(lines=True, max_chars=NOTE_CHARS, description="Closing note; immutable afterwards."),
        "include_summary": Boolean(description="False leaves the summary out; default true."),
        "on_held": ON_HELD,
        **FIGURES,
        "idempotency_key": IDEMPOTENCY_KEY,
        "fence": FENCE,
    }
)

RESUME_SESSION = Record(
    fields={
        "agent_id": Text(
            required=True, max_chars=200, description="Who resumes: the stable name given at open."
        ),
        "session_id": SessionRef(description="Resume exactly this session; default: the latest resumable."),
        "lookback_days": Integer(
            minimum=1, maximum=90, description="Window on last activity, 1..90 days; default 30."
        ),
        "on_held": ON_HELD,
        "capsule_budget_bytes": Integer(
            minimum=2_000, maximum=64_000, description="Size limit of the capsule, 2000..64000; default 8000."
        ),
        "idempotency_key": IDEMPOTENCY_KEY,
    }
)


def reason_class(reason: str) -> str:
    """Return the class of a reason; the reason itself is stored as given."""
    return _REASON_CLASSES.get(re.sub(r"[^a-z0-9]", "_", reason.lower()), "other")
