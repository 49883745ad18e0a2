"""`shiftlog export`: writes a session as HTML, Markdown, JSON lines or a vendor's transcript."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import click

from shiftlog.cli.connecting import ask_stream, session_argument
from shiftlog.model.agents import AGENTS, BY_NAME
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line, terminal_text

STANDARD_OUTPUT = Path("-")
FORMATS = ("html", "md", "jsonl")
DEFAULT = "md"
ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@click.command(short_help="Export a session as HTML, Markdown or JSON lines.")
@session_argument()
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format (default: by the ending of FILE, else md).")
@click.option(
    "--as",
    "vendor",
    type=click.Choice([agent.name for agent in AGENTS.values() if agent.resume]),
    help="Write a transcript that this agent can resume.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE (default: standard output, also -).",
)
def export(session: str, form: str | None, vendor: str | None, output: Path | None) -> None:
    """Write SESSION to standard output or to a file.

    HTML is one self-contained page that needs no server. JSON lines hold the whole journal with its hashes, one entry
    per line, and the receipts. --as writes a transcript of Claude Code or Codex from the journal, so that a session
    can continue after its own file is lost; masked secrets stay masked.

    \b
    Examples:
      shiftlog export last -o session.html
      shiftlog export last --format jsonl
    """
    output = None if output == STANDARD_OUTPUT else output
    if vendor is not None:
        if form is not None:
            raise click.UsageError("--as and --format do not go together")
        _restore(session, vendor, output)
        return
    chosen = form or _format_of(output)
    with ask_stream("export", {"format": chosen}, session=session) as pieces:
        first = next(pieces)  # before the file is touched
        with _opened(output, 0o666) as file:
            # Programs read JSON lines unchanged; a terminal must get no control characters.
            is_plain = chosen == "jsonl" or not file.isatty()
            for piece in chain([first], pieces):
                file.write(piece["text"] if is_plain else terminal_text(piece["text"]))
    if output is not None:
        click.echo(terminal_line(f"Wrote {output}"), err=True)


def _format_of(output: Path | None) -> str:
    """Return the format that the ending of a file names; refuse any other ending instead of writing Markdown."""
    ending = output.suffix.lower() if output else ""
    if not ending:
        return DEFAULT
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise click.UsageError(f"No format is known for files that end in '{ending}'. Use {known}, or say --format.")
    return ENDINGS[ending]


def _restore(session: str, vendor: str, output: Path | None) -> None:
    """Write a vendor's transcript; standard error says where it belongs and what is missing."""
    about: dict[str, Any] = {}
    with ask_stream("restore", {"as": vendor}, session=session) as items, _opened(output, 0o600) as file:
        for item in items:
            if "line" in item:
                file.write(item["line"] + "\n")
            else:
                about = item["about"]
    folder = f"~/{BY_NAME[vendor].default_homes[0]}"
    click.echo(f"{count(about['turns'], 'turn')} written; in {folder}/{about['place']} the client finds it:", err=True)
    click.echo(f"  {about['command']}", err=True)
    if about["masked"]:
        click.echo(f"{count(about['masked'], 'part')} of it stay masked: the journal never held them.", err=True)
    if about["left_out"]:
        says = "reasoning without its signature, notes of the system, results of calls without an id"
        click.echo(f"{count(about['left_out'], 'item')} left out: {says}.", err=True)


@contextmanager
def _opened(output: Path | None, mode: int) -> Generator[IO[str]]:
    if output is None:
        yield sys.stdout
        return
    try:
        number = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode)
    except OSError as error:
        raise StorageError(f"Cannot write {output}: {error.strerror}", hint="Name another file") from None
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            yield file
    except ShiftlogError:  # some are also an OSError, but not of this file
        raise
    except OSError as error:
        raise StorageError(f"Cannot write {output}: {error.strerror}", hint="What is there is not whole") from None
