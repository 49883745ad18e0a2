"""Usage: tokens and cost per day, model, agent and project, as charts with their tables, as JSON and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.usage.service import runs_filter, total_usage
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
    models = [str(row["model"] or "unknown") for row in tables["model"]][:STACKED]
    days = _every_day(tables["day"], data["filters"], app.clock.now())
    for row in days:
        row["href"] = address("sessions", **{"from": row["day"], "to": row["day"]})
    limits = {
        unit: [(one["agent_id"], one["limit"]) for one in data["budgets"] if one["unit"] == unit] for unit in UNITS
    }
    pictures = {
        "day": [
            bars(_stacked(days, data["by_day_and_model"], models, value), "day", value, title, limits=limits[unit])
            for value, title, unit in (("tokens", "Tokens per day", "tokens"), ("cost_usd", "Cost per day", "usd"))
        ]
    }
    for name in DIMENSIONS[1:]:
        pictures[name] = [
            levels(tables[name], name, "tokens", f"Tokens per {name}"),
            levels(tables[name], name, "cost_usd", f"Cost per {name}"),
        ]
    extra: Item = {"pictures": pictures, "dimensions": DIMENSIONS, "models": models, "narrowed": _NARROWED}
    return PageView(data=data, template="usage.html", extra=extra)


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

    def work(reader: Reader) -> tuple[Item, Item, Item, int, list[Item]]:
        where = runs_filter(reader, filters, now)
        # A session has one day, agent and project but may have used many models, so models are added up apart.
        return (
            total_usage(reader, runs, where, ["day", "agent", "project"]),
            total_usage(reader, runs, where, ["model"]),
            total_usage(reader, runs, where, ["day", "model"]),
            reader.count("turn", replace(where, from_=where.started_from, started_from=None)),
            list(app.spending_limits.states(reader, runs, now)),
        )

    rest, models, apart, turns, budgets = await app.store.read(work)
    tables = {name: _summed(rest["rows"], name) for name in DIMENSIONS if name != "model"}
    tables["model"] = _summed(models["rows"], "model")
    tables["day"].sort(key=lambda row: str(row["day"]))
    total = rest["total"]
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
        "warnings": rest["warnings"],
    }


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
    if (last - first).days > DAYS_DRAWN * 10:
        return [dict(row) for row in rows]
    names = [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
    return [dict(known.get(name, {"day": name, "tokens": 0, "cost_usd": 0.0})) for name in names]


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
