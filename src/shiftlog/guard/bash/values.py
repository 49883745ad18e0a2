"""Collects what a shell's variables may hold, as far as the text of its commands sets them.

The order of the commands does not count: a variable may hold all that any of them assigns. Only values without blanks
and without signs that mean something to a shell are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product

from shiftlog.guard.bash.tree import BashWord, Dyn, Lit, Part
from shiftlog.guard.bash.words import HOLE, Arg

ANY = "*"
NAME = "\ue001"  # stands for some plain word without a dash before it, such as a branch or a number
MAX_VALUES = 8
BRANCH = "\ue002"  # stands for the name of a git branch, which may hold signs that mean something to a shell
TAIL = "\ue003"  # stands for any text after a known beginning
PLAIN = re.compile(rf"(?!-)[\w./@%+=~{NAME}{BRANCH}{TAIL}-]*", re.A)
NUMBERS = frozenset("!$?#")  # parameters that are always numbers
UNSTEADY = re.compile(
    r"IFS|REPLY|MAPFILE|OPT\w+|COPROC\w*|BASH\w*|_|DIRSTACK|FUNCNAME|PIPESTATUS|(?:COMP|READLINE)_\w+"
)
OPEN = re.compile(rf"[{NAME}{BRANCH}{TAIL}]")
# Variables that the login sets; each is one word, and the login shell takes its arguments like any other.
LOGIN = {"SHELL": "sh", "HOME": "/" + NAME, "USER": NAME, "LOGNAME": NAME, "UID": NAME, "EUID": NAME}
SEPARATORS = re.compile(r"[^\w./@%+=~-]*", re.A)  # values of IFS that split no plain value


@dataclass(slots=True)
class Values:
    """The values of one shell's variables. `settled` are those whose value before the first command is gone."""

    known: dict[str, frozenset[str] | None] = field(default_factory=dict[str, "frozenset[str] | None"])
    settled: set[str] = field(default_factory=set[str])
    arrays: dict[str, list[Arg] | None] = field(default_factory=dict[str, "list[Arg] | None"])

    @property
    def open(self) -> bool:
        """True if a variable with an unknown name was set."""
        return ANY in self.known

    def add(self, name: str, value: str | None) -> None:
        """Note a value; None is an unknown one, and a name with a hole is any name."""
        if HOLE in name or (name == "IFS" and (value is None or not SEPARATORS.fullmatch(value))):
            self.open_all()
        before = self.known.get(name, frozenset[str]())
        kept = before is not None and value is not None and len(before) < MAX_VALUES and PLAIN.fullmatch(value)
        self.known[name] = before | {value} if before is not None and value is not None and kept else None

    def child(self) -> Values:
        """Return the values in another shell that this one starts: exported variables keep theirs."""
        return Values(self.known, set(), {})

    def open_all(self) -> None:
        """Note that any variable may hold anything."""
        self.known[ANY] = None

    def add_array(self, name: str, elements: list[Arg] | None) -> None:
        """Note the elements that an array gets; None if they are unknown."""
        before = self.arrays.get(name, [])
        self.arrays[name] = None if before is None or elements is None else [*before, *elements]

    def texts(self, word: BashWord | None) -> list[str]:
        """Return what a word may be in a command of this shell, also empty; nothing if that is unknown."""
        choices = [self._choices(part) for part in (word.parts if word else ())]
        if self.open or not all(choices) or len(choices) > MAX_VALUES:
            return []
        found = ["".join(pieces) for pieces in product(*choices)]
        return found if len(found) <= MAX_VALUES and not OPEN.search("".join(found)) else []

    def _choices(self, part: Part) -> list[str]:
        if isinstance(part, Lit):
            return [part.text] if part.quoted or PLAIN.fullmatch(part.text.lstrip("-")) else []
        name = parameter_name(part)
        if name in LOGIN and name not in self.known:
            return [LOGIN[name]]
        values = self.known.get(name) if name in self.settled and not UNSTEADY.fullmatch(name) else None
        return sorted(values) if values else []

    def may_become(self, word: BashWord, wanted: str) -> bool:
        """Return True unless commands of this shell set all of a word's variables, and to other texts."""
        choices = [[part.text] if isinstance(part, Lit) else self._choices(part) for part in word.parts]
        if self.open or not all(choices) or len(choices) > MAX_VALUES:
            return True
        found = {"".join(pieces) for pieces in product(*choices)}
        if any(TAIL in text for text in found) and not all(part.quoted for part in word.parts):
            return True
        return wanted in found or any(_stands_for(text, wanted) for text in found)

    def is_plain(self, part: Part, *, unset: bool) -> bool:
        """Return True if a part is one word without meaning to a shell; `unset` holds for variables never set here."""
        name = parameter_name(part) if isinstance(part, Dyn) else ""
        if not name or self.open or name in NUMBERS:
            return name in NUMBERS or isinstance(part, Lit)
        if UNSTEADY.fullmatch(name) or not name.isidentifier():
            return False
        values = self.known.get(name, frozenset[str]() if unset else None)
        return values is not None and not any(BRANCH in value or TAIL in value for value in values)


def _stands_for(text: str, wanted: str) -> bool:
    """Return True if a text with open parts may be another one."""
    found = OPEN.search(text)
    return (
        found is not None
        and wanted.startswith(text[: found.start()])
        and not (wanted.startswith("-") and not found.start() and found.group() != TAIL)
    )


def parameter_name(part: Dyn) -> str:
    """Return the name in `$name` or `${name}`; empty for any other expansion."""
    plain = not part.inner or part.inner == [Lit(part.name, False)]
    return part.name if part.kind == "param" and plain else ""


def array_name(word: BashWord | None) -> str:
    """Return the name in `"${name[@]}"`; empty for any other word."""
    parts = [part for part in (word.parts if word else ()) if part != Lit("", True)]
    if len(parts) != 1 or not isinstance(parts[0], Dyn) or parts[0].kind != "param":
        return ""
    return parts[0].name if parts[0].inner == [Lit(f"{parts[0].name}[@]", False)] else ""


def assigned_text(value: Arg) -> str | None:
    """Return the value of an assignment as far as it is known; a number for `$!` and its like."""
    parts: list[Part] = value.word.parts if value.word is not None else []
    if value.value is None and len(parts) == 1 and isinstance(parts[0], Dyn) and parameter_name(parts[0]) in NUMBERS:
        return "1"
    if value.value is None and value.prefix and PLAIN.fullmatch(value.prefix):
        return value.prefix + TAIL
    return value.value
