"""Laying out a table: which columns fit, where cells are cut, and when a row takes two lines."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, chop_cells

from shiftlog.cli.screen.output import CUT_TO, Column, Part
from shiftlog.text.printable import terminal_line, whole_words

GAP = 2
SQUEEZED_TO = 8


def laid_out(columns: Sequence[Column], rows: Iterable[Sequence[Part]], width: int | None) -> Iterator[Sequence[Part]]:
    """Yield the lines of a table, header first; without a width nothing is cut.

    A column that may not be cut can be copied. If the first column leaves no room for the others, they go to a second
    line of each row.
    """
    header: list[Part] = [(column.title, "dim") for column in columns]
    lines = [header, *([(terminal_line(_word(part)), _style(part)) for part in row] for row in rows)]
    widths = [max(cell_len(_word(line[n])) for line in lines) for n in range(len(columns))]
    fitted = _fitted(columns, widths, width)
    if fitted is not None:
        yield from (_line(columns, line, fitted) for line in lines)
        return
    assert width is not None
    rest = _fitted(columns[1:], widths[1:], width - GAP) or _squeezed(columns[1:], widths[1:], width - GAP)
    first = {0: min(widths[0], width) if columns[0].cut else widths[0]}
    for line in lines:
        yield _line(columns, line, first)
        yield [" " * GAP, *_line(columns[1:], line[1:], rest)]


def _fitted(columns: Sequence[Column], widths: Sequence[int], room: int | None) -> dict[int, int] | None:
    """Return the widths of the shown columns by number, None if they do not fit."""
    shown = dict(enumerate(widths))
    while room is not None and (over := sum(shown.values()) + GAP * (len(shown) - 1) - room) > 0:
        spare = max(shown, key=lambda n: columns[n].spare)
        is_last = not columns[spare].spare
        least = [min(column.least, CUT_TO) if is_last else column.least for column in columns]
        if _slack(columns, shown, least) >= over:
            _cut(columns, shown, over, least)
            break
        if is_last:
            return None
        del shown[spare]
    return shown


def _squeezed(columns: Sequence[Column], widths: Sequence[int], room: int) -> dict[int, int]:
    """Return the widths for a very narrow terminal: drop the last columns, and cut the others further."""
    shown = {n: width for n, width in enumerate(widths) if not columns[n].spare}
    while (over := sum(shown.values()) + GAP * (len(shown) - 1) - room) > 0:
        least = [SQUEEZED_TO] * len(columns)
        slack = _slack(columns, shown, least)
        if slack >= over or len(shown) == 1:
            _cut(columns, shown, min(over, slack), least)
            break
        # Columns that can be cut say most, so they are dropped last.
        del shown[max(shown, key=lambda n: (not columns[n].cut, n))]
    return shown


def _slack(columns: Sequence[Column], shown: dict[int, int], least: Sequence[int]) -> int:
    """Return how many cells can be cut if each column keeps its least."""
    return sum(max(0, width - least[n]) for n, width in shown.items() if columns[n].cut)


def _cut(columns: Sequence[Column], shown: dict[int, int], over: int, least: Sequence[int]) -> None:
    """Take cells from the columns that may be cut, the widest first."""
    for _ in range(over):
        shown[max((n for n in shown if columns[n].cut and shown[n] > least[n]), key=shown.__getitem__)] -= 1


def _line(columns: Sequence[Column], cells: Sequence[Part], widths: dict[int, int]) -> Sequence[Part]:
    parts: list[Part] = []
    for n, width in widths.items():
        word, style = _word(cells[n]), _style(cells[n])
        if cell_len(word) > width:
            kept = chop_cells(word, width - 1)[0]
            word = whole_words(kept, follows=word[len(kept)]) + "…"
        padding = " " * (width - cell_len(word))
        parts += [padding, (word, style)] if columns[n].right else [(word, style), padding]
        parts.append(" " * GAP)
    while parts and not _word(parts[-1]).strip():
        parts.pop()
    return parts


def _word(part: Part) -> str:
    return part if isinstance(part, str) else part[0]


def _style(part: Part) -> str:
    return "" if isinstance(part, str) else part[1]
