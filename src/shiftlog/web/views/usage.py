"""Usage: tokens and cost per day, model, agent and project, as charts with their tables, as JSON and as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.usage.service import runs_filter, total_usage
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.prices import DECIMALS
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, PageView
from shiftlog.web.present.charts import bars, levels

DIMENSIONS = ("day", "model", "agent", "project")
FILTERS = ("agent", "agent_id", "model", "project", "from", "to")
DAYS = 30
DAYS_DRAWN = 120
_TOKENS = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens")
COLUMNS = ("sessions", *_TOKENS, "tokens", "cost_usd", "cost_unknown")

Item = dict[str, Any]


async def usage_page(app: App, request: Request) -> PageView:
    """Show usage of the last month, or of the days that the query names."""
    data = await _totals(app, request.query_params)
    tables: dict[str, list[Item]] = data["by"]
    days = _every_day(tables["day"])
    pictures = {
        "day": [
            bars(days, "day", "tokens", "Tokens per day"),
            bars(days, "day", "cost_usd", "Cost per day"),
        ]
    }
    for name in DIMENSIONS[1:]:
        pictures[name] = [
            levels(tables[name], name, "tokens", f"Tokens per {name}"),
            levels(tables[name], name, "cost_usd", f"Cost per {name}"),
        ]
    return PageView(data=data, template="usage.html", extra={"pictures": pictures, "dimensions": DIMENSIONS})


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

    def work(reader: Reader) -> tuple[Item, Item, list[Item]]:
        where = runs_filter(reader, filters, now)
        # A session has one day, agent and project but may have used many models, so models are added up apart.
        return (
            total_usage(reader, runs, where, ["day", "agent", "project"]),
            total_usage(reader, runs, where, ["model"]),
            list(app.spending_limits.states(reader, runs, now)),
        )

    rest, models, budgets = await app.store.read(work)
    tables = {name: _summed(rest["rows"], name) for name in DIMENSIONS if name != "model"}
    tables["model"] = _summed(models["rows"], "model")
    tables["day"].sort(key=lambda row: str(row["day"]))
    return {
        "filters": filters,
        "total": rest["total"] | {"tokens": sum(rest["total"][column] for column in _TOKENS)},
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


def _every_day(rows: list[Item]) -> list[Item]:
    """Fill in days without usage, unless there are too many to draw."""
    if not rows:
        return rows
    first, last = date.fromisoformat(rows[0]["day"]), date.fromisoformat(rows[-1]["day"])
    known = {row["day"]: row for row in rows}
    if (last - first).days > DAYS_DRAWN:
        return rows
    names = [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
    return [known.get(name, {"day": name, "tokens": 0, "cost_usd": 0.0}) for name in names]


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
