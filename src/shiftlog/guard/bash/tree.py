"""The nouns of a bash syntax tree, as far as a verdict needs them; no reading and no judging.

Positions are offsets into the text that was given. The classes are plain instead of frozen because a verdict has
200 µs and builds dozens of them; nobody outside the policy sees one.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Lit:
    """Literal characters; `quoted` ones are never expanded any further."""

    text: str
    quoted: bool


@dataclass(slots=True)
class Dyn:
    """A part that only the running shell knows: `kind` is param, command, process, arith, array or glob."""

    kind: str
    name: str
    quoted: bool
    inner: list[Part]
    script: Script | None = None
    download: bool = False


Part = Lit | Dyn


@dataclass(slots=True)
class Word:
    """One word; `bare` is its text when every character of it is literal and unquoted."""

    start: int
    end: int
    parts: list[Part]
    bare: str | None = None


@dataclass(slots=True)
class Assign:
    """`name=value` before a command; `elements` for an array, `subscript` for what `name[…]=` evaluates."""

    name: str
    start: int
    value: Word | None
    subscript: list[Part]
    key: str = ""
    elements: list[Word] = field(default_factory=list[Word])


@dataclass(slots=True)
class Redirect:
    """A redirection; `body` holds a here-document's parts, one quoted literal when its mark was quoted."""

    op: str
    fd: str
    start: int
    target: Word | None
    body: list[Part] | None = None


@dataclass(slots=True)
class Simple:
    """A simple command."""

    start: int
    end: int
    assigns: list[Assign]
    words: list[Word]
    redirects: list[Redirect]


@dataclass(slots=True)
class Pipeline:
    """Two or more commands joined by pipes."""

    start: int
    stages: list[Node]


@dataclass(slots=True)
class Choice:
    """Commands joined by `&&` and `||`: only the first is certain to run."""

    start: int
    nodes: list[Node]


@dataclass(slots=True)
class Compound:
    """A group, loop, condition, case, test or arithmetic command, with what it holds in text order."""

    kind: str
    start: int
    words: list[Word]
    bodies: list[list[Node]]
    redirects: list[Redirect]
    variable: str = ""


@dataclass(slots=True)
class Function:
    """The definition of a function."""

    name: str
    start: int
    body: Node


Node = Simple | Pipeline | Choice | Compound | Function
Script = list[Node]
