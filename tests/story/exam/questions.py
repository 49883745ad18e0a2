"""The questions of the exam and how an answer is looked for: in one part of what `resume_session` returned.

A question is answered if every fact of it stands in that part and nothing wrong does. The reader is a program, so
that the exam is the same each time: it asks whether a person or an agent could have read the answer there.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tests.story.exam.actor import Actor, Answer

ASKED = 12
ENOUGH = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: where its answer must stand, what it must say and what it must not say."""

    asks: str
    where: str
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def is_answered(self, told: Answer) -> bool:
        """Return True if the part holds every fact and no wrong one."""
        text = _text(_part(told, self.where))
        return all(fact in text for fact in self.says) and not any(wrong in text for wrong in self.never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One recorded story: what happened, and what the next agent must know. `tell` returns what that agent is told."""

    name: str
    tell: Callable[[Actor], Awaitable[Answer]]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The result of one exam."""

    story: str
    right: int
    wrong: Sequence[str]

    def __str__(self) -> str:
        return f"{self.story}: {self.right} of {ASKED}" + "".join(f"\n  not answered: {asks}" for asks in self.wrong)


def q(asks: str, where: str, *says: str, never: Sequence[str] = ()) -> Question:
    """Write a question in one line; `where` without a dot names a part of the capsule."""
    return Question(asks=asks, where=where, says=says, never=tuple(never))


def mark(story: Story, told: Answer) -> Marks:
    """Ask all questions of a story."""
    wrong = [question.asks for question in story.questions if not question.is_answered(told)]
    return Marks(story=story.name, right=len(story.questions) - len(wrong), wrong=wrong)


def _part(told: Answer, where: str) -> object:
    """Return the part that a dotted name leads to: below the capsule, or below the answer after a slash."""
    part: Any = told if where.startswith("/") else told["capsule"]
    for name in where.removeprefix("/").split("."):
        if name:
            part = cast("dict[str, Any]", part)[name] if part else None
    return part


def _text(part: object) -> str:
    if isinstance(part, str):
        return part
    return json.dumps(part, ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n")
