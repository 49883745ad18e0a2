"""Which questions tallies can answer: those that ask for whole days and for what the sessions of a tally share."""

from dataclasses import fields
from datetime import UTC, datetime

from shiftlog.model.times import millis
from shiftlog.store.protocol import Filter

DAY_MS = 86_400_000
_ANSWERED = frozenset(
    {
        "agent",
        "agent_key",
        "model",
        "backend",
        "caller",
        "run_status",
        "project",
        "workspace",
        "started_from",
        "to",
        "with_run",
    }
)
_NOTHING = Filter()


def days_asked(where: Filter) -> tuple[str, str] | None:
    """Return the first and last day that a filter asks for; None where tallies cannot answer it."""
    for item in fields(Filter):
        if item.name not in _ANSWERED and getattr(where, item.name) != getattr(_NOTHING, item.name):
            return None
    first, last = where.started_from, where.to
    if first is not None and first != _midnight(first):
        return None
    if last is not None and millis(last) % DAY_MS != DAY_MS - 1:
        return None
    return _day(first, "0001-01-01"), _day(last, "9999-12-31")


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _day(at: datetime | None, default: str) -> str:
    return default if at is None else at.astimezone(UTC).date().isoformat()
