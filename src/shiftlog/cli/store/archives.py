"""The commands of `shiftlog store` for old months: `partitions`, `archive` and `restore`. No daemon is needed."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shiftlog.cli.connecting import json_option, opened_home
from shiftlog.cli.screen.output import Column, Printer, print_json
from shiftlog.text.figures import count, size
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.app.archiving import Archives, Candidates

T = TypeVar("T")

_COLUMNS = (
    Column("MONTH", "name"),
    Column("SESSIONS", "sessions", right=True),
    Column("ENTRIES", "entries", right=True),
    Column("BYTES", lambda item: size(item["bytes"]), right=True),
)


def _run(work: "Callable[[Archives], Awaitable[T]]") -> T:
    """Run work with the store that the settings name."""

    async def opened() -> T:
        from shiftlog.app.app import open_app
        from shiftlog.app.stores import needs_database
        from shiftlog.config.loading import load

        home = Path(opened_home())
        if not load(home, os.environ).store.url:
            raise needs_database(home, "The embedded store is one file and has no months; set store.url")
        async with open_app(home, os.environ) as app:
            from shiftlog.app.archiving import Archives

            return await work(Archives(app))

    return asyncio.run(opened())


@click.command(short_help="List the months of the database with their sizes.")
@json_option
def partitions(as_json: bool) -> None:
    """List the months in which sessions were recorded, and what each takes with its indexes.

    Entries and the words that they are found by lie in a partition for each month. `earlier` has the sessions that were
    recorded before there were months, or copied from another store.

    \b
    Example:
      shiftlog store partitions
    """
    found = [asdict(each) for each in _run(lambda archives: archives.partitions())]
    if as_json:
        print_json({"partitions": found})
    else:
        Printer().table(_COLUMNS, found, nothing="There is no partition.")


@click.command(short_help="Move old sessions from the database to files.")
@click.option("--before", required=True, metavar="MONTH", help="Sessions that were last active before it, as 2026-01.")
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER", help="Where to.")
@click.option("--suspended", is_flag=True, help="Also sessions that are suspended; else only those that ended.")
@click.option("--dry-run", is_flag=True, help="Only say what would be archived.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def archive(before: str, folder: Path | None, suspended: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Write the entries of old sessions to files in FOLDER, check the files, and remove the entries.

    Sessions that are open or on legal hold stay. Lists and totals still have an archived session, and `shiftlog show`
    names its file; its texts are no longer found. A month without any session left is detached and dropped.

    \b
    Examples:
      shiftlog store archive --before 2026-01 --dry-run
      shiftlog store archive --before 2026-01 --to /backup/shiftlog --yes
    """
    from shiftlog.app.archiving import first_of

    if not dry_run and folder is None:
        raise click.UsageError("Name the folder of the archive with --to, or add --dry-run.")
    first = first_of(before)

    async def work(archives: "Archives") -> dict[str, Any]:
        found = await archives.candidates(first, suspended=suspended)
        if dry_run or not found.months or not _confirmed(found, yes=yes):
            return _planned(found)
        assert folder is not None
        return asdict(await archives.archive(found, folder))

    report = _run(work)
    if as_json:
        print_json(report)
    else:
        _print(report)
    return 0


def _planned(found: "Candidates") -> dict[str, Any]:
    months = {
        month: {"sessions": len(some), "entries": sum(session.head_seq for session in some)}
        for month, some in sorted(found.months.items())
    }
    return {"months": months, "held": found.held}


def _confirmed(found: "Candidates", *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to confirm the removal. Add --yes.")
    sessions = sum(map(len, found.months.values()))
    question = f"Move {count(sessions, 'session')} with {count(found.entries, 'entry')} out of the database?"
    return click.confirm(question, err=True)


def _print(report: dict[str, Any]) -> None:
    printer = Printer()
    for month, facts in report.get("months", {}).items():
        told = f"{count(facts['sessions'], 'session')}, {count(facts['entries'], 'entry')}"
        printer.line(("would archive ", "bold"), f"{month}: {told}")
    for file in report.get("files", ()):
        printer.line(("wrote ", "bold"), terminal_line(file))
    if "sessions" in report:
        moved = f"{count(report['sessions'], 'session')}, {count(report['entries'], 'entry')}"
        printer.line(("archived ", "bold green"), moved)
    for month in report.get("dropped", ()):
        printer.line(("dropped ", "bold"), f"month {month}")
    for word, sessions in (("changed meanwhile", report.get("kept")), ("on legal hold", report["held"])):
        if sessions:
            printer.line(("stays ", "bold"), f"{count(len(sessions), 'session')} {word}")
    if not report.get("months") and not report.get("files"):
        printer.line("Nothing ended before that month.")


@click.command(short_help="Check an archive, or put its sessions back.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--check", is_flag=True, help="Only verify the file: every line and every chain.")
@json_option
def restore(file: Path, check: bool, as_json: bool) -> int:
    """Put the sessions of the archive FILE back, after every line and chain of it was verified.

    Sessions whose entries are in the database already are left alone. The file stays.

    \b
    Examples:
      shiftlog store restore --check /backup/shiftlog/shiftlog-2025-12-20260301T090000Z-1.jsonl.zst
      shiftlog store restore /backup/shiftlog/shiftlog-2025-12-20260301T090000Z-1.jsonl.zst
    """
    printer = Printer()
    if check:
        from shiftlog.app.archive_file import summary

        found = summary(file)
        if as_json:
            print_json(asdict(found))
        else:
            told = f"{count(found.sessions, 'session')}, {count(found.entries, 'entry')}, {size(found.bytes)}"
            printer.line(("intact ", "bold green"), told)
        return 0
    back, here = _run(lambda archives: archives.restore(file))
    if as_json:
        print_json({"restored": back, "present": here})
    else:
        printer.line(("restored ", "bold green"), count(len(back), "session"))
        if here:
            printer.line(f"{count(len(here), 'session')} of it were here already")
    return 0
