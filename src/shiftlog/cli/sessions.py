"""The commands `sessions` (list), `search` (find text) and `tail` (newest entries, live with -f).

`show` reads one session whole.
"""

import re
import select
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from shiftlog.cli.connecting import (
    ask,
    filter_options,
    filters,
    json_option,
    limit_option,
    number_option,
    open_client,
    resolve_session,
    session_argument,
    streamed,
)
from shiftlog.cli.screen.output import (
    Column,
    Part,
    Printer,
    id_column,
    print_json,
    since,
    styled,
    title_column,
    when,
)
from shiftlog.cli.screen.paging import paged
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.ids import short_id
from shiftlog.model.times import shown
from shiftlog.text.figures import count, money, size
from shiftlog.text.found import repeats_title
from shiftlog.text.printable import terminal_line
from shiftlog.text.titles import shown_title

if TYPE_CHECKING:
    from shiftlog.link.client import Client

KINDS = ("session", "turn", "entry", "command", "decision", "file", "run")
SEARCH_CHARS = 1_000_000
MOST_HITS = 200
# While no daemon runs, `tail -f` looks for the next one this often, and then catches up on this many entries.
RETRY_MS = 500
CAUGHT_UP = 10_000

Item = dict[str, Any]

_MARKED = re.compile("«([^»]*)»")


def _model(item: Item) -> str:
    """Return the model of a session; one that followed from the operator's table is marked as assumed."""
    return f"{item['model']} (assumed)" if item.get("model_assumed") else item["model"] or ""


_COLUMNS = (
    title_column(),
    Column("STATE", lambda item: styled(item["state"])),
    Column("AGENT", "agent_id", spare=2),
    Column("PROJECT", "project", spare=1),
    Column("MODEL", _model, cut=True, spare=5),
    Column("TURNS", "turns", right=True, spare=3),
    Column("COST", lambda item: money(item["cost_usd"]) or "", right=True, spare=4),
    Column("ACTIVE", lambda item: f"{since(item['last_activity'])} ago", right=True),
    id_column(),
)

_BYTES = Column("BYTES", lambda item: size(item["bytes"]["total"]), right=True)


@click.command(short_help="List sessions.")
@filter_options
@limit_option(10_000, default=20)
@click.option("--sizes", is_flag=True, help="Also say what each session takes in the store.")
@json_option
def sessions(limit: int, sizes: bool, as_json: bool, **given: str | None) -> None:
    """List sessions; the most recently active one comes first.

    Every command that takes a session accepts the ID of this list, or the first characters of it.

    \b
    Examples:
      shiftlog sessions
      shiftlog sessions --since 7d
      shiftlog sessions --status open --project webshop
      shiftlog sessions --agent ClaudeCode --since 2026-01-01 --json
    """
    chosen = filters(**given)
    found = ask("sessions", {**chosen, "limit": limit, "sizes": sizes})
    if as_json:
        print_json(found)
        return
    items: list[Item] = found["items"]
    nothing = "No session matches these filters." if chosen else "There is no session yet."
    with paged() as printer:
        printer.table((*_COLUMNS[:-1], _BYTES, _COLUMNS[-1]) if sizes else _COLUMNS, items, nothing=nothing)
        for item in items:
            if "legal_hold" in item or "archived" in item:
                mark = "on legal hold" if "legal_hold" in item else "archived"
                printer.line((short_id(item["session_id"]), "cyan"), (f" is {mark}", "dim"))
        for item in items:
            if "successor_deadline" in item:
                by = when(item["successor_deadline"])
                overdue: Part = (", overdue", "red") if item["overdue"] else ""
                printer.line((short_id(item["session_id"]), "cyan"), (f" must be continued by {by}", "dim"), overdue)
        if found["total"] > len(items):
            printer.line((f"{len(items):,} of {count(found['total'], 'session')}; --limit shows more", "dim"))


@click.command(short_help="Search everything that agents recorded.")
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    help="What to find; repeatable. Default: sessions, or entries with --session.",
)
@click.option("--session", metavar="SESSION", help="Search only in this session.")
@filter_options
@click.option("--path", metavar="GLOB", help="Only work that touched a matching file, such as 'src/*.py'.")
@click.option("--tag", metavar="TAG", help="Only sessions or turns with this tag.")
@limit_option(MOST_HITS, default=20)
@json_option
def search(
    text: tuple[str, ...], kinds: tuple[str, ...], session: str | None, limit: int, as_json: bool, **given: str | None
) -> None:
    """Search for TEXT in everything that agents recorded; the best match comes first.

    TEXT consists of words, "phrases" and prefixes (auth*), combined with && (and), || (or) and ! (not). Quote it to
    protect it from the shell. All words must be in one entry: a request, an answer or a dialog item.

    \b
    Examples:
      shiftlog search flaky login
      shiftlog search '"race condition" && !windows' --kind decision
      shiftlog search 'retry*' --session last
    """
    words = " ".join(text)
    if not words.strip():
        raise InvalidParameter.missing("text")
    wanted = list(kinds) or ["entry" if session else "session"]
    question = {**filters(**given), "text": words, "kinds": wanted, "limit": limit, "max_chars": SEARCH_CHARS}
    found = ask("search", question, session=session or None)
    if as_json:
        print_json(found)
        return
    with paged() as printer:
        _print_hits(printer, words, found, limit)


