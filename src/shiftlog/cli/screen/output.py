"""Printing for commands: lines, tables, JSON and a progress bar.

Stored text is untrusted, so none of it reaches the terminal as a control sequence or as markup. A pipe gets the same
lines without colours and uncut. `paging` sends long output through a pager.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from threading import Timer
from typing import TYPE_CHECKING, Any, Self

import click

from shiftlog.model.ids import short_id
from shiftlog.text.figures import count, largest_unit
from shiftlog.text.printable import OBEYED, terminal_text
from shiftlog.text.titles import shown_title

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.text import Text

Part = str | tuple[str, str]
CellOf = Callable[[dict[str, Any]], Part]

PROGRESS_AFTER_S = 1.0
CUT_TO = 16
TITLE_CUT_TO = 28
STATE_STYLES = {
    "open": "green",
    "in_progress": "yellow",
    "interrupted": "yellow",
    "completed": "green",
    "failed": "red",
    "suspended": "yellow",
    "awaiting_successor": "yellow",
    "running": "yellow",
    "cancelled": "yellow",
    "orphaned": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
}


def json_text(document: object, *, indent: int | None = 2) -> str:
    """Return a document as JSON with escapes for all control and direction characters."""
    # JSON text has no raw control characters below a space but line ends.
    return OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], json.dumps(document, ensure_ascii=False, indent=indent))


def print_json(document: object, *, indent: int | None = 2) -> None:
    """Print a document as JSON."""
    click.echo(json_text(document, indent=indent))


def chosen_colour() -> bool | None:
    """Return True or False if the user asked for colours or for none with --color, else None."""
    context = click.get_current_context(silent=True)
    return context.color if context is not None else None


def wants_colours(is_terminal: bool) -> bool:
    """Return True if output is coloured: as --color says, else on a terminal unless NO_COLOR is set."""
    chosen = chosen_colour()
    if chosen is not None:
        return chosen
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Printer:
    """Standard output: as wide as the terminal, or uncut in a pipe; with colours where they are wanted."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.colours = wants_colours(self.is_terminal)

    @cached_property
    def console(self) -> "Console":
        """Return the console of a terminal; it interprets no markup."""
        from rich.console import Console

        class PipedConsole(Console):
            """A console that raises BrokenPipeError when its reader has gone, as plain writes do."""

            def on_broken_pipe(self) -> None:
                raise BrokenPipeError

        return PipedConsole(
            force_terminal=self.colours,
            no_color=not self.colours,
            color_system="standard" if chosen_colour() else "auto",
            markup=False,
            emoji=False,
            highlight=False,
        )

    def line(self, *parts: Part) -> None:
        """Print the parts of one line; a part is a text, or a text with a style."""
        if self.colours:
            self.console.print(text_of(parts), soft_wrap=True)
        else:
            click.echo("".join(_plain(part) for part in parts).rstrip())

    def item(self, *parts: Part, indent: int = 0, hang: int = 2) -> None:
        """Print the parts of one item; on a terminal, further lines are indented by `hang`."""
        if not self.is_terminal:
            self.line(" " * indent, *parts)
            return
        text, width = text_of(parts), max(20, self.console.width - indent)
        first = next(iter(text.wrap(self.console, width)), text)
        rest = text[len(first.plain) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
        self._print(indent, first)
        for line in rest.wrap(self.console, max(20, width - hang)) if rest else ():
            self._print(indent + hang, line)

    def _print(self, indent: int, text: "Text") -> None:
        if self.colours:
            self.console.print(" " * indent, text, sep="", soft_wrap=True)
        else:
            click.echo(" " * indent + text.plain.rstrip())

    def block(self, text: str, *, indent: int = 0, style: str = "", max_lines: int | None = None) -> None:
        """Print a text of many lines, wrapped on a terminal; a last line says how much `max_lines` left out."""
        lines, left = self._lines(terminal_text(text).strip("\n"), indent, max_lines)
        for line in lines:
            self.line(" " * indent, (line.rstrip(), style))
        if left:
            self.line(" " * indent, (f"… {count(left, 'more character')}; --full shows all", "dim"))

    def _lines(self, text: str, indent: int, max_lines: int | None) -> tuple[list[str], int]:
        """Return the lines to print and the number of characters left out."""
        shown: list[str] = []
        used = 0
        for raw in text.split("\n"):
            for line in self._wrapped(raw, indent):
                if max_lines is not None and len(shown) == max_lines:
                    return shown, len(text) - used
                shown.append(line)
                used += len(line)
            used += 1
        return shown, 0

    def _wrapped(self, line: str, indent: int) -> Sequence[str]:
        if not self.is_terminal or not line:
            return [line]
        from rich.text import Text

        width = max(20, self.console.width - indent)
        return [piece.plain for piece in Text(line).wrap(self.console, width)]

    def table(self, columns: Sequence["Column"], items: Sequence[Any], *, nothing: str = "") -> None:
        """Print a table of items, or that there is `nothing`.

        On a narrow terminal, columns are cut, left out or put on a second line.
        """
        if not items:
            self.line(nothing)
            return
        from shiftlog.cli.screen.tables import laid_out

        width = self.console.width if self.is_terminal else None
        for parts in laid_out(columns, rows_of(columns, items), width):
            self.line(*parts)


class Column:
    """A column of a table; if room is short, columns with the highest `spare` are left out first.

    `cell` is the field of an item that the column shows, or a function that returns the cell of an item. A column that
    may be `cut` keeps the `least` width as long as another one can be left out.
    """

    __slots__ = ("cell", "cut", "least", "right", "spare", "title")

    def __init__(
        self,
        title: str,
        cell: str | CellOf = "",
        *,
        cut: bool = False,
        least: int = CUT_TO,
        right: bool = False,
        spare: int = 0,
    ) -> None:
        self.title = title
        self.cell = cell
        self.cut = cut
        self.least = least
        self.right = right
        self.spare = spare


def rows_of(columns: Sequence[Column], items: Iterable[Any]) -> list[list[Part]]:
    """Return the cells of each item; a field without a value makes an empty cell."""
    return [
        [
            column.cell(item) if callable(column.cell) else "" if item[column.cell] is None else str(item[column.cell])
            for column in columns
        ]
        for item in items
    ]


def _plain(part: Part) -> str:
    return terminal_text(part if isinstance(part, str) else part[0])


def text_of(parts: Iterable[Part]) -> "Text":
    """Return parts as one safe text of rich."""
    from rich.text import Text

    text = Text()
    for part in parts:
        text.append(_plain(part), style=None if isinstance(part, str) else part[1] or None)
    return text


def title_column(heading: str = "TITLE") -> Column:
    """Return the column that every list of sessions begins with."""
    return Column(
        heading, lambda item: (shown_title(item["title"], item.get("ran")), "bold"), cut=True, least=TITLE_CUT_TO
    )


def id_column() -> Column:
    """Return the column with the short id of a session, by which every command knows it."""
    return Column("ID", lambda item: (short_id(item["session_id"]), "cyan"))


def styled(state: str) -> Part:
    """Return a state's name in its colour."""
    return state, STATE_STYLES.get(state, "")


class ProgressBar:
    """A progress bar on standard error for work that takes over a second; only on a terminal."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._total: int | None = None
        self._done = 0
        self._bar: RichProgress | None = None
        self._timer = Timer(PROGRESS_AFTER_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()  # a bar that is just starting must exist before it is stopped
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """Set the number of steps."""
        self._total = total
        self._draw()

    def step(self) -> None:
        """Count one more step."""
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        """Set how many steps are done."""
        self._done = done
        self._draw()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn(self._label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        bar.add_task(self._label, total=self._total, completed=self._done)
        bar.start()
        self._bar = bar

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=self._total, completed=self._done)


def since(time_text: str | None) -> str:
    """Return the time passed since a timestamp of an answer."""
    if not time_text:
        return ""
    from datetime import datetime

    return largest_unit(time.time() - datetime.fromisoformat(time_text).timestamp())


def when(time_text: str | None) -> str:
    """Return a timestamp of an answer in readable form, in UTC."""
    return "" if not time_text else time_text.replace("T", " ")
