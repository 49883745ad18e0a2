"""What runs used: the list of runs, and totals of tokens and cost by day, model, agent, caller or project.

A run that is still going is counted as running and its cost as unknown. A session counts on the day (UTC) on which
it started. Reads write nothing; what a single run used is decided in `runs`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from math import fsum
from pathlib import PurePosixPath
from typing import Any

from shiftlog.journal.history_items import Item, run_item
from shiftlog.journal.history_requests import filter_of, parse_bound
from shiftlog.journal.runs import Runs
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import RunStatus
from shiftlog.model.nouns import Session, Usage
from shiftlog.model.prices import DECIMALS
from shiftlog.store.protocol import Filter, Page, Reader

DIMENSIONS = ("day", "model", "agent", "caller", "project")
TODAY = "today"
READ_AT_ONCE = 500
_TOKENS = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens")

Group = tuple[str | None, ...]


@dataclass(slots=True, kw_only=True)
class Totals:
    """The sum of some sessions; `cost_unknown` counts those whose cost nobody knows, or not to its end."""

    sessions: int = 0
    statuses: dict[str, int] = field(default_factory=lambda: {str(status): 0 for status in RunStatus})
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TOKENS, 0))
    costs: list[float] = field(default_factory=list[float])
    cost_unknown: int = 0

    def add(self, session: Session, used: Usage | None) -> None:
        """Count one more session, a running one with what it used so far."""
        self.sessions += 1
        status = session.run.status if session.run else None
        if status is not None:
            self.statuses[str(status)] += 1
        cost = used.cost_usd if used else None
        if used is not None:
            for name in _TOKENS:
                self.tokens[name] += getattr(used, name)
        if cost is not None:
            self.costs.append(cost)
        if cost is None or status is RunStatus.RUNNING:
            self.cost_unknown += 1

    @property
    def cost_usd(self) -> float | None:
        """Return what is known of the cost, None where nothing is."""
        return round(fsum(self.costs), DECIMALS) if self.costs else None

    def as_item(self) -> Item:
        """Return the totals as results show them."""
        return {
            "sessions": self.sessions,
            **self.statuses,
            **self.tokens,
            "cost_usd": self.cost_usd,
            "cost_unknown": self.cost_unknown,
        }


def runs_filter(reader: Reader, values: Mapping[str, Any], now: datetime) -> Filter:
    """Return the filter of a question about runs; its days and bounds are those of the start of a run."""
    first, last = values.get("from"), values.get("to")
    if values.get("day"):
        first = last = _day(values["day"], now)
    started_from = parse_bound(first, "from", is_end=False) if first else None
    asked = {name: value for name, value in values.items() if name != "from"}
    where = filter_of(reader, {**asked, "to": last})
    return replace(where, caller=values.get("caller") or None, started_from=started_from)


def _day(text: str, now: datetime) -> str:
    try:
        return now.date().isoformat() if text == TODAY else date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidParameter.invalid("day", "a date such as 2026-01-31, or today", text) from None


def list_runs(reader: Reader, runs: Runs, where: Filter, limit: int) -> dict[str, Any]:
    """Return the newest runs, each with its tokens counted once and what is known of its cost."""
    with_run = replace(where, with_run=True)
    rows = reader.find_sessions(with_run, Page(limit=limit))
    return {
        "items": [_run_row(runs, row.session) for row in rows],
        "total": reader.count("session", with_run),
    }


def _run_row(runs: Runs, session: Session) -> Item:
    assert session.run is not None
    used = runs.usage_of(session)
    return {
        **run_item(session, session.run),
        "agent": session.agent,
        "agent_id": session.agent_id,
        "project": _project(session),
        "title": session.title,
        "usage": used.shown() if used else None,
    }


def total_usage(reader: Reader, runs: Runs, where: Filter, by: Sequence[str]) -> dict[str, Any]:
    """Add up what sessions used, in groups by one or more of DIMENSIONS, and in total."""
    for name in by:
        if name not in DIMENSIONS:
            says = "one of " + ", ".join(DIMENSIONS)
            raise InvalidParameter.invalid("by", says, name, allowed=list(DIMENSIONS))
    groups: dict[Group, Totals] = {}
    total = Totals()
    unpriced: Counter[str] = Counter()
    for session in _sessions(reader, where):
        used = runs.usage_of(session)
        if session.run is None and used is None:
            continue
        unpriced.update(runs.unpriced(session))
        parts: Sequence[tuple[str | None, Usage | None]] = runs.parts_of(session) if "model" in by else ()
        for model, part in parts or ((None, used),):
            group = tuple(_value(session, name, model) for name in by)
            groups.setdefault(group, Totals()).add(session, part)
        total.add(session, used)
    return {
        "by": list(by),
        "rows": [{**dict(zip(by, group, strict=True)), **sums.as_item()} for group, sums in _sorted(groups, by)],
        "total": total.as_item(),
        "warnings": [_unpriced(model, count) for model, count in sorted(unpriced.items())],
    }


def _unpriced(model: str, sessions: int) -> Item:
    message = f"The model {model} has no price; what it used is not in the cost"
    return {"code": "unknown_model_price", "message": message, "model": model, "sessions": sessions}


def _sessions(reader: Reader, where: Filter) -> Iterator[Session]:
    after: tuple[int, int] | None = None
    while rows := reader.find_sessions(where, Page(limit=READ_AT_ONCE, after=after)):
        yield from (row.session for row in rows)
        after = rows[-1].at


def _sorted(groups: dict[Group, Totals], by: Sequence[str]) -> list[tuple[Group, Totals]]:
    """Sort days by time, anything else by what it cost."""
    if by and by[0] == "day":
        return sorted(groups.items(), key=lambda row: [value or "" for value in row[0]])
    return sorted(
        groups.items(),
        key=lambda row: (-(row[1].cost_usd or 0.0), -sum(row[1].tokens.values()), [value or "" for value in row[0]]),
    )


def _value(session: Session, name: str, part: str | None = None) -> str | None:
    run = session.run
    match name:
        case "day":
            return session.started.date().isoformat()
        case "model":
            return part or (run.model if run else None) or session.model
        case "agent":
            return session.agent_id
        case "caller":
            return run.caller if run else None
        case _:
            return _project(session)


def _project(session: Session) -> str | None:
    return PurePosixPath(session.workspace).name or session.workspace if session.workspace else None
