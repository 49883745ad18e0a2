"""`shiftlog policy`: explain the verdict on a command, and suggest an allow list. Nothing is run or changed."""

from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import ask, filter_options, filters, json_option, open_client, resolve_session
from shiftlog.cli.screen.output import Printer, json_text, print_json
from shiftlog.text.figures import count
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
def check(
    command: str, allow: tuple[str, ...], deny: tuple[str, ...], transport: str, cwd: str | None, as_json: bool
) -> int:
    """Explain the policy's verdict on COMMAND, word by word.

    Quote COMMAND as one argument. The operator's policy always applies; --allow and --deny add the lists of a shell.
    The exit status is 0 if the command would run, and 1 if it would be refused or need an approval.

    \b
    Examples:
      shiftlog policy check 'git push --force'
      shiftlog policy check --deny ls 'x=ls; $x /'
      shiftlog policy check --transport ssh --allow git 'git log | head'
    """
    params: Item = {
        "command": command,
        "allow": list(allow),
        "deny": list(deny),
        "transport": transport,
        "cwd": str(Path(cwd or ".").resolve()),
    }
    found = ask("policy_check", params)
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
        printer.line()
        _print_tokens(printer, found["tokens"])


def _print_tokens(printer: Printer, tokens: list[Item]) -> None:
    """Print a line for each word: its position, its role and the reasons."""
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
@click.option(
    "--least",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Leave out programs used by fewer commands.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=10_000,
    show_default=True,
    help="How many of the newest commands to read.",
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
    with open_client() as client:
        if session:
            chosen["session_id"] = resolve_session(client, session)
        found = client.call("policy_suggest", {**chosen, "least_uses": least, "limit": limit})
    if as_json:
        print_json(found)
        return
    printer = Printer()
    if not found["commands"]:
        printer.line("No command was run in a shell yet.", ("" if not chosen else "  Try fewer filters."))
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
