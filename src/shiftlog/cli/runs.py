"""The commands `runs` (list with tokens and cost) and `usage` (totals).

A missing cost is shown as unknown, never as zero.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from shiftlog.cli.connecting import (
    agent_id_option,
    agent_option,
    ask,
    filters,
    json_option,
    limit_option,
    options,
    project_option,
    since_option,
    until_option,
)
from shiftlog.cli.screen.output import Column, Part, Printer, print_json, since, styled, title_column
from shiftlog.cli.screen.paging import paged
from shiftlog.model.moves import RunStatus
from shiftlog.text.figures import count, exact_money, stopwatch
from shiftlog.text.printable import terminal_line

DIMENSIONS = ("day", "model", "agent", "caller", "project")
STATUSES = tuple(map(str, RunStatus))

Item = dict[str, Any]


def shown_model(run: Item) -> str:
    """Return the model of a run; one that followed from the operator's table is marked as assumed."""
    return f"{run['model']} (assumed)" if run["model"] and "model" in run["resolved"] else run["model"] or ""


_RUN_COLUMNS = (
    title_column(),
    Column("STATUS", lambda run: styled(run["status"])),
    Column("BACKEND", "backend", spare=2),
    Column("MODEL", shown_model, cut=True),
    Column("CALLER", "caller", spare=3),
    Column("STARTED", lambda run: f"{since(run['started'])} ago", right=True, spare=1),
    Column("TIME", lambda run: stopwatch(run["duration_ms"]), right=True),
    Column("INPUT", lambda run: _tokens(run, "input_tokens"), right=True, spare=4),
    Column("CACHED", lambda run: _tokens(run, "cached_input_tokens"), right=True, spare=5),
    Column("OUTPUT", lambda run: _tokens(run, "output_tokens"), right=True, spare=4),
    Column("COST", lambda run: _cost(_used(run).get("cost_usd")), right=True),
    Column("RUN", lambda run: (str(run["run_id"]), "cyan"), right=True),
)
_TO_CACHE = "cache_creation_tokens"
# The columns of a total: title, figure, and which are left out first.
_USAGE_FIGURES = (
    ("SESSIONS", "sessions", 0),
    ("RUNNING", "running", 2),
    ("OK", "ok", 2),
    ("FAILED", "failed", 2),
    ("CANCELLED", "cancelled", 4),
    ("ORPHANED", "orphaned", 3),
    ("INPUT", "input_tokens", 1),
    ("TO CACHE", _TO_CACHE, 6),
    ("CACHED", "cached_input_tokens", 5),
    ("OUTPUT", "output_tokens", 1),
    ("COST", "cost_usd", 0),
)
_CSV_FIGURES = (
    "sessions",
    *STATUSES,
    "input_tokens",
    "cached_input_tokens",
    "cache_creation_tokens",
    "output_tokens",
    "cost_usd",
    "cost_unknown",
)

_run_filters = options(
    agent_option,
    agent_id_option,
    click.option("--caller", metavar="NAME", help="The client that launched the run."),
    click.option("--backend", metavar="NAME", help="The program that ran, such as codex."),
    click.option("--model", metavar="NAME", help="Full name of the model."),
    click.option("--status", "run_status", type=click.Choice(STATUSES), help="Only runs in this state."),
    project_option,
    click.option("--day", metavar="DATE", help="On this day in UTC (2026-01-31, or today)."),
    since_option("Started (tokens: used) at this time or later"),
    until_option("Up to this time."),
)


@click.command(short_help="List runs with tokens and cost.")
@_run_filters
@limit_option(10_000, default=20)
@json_option
def runs(limit: int, as_json: bool, **given: str | None) -> None:
    """List runs with caller, model, duration, tokens and cost; the one that started last comes first.

    A run number can be used in place of its session id everywhere. A run whose process ended without a report is
    `orphaned`.

    \b
    Examples:
      shiftlog runs
      shiftlog runs --status failed --since 7d
      shiftlog runs --backend codex --json
    """
    chosen = filters(**given)
    found = ask("runs", {**chosen, "limit": limit})
    if as_json:
        print_json(found)
        return
    items: list[Item] = found["items"]
    nothing = "No run matches these filters." if chosen else "There is no run yet."
    with paged() as printer:
        printer.table(_RUN_COLUMNS, items, nothing=nothing)
        if found["total"] > len(items):
            printer.line((f"{len(items):,} of {count(found['total'], 'run')}; --limit shows more", "dim"))


