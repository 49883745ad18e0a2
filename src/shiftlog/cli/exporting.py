"""`shiftlog export`: a session as a file, for people (HTML, Markdown) or for programs (JSON lines)."""

import sys
from pathlib import Path
from typing import IO

import click

from shiftlog.cli.asking import asked, named_session, open_client, session_argument
from shiftlog.cli.output import clean

FORMATS = ("html", "md", "jsonl")
ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@click.command(short_help="Write a session to a file: HTML, Markdown, JSON lines.")
@session_argument()
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="The format; by default what FILE ends with, else md."
)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE.")
def export(session: str, form: str | None, output: Path | None) -> None:
    """Write SESSION to standard output or to a file.

    HTML is one self-contained page that needs no server. JSON lines hold the whole journal with its hashes, one
    entry a line, and the receipts.

    \b
    Examples:
      shiftlog export last -o session.html
      shiftlog export last --format jsonl
    """
    chosen = form or (ENDINGS.get(output.suffix.lower()) if output else None) or "md"
    with open_client() as client:
        name = named_session(client, session)
        with asked(client, "export", {"session_id": name, "format": chosen}) as pieces:
            first = next(pieces)["text"]
            if output is None:
                _write(sys.stdout, first, chosen)
                for piece in pieces:
                    _write(sys.stdout, piece["text"], chosen)
                return
            with output.open("w", encoding="utf-8", errors="replace") as file:
                file.write(first)
                for piece in pieces:
                    file.write(piece["text"])
    click.echo(f"Wrote {output}", err=True)


def _write(stream: IO[str], text: str, form: str) -> None:
    # JSON lines go to programs as they are; a terminal gets nothing that it would obey.
    stream.write(text if form == "jsonl" or not stream.isatty() else clean(text))
