"""Looking at sessions: `sessions` lists them, `search` finds text in them, `tail` follows what is written.

Reading one session whole is in `show`.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

import click

from shiftlog.cli.asking import (
    ask,
    asked,
    filter_options,
    filters,
    json_option,
    named_session,
    open_client,
    session_argument,
)
from shiftlog.cli.screen.output import Column, Part, Screen, print_json, since, styled, when
from shiftlog.model.errors import InvalidParameter
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.link.client import Client

KINDS = ("session", "turn", "entry", "command", "decision", "file", "run")
SEARCH_CHARS = 1_000_000
MOST_HITS = 200

_MARKED = re.compile("«([^»]*)»")
_COLUMNS = (
    Column("SESSION"),
    Column("STATE"),
    Column("AGENT", spare=2),
    Column("PROJECT", spare=1),
    Column("TURNS", right=True),
    Column("ACTIVE", right=True),
    Column("TITLE", cut=True),
)


@click.command(short_help="List sessions.")
@filter_options
@click.option("--limit", type=click.IntRange(1, 10_000), metavar="N", default=20, show_default=True, help="How many.")
@json_option
def sessions(
    agent: str | None,
    agent_id: str | None,
    status: str | None,
    project: str | None,
    from_: str | None,
    to: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List sessions, the one active last first.

    \b
    Examples:
      shiftlog sessions
      shiftlog sessions --status open --project webshop
      shiftlog sessions --agent ClaudeCode --from 2026-01-01 --json
    """
    chosen = filters(agent=agent, agent_id=agent_id, status=status, project=project, from_=from_, to=to)
    found = ask("sessions", {**chosen, "limit": limit})
    if as_json:
        print_json(found)
        return
    screen = Screen()
    items: list[dict[str, Any]] = found["items"]
    if not items:
        screen.line("No session fits these filters." if chosen else "There is no session yet.")
        return
    screen.table(_COLUMNS, map(_session_row, items))
    for item in items:
        if "successor_deadline" in item:
            by = when(item["successor_deadline"])
            overdue: Part = (", overdue", "red") if item["overdue"] else ""
            screen.line(item["session_id"], (f" must be continued by {by}", "dim"), overdue)
    if found["total"] > len(items):
        screen.line((f"{len(items):,} of {count(found['total'], 'session')}; --limit shows more", "dim"))


def _session_row(item: dict[str, Any]) -> list[Part]:
    return [
        item["session_id"],
        styled(item["state"]),
        item["agent_id"],
        item["project"] or "",
        str(item["turns"]),
        f"{since(item['last_activity'])} ago",
        (item["title"], "bold"),
    ]


