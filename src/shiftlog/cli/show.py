"""`shiftlog show`: prints one session, as text or as one JSON document.

Turns are printed as they arrive, so that a session of any length starts to print at once.
"""

from collections.abc import Iterable
from typing import Any

import click

from shiftlog.cli.connecting import ask_stream, json_option, number_option, session_argument
from shiftlog.cli.screen.output import Part, Printer, json_text, styled, when
from shiftlog.model.errors import TurnNotFound
from shiftlog.model.moves import status_shown
from shiftlog.model.times import parse
from shiftlog.text.figures import count, exact_money, largest_unit
from shiftlog.text.printable import terminal_line

MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "in_progress": ("…", "yellow")}
LISTS = (
    ("Decisions", "design_decisions"),
    ("Requirements", "requirements_discovered"),
    ("Blockers", "blockers"),
    ("Next", "next"),
    ("Do not", "do_not"),
    ("Refuted", "refuted"),
    ("Files", "files_modified"),
    ("Read", "context_list"),
)

Facts = dict[str, Any]


@click.command(short_help="Print one session.")
@session_argument()
@click.option("--turn", metavar="TURN", help="Only this turn: its number or its request id.")
@click.option("--full", is_flag=True, help="Print long texts in full.")
@number_option("--lines", within=click.IntRange(1), default=12, help="Print at most this many lines of a text.")
@json_option
def show(session: str, turn: str | None, full: bool, lines: int, as_json: bool) -> None:
    """Print a session: its turns with request, answer, dialog, actions and files.

    SESSION is a session id, a run number, the vendor's own session id, or `last` for the most recently active
    session.

    \b
    Examples:
      shiftlog show last
      shiftlog show last --turn 2 --full
      shiftlog show ClaudeCode-20260131T090000Z-fix-the-login --json
    """
    with ask_stream("show", {}, session=session) as items:
        facts: Facts = next(items)["session"]
        turns = items if turn is None else _only(items, turn, facts["session_id"])
        if as_json:
            _print_document(facts, turns)
            return
        printer = Printer()
        _print_session(printer, facts)
        for item in turns:
            status = status_shown(item["turn"]["status"], facts["state"])
            _print_turn(printer, item["turn"], status, item["contents"], None if full else lines)


def _only(items: Iterable[Facts], wanted: str, session_id: str) -> list[Facts]:
    for item in items:
        if wanted in (item["turn"]["request_id"], str(item["turn"]["ordinal"])):
            return [item]
    raise TurnNotFound(
        f"Turn not found: {wanted}",
        details={"session_id": session_id, "request_id": wanted},
        hint="shiftlog show without --turn lists the session's turns",
    )


def _print_document(facts: Facts, turns: Iterable[Facts]) -> None:
    """Print one JSON document turn by turn, without holding all of it in memory."""
    click.echo(f'{{\n"session": {json_text(facts)},\n"turns": [', nl=False)
    between = "\n"
    for item in turns:
        whole = {**item["turn"], "contents": item["contents"]}
        click.echo(f"{between}{json_text(whole)}", nl=False)
        between = ",\n"
    click.echo("\n]\n}")


def _print_session(printer: Printer, facts: Facts) -> None:
    printer.line((terminal_line(facts["title"]), "bold"))
    printer.line((facts["session_id"], "cyan"))
    agent = facts["agent"]
    if facts["agent_id"] != agent:
        agent = f"{agent} as {facts['agent_id']}"
    reason = f" ({terminal_line(facts['reason'])})" if facts["reason"] else ""
    _facts(printer, styled(facts["state"]), reason, _dotted(agent, facts["model"], facts["workspace"]))
    ended = facts["closed_at"] or facts["last_activity"]
    _facts(printer, _span(facts["started"], ended))
    figures = [count(facts["turns_total"], "turn"), count(facts["entry_count"], "entry")]
    if facts["turns_failed"]:
        figures.insert(1, f"{facts['turns_failed']} failed")
    if facts["tokens_total"]:
        figures.append(count(facts["tokens_total"], "token"))
    if facts["cost_usd"] is not None:
        figures.append(exact_money(facts["cost_usd"]))
    _facts(printer, " · ".join(figures))
    if run := facts["run"]:
        code = f" (exit {run['returncode']})" if run["returncode"] else ""
        _facts(printer, f"run {run['run_id']} ", styled(run["status"]), code, _dotted(run["caller"], run["error"]))
    for title, name in (
        ("follows", "predecessor_session_id"),
        ("child of", "parent_session_id"),
        ("forked from", "forked_from"),
    ):
        if facts["lineage"].get(name):
            _facts(printer, f"{title} {facts['lineage'][name]}")
    if facts["closing_note"]:
        printer.block(facts["closing_note"], style="italic")


