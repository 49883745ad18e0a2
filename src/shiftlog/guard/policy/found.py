"""The findings of a survey: program starts, doubts, dangers, and the definitions a shell keeps. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shiftlog.guard.bash.values import ANY, Values
from shiftlog.guard.bash.words import Arg

StartKind = Literal["program", "builtin", "function", "script"]
Surety = Literal["sure", "setting", "stored"]
When = Literal["always", "refuse", "lists", "allow", "text only"]


@dataclass(slots=True)
class Start:
    """A program that the command would start, according to its text.

    `surety`: a `setting` names a program that another one may start (PAGER, GIT_SSH_COMMAND); `stored` is code in a
    variable. `later`: inside a function body, where the name may be a function by then. `defined`: a function that is
    certain to exist. `code` is a file that an interpreter reads from its standard input. `unjudged`: it runs
    text that only names of files or the output of a known tool complete. `values` are those of the shell that
    starts it.
    """

    name: str
    args: list[Arg]
    at: int
    via: tuple[str, ...]
    kind: StartKind
    surety: Surety = "sure"
    later: bool = False
    defined: bool = False
    code: Arg | None = None
    unjudged: bool = False
    values: Values | None = None


@dataclass(slots=True)
class Unwrapped:
    """The argument lists, shell texts and scripts that a program would run."""

    argvs: list[list[Arg]] = field(default_factory=list[list[Arg]])
    texts: list[Arg] = field(default_factory=list[Arg])
    holes_are_data: bool = False
    reads_stdin: bool = False
    scripts: list[Arg] = field(default_factory=list[Arg])
    hidden: bool = False
    settings: list[Arg] = field(default_factory=list[Arg])
    splitting: list[Arg] = field(default_factory=list[Arg])
    """Words of `find` that hide a program if they are more than one word."""


@dataclass(slots=True)
class Doubt:
    """Something that the text leaves open; `when` says under which rules it matters."""

    what: str
    text: str
    at: int
    when: When


@dataclass(slots=True)
class Danger:
    """Downloaded text that a shell runs."""

    at: int
    via: tuple[str, ...]
    program: str


class Stdin(NamedTuple):
    """The source of a command's standard input."""

    kind: Literal["inherited", "pipe", "text", "file", "null"] = "inherited"
    download: bool = False
    text: Arg | None = None
    file_names: bool = False


class Position(NamedTuple):
    """The place of the survey in a command, and what holds there."""

    via: tuple[str, ...] = ()
    stdin: Stdin = Stdin()
    certain: bool = True
    substituted: bool = False
    surety: Surety = "sure"
    depth: int = 0
    at: int = 0
    #: A program starts the argument list, so its first word is neither a builtin nor a function.
    started: bool = False
    #: Another shell reads the text, so this shell's functions do not exist there.
    elsewhere: bool = False
    #: Inside a function body, which runs later.
    body: bool = False
    #: Unknown parts of the next shell text are names of files.
    file_names: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The functions and aliases that earlier commands of a shell defined; their bodies were judged then."""

    functions: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Functions that run their arguments, and what variables may hold; only kept where nothing but text is checked.
    passing: frozenset[str] = field(default=frozenset(), compare=False)
    shifts: frozenset[str] = field(default=frozenset(), compare=False)
    values: Mapping[str, frozenset[str] | None] = field(
        default_factory=dict[str, "frozenset[str] | None"], compare=False
    )
    settled: frozenset[str] = field(default=frozenset(), compare=False)


def told_definitions(functions: Iterable[str], aliases: Mapping[str, str]) -> Definitions:
    """Return the definitions of a shell of which no more is known: each function may run its arguments."""
    named = frozenset(functions)
    return Definitions(functions=named, aliases=aliases, passing=named, shifts=named, values={ANY: None})
