"""The commands below `shiftlog store`: preparing a database, and copying between stores. No daemon is needed."""

import os
from dataclasses import asdict
from pathlib import Path

import click

from shiftlog.cli.connecting import json_option, opened_home
from shiftlog.cli.screen.output import Printer, ProgressBar, print_json
from shiftlog.cli.store.archives import archive, partitions, restore
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line


@click.group(short_help="Prepare a team's PostgreSQL database, copy a record to it, archive old months.")
def store() -> None:
    """Prepare the PostgreSQL database that `store.url` names, copy records to and from it, and archive old months.

    Without that setting everything is kept in the file shiftlog.db, which needs none of this.

    \b
    Examples:
      shiftlog store migrate
      shiftlog store copy ~/.local/state/shiftlog postgresql://me@db.example/shiftlog
      shiftlog store archive --before 2026-01 --dry-run
    """


@store.command(short_help="Bring the schema of the database up to date.")
@click.option("--check", is_flag=True, help="Change nothing; the exit status is 1 if a migration is missing.")
@json_option
def migrate(check: bool, as_json: bool) -> int:
    """Apply the migrations that the database of `store.url` lacks.

    The daemon does this at its start too, unless `store.migrate` is false. Several processes may do it at once: one
    migrates, the others wait. A database that a newer Shiftlog has migrated is refused.

    \b
    Examples:
      shiftlog store migrate
      shiftlog store migrate --check --json
    """
    from shiftlog.app.stores import MAKE_TRIGRAMS, WITHOUT_TRIGRAMS, migrate_store
    from shiftlog.config.loading import load

    home = Path(opened_home())
    report = migrate_store(home, load(home, os.environ), check=check)
    is_behind = check and bool(report.migrations)
    word = "missing" if check else "applied"
    if as_json:
        print_json(
            {
                "database": report.database,
                "schema": report.schema,
                word: list(report.migrations),
                "pg_trgm": report.has_trigrams,
            }
        )
    else:
        printer = Printer()
        for name in report.migrations:
            printer.line(f"{word} {name}")
        state = "lacks migrations" if is_behind else "is up to date"
        printer.line(f"{terminal_line(report.database)} {state} (schema {report.schema})")
        if not (report.has_trigrams or is_behind):
            printer.line(f"{WITHOUT_TRIGRAMS}\n{MAKE_TRIGRAMS}")
    return 1 if is_behind else 0


@store.command(short_help="Copy a whole record to another store.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
def copy(source: str, target: str, as_json: bool) -> int:
    """Copy everything that the store FROM holds to the empty store TO, and check the copy.

    A store is a file, a state directory, or the address of a PostgreSQL database. FROM is not changed; stop its daemons
    first. Every chain of the copy is verified and every row counted. A copy that was interrupted goes on when the same
    command is run again. Settings, keys, checkpoints and outputs are files of the state directory: copy them yourself.

    \b
    Examples:
      shiftlog store copy ~/.local/state/shiftlog postgresql://me@db.example/shiftlog
      shiftlog store copy postgresql://me@db.example/shiftlog backup.db --json
    """
    import asyncio
    from contextlib import ExitStack

    from shiftlog.app.copying import copy_store

    with ExitStack() as stack:
        bars: dict[str, ProgressBar] = {}

        def progress(stage: str, total: int, done: int) -> None:
            if stage not in bars:
                stack.close()  # the bar of the stage before
                bars[stage] = stack.enter_context(ProgressBar(stage))
                bars[stage].expect(total)
            bars[stage].reach(done)

        report = asyncio.run(copy_store(Path(opened_home()), source, target, progress))
    if as_json:
        print_json(asdict(report))
    else:
        kept = f"{count(report.sessions, 'session')}, {count(report.turns, 'turn')}, {count(report.entries, 'entry')}"
        printer = Printer()
        printer.line(("copied", "bold green"), f"  {kept}; every chain verified, every row counted.")
    return 0


for command in (partitions, archive, restore):
    store.add_command(command)
