"""The result of reading bash text: the nodes of a syntax tree, or the fault that stopped the reading.

Only as much of bash's grammar as a verdict needs. Nothing here reads or judges. Positions are offsets into the original
text. The nodes are not frozen, because a verdict builds dozens of them within 200 µs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_EFFORT = 30_000


class Fault(Exception):
    """The reading stopped at offset `at`; `what` names the construct."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


class Unclosed(Fault):
    """Something was opened and never closed, so bash would reject the text too."""


class UnknownSyntax(Fault):
    """The text leaves the grammar that we know; bash may accept it."""


class TooMuch(Fault):
    """The text is too long or too deeply nested to be judged in time."""


class Effort:
    """The steps left for one verdict, shared by every text nested in the command."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT


@dataclass(slots=True)
class Lit:
    """Literal characters; quoted ones are not expanded any further."""

    text: str
    quoted: bool


@dataclass(slots=True)
class Dyn:
    """A part whose value only the running shell knows.

    `kind` is param, prompt, command, process, arith, array, element, subscript or glob.
    """

    kind: str
    name: str
    quoted: bool
    inner: list[Part]
    script: Script | None = None
    download: bool = False


Part = Lit | Dyn


@dataclass(slots=True)
class BashWord:
    """One word; `bare` is its text if every character is literal and unquoted."""

    start: int
    end: int
    parts: list[Part]
    bare: str | None = None


@dataclass(slots=True)
class Assign:
    """`name=value` before a command; `elements` of an array, or the `subscript` that `name[…]=` evaluates."""

    name: str
    start: int
    value: BashWord | None
    subscript: list[Part]
    key: str = ""
    elements: list[BashWord] = field(default_factory=list[BashWord])
    appends: bool = False


@dataclass(slots=True)
class Redirect:
    """A redirection; `body` holds the parts of a here-document, one quoted literal if its mark was quoted."""

    op: str
    fd: str
    start: int
    target: BashWord | None
    body: list[Part] | None = None


@dataclass(slots=True)
class Simple:
    """A simple command."""

    start: int
    end: int
    assigns: list[Assign]
    words: list[BashWord]
    redirects: list[Redirect]


@dataclass(slots=True)
class Pipeline:
    """Two or more commands joined by pipes."""

    start: int
    stages: list[Node]


@dataclass(slots=True)
class AndOr:
    """A list joined by `&&` and `||`; only its first command is certain to run."""

    start: int
    nodes: list[Node]


@dataclass(slots=True)
class Compound:
    """A group, loop, condition, case, test or arithmetic command, with its contents in text order."""

    kind: str
    start: int
    words: list[BashWord]
    bodies: list[list[Node]]
    redirects: list[Redirect]
    variable: str = ""


@dataclass(slots=True)
class Function:
    """A function definition."""

    name: str
    start: int
    body: Node


Node = Simple | Pipeline | AndOr | Compound | Function
Script = list[Node]


def holds_download(parts: list[Part]) -> bool:
    """Return True if a part of a word holds what was downloaded."""
    return any(isinstance(part, Dyn) and part.download for part in parts)