@click.command(short_help="Find text in what agents recorded.")
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="What to find; may be given more than once. Sessions, or entries with --session.",
)
@click.option("--session", metavar="SESSION", help="Search in this session only.")
@filter_options
@click.option("--path", metavar="GLOB", help="Touched a file that fits, such as 'src/*.py'.")
@click.option("--tag", metavar="TAG", help="Has this tag, or a turn that has it.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_HITS), metavar="N", default=20, show_default=True, help="How many."
)
@json_option
def search(
    text: tuple[str, ...],
    kinds: tuple[str, ...],
    session: str | None,
    agent: str | None,
    agent_id: str | None,
    status: str | None,
    project: str | None,
    from_: str | None,
    to: str | None,
    path: str | None,
    tag: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find TEXT in everything that agents recorded, the best match first.

    TEXT is words, "phrases" and beginnings (auth*), joined by && and || with ! for not. Quote it, so that the
    shell leaves it alone. Words are looked for within one entry: a request, an answer, a dialog item.

    \b
    Examples:
      shiftlog search flaky login
      shiftlog search '"race condition" && !windows' --kind decision
      shiftlog search 'retry*' --session last
    """
    chosen = filters(
        agent=agent,
        agent_id=agent_id,
        status=status,
        project=project,
        from_=from_,
        to=to,
        path=path,
        tag=tag,
    )
    words = " ".join(text)
    if not words.strip():
        raise InvalidParameter.missing("text")
    wanted = list(kinds) or ["entry" if session else "session"]
    with open_client() as client:
        if session:
            chosen["session_id"] = named_session(client, session)
        question = {**chosen, "text": words, "kinds": wanted, "limit": limit}
        found = client.call("search", {**question, "max_chars": SEARCH_CHARS})
    if as_json:
        print_json(found)
        return
    screen = Screen()
    items: list[dict[str, Any]] = found["items"]
    if not items:
        screen.line("Nothing found.")
        if len(words.split()) > 1:
            screen.line(("Words are looked for within one entry; fewer of them, or || between them, find more.", "dim"))
        return
    for item in items:
        _print_hit(screen, item)
    if found["total"] > len(items):
        bound = "at least " if found.get("total_is_lower_bound") else ""
        way = "--limit shows more" if limit < MOST_HITS else "more words or filters bring the others up"
        screen.line((f"{len(items):,} of {bound}{count(found['total'], 'hit')}; {way}", "dim"))


def _print_hit(screen: Screen, item: dict[str, Any]) -> None:
    """Print where the text was found, then the words around it."""
    place: list[Part] = [(item["session_id"], "cyan"), ("  #" + str(item["seq"]), "dim")]
    match item["kind"]:
        case "session":
            place += ["  ", styled(item["state"]), (f"  {since(item['last_activity'])} ago", "dim")]
            heading = item["title"]
        case "turn":
            place += ["  ", styled(item["status"]), (f"  {item['request_id']}", "dim")]
            heading = item["title"]
        case "file":
            place.append((f"  {item['request_id']}", "dim"))
            heading = item["path"]
        case "run":
            place += ["  ", styled(item["status"])]
            heading = item["summary"]
        case _:
            place.append((f"  {item['entry_kind']}  {when(item['at'])}", "dim"))
            heading = ""
    screen.line(*place)
    if heading:
        screen.line("  ", (terminal_line(heading), "bold"))
    screen.line("  ", *_highlighted(screen, item["snippet"]))


def _highlighted(screen: Screen, snippet: str) -> Iterator[Part]:
    """Yield a snippet with its matches in colour; where there are no colours, its marks stay."""
    if not screen.is_terminal:
        yield snippet
        return
    for n, piece in enumerate(_MARKED.split(snippet)):
        yield (piece, "bold yellow") if n % 2 else piece


@click.command(short_help="Show the newest entries; -f follows live.")
@session_argument(required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with each new entry until Ctrl-C.")
@click.option(
    "-n",
    "--last",
    type=click.IntRange(0, 10_000),
    metavar="N",
    default=10,
    show_default=True,
    help="Entries to begin with.",
)
@json_option
def tail(session: str | None, follow: bool, last: int, as_json: bool) -> None:
    """Show the newest entries of SESSION, or of all sessions.

    SESSION is a session's id, the number of its run, or `last`. With --json each entry is one line.

    \b
    Examples:
      shiftlog tail -f
      shiftlog tail last -n 50
    """
    screen = Screen()
    heading = ""
    with open_client() as client:
        params: dict[str, Any] = {"last": last, "follow": follow}
        if session:
            heading = params["session_id"] = named_session(client, session)
        with _tailed(client, params) as entries:
            for entry in entries:
                if as_json:
                    print_json(entry, indent=None)
                else:
                    if entry["session_id"] != heading:
                        heading = entry["session_id"]
                        screen.line((f"==> {heading} <==", "cyan"))
                    screen.item(*entry_parts(entry))


def _tailed(client: "Client", params: dict[str, Any]) -> AbstractContextManager[Iterator[dict[str, Any]]]:
    if not params["follow"]:
        return asked(client, "tail", params)
    from shiftlog.cli.following import followed

    return closing(followed(client, params))


def entry_parts(entry: dict[str, Any], *, dated: bool = True) -> Iterator[Part]:
    """Yield the parts of the line that shows one entry."""
    at = when(entry["at"])
    yield f"{at if dated else at[11:]} ", "dim"
    yield f"{entry['seq']:>5}  ", "dim"
    yield f"{entry['entry_kind']:<16}  ", "green" if entry["entry_kind"] == "turn.completed" else "cyan"
    if entry.get("category"):
        yield f"{entry.get('role')} {entry['category']}: ", "dim"
    yield terminal_line(entry["summary"])
