"""Patches on the terminal: added lines green, removed ones red, headings bold."""

from shiftlog.cli.screen.output import Printer
from shiftlog.text.figures import count
from shiftlog.text.printable import terminal_text

STYLES = {"+": "green", "-": "red", "@": "cyan"}
HEADINGS = ("diff --git", "--- ", "+++ ", "index ")


def print_patch(printer: Printer, patch: str, *, indent: int | None = None, max_lines: int | None = None) -> None:
    """Print the lines of a patch; a last line says how many `max_lines` left out.

    With an `indent` it is part of a text and long lines are wrapped; without one it can be copied as it is.
    """
    lines = terminal_text(patch).strip("\n").split("\n")
    for line in lines[:max_lines]:
        part = (line, "bold" if line.startswith(HEADINGS) else STYLES.get(line[:1], ""))
        if indent is None:
            printer.line(part)
        else:
            printer.item(part, indent=indent, hang=1)
    if max_lines is not None and len(lines) > max_lines:
        printer.line(" " * (indent or 0), (f"… {count(len(lines) - max_lines, 'more line')}; --full shows all", "dim"))