@click.command(short_help="Add up tokens and cost.")
@click.option(
    "--by",
    type=click.Choice(DIMENSIONS),
    multiple=True,
    help="Group by; repeatable (default: day).",
)
@_run_filters
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets.")
def usage(by: tuple[str, ...], as_json: bool, as_csv: bool, **given: str | None) -> None:
    """Add up tokens and cost by day, model, agent, caller or project, with a total.

    Tokens are counted once. A cost that was not reported is computed from the prices in the configuration; for a
    model without a price, and while a run is going, it is unknown. Tokens count on the day (UTC) of their use;
    sessions, and figures that were reported for a whole run, count on the day of their start.

    \b
    Examples:
      shiftlog usage
      shiftlog usage --by model --since 30d
      shiftlog usage --by day --by agent --csv
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.", click.get_current_context())
    chosen = filters(**given)
    dimensions = list(dict.fromkeys(by)) or ["day"]
    found = ask("usage", {**chosen, "by": dimensions})
    if as_json:
        print_json(found)
    elif as_csv:
        _print_csv(dimensions, found)
    else:
        with paged() as printer:
            _print_usage(
                printer, dimensions, found, "No run matches these filters." if chosen else "There is no run yet."
            )


def _print_usage(printer: Printer, dimensions: Sequence[str], found: Item, nothing: str) -> None:
    rows: list[Item] = found["rows"]
    if not rows:
        printer.line(nothing)
        _print_limits(printer, found["budgets"])
        return
    # Most agents do not report tokens written to a cache.
    figures = [figure for figure in _USAGE_FIGURES if figure[1] != _TO_CACHE or found["total"][_TO_CACHE]]
    columns = [Column(name.upper(), _styled(name), cut=name != dimensions[0]) for name in dimensions]
    columns += [Column(title, _styled(name), right=True, spare=spare) for title, name, spare in figures]
    total = {**found["total"], **dict.fromkeys(dimensions, " "), dimensions[0]: "total", "style": "bold"}
    printer.table(columns, [*rows, total])
    if found["total"]["cost_unknown"]:
        unknown = count(found["total"]["cost_unknown"], "session")
        printer.line((f"The cost of {unknown} is not known, or not to its end.", "dim"))
    _print_limits(printer, found["budgets"])


def _print_limits(printer: Printer, states: Sequence[Item]) -> None:
    for state in states:
        style = {"exceeded": "red", "near": "yellow"}.get(state["level"], "dim")
        printer.line((f"Budget: {state['message']}.", style))


def _styled(name: str) -> Callable[[Item], Part]:
    """Return a function for the cell of a dimension or a figure; the total is bold."""

    def cell(row: Item) -> Part:
        value = _cost(row[name]) if name == "cost_usd" else row[name]
        return f"{value:,}" if isinstance(value, int) else value or "(none)", row.get("style", "")

    return cell


def _print_csv(dimensions: Sequence[str], found: Item) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*dimensions, *_CSV_FIGURES])
    for row in found["rows"]:
        writer.writerow([*(_cell(row[name]) for name in dimensions), *(row[name] for name in _CSV_FIGURES)])
    labels = ["total", *[""] * (len(dimensions) - 1)]
    writer.writerow([*labels, *(found["total"][name] for name in _CSV_FIGURES)])


def _cell(value: str | None) -> str:
    """Return a name that a spreadsheet does not read as a formula."""
    text = terminal_line(value or "")
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _used(run: Item) -> Item:
    return run["usage"] or {}


def _tokens(run: Item, name: str) -> str:
    """Return the number of used tokens of a class, empty if only the cost is known."""
    used = _used(run)
    is_known = any(count for key, count in used.items() if key.endswith("_tokens"))
    return f"{used[name]:,}" if is_known else ""


def _cost(amount: float | None) -> str:
    return "unknown" if amount is None else exact_money(amount)
