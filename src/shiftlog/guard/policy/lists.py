"""The lists of a shell, the operator's and its own, and whether a program is on one.

Deny is united, allow intersected: a program passes when every allow list that is set permits it. What a text would
start is found elsewhere; here a program is a name or a path and literal arguments.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shiftlog.guard.linear import LinearPattern
from shiftlog.guard.policy.files import DEFAULT_PATH, FileIdentity
from shiftlog.guard.policy.wrappers_table import MULTI_CALL

Source = Literal["operator", "shell", "builtin"]
ListName = Literal["deny", "allow", "ask", "deny_patterns", "dangerous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a list: a program, and for deny and ask the arguments that must be there, too."""

    text: str
    source: Source
    list: ListName
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.text.split()) or (self.text,))

    @property
    def program(self) -> str:
        """The program that the entry is about."""
        return self.words[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyPattern:
    """An operator's pattern over the raw text; `number` counts from 1."""

    number: int
    pattern: LinearPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """Everything that bounds the programs of one shell, and where its names are looked up."""

    deny: tuple[Entry, ...] = ()
    allow: tuple[tuple[Entry, ...], ...] = ()
    ask: tuple[Entry, ...] = ()
    patterns: tuple[DenyPattern, ...] = ()
    dangerous: bool = True
    path: str = DEFAULT_PATH
    home: str | None = None

    @property
    def has_lists(self) -> bool:
        """Whether any program list is in force, so that undecidable text matters."""
        return bool(self.deny or self.allow or self.ask)


def entries(texts: Iterable[str], source: Source, name: ListName) -> tuple[Entry, ...]:
    """Make the entries of a list."""
    return tuple(Entry(text=text, source=source, list=name) for text in texts)


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rsplit("/", 1)[-1]


def absolute(name: str, cwd: str, home: str | None = None) -> str:
    """Return the absolute path that a program word with a slash means."""
    if name.startswith("~/") and home:
        name = home + name[1:]
    return os.path.normpath(name if name.startswith("/") else f"{cwd or '/'}/{name}")


class Lists:
    """Matches programs against the entries of one shell's rules."""

    def __init__(self, rules: ShellRules, files: FileIdentity) -> None:
        self.rules = rules
        self.files = files

    def denied(self, name: str, arguments: Sequence[str], cwd: str) -> Entry | None:
        """Return the first deny entry that a program matches, the operator's before the shell's."""
        return self._first(self.rules.deny, name, arguments, cwd)

    def asked(self, name: str, arguments: Sequence[str], cwd: str) -> Entry | None:
        """Return the first ask entry that a program matches."""
        return self._first(self.rules.ask, name, arguments, cwd)

    def not_permitted(self, name: str, cwd: str) -> Entry | None:
        """Return an entry of the first allow list that lacks the program."""
        for listed in self.rules.allow:
            if not any(self.permits(entry, name, cwd) for entry in listed):
                return listed[0]
        return None

    def allow_hint(self, name: str) -> str | None:
        """Say how an allow entry of several words that was meant for a program has to be written."""
        for entry in (entry for listed in self.rules.allow for entry in listed):
            if len(entry.words) > 1 and base_name(entry.program) == base_name(name):
                return (
                    f"An allow entry names a program alone: write '{entry.program}' instead of '{entry.text}' "
                    "(further words count in deny and ask)"
                )
        return None

    def _first(self, listed: tuple[Entry, ...], name: str, arguments: Sequence[str], cwd: str) -> Entry | None:
        for entry in listed:
            if all(word in arguments for word in entry.words[1:]) and self.matches(entry, name, cwd):
                return entry
        return None

    def matches(self, entry: Entry, name: str, cwd: str) -> bool:
        """Say whether a deny or ask entry is about this program."""
        wanted = entry.program
        base = name.rsplit("/", 1)[-1]
        if "/" not in wanted:
            if base == wanted:
                return True
            known = self.files.find(wanted)
        else:
            if not self.files.reachable and base == wanted.rsplit("/", 1)[-1]:
                return True
            known = absolute(wanted, "/", self.rules.home)
        if known is None:
            return False
        path = absolute(name, cwd, self.rules.home) if "/" in name else self.files.find(name)
        if path is None:
            return False
        return path == known or (self.files.same_file(path, known) and not self.is_multi_call(known))

    def permits(self, entry: Entry, name: str, cwd: str) -> bool:
        """Say whether an allow entry permits this program."""
        wanted = entry.text.strip()
        if "/" not in name:
            if "/" not in wanted:
                return name == wanted
            found = self.files.find(name)
            return found is not None and self._same_program(found, absolute(wanted, "/", self.rules.home))
        path = absolute(name, cwd, self.rules.home)
        known = absolute(wanted, "/", self.rules.home) if "/" in wanted else self.files.find(wanted)
        return known is not None and self._same_program(path, known)

    def _same_program(self, path: str, known: str) -> bool:
        if path == known:
            return True
        if not self.files.same_file(path, known):
            return False
        return not self.is_multi_call(known) or base_name(path) == base_name(known)

    def is_multi_call(self, path: str) -> bool:
        """Say whether a file is one program for many names, so that being that file means nothing."""
        real = self.files.real_path(path) or path
        base = base_name(real)
        return base in MULTI_CALL or base.split(".", 1)[0] in ("busybox", "toybox")

    def copy_of(self, path: str) -> Entry | None:
        """Return the deny entry whose program has the same content as a file."""
        for entry in self.rules.deny:
            if len(entry.words) > 1:
                continue
            known = entry.program if "/" in entry.program else self.files.find(entry.program)
            if known is not None and not self.is_multi_call(known) and self.files.same_content(path, known):
                return entry
        return None
