"""The commands `run`, the first minute with Shiftlog and then a live view, and `open`, which opens the page.

`run` starts the daemon, shows how to connect an agent, offers the demo session, then shows new entries until Ctrl-C.
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
from shiftlog.cli.connecting import ask, json_option, open_client, streamed
from shiftlog.cli.screen.output import Part, Printer, json_text, print_json
from shiftlog.text.figures import count

if TYPE_CHECKING:
    from rich.text import Text

    from shiftlog.link.client import Client

PACE_S = 0.4
REFRESH_S = 1.0
RECENT = 8
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")

Facts = dict[str, Any]


@click.command(short_help="Start Shiftlog, connect an agent, watch it work.")
@click.option("--demo/--no-demo", default=None, help="Record the demo session or not (default: ask on the first run).")
def run(demo: bool | None) -> None:
    """Start Shiftlog, show how to connect an agent, and watch sessions live.

    The first run offers to record a short demo session as an example. Ctrl-C leaves the view; the daemon keeps
    running.

    \b
    Example:
      shiftlog run
    """
    printer = Printer()
    with open_client() as client:
        facts: Facts = client.call("daemon.status")
        _print_welcome(printer, facts)
        if _wants_demo(printer, facts, demo):
            _print_demo(printer, client)
        if printer.is_terminal and sys.stdin.isatty():
            _open_page(printer, client)
            _watch(printer, client)
        else:
            from shiftlog.cli.daemon import print_status

            printer.line()
            print_status(printer, client.call("daemon.status"))


def _print_welcome(printer: Printer, facts: Facts) -> None:
    from shiftlog.cli.setup.agents import AGENT_FILES, executable, server_entry
    from shiftlog.cli.setup.plan import HOOKED

    printer.line((f"Shiftlog {__version__}", "bold"), " runs", (f" (daemon pid {facts['pid']})", "dim"))
    printer.line("State directory: ", (facts["home"], "cyan"))
    printer.line()
    printer.line("Connect your agent (--remove takes it back):")
    program = _program()
    width = max(len(name) for name in AGENT_FILES)
    for name, agent_file in AGENT_FILES.items():
        gives = "hooks and tools" if name in HOOKED else "tools"
        printer.line("  ", (f"{program} setup {name:{width}} --write", "green"), f"  {agent_file.title}: {gives}")
    printer.line((f"Without --write it shows what it would write. {program} doctor says what works.", "dim"))
    home = os.environ.get("SHIFTLOG_HOME")
    for agent_file in AGENT_FILES.values():
        command = agent_file.command_line(server_entry(agent_file, executable(), None, None, home))
        if command:
            printer.line()
            printer.line(f"Or give {agent_file.title} the tools alone, without hooks:")
            printer.line((command, "green"))


def _program() -> str:
    """Return the command that starts this program from the working directory."""
    from shiftlog.cli.setup.agents import executable

    path = executable()
    found = shutil.which("shiftlog")
    if found and Path(found).samefile(path):
        return "shiftlog"
    near = os.path.relpath(path)
    return near if not near.startswith("..") else str(path)


def _wants_demo(printer: Printer, facts: Facts, demo: bool | None) -> bool:
    if demo is not None or facts.get("sessions", 1):
        return bool(demo)
    printer.line()
    if printer.is_terminal and sys.stdin.isatty():
        return click.confirm("Record a short demo session as an example?", default=True)
    printer.line("There is no session yet, so a demo session is recorded (--no-demo leaves it out).")
    return True


def _print_demo(printer: Printer, client: "Client") -> None:
    from shiftlog.cli.demo import record

    printer.line()
    answer: Facts = {}
    for says, answer in record(client):
        receipt: Facts = answer.get("receipt") or {}
        masked = receipt.get("redactions")
        shown = f"  {count(masked, 'secret')} masked" if masked else ""
        printer.line(("✓ ", "green"), says, (shown, "yellow"))
        if printer.is_terminal:
            time.sleep(PACE_S)  # so that the story can be followed
    printer.line()
    printer.block("The receipt proves later that nothing was changed or removed. Keep a copy elsewhere:")
    for line in json_text(answer["data"]["receipt"]).splitlines():
        printer.line((line, "dim"))
    printer.line()
    printer.line("Look at it:")
    program = _program()
    for command, says in (
        ("open last", "see it in the browser"),
        ("show last", "read it"),
        ("search idempotency", "find it again"),
        ("verify last", "check that it is as it was written"),
    ):
        printer.line("  ", (f"{program} {command:<20}", "green"), (says, "dim"))


def _open_page(printer: Printer, client: "Client") -> None:
    """Open the page in the browser, or print its link; a failure ends nothing."""
    from shiftlog.model.errors import ShiftlogError

    printer.line()
    try:
        url = str(client.call("page.open")["url"])
    except ShiftlogError as error:
        printer.line(("The page cannot be served: ", "yellow"), error.message)
        return
    if _browse(url):
        printer.line("The page is open in your browser.", (f"  {_program()} open does it again", "dim"))
    else:
        printer.line("See it in the browser: ", (url, "green"))
        printer.line((f"The link works once, within a minute; {_program()} open makes another.", "dim"))


def _watch(printer: Printer, client: "Client") -> None:
    """Redraw the view every second until Ctrl-C or the end of the daemon."""
    from rich.live import Live

    from shiftlog.link.client import DaemonUnreachable

    printer.line()
    last_words = f"The daemon goes on; {_program()} daemon stop ends it."
    try:
        with Live(console=printer.console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(_view(printer, client), refresh=True)
                time.sleep(REFRESH_S)
    except DaemonUnreachable:
        last_words = "The daemon was stopped."
    except KeyboardInterrupt:
        pass
    printer.line()
    printer.line(last_words)


def _view(printer: Printer, client: "Client") -> "Text":
    from rich.text import Text

    from shiftlog.cli.daemon import OPEN_COLUMNS, status_lines
    from shiftlog.cli.screen.output import rows_of, text_of
    from shiftlog.cli.screen.tables import laid_out
    from shiftlog.cli.sessions import entry_parts

    facts: Facts = client.call("daemon.status")
    lines: list[Sequence[Part]] = [[("Live, until Ctrl-C", "bold")]]
    lines += [[(f"{name:<10}", "dim"), *parts] for name, parts in status_lines(facts)]
    if facts.get("open"):
        lines += [[], *laid_out(OPEN_COLUMNS, rows_of(OPEN_COLUMNS, facts["open"]), printer.console.width)]
    with streamed(client, "tail", {"last": RECENT}) as entries:
        recent = [list(entry_parts(entry, dated=False)) for entry in entries]
    if recent:
        lines += [[], [("Newest entries", "dim")], *recent]
    rows = [text_of(line) for line in lines[: max(3, printer.console.height - 1)]]
    for row in rows:
        row.truncate(printer.console.width, overflow="ellipsis")
    return Text("\n").join(rows)


@click.command("open", short_help="Open the page in the browser.")
@click.argument("session", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the link instead of starting a browser.")
@json_option
def open_(session: str | None, only_print: bool, as_json: bool) -> None:
    """Open the page in the browser: all sessions, or the story of SESSION.

    The page is served on this machine only. The link works once, within a minute, and gives the browser a cookie for
    a day; run the command again for another browser.

    \b
    Examples:
      shiftlog open
      shiftlog open last
      shiftlog open --print
    """
    url = str(ask("page.open", session=session or None)["url"])
    if as_json:
        print_json({"url": url, "expires_in_s": 60})
        return
    printer = Printer()
    if not only_print and _browse(url):
        printer.line("The page is open in your browser.", (" shiftlog open --print gives a link instead.", "dim"))
        return
    printer.line((url, "green"))
    click.echo("The link works once, within a minute.", err=True)  # so that a script reads the address alone


def _browse(url: str) -> bool:
    """Start the user's browser; return True if there was one and it can be shown here."""
    if sys.platform != "darwin" and not any(os.environ.get(name) for name in SCREENS):
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
