"""Judges the content of files that a command runs as code, where only text is checked.

A shell script is read like a command. Other code cannot be decided; it is refused if it names a denied program where it
may start one. What stays open is `unjudged`: the operator says whether that is allowed, asked or refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shiftlog.guard.policy.code_files import CodeFile, Language, code_files, runs_code
from shiftlog.guard.policy.tables import SEDS, SHELLS, STARTING

if TYPE_CHECKING:
    from shiftlog.guard.policy.judge import Ask, Judge, Judgement, Violation

_COMMENT = re.compile(r"\s*(?:#|//|--|;)")
_QUOTE = re.compile(r"[\"'`/|!]|%x|qx")
_RULE = re.compile(r"(?P<targets>[^\s#:=][^:=#]*?)\s*::?(?![=:])(?P<needs>[^=;]*)(?:;(?P<recipe>.*))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentJudgement:
    """The meaning of a file's content for the command that runs it; `files` are run by it in turn."""

    violations: tuple[Violation, ...] = ()
    asks: tuple[Ask, ...] = ()
    named: str | None = None
    files: tuple[CodeFile, ...] = ()
    judged: bool = False


def judge_content(judge: Judge, file: CodeFile, content: bytes, cwd: str, *, whole: bool) -> ContentJudgement:
    """Judge one file's content; `whole` is False if there is more of it."""
    if b"\0" in content[:8192]:
        return ContentJudgement()
    text = content.decode("utf-8", "replace")
    language = _language(file.language, text)
    if language == "npm":
        language, text = "shell", _npm_scripts(text, file.goals)
    if language == "shell":
        return _judge_script(judge, file, text, cwd, whole=whole)
    lines = _made_lines(text, file.goals) if language == "make" else _code_lines(text)
    always = language == "make" or file.runner in SEDS
    named = _named(judge, iter(text.splitlines()) if file.runner in SEDS else lines)
    starts = always or STARTING.search(text) is not None
    return ContentJudgement(named=named if starts else None)


def _judge_script(judge: Judge, file: CodeFile, text: str, cwd: str, *, whole: bool) -> ContentJudgement:
    found = judge.judge(text, cwd=cwd)
    kept = tuple(_inside(file, one) for one in found.violations if one.list in ("deny", "dangerous"))
    asks = tuple(replace(ask, at=file.at) for ask in found.asks)
    open_ended = found.syntax_error is not None or any(one.list is None for one in found.violations)
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    named = _named(judge, lines) if open_ended else None
    opaque = open_ended or found.verdict == "not_checked" or any(runs_code(start) for start in found.starts)
    judged = whole and not opaque
    return ContentJudgement(
        violations=kept, asks=asks, named=named, files=_nested(found, file, cwd), judged=judged and not kept
    )


def _nested(found: Judgement, file: CodeFile, cwd: str) -> tuple[CodeFile, ...]:
    return tuple(replace(one, at=file.at, via=(*file.via, file.name)) for one in code_files(found.starts, cwd))


def _inside(file: CodeFile, violation: Violation) -> Violation:
    message = f"{violation.message}, in '{file.name}'"
    return replace(violation, message=message, at=file.at, via=(*file.via, file.name, *violation.via))


def _language(given: Language, text: str) -> Language:
    """Return the language of a file; the first line of a program decides, and without one it is a shell's."""
    if given != "any":
        return given
    if not text.startswith("#!"):
        return "shell"
    words = text[2:].split("\n", 1)[0].split()
    names = [word.rsplit("/", 1)[-1] for word in words if not word.startswith("-")]
    interpreter = next((name for name in names if name != "env"), "")
    return "shell" if interpreter in SHELLS else "code"


def _named(judge: Judge, lines: Iterator[str]) -> str | None:
    """Return the denied program that these lines of code name."""
    names = judge.denied_names
    return names.search("\n".join(lines)) if names is not None else None


def _code_lines(text: str) -> Iterator[str]:
    """Yield the lines that may start a program: no comments, and none without a quote, a path or a verb for it."""
    lines = (line for line in text.splitlines() if not _COMMENT.match(line))
    return (line for line in lines if _QUOTE.search(line) or STARTING.search(line))


def _npm_scripts(text: str, goals: tuple[str, ...]) -> str:
    """Return the scripts of a package.json that npm runs for these words, as one shell text."""
    try:
        read: Any = json.loads(text)
        scripts: dict[str, Any] = dict(read["scripts"])
    except (ValueError, TypeError, KeyError):
        return ""
    wanted = [*goals, "install", "prepare"] if set(goals) & {"i", "ci", "add"} else list(goals)
    names = [f"{when}{name}" for name in wanted for when in ("pre", "", "post")]
    return "\n".join(str(scripts[name]) for name in names if name in scripts)


def _made_lines(text: str, goals: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a makefile that count for its goals: their recipes, and all that is outside of recipes."""
    recipes: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        rule = _RULE.match(line)
        if line.startswith("\t"):
            for target in current:
                recipes[target].append(line)
        elif rule is not None:
            current = rule["targets"].split()
            for target in current:
                recipes.setdefault(target, []).append(rule["recipe"] or "")
                needs.setdefault(target, []).extend(rule["needs"].split())
        elif line.strip() and not line.lstrip().startswith("#"):
            yield line
    first = next((target for target in recipes if not target.startswith(".")), None)
    wanted = [*(goals or ([first] if first else [])), *(name for name in recipes if "%" in name or "$" in name)]
    seen: set[str] = set()
    while wanted:
        target = wanted.pop()
        if target not in seen:
            seen.add(target)
            wanted += needs.get(target, [])
            yield from (line for line in recipes.get(target, ()) if not line.lstrip().startswith("#"))
