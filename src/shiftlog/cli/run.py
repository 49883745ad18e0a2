"""`shiftlog run`: the first minute with Shiftlog, and a live view afterwards.

Starts the daemon, says how to connect an agent, offers the demo session, then shows what happens until Ctrl-C.
"""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftlog import __version__
from shiftlog.cli.asking import asked, open_client
from shiftlog.cli.screen.output import Part, Screen, json_text

if TYPE_CHECKING:
    from rich.text import Text

    from shiftlog.link.client import Client

PACE_S = 0.4
REFRESH_S = 1.0
RECENT = 8

Facts = dict[str, Any]


@click.command(short_help="Start, connect an agent, watch what happens.")
@click.option(
    "--demo/--no-demo", default=None, help="Record the demo session, or do not; otherwise the first run offers it."
)
def run(demo: bool | None) -> None:
    """Start Shiftlog, show how to connect an agent, and watch what happens.

    The first run offers to record a short demo session, so that there is something to look at. Ctrl-C leaves the
    view; the daemon goes on.

    \b
    Example:
      shiftlog run
    """
    screen = Screen()
    with open_client() as client:
        facts: Facts = client.call("daemon.status")
        _print_welcome(screen, facts)
        if _wants_demo(screen, facts, demo):
            _print_demo(screen, client)
        if screen.is_terminal and sys.stdin.isatty():
            _open_page(screen, client)
            _watch(screen, client)
        else:
            from shiftlog.cli.service import print_status

            screen.line()
            print_status(screen, client.call("daemon.status"))


def _print_welcome(screen: Screen, facts: Facts) -> None:
    from shiftlog.cli.setup.agents import AGENT_FILES, connecting_command
    from shiftlog.cli.setup.plan import HOOKED

    screen.line((f"Shiftlog {__version__}", "bold"), " runs", (f" (daemon pid {facts['pid']})", "dim"))
    screen.line("State directory: ", (facts["home"], "cyan"))
    home = os.environ.get("SHIFTLOG_HOME")
    for agent in HOOKED:
        screen.line()
        screen.line(f"Connect {AGENT_FILES[agent].title}; paste this into a terminal:")
        screen.line((connecting_command(agent, home) or "", "green"))
    screen.line()
    screen.line(("Cursor, Gemini CLI, VS Code: ", "dim"), (f"{_program()} setup --help", "dim"))


def _program() -> str:
    """Return what has to be typed to start this program from here."""
    from shiftlog.cli.setup.agents import executable

    path = executable()
    found = shutil.which("shiftlog")
    if found and Path(found).samefile(path):
        return "shiftlog"
    near = os.path.relpath(path)
    return near if not near.startswith("..") else str(path)


def _wants_demo(screen: Screen, facts: Facts, demo: bool | None) -> bool:
    if demo is not None:
        return demo
    if facts["sessions"]:
        return False
    if screen.is_terminal and sys.stdin.isatty():
        screen.line()
        return click.confirm("Record a short demo session, so that there is something to look at?", default=True)
    screen.line()
    screen.line("There is no session yet, so a demo session is recorded (--no-demo leaves it out).")
    return True


def _print_demo(screen: Screen, client: "Client") -> None:
    from shiftlog.cli.demo import record

    screen.line()
    answer: Facts = {}
    for recorded in record(client):
        answer = recorded.answer
        masked = "  1 secret masked" if recorded.masked == 1 else f"  {recorded.masked} secrets masked"
        screen.line(("✓ ", "green"), recorded.step.says, (masked if recorded.masked else "", "yellow"))
        if screen.is_terminal:
            time.sleep(PACE_S)  # so that the story can be followed
    screen.line()
    screen.block("The receipt proves later that nothing was changed or removed. Keep a copy elsewhere:")
    for line in json_text(answer["data"]["receipt"]).splitlines():
        screen.line((line, "dim"))
    screen.line()
    screen.line("Look at it:")
    program = _program()
    for command, says in (
        ("open last", "see it in the browser"),
        ("show last", "read it"),
        ("search idempotency", "find it again"),
        ("verify last", "check that it is as it was written"),
    ):
        screen.line("  ", (f"{program} {command:<20}", "green"), (says, "dim"))


def _open_page(screen: Screen, client: "Client") -> None:
    """Show the page in the browser, or say how; a page that cannot be served is no reason to end."""
    from shiftlog.cli.opening import browse, can_browse
    from shiftlog.model.errors import ShiftlogError

    screen.line()
    try:
        url = str(client.call("page.open")["url"])
    except ShiftlogError as error:
        screen.line(("The page cannot be served: ", "yellow"), error.message)
        return
    if can_browse() and browse(url):
        screen.line("The page is open in your browser.", (f"  {_program()} open does it again", "dim"))
    else:
        screen.line("See it in the browser: ", (url, "green"))
        screen.line((f"The link works once, within a minute; {_program()} open makes another.", "dim"))


def _watch(screen: Screen, client: "Client") -> None:
    """Redraw the view every second until Ctrl-C, or until somebody stops the daemon."""
    from rich.live import Live

    from shiftlog.link.client import DaemonUnreachable

    screen.line()
    last_words = f"The daemon goes on; {_program()} daemon stop ends it."
    try:
        with Live(console=screen.console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(_view(screen, client), refresh=True)
                time.sleep(REFRESH_S)
    except DaemonUnreachable:
        last_words = "The daemon was stopped."
    except KeyboardInterrupt:
        pass
    screen.line()
    screen.line(last_words)


def _view(screen: Screen, client: "Client") -> "Text":
    from rich.text import Text

    from shiftlog.cli.screen.output import text_of
    from shiftlog.cli.screen.tables import laid_out
    from shiftlog.cli.service import OPEN_COLUMNS, open_row, status_lines
    from shiftlog.cli.sessions import entry_parts

    facts: Facts = client.call("daemon.status")
    lines: list[Sequence[Part]] = [[("Live, until Ctrl-C", "bold")]]
    lines += [[(f"{name:<10}", "dim"), *parts] for name, parts in status_lines(facts)]
    if facts["open"]:
        table = laid_out(OPEN_COLUMNS, map(open_row, facts["open"]), screen.console.width)
        lines += [[], *table]
    with asked(client, "tail", {"last": RECENT}) as entries:
        recent = [list(entry_parts(entry, dated=False)) for entry in entries]
    if recent:
        lines += [[], [("Newest entries", "dim")], *recent]
    rows = [text_of(line) for line in lines[: max(3, screen.console.height - 1)]]
    for row in rows:
        row.truncate(screen.console.width, overflow="ellipsis")
    return Text("\n").join(rows)