def _facts(printer: Printer, *parts: Part) -> None:
    printer.line(*(part if isinstance(part, tuple) else (part, "dim") for part in parts))


def _dotted(*words: str | None) -> str:
    return "".join(f" · {terminal_line(word)}" for word in words if word)


def _span(start: str, end: str | None) -> str:
    """Return start, end and duration."""
    if end is None:
        return when(start)
    until = when(end) if start[:10] != end[:10] else when(end)[11:]
    return f"{when(start)} – {until} ({largest_unit((parse(end) - parse(start)).total_seconds())})"


def _print_turn(printer: Printer, turn: Facts, status: str, contents: list[Facts], max_lines: int | None) -> None:
    printer.line()
    title = terminal_line(turn["query_title"])
    printer.item((f"Turn {turn['ordinal']}  ", "bold"), styled(status), "  ", (title, "bold"))
    _facts(printer, f"  {turn['request_id']}")
    _facts(printer, f"  {_span(turn['begun_at'], turn['finished_at'])}{_dotted(*turn['tags'])}")
    _section(printer, "Request", turn["query_text"], max_lines)
    _section(printer, "Understood as", turn["interpretation"], max_lines)
    for kind, heading in (("dialog", "Dialog"), ("action", "Actions")):
        if items := [item for item in contents if item["kind"] == kind]:
            _heading(printer, heading)
            for item in items:
                _print_content(printer, item, max_lines)
    for heading, name in LISTS:
        if turn[name]:
            _heading(printer, heading)
            for text in turn[name]:
                seen = name == "files_modified" and text in turn["files_seen"]
                printer.item(f"- {terminal_line(text)}", ("  seen" if seen else "", "dim"), indent=4)
    if turn["commits"]:
        _heading(printer, "Commits")
        for commit in turn["commits"]:
            message = terminal_line(commit.get("message") or "")
            printer.item((terminal_line(commit["sha"])[:12], "yellow"), f" {message}", indent=4)
    _section(printer, "Response", turn["response"], max_lines)
    _section(printer, "Failed", turn["failure_note"], max_lines)


def _heading(printer: Printer, title: str) -> None:
    printer.line("  ", (title, "magenta"))


def _section(printer: Printer, title: str, text: str | None, max_lines: int | None) -> None:
    if text:
        _heading(printer, title)
        printer.block(text, indent=4, max_lines=max_lines)


def _print_content(printer: Printer, item: Facts, max_lines: int | None) -> None:
    """Print an item of the dialog or an action."""
    at = when(item["at"])[11:] if item["kind"] == "dialog" else " "
    if item.get("erased"):
        printer.line("    ", (f"{at} #{item['seq']} (erased)", "dim"))
        return
    if item["kind"] == "dialog":
        printer.line("    ", (f"{at} #{item['seq']} {item.get('role')} {item.get('category')}", "dim"))
        printer.block(str(item.get("content") or ""), indent=6, max_lines=max_lines)
        return
    mark = MARKS.get(str(item.get("status")), ("·", ""))
    path = f" {terminal_line(item['file_path'])}" if item.get("file_path") else ""
    described = terminal_line(item.get("description") or "")
    number = (f" #{item['seq']} ", "dim")
    printer.item(mark, number, str(item.get("type")), (path, "cyan"), f"  {described}", indent=4)
