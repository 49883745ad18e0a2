"""The search expression of the session log: substrings in any case, joined by operators.

`!` binds tightest, then AND (`&&` or a space), then `||`; parentheses group, quotes keep spaces. Words and their
forms do not count here; `model.search` is for those.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shiftlog.model.errors import InvalidParameter

MAX_DEPTH = 50
MAX_TERMS = 1_000

_LEXEME = re.compile(
    r"""(?P<operator> && | \|\| | [()] | ! )
      | " (?P<quoted> [^"]* ) (?P<closed> "? )
      | (?P<term> (?: (?! && | \|\| ) [^\s()"] )+ )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Term:
    """A folded text to be found."""

    text: str


@dataclass(frozen=True, slots=True)
class Without:
    """A part that must not match."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Parts that must all match."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Parts; at least one must match."""

    parts: tuple["Expression", ...]


Expression = Term | Without | AllOf | AnyOf


def matches(expression: Expression, folded: str) -> bool:
    """Return True if a folded text matches."""
    match expression:
        case Term(text=text):
            return text in folded
        case Without(part=part):
            return not matches(part, folded)
        case AllOf(parts=parts):
            return all(matches(part, folded) for part in parts)
        case AnyOf(parts=parts):
            return any(matches(part, folded) for part in parts)


def decided(expression: Expression, folded: str) -> bool | None:
    """Return True if every text that contains a folded text matches, False if none does, None if that is open."""
    match expression:
        case Term(text=text):
            return True if text in folded else None
        case Without(part=part):
            known = decided(part, folded)
            return None if known is None else not known
        case AllOf(parts=parts):
            each = [decided(part, folded) for part in parts]
            return False if False in each else None if None in each else True
        case AnyOf(parts=parts):
            each = [decided(part, folded) for part in parts]
            return True if True in each else None if None in each else False


def covers(expression: Expression) -> list[tuple[str, ...]]:
    """Return covers: of the terms of each, every matching text holds at least one. Negations have none."""
    match expression:
        case Term(text=text):
            return [(text,)]
        case Without():
            return []
        case AllOf(parts=parts):
            return [cover for part in parts for cover in covers(part)]
        case AnyOf(parts=parts):
            each = [covers(part) for part in parts]
            if not all(each):
                return []
            narrow = (min(found, key=lambda cover: (len(cover), -min(map(len, cover)))) for found in each)
            return [tuple(dict.fromkeys(term for cover in narrow for term in cover))]


def parse(text: str, mask: Callable[[str], str] = str) -> Expression:
    """Read an expression, each term as `mask` shows it; raise InvalidParameter for `text` that says what is wrong."""
    parser = _ExpressionParser(text, mask)
    expression = parser.either(0)
    if parser.kind != "end":
        raise _wrong(text, "a ')' closes nothing")
    return expression


def _lexemes(text: str, mask: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    count = 0
    for found in _LEXEME.finditer(text):
        if found["operator"]:
            yield found["operator"], ""
            continue
        count += 1
        if count > MAX_TERMS:
            raise _wrong(text, f"at most {MAX_TERMS} terms")
        if found["term"] is None:
            if not found["closed"]:
                raise _wrong(text, "a quote is not closed")
            if not found["quoted"]:
                raise _wrong(text, "nothing stands between the quotes")
        yield "term", mask(found["term"] or found["quoted"]).casefold()
    yield "end", ""


class _ExpressionParser:
    """Recursive descent; only parentheses recurse, and only so deep."""

    def __init__(self, text: str, mask: Callable[[str], str]) -> None:
        self._text = text
        self._lexemes = list(_lexemes(text, mask))
        self._at = 0

    @property
    def kind(self) -> str:
        return self._lexemes[self._at][0]

    def either(self, depth: int) -> Expression:
        parts = [self._every(depth)]
        while self.kind == "||":
            self._at += 1
            parts.append(self._every(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _every(self, depth: int) -> Expression:
        parts = [self._single(depth)]
        while self.kind in ("&&", "!", "(", "term"):
            self._at += self.kind == "&&"
            parts.append(self._single(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _single(self, depth: int) -> Expression:
        negated = False
        while self.kind == "!":
            self._at += 1
            negated = not negated
        kind, text = self._lexemes[self._at]
        if kind == "term":
            part: Expression = Term(text)
        elif kind == "(":
            if depth == MAX_DEPTH:
                raise _wrong(self._text, f"more than {MAX_DEPTH} parentheses inside each other")
            self._at += 1
            part = self.either(depth + 1)
            if self.kind != ")":
                raise _wrong(self._text, "a '(' is not closed")
        else:
            where = "at the end" if kind == "end" else f"before '{kind}'"
            raise _wrong(self._text, f"a term is expected {where}")
        self._at += 1
        return Without(part) if negated else part


def _wrong(text: str, problem: str) -> InvalidParameter:
    return InvalidParameter.invalid("text", problem, text)
