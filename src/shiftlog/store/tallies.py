"""Tallies: what sessions used, added up by everything that a question about usage may ask for.

A session counts in one tally, or in one for each model and day that it can tell apart. Only whole numbers are added, so
that a session can be taken out again and nothing is lost. Prices and settings play no part here: they apply when
tallies are read, so a tally keeps apart what they could treat differently.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import msgspec

from shiftlog.model.nouns import Session, Usage
from shiftlog.model.prices import DECIMALS
from shiftlog.model.times import millis
from shiftlog.store.filters import Filter

# A stated cost is kept to 2^-100 dollars, in limbs small enough that millions of them add up in 64 bits.
STATED_PARTS = 1 << 100
_LIMB_BITS = 40

_REPORTED = ("input_tokens", "cached_input_tokens", "output_tokens")
_COUNTED = (*_REPORTED, "cache_creation_tokens")
_PRICED = (*_COUNTED, "cache_creation_1h_tokens")
_ADDED = (*_PRICED, "reasoning_tokens")
# Beyond these a session is kept apart, so that no sum can outgrow what a store holds.
_MOST_TOKENS = 1 << 40
_MOST_DOLLARS = 1 << 20
# A part's cost is rounded before it is added to others; the error must stay below this.
_NOISE = 1e-13

# The conditions of a filter that tallies can answer.
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
_DAY_MS = 86_400_000


class Basis(StrEnum):
    """The source of a part's cost."""

    STATED = "stated"  # the vendor or a client stated it
    PRICED = "priced"  # computed from prices
    UNKNOWN = "unknown"  # no tokens that a price counts
    SILENT = "silent"  # no usage, or usage without a model
    APART = "apart"  # only the session itself can tell; its id stands for the model


# The parts of a session: each with its model and the basis of its cost.
Parts = tuple[tuple[str | None, Basis], ...]


# Named tuples, because they are made, hashed and compared with every change of a session's usage.


class TallyKey(NamedTuple):
    """The common facts of the sessions of a tally; `reported` says that their tokens are as a run reported them."""

    day: str
    agent: str
    agent_id: str
    agent_key: str
    model: str | None
    backend: str | None
    caller: str | None
    workspace: str | None
    run_status: str | None
    reported: bool
    parts: Parts
    part: int


class Figures(NamedTuple):
    """Sums; `beyond_cache` is input without what was read from a cache, `high`, `middle`, `low` are a stated cost."""

    sessions: int = 0
    input_tokens: int = 0
    beyond_cache: int = 0
    cached_input_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_creation_1h_tokens: int = 0
    output_tokens: int = 0
    high: int = 0
    middle: int = 0
    low: int = 0

    def plus(self, other: "Figures", sign: int = 1) -> "Figures":
        """Add other figures, or take them away."""
        return Figures(*[own + sign * more for own, more in zip(self, other, strict=True)])

    @property
    def stated_cost(self) -> int:
        """Return the stated cost; STATED_PARTS make a dollar."""
        return (self.high << 2 * _LIMB_BITS) + (self.middle << _LIMB_BITS) + self.low


FIGURES = Figures._fields

Tallies = dict[TallyKey, Figures]


def tallies_of(session: Session) -> Tallies:
    """Return the tallies that a session counts in, each with its own figures; none if there is nothing to count."""
    if session.hidden or (session.run is None and session.usage is None and not session.model_usage):
        return {}
    reported = any(getattr(session.run, name, None) is not None for name in _REPORTED)
    first = session.started.date().isoformat()
    used = list(_used_parts(session, reported=reported))
    if session.started.utcoffset() or any(figures is None for _, _, _, figures in used):
        days = dict.fromkeys([first, *(day for day, _, _, _ in used)])
        used = [(day, session.id, Basis.APART, Figures(sessions=1)) for day in days]
    parts = tuple((model, basis) for _, model, basis, _ in used)
    run = session.run
    common = TallyKey(
        day=first,
        agent=session.agent,
        agent_id=session.agent_id,
        agent_key=session.agent_key,
        model=session.model,
        backend=run.backend if run else None,
        caller=run.caller if run else None,
        workspace=session.workspace,
        run_status=run.status.value if run else None,
        reported=reported,
        parts=parts,
        part=0,
    )
    return {
        common._replace(day=day, part=place) if place or day != first else common: figures
        for place, (day, _, _, figures) in enumerate(used)
        if figures and any(figures)
    }


def is_spread(session: Session) -> bool:
    """Return True if a session took several days and its usage is known for each of them."""
    run = session.run
    stated = run is not None and (run.total_cost_usd is not None or any(getattr(run, n) is not None for n in _REPORTED))
    return bool(session.later_days) and not stated


def goes_beyond(session: Session) -> bool:
    """Return True if a session used more after its run had ended with reported tokens."""
    return bool(session.beyond_run) and any(getattr(session.run, name, None) is not None for name in _REPORTED)


def on_days(session: Session, model: str | None, used: Usage, *, leads: bool = False) -> list[tuple[str, Usage]]:
    """Return the usage of a part of a session on each of its days, the first one first.

    Days on which it used nothing are left out, except the first one of a part that `leads`: it counts the session.
    """
    first = session.started.date().isoformat()
    if not is_spread(session):
        return [(first, used)]
    name = model or ""
    later = [(day, sums[name]) for day, sums in sorted(session.later_days.items()) if _is_used(sums.get(name))]
    costs = [part.cost_usd or 0.0 for _, part in later]
    left = {n: getattr(used, n) - sum(getattr(part, n) for _, part in later) for n in _ADDED}
    at_first = replace(used, **left, cost_usd=None if used.cost_usd is None else used.cost_usd - sum(costs))
    head = [(first, at_first)] if leads or any(left.values()) or not later else []
    stated: list[float | None] = [None] * len(later) if used.cost_usd is None else [*costs]
    return [*head, *((day, replace(part, cost_usd=cost)) for (day, part), cost in zip(later, stated, strict=True))]


