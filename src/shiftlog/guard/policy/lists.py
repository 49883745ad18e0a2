"""The deny, allow and ask lists of a shell, and matching a program against them.

Deny lists are united, allow lists intersected: every allow list must permit a program. Here a program is a name or path
with literal arguments; `programs` finds the programs of a command.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shiftlog.guard.linear import LinearPattern
from shiftlog.guard.policy.files import DEFAULT_PATH, FileIdentity
from shiftlog.guard.policy.tables import MULTI_CALL

Source = Literal["operator", "shell", "builtin"]
ListName = Literal["deny", "allow", "ask", "deny_patterns", "dangerous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """One entry of a list: a program, and for deny and ask also the arguments that must be present."""

    text: str
    source: Source
    list: ListName
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", tuple(self.text.split()) or (self.text,))

    @property
    def program(self) -> str:
        """The program that the entry names."""
        return self.words[0]


class DeniedNames:
    """The names of denied programs; one that is denied with arguments counts only beside all of them."""

    def __init__(self, entries: Iterable[ListEntry]) -> None:
        grouped: dict[tuple[str, ...], set[str]] = {}
        for entry in entries:
            grouped.setdefault(tuple(entry.words[1:]), set()).add(entry.program.rsplit("/", 1)[-1])
        self._patterns = [(words, _pattern(names)) for words, names in grouped.items()]

    def search(self, text: str) -> str | None:
        """Return the first denied name that a text holds."""
        for words, pattern in self._patterns:
            found = pattern.search(text) if all(word in text for word in words) else None
            if found is not None:
                return found.group()
        return None


def denied_names(entries: tuple[ListEntry, ...]) -> DeniedNames | None:
    """Return the finder for these entries; None if there are none."""
    return DeniedNames(entries) if entries else None


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    either = "|".join(re.escape(name) for name in sorted(names))
    return re.compile(rf"(?:(?<![\w.-])|(?<=\\[nt]))(?:{either})(?![\w-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyPattern:
    """An operator's pattern for the raw text; `number` counts from 1."""

    number: int
    pattern: LinearPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """The rules for the programs of one shell, and the PATH on which it finds them."""

    deny: tuple[ListEntry, ...] = ()
    allow: tuple[tuple[ListEntry, ...], ...] = ()
    ask: tuple[ListEntry, ...] = ()
    patterns: tuple[DenyPattern, ...] = ()
    dangerous: bool = True
    path: str = DEFAULT_PATH
    home: str | None = None

    @property
    def has_lists(self) -> bool:
        """True if any program list is set, so that undecidable text matters."""
        return bool(self.deny or self.allow or self.ask)


def entries(texts: Iterable[str], source: Source, name: ListName) -> tuple[ListEntry, ...]:
    """Make the entries of a list."""
    return tuple(ListEntry(text=text, source=source, list=name) for text in texts)


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rsplit("/", 1)[-1]


def absolute(name: str, cwd: str, home: str | None = None) -> str:
    """Return the absolute path of a program given with a slash."""
    if name.startswith("~/") and home:
        name = home + name[1:]
    return os.path.normpath(name if name.startswith("/") else f"{cwd or '/'}/{name}")


class Lists:
    """Matches programs against the entries of one shell's rules."""

    def __init__(self, rules: ShellRules, files: FileIdentity) -> None:
        self.rules = rules
        self.files = files

    def denied(self, name: str, arguments: Sequence[str], cwd: str) -> ListEntry | None:
        """Return the first deny entry that a program matches, the operator's before the shell's."""
        return self._first(self.rules.deny, name, arguments, cwd)

    def asked(self, name: str, arguments: Sequence[str], cwd: str) -> ListEntry | None:
        """Return the first ask entry that a program matches."""
        return self._first(self.rules.ask, name, arguments, cwd)

    def not_permitted(self, name: str, cwd: str) -> ListEntry | None:
        """Return an entry of the first allow list that does not permit the program."""
        for listed in self.rules.allow:
            if not any(self.permits(entry, name, cwd) for entry in listed):
                return listed[0]
        return None

    def allow_hint(self, name: str) -> str | None:
        """Explain how to rewrite an allow entry of several words that was meant for this program."""
        for entry in (entry for listed in self.rules.allow for entry in listed):
            if len(entry.words) > 1 and base_name(entry.program) == base_name(name):
                return (
                    f"An allow entry names a program alone: write '{entry.program}' instead of '{entry.text}' "
                    "(further words count in deny and ask)"
                )
        return None

    def _first(self, listed: tuple[ListEntry, ...], name: str, arguments: Sequence[str], cwd: str) -> ListEntry | None:
        for entry in listed:
            if all(word in arguments for word in entry.words[1:]) and self.matches(entry, name, cwd):
                return entry
        return None

    def matches(self, entry: ListEntry, name: str, cwd: str) -> bool:
        """Return True if a deny or ask entry names this program."""
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

    def permits(self, entry: ListEntry, name: str, cwd: str) -> bool:
        """Return True if an allow entry permits this program."""
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
        """Return True if a file serves many program names, so that sharing the file proves nothing."""
        real = self.files.real_path(path) or path
        base = base_name(real)
        return base in MULTI_CALL or base.split(".", 1)[0] in ("busybox", "toybox")

    def copy_of(self, path: str) -> ListEntry | None:
        """Return the deny entry whose program has the same content as a file."""
        for entry in self.rules.deny:
            if len(entry.words) > 1:
                continue
            known = entry.program if "/" in entry.program else self.files.find(entry.program)
            if known is not None and not self.is_multi_call(known) and self.files.same_content(path, known):
                return entry
        return None
