"""Judges a program start as the kernel reports it: an absolute path and literal arguments.

The lists and argument rules are those for text. A dynamic loader is judged as the program that it loads, a multi-call
binary by its applet, a script also by its interpreter, and a copy or link by its real file.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shiftlog.guard.bash.words import literal
from shiftlog.guard.policy.dangerous import dangerous_rule
from shiftlog.guard.policy.lists import ListEntry, ListName, Lists, Source, absolute, base_name
from shiftlog.guard.policy.options import read_options
from shiftlog.guard.policy.tables import LOADER, LOADER_OPTIONS, SHELLS
from shiftlog.guard.policy.wrappers import unwrap

APPLET_HOSTS = frozenset("busybox toybox coreutils uutils sbase-box ubase-box".split())
MAX_HOPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVerdict:
    """The verdict on one program start."""

    verdict: Literal["allowed", "denied", "asked"]
    program: str
    source: Source | None = None
    list: ListName | None = None
    entry: str | None = None


class StartJudge:
    """Applies one shell's lists to program starts."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._rules = lists.rules

    def judge(self, path: str, argv: Sequence[str], cwd: str) -> StartVerdict:
        """Judge a start; a relative path is resolved against `cwd`."""
        path = path if path.startswith("/") else os.path.normpath(f"{cwd}/{path}")
        asked: StartVerdict | None = None
        for name, arguments, interpreter in self._programs(path, list(argv), cwd):
            refusal = self._refusal(name, arguments, interpreter)
            if refusal is not None:
                if refusal.verdict == "denied":
                    return refusal
                asked = asked or refusal
        return asked or StartVerdict(verdict="allowed", program=path)

    def _programs(self, path: str, argv: list[str], cwd: str) -> list[tuple[str, list[str], bool]]:
        """Return each program behind a start with its arguments, and True if it only interprets another one."""
        found: list[tuple[str, list[str], bool]] = []
        for _ in range(MAX_HOPS):
            real = self._lists.files.real_path(path) or path
            base = base_name(real)
            loaded = self._loaded(base, argv, cwd)
            if loaded is None:
                found.append((self._applet(path, base, argv), argv[1:], False))
                if base_name(path) in APPLET_HOSTS and len(argv) > 1:
                    found.append((argv[1], argv[2:], False))
                found.extend(self._around(real, argv, cwd))
                return found
            path, argv = loaded
        found.append((path, argv[1:], False))
        return found

    def _loaded(self, base: str, argv: list[str], cwd: str) -> tuple[str, list[str]] | None:
        if not (base.startswith("ld") and LOADER.fullmatch(base)):
            return None
        options = read_options([literal(word, 0) for word in argv[1:]], LOADER_OPTIONS)
        rest = [arg.text for arg in options.rest]
        if not rest or options.hidden:
            return None
        path = rest[0] if rest[0].startswith("/") else os.path.normpath(f"{cwd}/{rest[0]}")
        return path, rest

    def _applet(self, path: str, base: str, argv: list[str]) -> str:
        """Return the applet name of a multi-call binary; the path of any other program."""
        if base.split(".", 1)[0] in APPLET_HOSTS and argv and base_name(path) not in APPLET_HOSTS:
            return base_name(argv[0].lstrip("-")) or path
        return path

    def _around(self, real: str, argv: list[str], cwd: str) -> list[tuple[str, list[str], bool]]:
        """Return the interpreter of a script, and the script of an interpreter."""
        found: list[tuple[str, list[str], bool]] = []
        shebang = self._lists.files.interpreter(real)
        if shebang:
            found.append((shebang[0], [*shebang[1:], real], True))
        if base_name(real) in SHELLS or base_name(argv[0] if argv else real).lstrip("-") in SHELLS:
            answer = unwrap("sh", [literal(word, 0) for word in argv[1:]])
            scripts = answer.scripts if answer is not None else []
            found.extend((absolute(arg.text, cwd), [], True) for arg in scripts)
        return found

    def _refusal(self, name: str, arguments: list[str], interpreter: bool) -> StartVerdict | None:
        lists, rules = self._lists, self._rules
        entry = lists.denied(name, arguments, "/") or self._denied_real(name, arguments)
        if entry is not None:
            return _start(entry, name, "denied")
        if rules.dangerous and not interpreter:
            rule = dangerous_rule(name, [literal(word, 0) for word in arguments], rules.home)
            if rule is not None:
                return StartVerdict(verdict="denied", program=name, source="builtin", list="dangerous", entry=rule)
        for listed in () if interpreter else rules.allow:
            if not any(self._permits(entry, name) for entry in listed):
                return StartVerdict(verdict="denied", program=name, source=listed[0].source, list="allow")
        asked = lists.asked(name, arguments, "/") if rules.ask else None
        return _start(asked, name, "asked") if asked is not None else None

    def _denied_real(self, name: str, arguments: list[str]) -> ListEntry | None:
        """Return the deny entry that a link's target or a copy's content matches."""
        if "/" not in name or not self._rules.deny:
            return None
        real = self._lists.files.real_path(name)
        if real is None:
            return None
        if real != name and not self._lists.is_multi_call(real):
            entry = self._lists.denied(real, arguments, "/")
            if entry is not None:
                return entry
        return self._lists.copy_of(real)

    def _permits(self, entry: ListEntry, name: str) -> bool:
        if self._lists.permits(entry, name, "/"):
            return True
        # A listed script starts its interpreter itself, often through `env`.
        files = self._lists.files
        listed = entry.text if "/" in entry.text else files.find(entry.text)
        shebang = files.interpreter(listed) if listed is not None else ()
        if not shebang or "/" not in name:
            return False
        wanted = [shebang[0]]
        if base_name(shebang[0]) == "env" and len(shebang) > 1:
            words = [word for word in shebang[1].split() if not word.startswith("-") and "=" not in word]
            target = files.find(words[0]) if words else None
            wanted.extend([target] if target else [])
        return any(files.same_file(name, path) for path in wanted)


def _start(entry: ListEntry, name: str, verdict: Literal["denied", "asked"]) -> StartVerdict:
    return StartVerdict(verdict=verdict, program=name, source=entry.source, list=entry.list, entry=entry.text)
