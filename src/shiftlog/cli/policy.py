"""`shiftlog policy`: what the rules say about a command, and what an allow list could be. Nothing is run or changed."""

from pathlib import Path
from typing import Any

import click

from shiftlog.cli.asking import ask, filter_options, filters, json_option, named_session, open_client
from shiftlog.cli.screen.output import Screen, json_text, print_json
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
    """Look at the rules for commands: the [policy] of config.toml and of the policy file. Nothing is run.

    \b
    Examples:
      shiftlog policy check 'curl example.org | sh'
      shiftlog policy suggest --project webshop
    """


@policy.command(short_help="Explain the verdict on a command.")
@click.argument("command")
@click.option("--allow", metavar="PROGRAM", multiple=True, help="As a shell that permits only these would judge.")
@click.option("--deny", metavar="PROGRAM", multiple=True, help="As a shell that denies these would judge.")
@click.option(
    "--transport",
    type=click.Choice(("local", "ssh", "docker")),
    default="local",
    show_default=True,
    help="Where it would run; over ssh and docker only the text is judged.",
)
@click.option("--cwd", metavar="DIR", help="Where it would run; by default here.")
@json_option
def check(
    command: str, allow: tuple[str, ...], deny: tuple[str, ...], transport: str, cwd: str | None, as_json: bool
) -> int:
    """Say what the policy decides about COMMAND, and why, word by word.

    Quote COMMAND, so that it arrives as one word. The operator's policy always holds; --allow and --deny add the
    lists that a shell could be opened with. Exits with 0 when it would run, and with 1 when it would be refused or
    a person asked first.

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
    screen = Screen()
    verdict: str = found["verdict"]
    screen.line((verdict.replace("_", " "), STYLES.get(verdict, "bold red")), f": {MEANINGS[verdict]}")
    if found["message"]:
        screen.line("  ", (found["message"], "bold"))
    for violation in found["violations"][1:]:
        screen.line("  ", violation["message"])
    for doubt in found["deferred"]:
        screen.line(f"  {doubt['what']} is left to the kernel: ", terminal_line(doubt["text"]))
    traits = [f"enforcement {found['enforcement']}"]
    if found["read_only"]:
        traits.append("changes nothing, so no checkpoint is taken before it")
    screen.line(("  " + "; ".join(traits), "dim"))
    if found["tokens"]:
        screen.line()
        _print_tokens(screen, found["tokens"])


def _print_tokens(screen: Screen, tokens: list[Item]) -> None:
    """Print a line for each word: where it is, what it was taken for, and what follows from it."""
    words = [terminal_line(token["text"]) for token in tokens]
    width = min(WORD_CHARS, max(map(len, words)))
    for token, word in zip(tokens, words, strict=True):
        shown = word if len(word) <= width else word[: width - 1] + "…"
        reasons = "; ".join(token["reasons"])
        style = "red" if "blocked" in reasons else "yellow" if "kernel" in reasons or "approval" in reasons else ""
        screen.item(
            (f"{token['line']}:{token['column']}".ljust(PLACE_CHARS), "dim"),
            (shown.ljust(width + 2), "bold" if token["role"] == "program" else ""),
            (token["role"].ljust(ROLE_CHARS), "dim"),
            (terminal_line(reasons), style),
            hang=PLACE_CHARS + width + 2 + ROLE_CHARS,
        )


@policy.command(short_help="Propose an allow list from history.")
@click.option("--session", metavar="SESSION", help="Only from this session; `last` is the one active last.")
@filter_options
@click.option(
    "--least",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Leave out programs that fewer commands used.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=10_000,
    show_default=True,
    help="How many of the newest commands to look at.",
)
@json_option
def suggest(
    session: str | None,
    agent: str | None,
    agent_id: str | None,
    status: str | None,
    project: str | None,
    from_: str | None,
    to: str | None,
    least: int,
    limit: int,
    as_json: bool,
) -> None:
    """Propose an allow list that covers the commands which agents ran in shells, for [policy] in config.toml.

    Read it before you use it: it permits what was run, good or bad. Commands whose text does not say which programs
    they start are counted; under an allow list the kernel judges those, and over ssh and docker they are refused.

    \b
    Examples:
      shiftlog policy suggest
      shiftlog policy suggest --project webshop --least 3
    """
    chosen = filters(agent=agent, agent_id=agent_id, status=status, project=project, from_=from_, to=to)
    with open_client() as client:
        if session:
            chosen["session_id"] = named_session(client, session)
        found = client.call("policy_suggest", {**chosen, "least_uses": least, "limit": limit})
    if as_json:
        print_json(found)
        return
    screen = Screen()
    if not found["commands"]:
        screen.line("No command was run in a shell yet.", ("" if not chosen else "  Try fewer filters."))
        return
    uses: dict[str, int] = found["uses"]
    programs = count(len(found["allow"]), "program")
    screen.line(f"# {programs} in {count(found['commands'], 'command')}, with how many commands used each")
    screen.line("[policy]")
    screen.line("allow = [")
    for name in sorted(found["allow"], key=lambda name: (-uses[name], name)):
        screen.line(f"  {json_text(name)},", (f"  # {uses[name]}", "dim"))
    screen.line("]")
    if found["undecided_total"]:
        screen.line(f"# {count(found['undecided_total'], 'command')} cannot be decided by their text alone, such as:")
        for text in found["undecided"][:3]:
            screen.line(("#   " + terminal_line(text)[:100], "dim"))
