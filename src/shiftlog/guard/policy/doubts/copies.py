"""Doubts commands that copy or link a program: its copy has a name that no list and no table knows.

It matters for denied programs and for those that start others, where only the text is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from posixpath import basename, dirname, join, normpath

from shiftlog.guard.bash.tree import Dyn, Simple
from shiftlog.guard.bash.words import HOLE, Arg
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.found import Doubt, Start
from shiftlog.guard.policy.lists import Lists, ShellRules
from shiftlog.guard.policy.tools import option_values
from shiftlog.guard.policy.wrappers import ODD

FOLDERS = frozenset(("bin", "sbin"))
NAMED_LAST = frozenset("cp ln mv install link".split())  # the last operand is the new name
COMPARED = ("busybox", "toybox", "bash", "sh", "env")
READERS = frozenset("cat xxd base64 <".split())  # they copy only if the command writes elsewhere


def copyable(rules: ShellRules) -> tuple[str, ...]:
    """Return the programs whose copies are refused: those in the lists, and some that start others."""
    listed = [entry.program for entry in (*rules.deny, *rules.ask)]
    return tuple(dict.fromkeys((*listed, *COMPARED)))


def copies(starts: Iterable[Start], reads: Iterable[Arg], lists: Lists, cwd: str, *, writes: bool) -> list[Doubt]:
    """Return a doubt for each program that the command copies under another name."""
    found: list[Doubt] = []
    places = [cwd]
    for start in sorted(starts, key=attrgetter("at")):
        base = basename(start.name)
        if base == "cd" and start.args and start.args[-1].value:
            places.append(normpath(join(places[-1], start.args[-1].value)))
        if base in tables.COPIERS:
            folders = [value.value for value in option_values(start.args, ("-C", "--directory")) if value.value]
            sure = writes or base not in READERS
            found += _copied(base, start.args, [*places, *folders], lists, others=sure)
    return [*found, *_copied("<", list(reads), places, lists, others=writes)]


def _copied(copier: str, args: list[Arg], places: list[str], lists: Lists, *, others: bool) -> Iterator[Doubt]:
    """Yield a doubt for each copied program; with `others`, also for programs that start others."""
    last = args[-1].text if len(args) > 1 else ""
    name = last if copier in NAMED_LAST else None
    for arg in args:
        for path in _paths(arg, places):
            if _is_denied(path, arg, lists) or (others and _starts_others(path) and not _keeps_kind(path, name)):
                yield Doubt(f"a copy that '{copier}' makes of '{path}'", path, arg.at, "text only")
                break


def _paths(arg: Arg, places: list[str]) -> Iterator[str]:
    path = arg.text.removeprefix("if=")
    if HOLE in path:
        yield from _looked_up(arg)
    elif "/" in path:
        yield path
    else:
        yield from (join(place, path) for place in places if basename(place) in FOLDERS)


def _looked_up(arg: Arg) -> Iterator[str]:
    """Yield the programs that a substitution such as `$(command -v busybox)` looks for."""
    scripts = [part.script for part in (arg.word.parts if arg.word else ()) if isinstance(part, Dyn) and part.script]
    for node in (node for script in scripts for node in script if isinstance(node, Simple)):
        words = [word.bare or "" for word in node.words]
        if words and words[0] in tables.LOOKUPS:
            yield from (join("/bin", word) for word in words[1:] if not word.startswith("-"))


def _is_denied(path: str, arg: Arg, lists: Lists) -> bool:
    if arg.glob:
        listed = (*lists.rules.deny, *lists.rules.ask)
        pattern = basename(path)
        in_system = basename(dirname(path)) in FOLDERS and pattern != "*"
        return in_system and any(fnmatchcase(basename(entry.program), pattern) for entry in listed)
    return lists.denied(path, (), "/") is not None or lists.asked(path, (), "/") is not None


def _starts_others(path: str) -> bool:
    kind = _kind(basename(path))
    return kind == "loader" or (kind is not None and basename(dirname(path)) in FOLDERS)


def _keeps_kind(path: str, name: str | None) -> bool:
    """Return True if the copy is known by its name for what it is, or keeps its name in a directory."""
    base = basename(name or "")
    return name is not None and (
        base in ("", *FOLDERS) or base == basename(path) or _kind(base) == _kind(basename(path))
    )


def _kind(base: str) -> str | None:
    """Return the kind of a program that starts others; None if it starts none."""
    if base in tables.SHELLS or tables.LOADER.fullmatch(base):
        return "shell" if base in tables.SHELLS else "loader"
    if base in tables.SEDS or base in tables.WRAPPERS:
        return base
    if base in ODD:
        return repr(ODD[base])
    return "code" if tables.INTERPRETERS.fullmatch(base) else None