def _is_used(used: Usage | None) -> bool:
    return used is not None and bool(used.cost_usd or any(getattr(used, name) for name in _PRICED))


# A part of a session: its day, its model, the basis of its cost, and its figures; None for those that cannot be added
# to the figures of other sessions.
_Part = tuple[str, str | None, Basis, Figures | None]


def _used_parts(session: Session, *, reported: bool) -> Iterator[_Part]:
    run, whole, by_model = session.run, session.usage, session.model_usage
    first = session.started.date().isoformat()
    own = (run.model if run else None) or session.model
    stated = run.total_cost_usd if run else None
    if by_model and not reported:
        if stated is not None or whole is None:
            yield first, own, Basis.APART, None
            return
        left = {name: getattr(whole, name) for name in (*_COUNTED, "reasoning_tokens")}
        for place, (model, used) in enumerate(by_model.items()):
            basis = Basis.PRICED if used.cost_usd is None else Basis.STATED
            yield from _daily(model, basis, on_days(session, model, used, leads=place == 0))
            left = {name: count - getattr(used, name) for name, count in left.items()}
        if any(left.values()):
            # What is left has no model of its own; it goes by the name of the session's.
            yield from _daily(own, Basis.SILENT, on_days(session, None, Usage(**left)))
        return
    if goes_beyond(session):
        for day in (first, *session.beyond_run):
            yield day, own, Basis.APART, None
        return
    used = _reported(session) if reported else whole
    cost = stated if stated is not None or used is None else used.cost_usd
    if cost is not None:
        basis = Basis.STATED
    elif used is None:
        basis = Basis.SILENT
    else:
        basis = Basis.PRICED if sum(getattr(used, name) for name in _COUNTED) else Basis.UNKNOWN
    if used is None or reported or not is_spread(session):
        yield first, own, basis, _figures(used or Usage(), cost)
    else:
        yield from _daily(own, basis, on_days(session, None, used, leads=True))


def _daily(model: str | None, basis: Basis, days: Iterable[tuple[str, Usage]]) -> Iterator[_Part]:
    """Yield a part day by day; it counts as a session's on the first of them."""
    for place, (day, used) in enumerate(days):
        cost = used.cost_usd
        is_even = cost is None or abs(round(cost, DECIMALS) - cost) < _NOISE
        figures = _figures(used, cost) if is_even else None
        yield day, model, basis, figures._replace(sessions=0) if figures is not None and place else figures


def _reported(session: Session) -> Usage:
    run = session.run
    return Usage(**{name: getattr(run, name, None) or 0 for name in _REPORTED})


def _figures(used: Usage, cost: float | None = None) -> Figures | None:
    if any(abs(getattr(used, name)) > _MOST_TOKENS for name in _COUNTED) or abs(cost or 0.0) > _MOST_DOLLARS:
        return None
    high, middle, low = _limbs(cost or 0.0)
    return Figures(
        sessions=1,
        input_tokens=used.input_tokens,
        beyond_cache=max(used.input_tokens - used.cached_input_tokens, 0),
        cached_input_tokens=used.cached_input_tokens,
        cache_creation_tokens=used.cache_creation_tokens,
        cache_creation_1h_tokens=used.cache_creation_1h_tokens,
        output_tokens=used.output_tokens,
        high=high,
        middle=middle,
        low=low,
    )


def _limbs(cost: float) -> tuple[int, int, int]:
    if not cost:
        return 0, 0, 0
    above, below = cost.as_integer_ratio()
    rest, low = divmod(above * STATED_PARTS // below, 1 << _LIMB_BITS)
    high, middle = divmod(rest, 1 << _LIMB_BITS)
    return high, middle, low


_NONE = Figures()


def difference(before: Tallies, after: Tallies) -> Tallies:
    """Return the change of the tallies that makes one session count as it does now."""
    none = _NONE
    changes = {key: figures.plus(before.get(key, none), -1) for key, figures in after.items()}
    changes |= {key: none.plus(figures, -1) for key, figures in before.items() if key not in after}
    return {key: figures for key, figures in changes.items() if figures != none}


def parts_text(parts: Parts) -> str:
    """Return the parts as they are written."""
    return msgspec.json.encode(parts).decode()


@lru_cache(maxsize=4096)
def read_parts(text: str) -> Parts:
    """Return the parts that were written."""
    return msgspec.json.decode(text, type=Parts)


def days_asked(where: Filter) -> tuple[str, str] | None:
    """Return the first and last day that a filter asks for; None if tallies cannot answer it.

    They answer for whole days, and for what all sessions of a tally have in common.
    """
    if any(getattr(where, item.name) != item.default for item in fields(Filter) if item.name not in _ANSWERED):
        return None
    first, last = where.started_from, where.to
    if first is not None and first != _midnight(first):
        return None
    if last is not None and millis(last) % _DAY_MS != _DAY_MS - 1:
        return None
    return _day(first, "0001-01-01"), _day(last, "9999-12-31")


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _day(at: datetime | None, default: str) -> str:
    return default if at is None else at.astimezone(UTC).date().isoformat()
