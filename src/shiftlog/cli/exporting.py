"""`shiftlog export`: a session as a file, for people (HTML, Markdown) or for programs (JSON lines)."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from shiftlog.cli.asking import asked, named_session, open_client, session_argument
from shiftlog.model.agents import AGENTS, BY_NAME
from shiftlog.model.errors import ShiftlogError, StorageError
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_line, terminal_text

STANDARD_OUTPUT = Path("-")
FORMATS = ("html", "md", "jsonl")
ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@click.command(short_help="Write a session to a file: HTML, Markdown, JSON lines.")
@session_argument()
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="The format; by default what FILE ends with, else md."
)
@click.option(
    "--as",
    "vendor",
    type=click.Choice([agent.name for agent in AGENTS.values() if agent.resume]),
    help="Write a transcript that this client can resume.",
)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE; - is standard output."
)
def export(session: str, form: str | None, vendor: str | None, output: Path | None) -> None:
    """Write SESSION to standard output or to a file.

    HTML is one self-contained page that needs no server. JSON lines hold the whole journal with its hashes, one
    entry a line, and the receipts. With --as, what comes out is a transcript of Claude Code or Codex, written from
    the journal, so that a session whose own file is gone can be continued; what was masked stays masked.

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
    chosen = form or (ENDINGS.get(output.suffix.lower()) if output else None) or "md"
    with open_client() as client:
        name = named_session(client, session)
        with asked(client, "export", {"session_id": name, "format": chosen}) as pieces:
            first = next(pieces)["text"]
            with _opened(output, 0o666) as file:
                _write(file, first, chosen)
                for piece in pieces:
                    _write(file, piece["text"], chosen)
    if output is not None:
        click.echo(terminal_line(f"Wrote {output}"), err=True)


def _restore(session: str, vendor: str, output: Path | None) -> None:
    """Write a vendor's transcript, and say on standard error where it belongs and what it lacks."""
    about: dict[str, Any] = {}
    with open_client() as client:
        name = named_session(client, session)
        with asked(client, "restore", {"session_id": name, "as": vendor}) as items, _opened(output, 0o600) as file:
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
    except ShiftlogError:  # some are an OSError too, and not of this file
        raise
    except OSError as error:
        raise StorageError(f"Cannot write {output}: {error.strerror}", hint="What is there is not whole") from None


def _write(stream: IO[str], text: str, form: str) -> None:
    # JSON lines go to programs as they are; a terminal gets nothing that it would obey.
    stream.write(text if form == "jsonl" or not stream.isatty() else terminal_text(text))
