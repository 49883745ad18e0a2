"""The policy's judge inside the supervisor: passes a shell's rules as JSON, and translates its verdicts.

The caller decides which rules apply to a shell; the guard package decides what they mean.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shiftlog.guard.policy.files import LocalFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.lists import ListEntry, ShellRules
from shiftlog.shell.sandbox.programs import ExecRules
from shiftlog.shell.sandbox.starts import JudgeSpec, StartedFile


def judge_spec(rules: ShellRules) -> JudgeSpec:
    """Return how the supervisor makes the judge of these rules."""
    options: dict[str, Any] = {
        "deny": _as_json(rules.deny),
        "allow": [_as_json(listed) for listed in rules.allow],
        "ask": _as_json(rules.ask),
        "dangerous": rules.dangerous,
        "path": rules.path,
        "home": rules.home,
    }
    return JudgeSpec(factory="shiftlog.shell.sandbox.judging:PolicyJudge", options=options)


def exec_rules(rules: ShellRules) -> ExecRules | None:
    """Return the lists for the sandbox; None if there are none.

    Several allow lists permit their intersection, so the shortest is enough to limit the files.
    """
    if not rules.has_lists:
        return None
    allow = min(rules.allow, key=len) if rules.allow else None
    return ExecRules(
        deny=tuple(entry.text for entry in rules.deny),
        allow=None if allow is None else tuple(entry.text for entry in allow),
        ask=tuple(entry.text for entry in rules.ask),
        search_path=rules.path,
    )


class _FilesOfAStart(LocalFiles):
    """This machine's files: exact facts about the file that would start, cached ones about files in rules."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.subject: StartedFile | None = None  # the next start, whose facts come from its open descriptor

    def real_path(self, path: str) -> str | None:
        subject = self._subject_at(path)
        return self.cached("real", path, super().real_path) if subject is None else subject.real

    def same_content(self, one: str, other: str) -> bool:
        subject = self._subject_at(one)
        if subject is None:
            return super().same_content(one, other)
        return subject.copy_of is not None and subject.copy_of == self.real_path(other)

    def interpreter(self, path: str) -> tuple[str, ...]:
        subject = self._subject_at(path)
        return self.cached("interpreter", path, super().interpreter) if subject is None else subject.interpreter

    def inode(self, path: str) -> tuple[int, int] | None:
        subject = self._subject_at(path)
        return super().inode(path) if subject is None else subject.inode

    def _subject_at(self, path: str) -> StartedFile | None:
        subject = self.subject
        return subject if subject is not None and path in (subject.path, subject.real) else None


class PolicyJudge:
    """Judges starts by a shell's lists; a program that needs approval is refused until it is permitted."""

    def __init__(
        self,
        *,
        deny: Sequence[Sequence[str]],
        allow: Sequence[Sequence[Sequence[str]]],
        ask: Sequence[Sequence[str]],
        dangerous: bool,
        path: str,
        home: str | None,
    ) -> None:
        rules = ShellRules(
            deny=_from_json(deny),
            allow=tuple(map(_from_json, allow)),
            ask=_from_json(ask),
            dangerous=dangerous,
            path=path,
            home=home,
        )
        self._files = _FilesOfAStart(path)
        self._judge = Judge(rules, kernel=True, files=self._files)
        self._permitted: frozenset[str] = frozenset()

    def permit(self, entries: Sequence[str]) -> None:
        """Let programs start that match these `ask` entries, and no others."""
        self._permitted = frozenset(entries)

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        self._files.subject = file
        found = self._judge.judge_start(path, argv, cwd=cwd)
        program = os.path.basename(found.program)
        if found.verdict == "allowed" or (found.verdict == "asked" and found.entry in self._permitted):
            return True, "allowed", program, None
        whose = "policy" if found.source == "shell" else "operator policy"
        return False, found.verdict, program, f"blocked by {whose}: {_why(found.list, program, found.entry)}"


def _why(name: str | None, program: str, entry: str | None) -> str:
    shown = entry if entry is not None and " " in entry else program
    if name == "allow":
        return f"'{program}' not in allowlist"
    if name == "ask":
        return f"'{shown}' needs approval"
    return f"dangerous pattern blocked: {entry}" if name == "dangerous" else f"'{shown}' is denylisted"


def _as_json(listed: Sequence[ListEntry]) -> list[list[str]]:
    return [[entry.text, entry.source, entry.list] for entry in listed]


def _from_json(listed: Sequence[Sequence[str]]) -> tuple[ListEntry, ...]:
    return tuple(ListEntry(text=text, source=source, list=name) for text, source, name in listed)  # pyright: ignore[reportArgumentType]
