"""The commands `put` and `get`: copy a file to or from a shell over ssh or in a container."""

from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import complete_shell, json_option, open_client, streamed
from shiftlog.cli.screen.output import Printer, print_json
from shiftlog.cli.screen.progress import ProgressLine
from shiftlog.text.figures import size
from shiftlog.text.printable import terminal_line

Item = dict[str, Any]


@click.command(short_help="Copy a file to an ssh or container shell.")
@click.argument("shell", shell_complete=complete_shell)
@click.argument("local", metavar="LOCAL", type=click.Path())
@click.argument("remote", metavar="[REMOTE]", default=".")
@json_option
def put(shell: str, local: str, remote: str, as_json: bool) -> None:
    """Copy the file LOCAL to REMOTE on the target of SHELL, a live shell over ssh or in a container.

    SHELL is an id, its first characters, or `last`. REMOTE is a path as the shell sees it from its directory; a
    directory, by default the shell's own, gets the file under its name. The file takes its place when it has arrived
    whole, so Ctrl-C or a lost connection leaves what was there. Policy and journal treat it as a command of the shell.

    \b
    Examples:
      shiftlog put last build/app.tar.gz /srv/app/
      shiftlog put 4c82-2 notes.txt
    """
    _copy("put", {"shell_id": shell, "local": str(Path.cwd() / local), "remote": remote}, as_json)


@click.command(short_help="Copy a file from an ssh or container shell.")
@click.argument("shell", shell_complete=complete_shell)
@click.argument("remote", metavar="REMOTE")
@click.argument("local", metavar="[LOCAL]", default=".", type=click.Path())
@json_option
def get(shell: str, remote: str, local: str, as_json: bool) -> None:
    """Copy the file REMOTE of the target of SHELL, a live shell over ssh or in a container, to LOCAL.

    SHELL is an id, its first characters, or `last`. REMOTE is a path as the shell sees it from its directory. LOCAL
    may be a directory, by default this one; it must lie where the policy lets shells write. The file takes its place
    when it has arrived whole, so Ctrl-C or a lost connection leaves what was there.

    \b
    Examples:
      shiftlog get last /var/log/app.log
      shiftlog get 4c82-2 dump.sql.gz backups/
    """
    _copy("get", {"shell_id": shell, "local": str(Path.cwd() / local), "remote": remote}, as_json)


def _copy(method: str, params: Item, as_json: bool) -> None:
    line = ProgressLine(shown=not as_json)
    result: Item = {}
    try:
        with open_client() as client, streamed(client, method, params) as events:
            for event in events:
                if event.pop("event") == "progress":
                    _draw(line, event["bytes"], event["total"])
                else:
                    result = event
    finally:
        line.clear()
    if as_json:
        print_json(result)
        return
    copied: Item = result["transfer"]
    here, there = terminal_line(copied["local"]), f"{result['target']}:{terminal_line(copied['remote'])}"
    way = f"{here} → {there}" if method == "put" else f"{there} → {here}"
    printer = Printer()
    printer.line(("copied  ", "green"), (way, "bold"))
    seconds = result["duration_ms"] / 1000
    printer.line((f"{size(copied['bytes'])} in {seconds:.1f} s, {copied['sha256']}", "dim"))
    if copied["compared"] == "size":
        printer.line(("The target has no sha256sum, so only the size was compared there.", "yellow"))


def _draw(line: ProgressLine, done: int, total: int) -> None:
    passed = line.passed_s
    if passed is not None:
        share = done / total if total else 1.0
        line.draw(f"{share:4.0%}  {size(done)} of {size(total)}  {size(int(done / passed))}/s")
