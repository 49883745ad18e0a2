"""`shiftlog show`: one session read whole, as a person reads it or as one JSON document.

Turns are printed as they arrive, so that a session of any length begins to show at once.
"""

from collections.abc import Iterable
from typing import Any

import click

from shiftlog.cli.asking import asked, json_option, named_session, open_client, session_argument
from shiftlog.cli.screen.output import Part, Screen, json_text, styled, when
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
    ("Files", "files_modified"),
    ("Read", "context_list"),
)

Facts = dict[str, Any]


@click.command(short_help="Read one session.")
@session_argument()
@click.option("--turn", metavar="TURN", help="Only this turn: its number or its request id.")
@click.option("--full", is_flag=True, help="Show long texts whole.")
@click.option(
    "--lines",
    type=click.IntRange(1),
    metavar="N",
    default=12,
    show_default=True,
    help="Lines of a text before it is folded.",
)
@json_option
def show(session: str, turn: str | None, full: bool, lines: int, as_json: bool) -> None:
    """Read a session: its turns with request, answer, dialog, actions and files.

    SESSION is a session's id, the number of its run, the vendor's own session id, or `last` for the one active
    last.

    \b
    Examples:
      shiftlog show last
      shiftlog show last --turn 2 --full
      shiftlog show ClaudeCode-20260131T090000Z-fix-the-login --json
    """
    with open_client() as client:
        name = named_session(client, session)
        with asked(client, "show", {"session_id": name}) as items:
            facts: Facts = next(items)["session"]
            turns = items if turn is None else _only(items, turn, facts["session_id"])
            if as_json:
                _print_document(facts, turns)
                return
            screen = Screen()
            _print_session(screen, facts)
            for item in turns:
                status = status_shown(item["turn"]["status"], facts["state"])
                _print_turn(screen, item["turn"], status, item["contents"], None if full else lines)


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
    """Print one JSON document without ever holding all of it."""
    click.echo(f'{{\n"session": {json_text(facts)},\n"turns": [', nl=False)
    between = "\n"
    for item in turns:
        whole = {**item["turn"], "contents": item["contents"]}
        click.echo(f"{between}{json_text(whole)}", nl=False)
        between = ",\n"
    click.echo("\n]\n}")


def _print_session(screen: Screen, facts: Facts) -> None:
    screen.line((terminal_line(facts["title"]), "bold"))
    screen.line((facts["session_id"], "cyan"))
    agent = facts["agent"]
    if facts["agent_id"] != agent:
        agent = f"{agent} as {facts['agent_id']}"
    reason = f" ({terminal_line(facts['reason'])})" if facts["reason"] else ""
    _facts(screen, styled(facts["state"]), reason, _dotted(agent, facts["model"], facts["workspace"]))
    ended = facts["closed_at"] or facts["last_activity"]
    _facts(screen, _span(facts["started"], ended))
    figures = [count(facts["turns_total"], "turn"), count(facts["entry_count"], "entry")]
    if facts["turns_failed"]:
        figures.insert(1, f"{facts['turns_failed']} failed")
    if facts["tokens_total"]:
        figures.append(count(facts["tokens_total"], "token"))
    if facts["cost_usd"] is not None:
        figures.append(exact_money(facts["cost_usd"]))
    run: Facts = facts["run"] or {}
    _facts(screen, " · ".join(figures))
    if run:
        code = f" (exit {run['returncode']})" if run["returncode"] else ""
        _facts(screen, f"run {run['run_id']} ", styled(run["status"]), code, _dotted(run["caller"], run["error"]))
    for title, name in (("follows", "predecessor_session_id"), ("child of", "parent_session_id")):
        if facts["lineage"][name]:
            _facts(screen, f"{title} {facts['lineage'][name]}")
    if facts["closing_note"]:
        screen.block(facts["closing_note"], style="italic")


def _facts(screen: Screen, *parts: Part) -> None:
    screen.line(*(part if isinstance(part, tuple) else (part, "dim") for part in parts))


def _dotted(*words: str | None) -> str:
    return "".join(f" · {terminal_line(word)}" for word in words if word)


def _span(start: str, end: str | None) -> str:
    """Return from when to when, and how long that is."""
    if end is None:
        return when(start)
    until = when(end) if start[:10] != end[:10] else when(end)[11:]
    return f"{when(start)} – {until} ({largest_unit((parse(end) - parse(start)).total_seconds())})"


def _print_turn(screen: Screen, turn: Facts, status: str, contents: list[Facts], max_lines: int | None) -> None:
    screen.line()
    title = terminal_line(turn["query_title"])
    screen.item((f"Turn {turn['ordinal']}  ", "bold"), styled(status), "  ", (title, "bold"))
    _facts(screen, f"  {turn['request_id']}")
    _facts(screen, f"  {_span(turn['begun_at'], turn['finished_at'])}{_dotted(*turn['tags'])}")
    _section(screen, "Request", turn["query_text"], max_lines)
    _section(screen, "Understood as", turn["interpretation"], max_lines)
    dialog = [item for item in contents if item["kind"] == "dialog"]
    if dialog:
        _heading(screen, "Dialog")
        for item in dialog:
            _print_dialog(screen, item, max_lines)
    actions = [item for item in contents if item["kind"] == "action"]
    if actions:
        _heading(screen, "Actions")
        for item in actions:
            _print_action(screen, item)
    for heading, name in LISTS:
        if turn[name]:
            _heading(screen, heading)
            for text in turn[name]:
                screen.item(f"- {terminal_line(text)}", indent=4)
    if turn["commits"]:
        _heading(screen, "Commits")
        for commit in turn["commits"]:
            message = terminal_line(commit.get("message") or "")
            screen.item((terminal_line(commit["sha"])[:12], "yellow"), f" {message}", indent=4)
    _section(screen, "Response", turn["response"], max_lines)
    if turn["failure_note"]:
        _section(screen, "Failed", turn["failure_note"], max_lines)


def _heading(screen: Screen, title: str) -> None:
    screen.line("  ", (title, "magenta"))


def _section(screen: Screen, title: str, text: str | None, max_lines: int | None) -> None:
    if text:
        _heading(screen, title)
        screen.block(text, indent=4, max_lines=max_lines)


def _print_dialog(screen: Screen, item: Facts, max_lines: int | None) -> None:
    at = when(item["at"])[11:]
    if item.get("erased"):
        screen.line("    ", (f"{at} #{item['seq']} (erased)", "dim"))
        return
    screen.line("    ", (f"{at} #{item['seq']} {item.get('role')} {item.get('category')}", "dim"))
    screen.block(str(item.get("content") or ""), indent=6, max_lines=max_lines)


def _print_action(screen: Screen, item: Facts) -> None:
    if item.get("erased"):
        screen.line("    ", (f"  #{item['seq']} (erased)", "dim"))
        return
    mark = MARKS.get(str(item.get("status")), ("·", ""))
    path = f" {terminal_line(item['file_path'])}" if item.get("file_path") else ""
    described = terminal_line(item.get("description") or "")
    number = (f" #{item['seq']} ", "dim")
    screen.item(mark, number, str(item.get("type")), (path, "cyan"), f"  {described}", indent=4)