def _print_hits(printer: Printer, words: str, found: Item, limit: int) -> None:
    items: list[Item] = found["items"]
    if not items:
        printer.line("Nothing found.")
        if len(words.split()) > 1:
            printer.line(("All words must be in one entry; fewer words, or || between them, find more.", "dim"))
        return
    for item in items:
        _print_hit(printer, item)
    if found["total"] > len(items):
        bound = "at least " if found.get("total_is_lower_bound") else ""
        way = "--limit shows more" if limit < MOST_HITS else "more words or filters bring the others up"
        printer.line((f"{len(items):,} of {bound}{count(found['total'], 'hit')}; {way}", "dim"))


def _print_hit(printer: Printer, item: Item) -> None:
    """Print what a hit is called, then where it is, then the text around it."""
    place: list[Part] = [(short_id(item["session_id"]), "cyan"), ("  #" + str(item["seq"]), "dim")]
    match item["kind"]:
        case "session":
            place += ["  ", styled(item["state"]), (f"  {since(item['last_activity'])} ago", "dim")]
            heading = shown_title(item["title"], item.get("ran"))
        case "turn":
            place += ["  ", styled(item["status"]), (f"  {item['request_id']}", "dim")]
            heading = shown_title(item["title"])
        case "file":
            place.append((f"  {item['request_id']}", "dim"))
            heading = item["path"]
        case "run":
            place += ["  ", styled(item["status"])]
            heading = item["summary"]
        case _:
            place.append((f"  {item['entry_kind']}  {when(item['at'])}", "dim"))
            heading = ""
    if heading:
        printer.item((terminal_line(heading), "bold"))
        printer.item(*place, indent=2)
    else:
        printer.item(*place)
    if not repeats_title(item):
        printer.item(*_highlighted(printer, item["snippet"]), indent=2, hang=0)


def _highlighted(printer: Printer, snippet: str) -> Iterator[Part]:
    """Yield a snippet with its matches in colour; without colours its marks stay."""
    if not printer.colours:
        yield snippet
        return
    for n, piece in enumerate(_MARKED.split(snippet)):
        yield (piece, "bold yellow") if n % 2 else piece


@click.command(short_help="Show the newest entries; -f follows live.")
@session_argument(required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow: print each new entry until Ctrl-C.")
@number_option("-n", "--last", within=click.IntRange(0, 10_000), default=10, help="How many entries to start with.")
@json_option
def tail(session: str | None, follow: bool, last: int, as_json: bool) -> None:
    """Print the newest entries of SESSION, or of all sessions.

    SESSION is an id or its beginning, a run number, or `last` for the most recently active session. With --json each
    entry is one line.

    \b
    Examples:
      shiftlog tail -f
      shiftlog tail last -n 50
    """
    printer = Printer()
    heading = ""
    with open_client() as client:
        params: Item = {"last": last, "follow": follow}
        if session:
            heading = params["session_id"] = resolve_session(client, session)
        entries: Generator[Item] = _followed(client, params) if follow else client.stream("tail", params)
        with closing(entries):
            for entry in entries:
                if as_json:
                    print_json(entry, indent=None)
                else:
                    if entry["session_id"] != heading:
                        heading = entry["session_id"]
                        title = terminal_line(shown_title(entry["session_title"], entry.get("ran")))
                        printer.line((f"==> {short_id(heading)}  ", "cyan"), (title, "bold"), (" <==", "cyan"))
                    printer.item(*entry_parts(entry))


def _followed(client: "Client", params: Item) -> Generator[Item]:
    """Yield the newest entries and then each new one, also after a restart of the daemon."""
    from shiftlog.link.client import DaemonUnreachable

    begun = shown(datetime.now(UTC))
    newest = since = ""
    seqs: dict[str, int] = {}
    while True:
        try:
            with client, streamed(client, "tail", params, output=sys.stdout.fileno()) as entries:
                for entry in entries:
                    name = entry["session_id"]
                    if since and (entry["seq"] <= seqs.get(name, 0) or entry["at"] < since):
                        continue
                    seqs[name] = entry["seq"]
                    newest = max(newest, entry["at"])
                    yield entry
        except DaemonUnreachable:
            pass  # killed; a daemon that stops by itself ends the stream
        client = _next_client()
        params, since = {**params, "last": CAUGHT_UP}, newest or begun


def _next_client() -> "Client":
    from shiftlog.link.client import DaemonUnreachable

    reader = select.poll()
    reader.register(sys.stdout, 0)
    while True:
        if reader.poll(RETRY_MS):
            raise BrokenPipeError
        try:
            return open_client(start=False)
        except DaemonUnreachable:
            pass


def entry_parts(entry: Item, *, dated: bool = True) -> Iterator[Part]:
    """Yield the parts of the line for one entry."""
    at = when(entry["at"])
    yield f"{at if dated else at[11:]} ", "dim"
    yield f"{entry['seq']:>5}  ", "dim"
    yield f"{entry['entry_kind']:<16}  ", "green" if entry["entry_kind"] == "turn.completed" else "cyan"
    if entry.get("category"):
        yield f"{entry.get('role')} {entry['category']}: ", "dim"
    yield terminal_line(entry["summary"])
