"""`shiftlog show`: prints one session, as text or as one JSON document. `screen.story` prints the steps of a turn.

Turns are printed as they arrive, so that a session of any length starts to print at once.
"""

from collections.abc import Iterable
from typing import Any

import click

from shiftlog.cli.connecting import ask_stream, json_option, number_option, session_argument
from shiftlog.cli.screen.output import Part, Printer, json_text, styled, when
from shiftlog.cli.screen.paging import paged
from shiftlog.cli.screen.story import StoryPrinter
from shiftlog.model.ids import short_id
from shiftlog.model.times import parse
from shiftlog.text.figures import count, exact_money, largest_unit, size
from shiftlog.text.printable import terminal_line
from shiftlog.text.titles import shown_title

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
@click.option("--turn", metavar="TURN", help="Only this turn: its number, the beginning of its request id, or `last`.")
@click.option("--full", is_flag=True, help="Print long texts in full, results of tools, and bookkeeping.")
@click.option("--sizes", is_flag=True, help="Also print what the session takes in the store.")
@number_option("--lines", within=click.IntRange(1), default=12, help="Print at most this many lines of a text.")
@json_option
def show(session: str, turn: str | None, full: bool, sizes: bool, lines: int, as_json: bool) -> None:
    """Print a session as it happened: requests, commands with the last lines of output, changes, answers.

    A command or call that was refused, failed or timed out says so, with its exit code and duration. SESSION is an id,
    as `shiftlog sessions` lists it or in full, or the beginning of one; a run number; the vendor's own session id; or
    `last` for the most recently active session.

    \b
    Examples:
      shiftlog show last
      shiftlog show 019f55
      shiftlog show last --turn 2 --full
      shiftlog show ClaudeCode-20260131T090000Z-fix-the-login --json
    """
    with ask_stream("show" if as_json else "story", {"turn": turn, "sizes": sizes}, session=session) as items:
        facts: Facts = next(items)["session"]
        if as_json:
            _print_document(facts, items)
            return
        max_lines = None if full else lines
        with paged() as printer:
            _print_session(printer, facts)
            story = StoryPrinter(printer, max_lines)
            for block in items:
                _print_block(printer, story, block, max_lines)


def _print_block(printer: Printer, story: StoryPrinter, block: Facts, max_lines: int | None) -> None:
    """Print a turn, or what happened between turns."""
    if block["kind"] == "turn":
        printer.line()
        _print_turn(printer, story, block, max_lines)
        return
    steps = [step for step in block["steps"] if story.prints(step)]
    if steps:
        printer.line()
    for step in steps:
        story.step(step)


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
    printer.item((terminal_line(shown_title(facts["title"], facts.get("ran"))), "bold"))
    printer.item((facts["session_id"], "cyan"), (f"  {short_id(facts['session_id'])}", "cyan dim"))
    agent = facts["agent"]
    if facts["agent_id"] != agent:
        agent = f"{agent} as {facts['agent_id']}"
    reason = f" ({terminal_line(facts['reason'])})" if facts["reason"] else ""
    _facts(printer, styled(facts["state"]), reason, _dotted(agent, _model(facts), facts["workspace"]))
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
    _print_kept(printer, facts)
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


def _print_kept(printer: Printer, facts: Facts) -> None:
    """Print what the session takes, a legal hold on it, and where its entries are if they were archived."""
    if taken := facts.get("bytes"):
        parts = ", ".join(f"{name} {size(taken[name])}" for name in ("entries", "texts", "projections"))
        _facts(printer, f"{size(taken['total'])} in the store ({parts})")
    if hold := facts.get("legal_hold"):
        told = f"on legal hold since {when(hold['since'])} by {hold['by']}: {hold['reason']}"
        printer.item((terminal_line(told), "yellow"))
    if archived := facts.get("archived"):
        printer.item((terminal_line(f"archived {when(archived['at'])} in {archived['file']}"), "yellow"))


def _model(facts: Facts) -> str | None:
    return f"{facts['model']} (assumed)" if facts.get("model_assumed") else facts["model"]


def _facts(printer: Printer, *parts: Part) -> None:
    printer.item(*(part if isinstance(part, tuple) else (part, "dim") for part in parts))


def _dotted(*words: str | None) -> str:
    return "".join(f" · {terminal_line(word)}" for word in words if word)


def _span(start: str, end: str | None) -> str:
    """Return start, end and duration."""
    if end is None:
        return when(start)
    until = when(end) if start[:10] != end[:10] else when(end)[11:]
    return f"{when(start)} – {until} ({largest_unit((parse(end) - parse(start)).total_seconds())})"


def _print_turn(printer: Printer, story: StoryPrinter, block: Facts, max_lines: int | None) -> None:
    turn: Facts = block["turn"]
    steps: list[Facts] = block["steps"] or []
    title = terminal_line(shown_title(turn["query_title"]))
    gone = f"  taken back by {block['taken_back']}" if block["taken_back"] else ""
    gone += "  left by a rewind" if block["abandoned"] else ""
    printer.item(
        (f"Turn {turn['ordinal']}  ", "bold"), styled(block["status"]), (gone, "yellow"), "  ", (title, "bold")
    )
    _facts(printer, f"  {turn['request_id']}")
    _facts(printer, f"  {_span(turn['begun_at'], turn['finished_at'])}{_dotted(*_figures(block), *turn['tags'])}")
    if turn["query_text"].strip() != turn["query_title"].strip():
        _section(printer, "Request", turn["query_text"], max_lines)
    told = {turn["response"].strip(), *(str(step.get("content") or "").strip() for step in steps)}
    if turn["interpretation"].strip() not in told:
        _section(printer, "Understood as", turn["interpretation"], max_lines)
    shown = [step for step in steps if story.prints(step) and not _is_in_head(step, turn)]
    if shown:
        _heading(printer, "Steps")
    for step in shown:
        story.step(step)
    _print_lists(printer, turn, " ".join(str(step["content"]) for step in steps if step["type"] == "decision"))
    _section(printer, "Response", turn["response"], max_lines)
    _section(printer, "Failed", turn["failure_note"], max_lines)


def _figures(block: Facts) -> list[str]:
    tokens, cost = block["tokens"], block["cost_usd"]
    return [*([count(tokens, "token")] if tokens else []), *([exact_money(cost)] if cost is not None else [])]


def _is_in_head(step: Facts, turn: Facts) -> bool:
    """Return True if a step repeats the request or the response, which the turn shows anyway."""
    said = str(step.get("content") or "").strip()
    return step["type"] == "say" and bool(said) and said in (turn["query_text"].strip(), turn["response"].strip())


def _print_lists(printer: Printer, turn: Facts, decided: str) -> None:
    """Print the lists of a turn; decisions that a step tells are not repeated."""
    for heading, name in LISTS:
        texts = [text for text in turn[name] if name != "design_decisions" or text not in decided]
        if texts:
            _heading(printer, heading)
        for text in texts:
            seen = name == "files_modified" and text in turn["files_seen"]
            printer.item(f"- {terminal_line(text)}", ("  found by checkpoints" if seen else "", "dim"), indent=4)
    if turn["commits"]:
        _heading(printer, "Commits")
    for commit in turn["commits"]:
        message = terminal_line(commit.get("message") or "")
        printer.item((terminal_line(commit["sha"])[:12], "yellow"), f" {message}", indent=4)


def _heading(printer: Printer, title: str) -> None:
    printer.line("  ", (title, "magenta"))


def _section(printer: Printer, title: str, text: str | None, max_lines: int | None) -> None:
    if text:
        _heading(printer, title)
        printer.block(text, indent=4, max_lines=max_lines)
