"""The parameters of closing and resuming, and the classes of reasons."""

import re

from shiftlog.journal.continuity.statement import STATEMENT
from shiftlog.journal.requests import COMMON, IDEMPOTENCY_KEY, SESSION_ID
from shiftlog.journal.runs.requests import FIGURES
from shiftlog.journal.signing.tokens import MAX_CHARS
from shiftlog.model.moves import Succession
from shiftlog.params.fields import Boolean, Choice, Integer, Record, SessionRef, Text, unlisted

REASON_CHARS = 4_000
NOTE_CHARS = 20_000

TAKE_OVER, FORK, READ_ONLY = "take_over", "fork", "read_only"

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

CLOSE_SESSION = Record(
    fields={
        "session_id": SESSION_ID,
        "reason": Text(
            lines=True,
            mends=True,
            max_chars=REASON_CHARS,
            default="manual_close",
            description="Why it ends, in any words.",
            examples=("task_completed", "end_of_shift"),
        ),
        "capsule": STATEMENT,
        "succession_policy": Choice(
            values=tuple(map(str, (Succession.ALLOWED, Succession.REQUIRED, Succession.NONE))),
            fold=True,
            default=str(Succession.ALLOWED),
            description="successor_allowed: your agent_id may reopen it. successor_required: only who has the recovery "
            "token continues it, in a new session. closed_without_successor: nobody, ever.",
        ),
        **unlisted(FIGURES),
        **COMMON,
        **unlisted(
            {
                "epitaph": Text(lines=True, mends=True, max_chars=NOTE_CHARS, description="A closing note."),
                "on_held": Choice(
                    values=("refuse", TAKE_OVER),
                    default="refuse",
                    description="If another client of your agent holds it: refuse the call, or take it over and close.",
                ),
                "include_summary": Boolean(description="false leaves the summary out of the answer."),
                "allow_rebirth": Boolean(
                    description="Without succession_policy: false means closed_without_successor."
                ),
            }
        ),
    }
)

RESUME_SESSION = Record(
    fields={
        # Compared by its key, in which a tab or a line break is only a separator.
        "agent_id": Text(
            required=True,
            lines=True,
            max_chars=200,
            description="Your stable name, as given to open_session; else the agent kind.",
            examples=("cart-fixer",),
        ),
        "session_id": SessionRef(
            description="Resume this one. Default: your newest unfinished session, else the newest closed one.",
            examples=(1,),
        ),
        # A text in another form is refused as a token, also one that ends with a line break.
        "recovery_token": Text(
            lines=True,
            max_chars=MAX_CHARS,
            description="data.recovery_token of the last close or resume. Names its session by itself; each use "
            "replaces it. Needed after successor_required or handoff_to.",
        ),
        "on_held": Choice(
            values=("refuse", TAKE_OVER, FORK, READ_ONLY),
            default="refuse",
            description="If a living client holds it: refuse; take_over, and its writes fail; fork, a new session "
            "beside it; read_only, the capsule without the right to write.",
        ),
        **unlisted(
            {
                "lookback_days": Integer(
                    minimum=1, maximum=90, default=30, description="Ignore sessions whose last activity is older."
                ),
                "capsule_budget_bytes": Integer(
                    minimum=2_000, maximum=64_000, default=8_000, description="Greatest size of the capsule."
                ),
                "idempotency_key": IDEMPOTENCY_KEY,
            }
        ),
    }
)


def reason_class(reason: str) -> str:
    """Return the class of a reason; the reason itself is stored as given."""
    return _REASON_CLASSES.get(re.sub(r"[^a-z0-9]", "_", reason.lower()), "other")
