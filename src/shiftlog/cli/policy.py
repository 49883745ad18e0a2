"""The command policy: `policy` (explain verdicts, suggest an allow list), `approvals` (list) and `approve` (decide).

Only the operator can decide, and never from a shell that Shiftlog opened; the daemon enforces that.
"""

import sys
import time
from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import ask, filter_options, filters, json_option, number_option, since_option
from shiftlog.cli.screen.output import Printer, json_text, print_json, since
from shiftlog.model.times import parse
from shiftlog.text.figures import count, largest_unit
from shiftlog.text.printable import terminal_line

Item = dict[str, Any]

RUNS = frozenset({"allowed", "deferred", "not_checked"})
STYLES = {"allowed": "bold green", "deferred": "bold yellow", "not_checked": "bold yellow", "asked": "bold yellow"}
MEANINGS = {
    "allowed": "it would run",
    "deferred": "it would run, and the kernel judges every program that it starts",
    "not_checked": "the text cannot be read and no list is set: it would go to the shell as it is",
    "asked": "a person would be asked first",
    "denied": "it would be refused",
    "undecidable": "it would be refused: the text does not say what would run",
    "syntax_error": "nothing of it would run",
}
PLACE_CHARS, WORD_CHARS, ROLE_CHARS = 7, 24, 13


@click.group(short_help="Explain verdicts, suggest an allow list.")
def policy() -> None:
    """Explain the command policy: [policy] in config.toml and the policy file. No command is run.

    \b
    Examples:
      shiftlog policy check 'curl example.org | sh'
      shiftlog policy suggest --project webshop
    """


@policy.command(short_help="Explain the verdict on a command.")
@click.argument("command")
@click.option(
    "--allow",
    metavar="PROGRAM",
    multiple=True,
    help="Judge as in a shell that permits only these programs. Repeatable.",
)
@click.option(
    "--deny", metavar="PROGRAM", multiple=True, help="Judge as in a shell that denies these programs. Repeatable."
)
@click.option(
    "--transport",
    type=click.Choice(("local", "ssh", "docker")),
    default="local",
    show_default=True,
    help="Where the command would run; over ssh and docker only its text is judged.",
)
@click.option("--cwd", metavar="DIR", help="Working directory of the command (default: this one).")
@json_option
def check(cwd: str | None, as_json: bool, **given: Any) -> int:
    """Explain the policy's verdict on COMMAND, word by word.

    Quote COMMAND as one argument. The operator's policy always applies; --allow and --deny add the lists of a shell.
    The exit status is 0 if the command would run, and 1 if it would be refused or need an approval.

    \b
    Examples:
      shiftlog policy check 'git push --force'
      shiftlog policy check --deny ls 'x=ls; $x /'
      shiftlog policy check --transport ssh --allow git 'git log | head'
    """
    found = ask("policy_check", {**given, "cwd": str(Path(cwd or ".").resolve())})
    if as_json:
        print_json(found)
    else:
        _print_verdict(found)
    return 0 if found["verdict"] in RUNS else 1


def _print_verdict(found: Item) -> None:
    printer = Printer()
    verdict: str = found["verdict"]
    printer.line((verdict.replace("_", " "), STYLES.get(verdict, "bold red")), f": {MEANINGS[verdict]}")
    if found["message"]:
        printer.line("  ", (found["message"], "bold"))
    for violation in found["violations"][1:]:
        printer.line("  ", violation["message"])
    for doubt in found["deferred"]:
        printer.line(f"  {doubt['what']} is left to the kernel: ", terminal_line(doubt["text"]))
    traits = [f"enforcement {found['enforcement']}"]
    if found["read_only"]:
        traits.append("changes nothing, so no checkpoint is taken before it")
    printer.line(("  " + "; ".join(traits), "dim"))
    if found["tokens"]:
        _print_tokens(printer, found["tokens"])


def _print_tokens(printer: Printer, tokens: list[Item]) -> None:
    """Print a line for each word: its position, its role and the reasons."""
    printer.line()
    words = [terminal_line(token["text"]) for token in tokens]
    width = min(WORD_CHARS, max(map(len, words)))
    for token, word in zip(tokens, words, strict=True):
        shown = word if len(word) <= width else word[: width - 1] + "…"
        reasons = "; ".join(token["reasons"])
        style = "red" if "blocked" in reasons else "yellow" if "kernel" in reasons or "approval" in reasons else ""
        printer.item(
            (f"{token['line']}:{token['column']}".ljust(PLACE_CHARS), "dim"),
            (shown.ljust(width + 2), "bold" if token["role"] == "program" else ""),
            (token["role"].ljust(ROLE_CHARS), "dim"),
            (terminal_line(reasons), style),
            hang=PLACE_CHARS + width + 2 + ROLE_CHARS,
        )


