"""Explains a verdict word by word: the role of each word in the command, and the reasons that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shiftlog.guard.bash import tree
from shiftlog.guard.bash.script import line_and_column, read_script
from shiftlog.guard.policy.found import Definitions, Start
from shiftlog.guard.policy.judge import Judge, Judgement

Role = Literal["assignment", "program", "argument", "redirection", "function", "keyword"]
SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedToken:
    """One word of a command: its position, its role, and the reasons that start there."""

    line: int
    column: int
    text: str
    role: Role
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A judgement with the words that led to it, in text order."""

    judgement: Judgement
    tokens: tuple[ExplainedToken, ...]


def explain(judge: Judge, text: str, definitions: Definitions | None = None, *, cwd: str = "/") -> Explanation:
    """Judge a command and explain its words; of a text that cannot be read, the words before the fault."""
    judgement = judge.judge(text, definitions, cwd=cwd)
    script, _ = read_script(text)
    spans: dict[int, tuple[int, Role]] = {}
    for start, stop, role in _spans(script):
        spans.setdefault(start, (stop, role))
    for at in {*(start.at for start in judgement.starts), *(violation.at for violation in judgement.violations)}:
        spans.setdefault(at, (at, "keyword"))
    tokens: list[ExplainedToken] = []
    for at in sorted(spans):
        stop, role = spans[at]
        line, column = line_and_column(text, at)
        shown = " ".join(text[at:stop].split())[:SHOWN_CHARS]
        tokens.append(
            ExplainedToken(line=line, column=column, text=shown, role=role, reasons=tuple(_reasons(judgement, at)))
        )
    return Explanation(judgement=judgement, tokens=tuple(tokens))


def _reasons(judgement: Judgement, at: int) -> Iterator[str]:
    for start in judgement.starts:
        if start.at == at:
            yield _describe(start)
    refused = {violation.what for violation in judgement.violations if violation.at == at and violation.what}
    for doubt in judgement.doubts:
        if doubt.at == at and doubt.what not in refused:
            yield f"{doubt.what} is left to the kernel"
    for violation in judgement.violations:
        if violation.at == at:
            yield violation.message
            if violation.hint is not None:
                yield violation.hint
    for ask in judgement.asks:
        if ask.at == at:
            yield ask.message


def _describe(start: Start) -> str:
    kinds = {
        "program": "starts",
        "builtin": "is the builtin",
        "function": "calls the function",
        "script": "reads the script",
    }
    through = f" through {' → '.join(start.via)}" if start.via else ""
    possibly = "" if start.surety == "sure" else "possibly "
    return f"{possibly}{kinds[start.kind]} '{start.name}'{through}"


def _spans(script: tree.Script) -> Iterator[tuple[int, int, Role]]:
    for node in script:
        yield from _node_spans(node)


def _node_spans(node: tree.Node) -> Iterator[tuple[int, int, Role]]:
    if isinstance(node, tree.Simple):
        for assign in node.assigns:
            yield assign.start, assign.value.end if assign.value else assign.start, "assignment"
        for index, word in enumerate(node.words):
            yield word.start, word.end, "argument" if index else "program"
            yield from _part_spans(word.parts)
        yield from _redirect_spans(node.redirects)
    elif isinstance(node, tree.Pipeline):
        yield from _spans(node.stages)
    elif isinstance(node, tree.AndOr):
        yield from _spans(node.nodes)
    elif isinstance(node, tree.Function):
        yield node.start, node.start + len(node.name), "function"
        yield from _node_spans(node.body)
    else:
        for word in node.words:
            yield word.start, word.end, "argument"
            yield from _part_spans(word.parts)
        for body in node.bodies:
            yield from _spans(body)
        yield from _redirect_spans(node.redirects)


def _redirect_spans(redirects: list[tree.Redirect]) -> Iterator[tuple[int, int, Role]]:
    for redirect in redirects:
        target = redirect.target
        yield redirect.start, target.end if target else redirect.start, "redirection"
        yield from _part_spans([*(target.parts if target else []), *(redirect.body or [])])


def _part_spans(parts: list[tree.Part]) -> Iterator[tuple[int, int, Role]]:
    for part in parts:
        if isinstance(part, tree.Dyn):
            yield from _spans(part.script or [])
            yield from _part_spans(part.inner)
