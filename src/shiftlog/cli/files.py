"""The command `files`: the files that agents changed, and who wrote what in one of them."""

from pathlib import Path
from typing import Any

import click

from shiftlog.cli.connecting import ask, filters, json_option, limit_option, project_option, since_option
from shiftlog.cli.screen.output import Column, Part, Printer, print_json, since
from shiftlog.cli.screen.paging import paged
from shiftlog.cli.screen.patches import print_patch
from shiftlog.model.ids import short_id
from shiftlog.text.figures import count
from shiftlog.text.printable import one_line, terminal_line
from shiftlog.text.titles import shown_title

PATCH_LINES = 40

Item = dict[str, Any]

_COLUMNS = (
    Column("FILE", "path", cut=True),
    Column("CHANGES", "changes", right=True),
    Column("TURNS", "turns", right=True, spare=2),
    Column("LAST CHANGE", lambda file: f"{since(file['at'])} ago" if file["at"] else "", right=True, spare=1),
)


@click.command(short_help="List changed files, or say who changed one.")
@click.argument("path", required=False)
@click.option("--line", metavar="TEXT", help="Only the work that wrote a line with this text in PATH.")
@click.option("--session", metavar="SESSION", help="Only in this session.")
@project_option
@since_option("Changed at this time or later")
@click.option("--full", is_flag=True, help="Print differences whole.")
@limit_option(200, default=30)
@json_option
def files(
    path: str | None,
    line: str | None,
    session: str | None,
    limit: int,
    full: bool,
    as_json: bool,
    **given: str | None,
) -> None:
    """List the files that agents changed, the one changed most often first; or all the work that changed PATH.

    PATH is a file's path, or its name as the session's workspace has it. Changes by an agent's own tools and by
    commands are both listed; those of commands are found by comparing the checkpoints around them.

    \b
    Examples:
      shiftlog files --since 7d
      shiftlog files src/cart.py
      shiftlog files src/cart.py --line "total - discount"
    """
    if line and not path:
        raise click.UsageError("--line needs a PATH.")
    asked = {**filters(**given), "path": path, "cwd": str(Path.cwd()), "line": line, "limit": limit}
    found = ask("files", asked, session=session or None)
    if as_json:
        print_json(found)
        return
    with paged() as printer:
        if path:
            _print_history(printer, found, None if full else PATCH_LINES)
            return
        printer.table(_COLUMNS, found["files"], nothing="No recorded change of a file.")
        if found["total"] > len(found["files"]):
            printer.line((f"{len(found['files']):,} of {count(found['total'], 'file')}; --limit shows more", "dim"))


def _print_history(printer: Printer, found: Item, max_lines: int | None) -> None:
    touches: list[Item] = found["touches"]
    for touch in touches:
        _print_touch(printer, touch, max_lines)
    if not touches:
        printer.line("No recorded change wrote that." if found["line"] else "No recorded change of this file.")
    if found["not_compared"]:
        printer.line((f"{count(found['not_compared'], 'older change')} not compared; --since narrows it", "dim"))
    if found["total"] > len(touches):
        printer.line((f"{len(touches):,} of {count(found['total'], 'change')}; --limit shows more", "dim"))


def _print_touch(printer: Printer, touch: Item, max_lines: int | None) -> None:
    """Print what was asked, then who did it when, then the differences."""
    turn = f"turn {touch['ordinal']}" if touch["ordinal"] else "outside of turns"
    place: list[Part] = [(short_id(touch["session_id"]), "cyan"), f"  {touch['agent_id']}"]
    printer.item((terminal_line(shown_title(touch["asked"] or touch["session_title"]) or "(no title)"), "bold"))
    printer.item(*place, (f"  {turn}  {since(touch['at'])} ago", "dim"), indent=2)
    for said in filter(None, touch["said"]):
        printer.item(terminal_line(one_line(said, 200)), indent=2)
    for one in touch["diffs"]:
        if one["command"]:
            printer.item(("$ ", "dim"), terminal_line(one_line(one["command"], 200)), indent=2)
        print_patch(printer, one["diff"], indent=4, max_lines=max_lines)
