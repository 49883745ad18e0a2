"""The door of this package: read bash text into a tree, or report where the text is broken.

The reader is our own because a verdict must not rest on a guess. It follows bash's grammar, stops at any construct that
it does not know, and calls a text broken only if bash would reject it too. The meaning of commands is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftlog.guard.bash.grammar import ScriptParser
from shiftlog.guard.bash.tree import Effort, Fault, Part, Script, Unclosed, UnknownSyntax


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFault:
    """The place and reason of a fault in a text, for the caller."""

    line: int
    column: int
    message: str

    @property
    def stderr(self) -> str:
        """The line that replaces the shell's own error message."""
        return f"syntax error: line {self.line}, column {self.column}: {self.message}"


def read_script(
    text: str, *, effort: Effort | None = None, depth: int = 0, at: int | None = None
) -> tuple[Script, Fault | None]:
    """Read a whole text; return the commands before the fault, and the fault.

    With `at`, every position in the tree is that offset, because the text is nested in another one.
    """
    parser = ScriptParser(text, effort=effort, depth=depth, fixed=at)
    script: Script = []
    try:
        parser.read_into(script, "")
        if parser.at < parser.end:
            raise UnknownSyntax(parser.at, f"'{parser.char()}' here")
    except Fault as fault:
        fault.at = parser.original(fault.at)
        return script, fault
    return script, None


def read_expansions(text: str, *, effort: Effort, depth: int, at: int) -> list[Part]:
    """Read the expansions in a text that bash expands like a here-document; raise a Fault if it cannot be read."""
    return ScriptParser(text, effort=effort, depth=depth, fixed=at).read_body(0, len(text))


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of an offset, both counted from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def describe_fault(text: str, fault: Unclosed) -> SyntaxFault:
    """Describe which construct was never closed, and where it was opened."""
    line, column = line_and_column(text, fault.at)
    return SyntaxFault(line=line, column=column, message=f"the {fault.what} opened on line {line} is never closed")