@policy.command(short_help="Propose an allow list from history.")
@click.option("--session", metavar="SESSION", help="Only from this session, or `last`.")
@filter_options
@number_option("--least", within=click.IntRange(1), default=1, help="Leave out programs used by fewer commands.")
@number_option(
    "--limit", within=click.IntRange(1, 1_000_000), default=10_000, help="How many of the newest commands to read."
)
@json_option
def suggest(session: str | None, least: int, limit: int, as_json: bool, **given: str | None) -> None:
    """Propose an allow list for [policy] in config.toml that covers the commands which agents ran in shells.

    Review it before use: it permits everything that was run, good or bad. Commands whose text does not show which
    programs they start are counted; under an allow list the kernel judges them, and over ssh and docker they are
    refused.

    \b
    Examples:
      shiftlog policy suggest
      shiftlog policy suggest --project webshop --least 3
    """
    chosen = filters(**given)
    found = ask("policy_suggest", {**chosen, "least_uses": least, "limit": limit}, session=session or None)
    if as_json:
        print_json(found)
        return
    printer = Printer()
    if not found["commands"]:
        printer.line("No command was run in a shell yet.", ("  Try fewer filters." if chosen or session else ""))
        return
    uses: dict[str, int] = found["uses"]
    programs = count(len(found["allow"]), "program")
    printer.line(f"# {programs} in {count(found['commands'], 'command')}, with how many commands used each")
    printer.line("[policy]")
    printer.line("allow = [")
    for name in sorted(found["allow"], key=lambda name: (-uses[name], name)):
        printer.line(f"  {json_text(name)},", (f"  # {uses[name]}", "dim"))
    printer.line("]")
    if found["undecided_total"]:
        printer.line(f"# {count(found['undecided_total'], 'command')} cannot be decided by their text alone, such as:")
        for text in found["undecided"][:3]:
            printer.line(("#   " + terminal_line(text)[:100], "dim"))


@click.command(short_help="List commands and prompts that wait for you.")
@since_option("Asked at this time or later")
@json_option
def approvals(as_json: bool, **given: str | None) -> None:
    """List the commands of agents that wait for your approval, because an `ask` rule of the policy matches them.

    Password prompts of `sudo -A` and ssh in an agent's shell are listed too. The oldest comes first.

    \b
    Example:
      shiftlog approvals
    """
    found = ask("approvals", filters(**given))
    if as_json:
        print_json(found)
        return
    printer = Printer()
    items: list[Item] = found["items"]
    if not items:
        printer.line("Nothing waits for approval.")
        return
    for item in items:
        asks, left_s = item["kind"] == "prompt", parse(item["expires_at"]).timestamp() - time.time()
        by = f"the program {item['program']}" if asks else f"the rule {item['entry']}"
        about = f"  asked {since(item['asked_at'])} ago by {terminal_line(by)} for {item['shell_id']}"
        printer.item((item["approval_id"], "cyan"), (f"{about}, expires in {largest_unit(left_s)}", "dim"))
        # Printed in full at any width: an approval must cover only what was seen.
        printer.block(item["command"], indent=2, style="bold")
        if asks:
            printer.block(item["prompt"], indent=2)
    printer.line(("shiftlog approve ID permits or answers one, shiftlog approve ID --decline refuses it", "dim"))


@click.command(short_help="Approve a waiting command, or answer a prompt.")
@click.argument("approval_id", metavar="ID")
@click.option("--decline", is_flag=True, help="Decline it.")
@json_option
def approve(approval_id: str, decline: bool, as_json: bool) -> None:
    """Approve the waiting command ID, or decline it with --decline; answer it if it is a program's prompt.

    An approval covers one run of exactly this text in this shell, within ten minutes of the request. The journal
    records it. The answer to a prompt is read without echo, or as the first line of standard input; it goes to the
    program that asked and is recorded nowhere. ID may be shortened to its first characters. This command is refused
    inside a shell of Shiftlog.

    \b
    Examples:
      shiftlog approve 3fa91c02
      shiftlog approve 3fa91c02 --decline
    """
    params: Item = {"approval_id": approval_id, "granted": not decline}
    items: list[Item] = [] if decline else ask("approvals")["items"]
    question = next((item for item in items if item["approval_id"].startswith(approval_id)), None)
    if question is not None and question["kind"] == "prompt":
        params["answer"] = read_answer(question)
    decided = ask("approve", params)
    if as_json:
        print_json(decided)
        return
    printer = Printer()
    granted = decided["state"] == "granted"
    if decided["kind"] == "prompt":
        asked = f"{decided['program']}: {decided['prompt']}"
        printer.line((f"{decided['state']}  ", "yellow" if decline else "green"), (terminal_line(asked), "bold"))
        return
    printer.line((f"{decided['state']}  ", "green" if granted else "yellow"), (decided["command"], "bold"))
    holds = f", once, until {decided['expires_at']}" if granted else ""
    printer.line((f"for {decided['shell_id']}{holds}", "dim"))


def read_answer(question: Item) -> str:
    """Read the answer to a program's prompt: without echo at a terminal, else the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    click.echo(f"{terminal_line(question['program'])} asks, for: {terminal_line(question['command'])}", err=True)
    text = terminal_line(question["prompt"]).strip().rstrip(":")
    return str(click.prompt(text, hide_input=True, default="", show_default=False, err=True))
