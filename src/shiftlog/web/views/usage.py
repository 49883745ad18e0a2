"""Usage: tokens and cost per day, model, agent and project, as charts with their tables, as JSON and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import zip_longest
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.usage.service import runs_filter, usage_tables
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.prices import DECIMALS
from shiftlog.model.times import read_relative
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, PageView
from shiftlog.web.present.addresses import address
from shiftlog.web.present.charts import bars, levels

DIMENSIONS = ("day", "model", "agent", "project")
FILTERS = ("agent", "agent_id", "model", "project", "from", "to")
DAYS = 30
DAYS_DRAWN = 120
WEEKS_DRAWN = 104
STACKED = 5
UNITS = ("tokens", "usd")
# The filter of the list of sessions that a row of each table leads to.
_NARROWED = {"model": "model", "agent": "agent_id", "project": "project"}
_TOKENS = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens")
COLUMNS = ("sessions", *_TOKENS, "tokens", "cost_usd", "cost_unknown")

Item = dict[str, Any]


async def usage_page(app: App, request: Request) -> PageView:
    """Show usage of the last month, or of the days that the query names."""
    data = await _totals(app, request.query_params)
    tables: dict[str, list[Item]] = data["by"]
    used = [str(row["model"] or "unknown") for row in tables["model"] if row["tokens"] or row["cost_usd"]]
    models = used[:STACKED]
    days = _every_day(tables["day"], data["filters"], app.clock.now())
    unit_of_time, bucket_of = buckets(len(days))
    limits = {
        unit: [(one["agent_id"], one["limit"]) for one in data["budgets"] if one["unit"] == unit] for unit in UNITS
    }
    # Budgets are per day, so weeks and months have no line.
    drawn = {unit: found if unit_of_time == "day" else [] for unit, found in limits.items()}
    pictures: dict[str, list[Markup]] = {
        "day": [
            bars(
                bucketed(_stacked(days, data["by_day_and_model"], models, value), value, bucket_of, data["filters"]),
                "day",
                value,
                f"{title} per {unit_of_time}",
                limits=drawn[unit],
            )
            for value, title, unit in (("tokens", "Tokens", "tokens"), ("cost_usd", "Cost", "usd"))
        ]
    }
    for name in DIMENSIONS[1:]:
        rows = [{**row, "href": _sessions_of(name, row[name], data["filters"])} for row in tables[name]]
        pictures[name] = [
            levels(rows, name, "tokens", f"Tokens per {name}"),
            levels(rows, name, "cost_usd", f"Cost per {name}"),
        ]
    extra: Item = {"pictures": pictures, "dimensions": DIMENSIONS, "models": models, "sessions_of": _sessions_of}
    extra |= {"unit_of_time": unit_of_time, "has_others": len(used) > len(models)}
    return PageView(data=data, template="usage.html", extra=extra)


def _sessions_of(name: str, value: str | None, filters: Mapping[str, str]) -> str | None:
    """Return the address of the sessions behind a row; None for a row without a name."""
    if not value:
        return None
    if name == "day":
        return address("sessions", **{**filters, "from": value, "to": value})
    return address("sessions", **{**filters, _NARROWED[name]: value})


async def usage_file(app: App, request: Request) -> Response:
    """Return one of the tables as CSV."""
    by = request.query_params.get("by", "day")
    if by not in DIMENSIONS:
        raise InvalidParameter.invalid("by", "one of " + ", ".join(DIMENSIONS), by, allowed=list(DIMENSIONS))
    data = await _totals(app, request.query_params)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow((by, *COLUMNS))
    for row in data["by"][by]:
        writer.writerow((_cell(row[by]), *(row[name] for name in COLUMNS)))
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="shiftlog-usage-by-{by}.csv"'}
    return Response(file.getvalue(), 200, headers, "text/csv; charset=utf-8")


async def _totals(app: App, query: Mapping[str, str]) -> Item:
    now, runs = app.clock.now(), app.runs
    filters = {name: value for name in FILTERS if (value := query.get(name, "").strip())}
    if "from" not in filters and "to" not in filters:
        filters["from"] = (now.date() - timedelta(days=DAYS - 1)).isoformat()

    def work(reader: Reader) -> tuple[list[Item], int, list[Item]]:
        where = runs_filter(reader, _whole_days(filters, now), now)
        return (
            usage_tables(reader, runs, where, [["day"], ["agent"], ["project"], ["day", "model"]]),
            reader.count("turn", replace(where, from_=where.started_from, started_from=None)),
            list(app.spending_limits.states(reader, runs, now)),
        )

    (days, agents, projects, apart), turns, budgets = await app.store.read(work)
    # A session has one day but may have used many models: days are added up apart from models.
    rows = {"day": days["rows"], "model": apart["rows"], "agent": agents["rows"], "project": projects["rows"]}
    tables = {name: _summed(rows[name], name) for name in DIMENSIONS}
    tables["day"].sort(key=lambda row: str(row["day"]))
    total = days["total"]
    given = sum(total[column] for column in _TOKENS if column != "output_tokens")
    return {
        "filters": filters,
        "total": total | {"tokens": sum(total[column] for column in _TOKENS), "turns": turns},
        "cache_hit_rate": round(total["cached_input_tokens"] / given, 4) if given else None,
        "cost_per_turn_usd": round(total["cost_usd"] / turns, DECIMALS) if turns and total["cost_usd"] else None,
        "by_day_and_model": [
            {
                "day": row["day"],
                "model": row["model"],
                "tokens": sum(row[column] for column in _TOKENS),
                "cost_usd": row["cost_usd"],
            }
            for row in apart["rows"]
        ],
        "by": {name: tables[name] for name in DIMENSIONS},
        "budgets": budgets,
        "warnings": days["warnings"],
    }


def _whole_days(filters: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return the filters with ages such as `7d` as dates: usage counts by the day."""
    told = {name: read_relative(filters.get(name, ""), now) for name in ("from", "to")}
    dates = {name: at.date().isoformat() for name, at in told.items() if isinstance(at, datetime)}
    return {**filters, **dates}


