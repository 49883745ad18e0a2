"""Usage of runs: the list of runs, and totals of tokens and cost by day, model, agent, caller or project.

Tokens count on the day (UTC) of their use; sessions, and figures stated for a whole run, on the day of the start.
`totals.py` does the sums, `runs/service.py` knows what a single run used. Reads write nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from shiftlog.journal.history.items import Item, run_item
from shiftlog.journal.history.requests import filter_of, parse_bound
from shiftlog.journal.runs.service import Runs
from shiftlog.journal.usage.totals import DIMENSIONS, project_of, tables_of_sessions, tables_of_tallies
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader

TODAY = "today"


def runs_filter(reader: Reader, values: Mapping[str, Any], now: datetime) -> Filter:
    """Return the filter of a question about runs; its days are those of starts, and in `usage` of use."""
    first, last = values.get("from"), values.get("to")
    if values.get("day"):
        first = last = _day(values["day"], now)
    started_from = parse_bound(first, "from", is_end=False, now=now) if first else None
    asked = {name: value for name, value in values.items() if name != "from"}
    where = filter_of(reader, {**asked, "to": last}, now)
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
        "items": [_run_row(reader, runs, row.session) for row in rows],
        "total": reader.count("session", with_run),
    }


def _run_row(reader: Reader, runs: Runs, session: Session) -> Item:
    assert session.run is not None
    return {
        **run_item(session, session.run, runs.usage_of(session, reader)),
        "agent": session.agent,
        "agent_id": session.agent_id,
        "project": project_of(session.workspace),
        "title": session.title,
    }


def total_usage(reader: Reader, runs: Runs, where: Filter, by: Sequence[str]) -> dict[str, Any]:
    """Add up the usage of sessions, in groups by one or more of DIMENSIONS, and in total."""
    return usage_tables(reader, runs, where, [by])[0]


def usage_tables(reader: Reader, runs: Runs, where: Filter, groupings: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return `total_usage` by several groupings at once: sessions that must be read one by one are read once."""
    for name in (name for by in groupings for name in by):
        if name not in DIMENSIONS:
            says = "one of " + ", ".join(DIMENSIONS)
            raise InvalidParameter.invalid("by", says, name, allowed=list(DIMENSIONS))
    tables = tables_of_tallies(reader, runs, where, groupings) or tables_of_sessions(reader, runs, where, groupings)
    return [table.as_item() for table in tables]
