"""What a survey of a command finds: program starts, doubts, and what the shell will know afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shiftlog.guard.bash.words import Arg

Kind = Literal["program", "builtin", "function", "script"]
Surety = Literal["sure", "setting", "stored"]
When = Literal["always", "refuse", "lists", "allow", "text only"]


@dataclass(slots=True)
class Start:
    """A program that the command would start, as far as its text says.

    `surety`: a `setting` names a program that another may start (PAGER, GIT_SSH_COMMAND); `stored` is code that the
    text keeps in a variable. `later`: in a function's body, so that the name may by then be a function's; `defined`: a
    function that is sure to be there.
    """

    name: str
    args: list[Arg]
    at: int
    via: tuple[str, ...]
    kind: Kind
    surety: Surety = "sure"
    later: bool = False
    defined: bool = False


@dataclass(slots=True)
class Doubt:
    """Something that the text does not decide; `when` says under which rules that matters."""

    what: str
    text: str
    at: int
    when: When


@dataclass(slots=True)
class Danger:
    """A place where downloaded text is run by a shell."""

    at: int
    via: tuple[str, ...]
    program: str


class Stdin(NamedTuple):
    """Where a command's standard input comes from."""

    kind: Literal["inherited", "pipe", "text", "file", "null"] = "inherited"
    download: bool = False
    text: Arg | None = None


class Place(NamedTuple):
    """Where in the command the survey is."""

    via: tuple[str, ...] = ()
    stdin: Stdin = Stdin()
    certain: bool = True
    substituted: bool = False
    surety: Surety = "sure"
    depth: int = 0
    at: int = 0
    #: A program starts the argument list, so that its first word is no builtin and no function.
    started: bool = False
    #: Another shell than this one reads the text, so that this one's functions mean nothing there.
    elsewhere: bool = False
    #: Inside a function's body, which runs later than it is read.
    body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a shell remembers of earlier commands: functions and aliases whose bodies were judged."""

    functions: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
