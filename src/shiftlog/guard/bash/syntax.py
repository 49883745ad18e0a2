"""Reads bash text into a tree of commands, and says where and how a text is broken.

The reader is our own because a verdict must never rest on a guess: it follows bash's grammar, stops at what it does
not know, and reports as broken only what bash refuses, too. What the commands mean is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftlog.guard.bash.faults import Fault, Unfinished, Unreadable
from shiftlog.guard.bash.grammar import Parser
from shiftlog.guard.bash.reader import Work
from shiftlog.guard.bash.tree import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFault:
    """Where a text breaks off, as the caller is told."""

    line: int
    column: int
    message: str

    @property
    def stderr(self) -> str:
        """The line that stands in for the shell's own complaint."""
        return f"syntax error: line {self.line}, column {self.column}: {self.message}"


@dataclass(slots=True)
class Reading:
    """A text as read: the commands before the fault, if there is one."""

    script: Script
    fault: Fault | None = None


def read_text(text: str, *, work: Work | None = None, depth: int = 0, at: int | None = None) -> Reading:
    """Read a whole text; with `at`, every position in the tree is that one."""
    parser = Parser(text, work=work, depth=depth, fixed=at)
    script: Script = []
    try:
        parser.read_into(script, "")
        if parser.at < parser.end:
            raise Unreadable(parser.at, f"'{parser.char()}' here")
        fault = None
    except Fault as caught:
        caught.at = parser.original(caught.at)
        fault = caught
    return Reading(script, fault)


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column, both from 1, of an offset."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def describe_fault(text: str, fault: Unfinished) -> SyntaxFault:
    """Say what was opened where and never closed."""
    line, column = place_of(text, fault.at)
    return SyntaxFault(line=line, column=column, message=f"the {fault.what} opened on line {line} is never closed")
