"""The commands `runs` (list with tokens and cost) and `usage` (totals).

A missing cost is shown as unknown, never as zero.
"""

import csv
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from shiftlog.cli.connecting import agent_option, ask, filters, json_option, limit_option
from shiftlog.cli.screen.output import Column, Part, Printer, print_json, styled, when
from shiftlog.model.moves import RunStatus
from shiftlog.text.figures import count, exact_money, stopwatch
from shiftlog.text.printable import terminal_line

DIMENSIONS = ("day", "model", "agent", "caller", "project")
STATUSES = tuple(map(str, RunStatus))
UNKNOWN = "unknown"

F = TypeVar("F", bound=Callable[..., Any])
Item = dict[str, Any]

_RUN_COLUMNS = (
    Column("RUN", right=True),
    Column("STATUS"),
    Column("BACKEND", spare=2),
    Column("MODEL", cut=True),
    Column("CALLER", spare=3),
    Column("STARTED", spare=1),
    Column("TIME", right=True),
    Column("INPUT", right=True, spare=4),
    Column("CACHED", right=True, spare=5),
    Column("OUTPUT", right=True, spare=4),
    Column("COST", right=True),
    Column("SESSION", spare=6),
)
_USAGE_COLUMNS = (
    Column("SESSIONS", right=True),
    Column("RUNNING", right=True, spare=2),
    Column("OK", right=True, spare=2),
    Column("FAILED", right=True, spare=2),
    Column("CANCELLED", right=True, spare=4),
    Column("ORPHANED", right=True, spare=3),
    Column("INPUT", right=True, spare=1),
    Column("TO CACHE", right=True, spare=6),
    Column("CACHED", right=True, spare=5),
    Column("OUTPUT", right=True, spare=1),
    Column("COST", right=True),
)
_TO_CACHE = "cache_creation_tokens"
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


def _run_filters(command: F) -> F:
    """Add the filters for runs."""
    options = (
        agent_option(),
        click.option("--agent-id", metavar="NAME", help="Stable name of the agent (its agent_id)."),
        click.option("--caller", metavar="NAME", help="The client that launched the run."),
        click.option("--backend", metavar="NAME", help="The program that ran, such as codex."),
        click.option("--model", metavar="NAME", help="Full name of the model."),
        click.option("--status", "run_status", type=click.Choice(STATUSES), help="Only runs in this state."),
        click.option("--project", metavar="NAME", help="Name or path of the workspace."),
        click.option("--day", metavar="DATE", help="On this day in UTC (2026-01-31, or today)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


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
      shiftlog runs --status failed --day today
      shiftlog runs --backend codex --json
    """
    chosen = filters(**given)
    found = ask("runs", {**chosen, "limit": limit})
    if as_json:
        print_json(found)
        return
    printer = Printer()
    items: list[Item] = found["items"]
    if not items:
        printer.line("No run matches these filters." if chosen else "There is no run yet.")
        return
    printer.table(_RUN_COLUMNS, map(_run_row, items))
    if found["total"] > len(items):
        printer.line((f"{len(items):,} of {count(found['total'], 'run')}; --limit shows more", "dim"))


def _run_row(item: Item) -> list[Part]:
    used: Item = item["usage"] or {}
    return [
        str(item["run_id"]),
        styled(item["status"]),
        item["backend"] or "",
        (item["model"] or "", "bold"),
        item["caller"] or "",
        when(item["started"]),
        stopwatch(item["duration_ms"]),
        *(_tokens(used, name) for name in ("input_tokens", "cached_input_tokens", "output_tokens")),
        _cost(used.get("cost_usd")),
        item["session_id"],
    ]


@click.command(short_help="Add up tokens and cost.")
@click.option(
    "--by",
    type=click.Choice(DIMENSIONS),
    multiple=True,
    help="Group by; repeatable (default: day).",
)
@_run_filters
@click.option("--from", "from_", metavar="DATE", help="From this date on (2026-01-31).")
@click.option("--to", metavar="DATE", help="Up to this date.")
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
      shiftlog usage --by model --from 2026-01-01
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
        _print_usage(dimensions, found, "No run matches these filters." if chosen else "There is no run yet.")


def _print_usage(dimensions: Sequence[str], found: Item, nothing: str) -> None:
    printer = Printer()
    rows: list[Item] = found["rows"]
    if not rows:
        printer.line(nothing)
        _print_limits(printer, found["budgets"])
        return
    # Most agents do not report tokens written to a cache.
    left_out = () if found["total"][_TO_CACHE] else (_TO_CACHE,)
    figures = [column for column in _USAGE_COLUMNS if not left_out or column.title != "TO CACHE"]
    columns = (*(Column(name.upper(), cut=name != dimensions[0]) for name in dimensions), *figures)
    lines = [[*(row[name] or "(none)" for name in dimensions), *_figures(row, left_out)] for row in rows]
    labels = ["total", *[""] * (len(dimensions) - 1)]
    total = _figures(found["total"], left_out)
    lines.append([(label, "bold") for label in labels] + [(figure, "bold") for figure in total])
    printer.table(columns, lines)
    if found["total"]["cost_unknown"]:
        unknown = count(found["total"]["cost_unknown"], "session")
        printer.line((f"The cost of {unknown} is not known, or not to its end.", "dim"))
    _print_limits(printer, found["budgets"])


def _print_limits(printer: Printer, states: Sequence[Item]) -> None:
    for state in states:
        style = {"exceeded": "red", "near": "yellow"}.get(state["level"], "dim")
        printer.line((f"Budget: {state['message']}.", style))


def _figures(row: Item, left_out: Sequence[str]) -> list[str]:
    statuses = ("sessions", "running", "ok", "failed", "cancelled", "orphaned")
    tokens = ("input_tokens", _TO_CACHE, "cached_input_tokens", "output_tokens")
    return [*(f"{row[name]:,}" for name in (*statuses, *tokens) if name not in left_out), _cost(row["cost_usd"])]


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


def _tokens(used: Item, name: str) -> str:
    """Return the number of used tokens of a class, empty if only the cost is known."""
    is_known = any(count for key, count in used.items() if key.endswith("_tokens"))
    return f"{used[name]:,}" if is_known else ""


def _cost(amount: float | None) -> str:
    return UNKNOWN if amount is None else exact_money(amount)