def _summed(rows: Iterable[Item], name: str) -> list[Item]:
    """Add up rows that agree in one dimension, the dearest first."""
    sums: dict[object, Item] = {}
    for row in rows:
        group = sums.setdefault(row[name], {name: row[name], **dict.fromkeys(COLUMNS, 0), "cost_usd": None})
        for column in ("sessions", *_TOKENS, "cost_unknown"):
            group[column] += row[column]
        if row["cost_usd"] is not None:
            group["cost_usd"] = round((group["cost_usd"] or 0.0) + row["cost_usd"], DECIMALS)
    for group in sums.values():
        group["tokens"] = sum(group[column] for column in _TOKENS)
    by_cost: Callable[[Item], tuple[float, int]] = lambda row: (-(row["cost_usd"] or 0.0), -row["tokens"])  # noqa: E731
    return sorted(sums.values(), key=by_cost)


def _every_day(rows: list[Item], filters: Mapping[str, str], now: datetime) -> list[Item]:
    """Return every day that was asked about, also those without usage; beyond a limit from the first that has any."""
    if not rows:
        return []
    ends = [date.fromisoformat(row["day"]) for row in (rows[0], rows[-1])]
    first = min(ends[0], _date(filters.get("from", ""), now) or ends[0])
    last = max(ends[1], min(now.date(), _date(filters.get("to", ""), now) or now.date()))
    if (last - first).days > DAYS_DRAWN:
        first, last = ends
    known = {row["day"]: row for row in rows}
    names = [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
    return [dict(known.get(name, {"day": name, "tokens": 0, "cost_usd": 0.0})) for name in names]


def buckets(days: int) -> tuple[str, Callable[[date], date]]:
    """Return the unit of time that so many days are drawn in, and the first day of the unit that a day is in."""
    if days <= DAYS_DRAWN:
        return "day", lambda day: day
    if days <= WEEKS_DRAWN * 7:
        return "week", lambda day: day - timedelta(days=day.weekday())
    return "month", lambda day: day.replace(day=1)


def bucketed(
    days: Iterable[Item], value: str, bucket_of: Callable[[date], date], filters: Mapping[str, str]
) -> list[Item]:
    """Add up days that one bar stands for; each bar leads to its sessions."""
    found: dict[date, Item] = {}
    for row in days:
        first = bucket_of(date.fromisoformat(row["day"]))
        bar = found.setdefault(first, {"day": row["day"], "last": row["day"], value: 0, "stack": []})
        bar["last"] = row["day"]
        bar[value] += row[value] or 0
        bar["stack"] = [sum(pair) for pair in zip_longest(bar["stack"], row["stack"], fillvalue=0.0)]
    for bar in found.values():
        bar["href"] = address("sessions", **{**filters, "from": bar["day"], "to": bar["last"]})
    return list(found.values())


def _date(text: str, now: datetime) -> date | None:
    told = read_relative(text, now)
    if isinstance(told, datetime):
        return told.date()
    try:
        return date.fromisoformat((told or text)[:10])
    except ValueError:
        return None


def _stacked(days: Iterable[Item], apart: Iterable[Item], models: list[str], value: str) -> list[Item]:
    """Return days with what each model took of `value`; models beyond the named ones count as others."""
    of_day: dict[str, list[float]] = {}
    for row in apart:
        name = str(row["model"] or "unknown")
        place = models.index(name) if name in models else len(models)
        of_day.setdefault(row["day"], [0.0] * (len(models) + 1))[place] += float(row[value] or 0)
    return [{**day, "stack": of_day.get(day["day"], [])} for day in days]


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
