"""The parameters of closing and resuming, and the classes of reasons."""

import re
from dataclasses import dataclass

from shiftlog.journal.continuity.statement import STATEMENT
from shiftlog.journal.requests import FENCE, IDEMPOTENCY_KEY, SESSION_ID
from shiftlog.journal.runs.requests import FIGURES
from shiftlog.journal.signing.tokens import MAX_CHARS
from shiftlog.model.moves import Succession
from shiftlog.params.fields import Boolean, Choice, Field, Integer, Record, Repeated, Schema, SessionRef, Text

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

_KEYS = ", ".join(name for name in STATEMENT.fields if name != "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Capsule(Field):
    """The agent's statement: the schema only names its keys, `read` checks each of them."""

    def read(self, value: object, path: str) -> dict[str, object]:
        return STATEMENT.read(value, path)

    def type_schema(self) -> Schema:
        return {"type": ["object", "string"]}


CLOSE_SESSION = Record(
    fields={
        "session_id": SESSION_ID,
        "reason": Text(lines=True, mends=True, max_chars=REASON_CHARS, description="Why; default manual_close."),
        "epitaph": Text(lines=True, mends=True, max_chars=NOTE_CHARS, description="Closing note."),
        "succession_policy": Choice(
            values=tuple(map(str, (Succession.ALLOWED, Succession.REQUIRED, Succession.NONE))),
            fold=True,
            description="Default successor_allowed.",
        ),
        "allow_rebirth": Boolean(description="False: no successor."),
        "capsule": _Capsule(description=f"Hand-over note, shown as claimed: version 1, {_KEYS}."),
        "include_summary": Boolean(description="Default true."),
        "on_held": Choice(values=("refuse", TAKE_OVER), description="Default refuse."),
        **{name: Repeated(inner=spec, or_blank=spec.or_blank) for name, spec in FIGURES.items()},
        "idempotency_key": IDEMPOTENCY_KEY,
        "fence": FENCE,
    },
    others=f"Figures of the run: {', '.join(FIGURES)}.",
)

RESUME_SESSION = Record(
    fields={
        # Compared by its key, in which a tab or a line break is only a separator.
        "agent_id": Text(required=True, lines=True, max_chars=200, description="The stable name given at open."),
        # A text in another form is refused as a token, also one that ends with a line break.
        "recovery_token": Text(lines=True, max_chars=MAX_CHARS, description="From the last close."),
        "session_id": SessionRef(description="Default: the latest resumable."),
        "lookback_days": Integer(minimum=1, maximum=90, description="1..90; default 30."),
        "on_held": Choice(values=("refuse", TAKE_OVER, FORK, READ_ONLY), description="Default refuse."),
        "capsule_budget_bytes": Integer(minimum=2_000, maximum=64_000, description="2000..64000; default 8000."),
        "idempotency_key": IDEMPOTENCY_KEY,
    }
)


def reason_class(reason: str) -> str:
    """Return the class of a reason; the reason itself is stored as given."""
    return _REASON_CLASSES.get(re.sub(r"[^a-z0-9]", "_", reason.lower()), "other")
