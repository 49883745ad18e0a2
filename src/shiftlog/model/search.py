"""The search expression: how a query text becomes a tree of words, and when a text matches it.

`tokens` splits and folds text as SQLite's FTS5 does with `unicode61 remove_diacritics 2`, so that every store
finds the same. The two differ only for characters that are younger than Unicode 6.1 (2012) or changed class
since: FTS5 takes the young ones for letters, emoji included. It also cuts words over 32 KiB, which we do not.

Chinese and Japanese are written without spaces, so there every character is a word; FTS5 is given it `apart`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shiftlog.model.errors import InvalidParameter

MAX_DEPTH = 50
MAX_WORDS = 1_000


@dataclass(frozen=True, slots=True)
class Word:
    """One folded word; with `prefix`, any word that starts so."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """Folded words in a row; with `prefix`, the last one may go on.

    `former` are the same words as indexes have them from the time when a run of Chinese or Japanese was one word.
    """

    words: tuple[str, ...]
    prefix: bool = False
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts."""

    parts: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of the parts."""

    parts: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Everything that the part does not match."""

    part: "Expr"


Term = Word | Phrase
Expr = Word | Phrase | And | Or | Not


# Letters, digits and private-use characters make words. Only these marks are removed from inside a word; any
# other mark ends it.
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_MARKS = "\u0300-\u0304\u0306-\u030c\u030f\u0311\u031b\u0323-\u0328\u032d\u032e\u0330\u0331"
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_FORMER_WORD = re.compile(rf"(?:[^\W_]|[{_PRIVATE}])[^\W_]*(?:[{_PRIVATE}{_MARKS}]+[^\W_]*)*")
_MARK = re.compile(f"[{_MARKS}]")
# Han characters and both kana.
_UNSPACED = (
    "\u3005-\u3007\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
_APART = re.compile(f"[{_UNSPACED}]+")
_LETTER = rf"[^\W_{_UNSPACED}]"
_ANY_WORD = re.compile(
    rf"(?P<run>[{_UNSPACED}]+)|(?:{_LETTER}|[{_PRIVATE}]){_LETTER}*(?:[{_PRIVATE}{_MARKS}]+{_LETTER}*)*"
)

# Letters whose other case is younger than FTS5's tables.
_UNFOLDED = re.compile(
    "[\u037f\u0528-\u052f\u13a0-\u13ff\u1c80-\u1cbf\u2c2f\u2c5f\ua698-\ua69b\ua796-\ua79f\ua7ab-\ua7f6"
    "\uab53-\uabbf\U000104b0-\U0010ffff]"
)


class _Folding(dict[int, str]):
    """A table for `str.translate` that learns each character when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = _fold(chr(code))
        self[code] = folded
        return folded


def _fold(character: str) -> str:
    if _MARK.match(character):
        return ""
    if _UNFOLDED.match(character):
        return character
    # Simple folding: where the full one would make several letters (ß), the letter stays.
    for other in (character.casefold(), character.lower()):
        if len(other) == 1:
            character = other
            break
    base = unicodedata.normalize("NFD", character)[0]
    # ǡ is the one Latin letter with marks that FTS5 has forgotten.
    return base.lower() if base.isascii() and base.isalpha() and character != "ǡ" else character


_FOLDING = _Folding()


def tokens(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, folded, each with its start and end in the text."""
    if text.isascii():
        lower = text.lower()
        return [(match[0], match.start(), match.end()) for match in _ASCII_WORD.finditer(lower)]
    if not _APART.search(text):
        return [(match[0].translate(_FOLDING), match.start(), match.end()) for match in _FORMER_WORD.finditer(text)]
    found: list[tuple[str, int, int]] = []
    for match in _ANY_WORD.finditer(text):
        start = match.start()
        if match["run"]:  # characters that have no case and no marks
            found += [(character, at, at + 1) for at, character in enumerate(match["run"], start)]
        else:
            found.append((match[0].translate(_FOLDING), start, match.end()))
    return found


def apart(text: str) -> str:
    """Return a text with spaces where FTS5 needs them to split it as `tokens` does."""
    return text if text.isascii() else _APART.sub(lambda run: f" {' '.join(run[0])} ", text)


def line_of(words: Sequence[str]) -> str:
    """Return folded words as one line in which `needle` finds a term where the text has it."""
    return f" {' '.join(words)} "


def needle(term: Term) -> str:
    """Return the text that a line of folded words contains exactly if a term matches."""
    words = term.text if isinstance(term, Word) else " ".join(term.words)
    return f" {words}" if term.prefix else f" {words} "


def matches(expr: Expr, text: str) -> bool:
    """Return True if a text matches an expression."""
    return _holds(expr, line_of([word for word, _, _ in tokens(text)]))


def _holds(expr: Expr, line: str) -> bool:
    match expr:
        case And(parts=parts):
            return all(_holds(part, line) for part in parts)
        case Or(parts=parts):
            return any(_holds(part, line) for part in parts)
        case Not(part=part):
            return not _holds(part, line)
        case _:
            return needle(expr) in line


def positive_terms(expr: Expr) -> tuple[Term, ...]:
    """List the words and phrases that are not negated, each once, in order."""
    return tuple(dict.fromkeys(_positive(expr, wanted=True)))


def _positive(expr: Expr, *, wanted: bool) -> Iterator[Term]:
    match expr:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _positive(part, wanted=wanted)
        case Not(part=part):
            yield from _positive(part, wanted=not wanted)
        case _:
            if wanted:
                yield expr


def parse(text: str) -> Expr:
    """Read a search expression; raise InvalidParameter for `text` that says what is wrong and where.

    `!` binds tightest, then AND (`&&` or a space), then `||`; parentheses group; a word that holds
    separators (`foo-bar`) is a phrase; words without any letter or digit are passed over beside others.
    """
    if not text.strip():
        raise InvalidParameter.missing("text")
    return _Parser(text).whole()


def mask_terms(text: str, mask: Callable[[str], str]) -> str:
    """Return an expression with every term as `mask` shows it; operators, parentheses and quotes stay as they are."""

    def masked(match: re.Match[str]) -> str:
        if match["operator"]:
            return match[0]
        if not match["closed"]:
            return mask(match[0])
        return f'"{mask(match["quoted"][1:-1])}"{match["star"]}'

    return _LEXEME.sub(masked, text)


class _Lexeme(NamedTuple):
    kind: str
    at: int
    shown: str
    term: Term | None = None


_LEXEME = re.compile(
    r"""(?P<operator> && | \|\| | [()!] )
      | (?P<quoted> " [^"]* (?P<closed> " )? ) (?P<star> \*? )
      | (?P<word> (?: (?! && | \|\| ) [^\s()"] )+ )""",
    re.VERBOSE,
)


def _lexemes(text: str) -> Iterator[_Lexeme]:
    count = 0
    for match in _LEXEME.finditer(text):
        shown, at = match[0], match.start() + 1
        if match["operator"]:
            yield _Lexeme(shown, at, shown)
            continue
        if match["quoted"] and not match["closed"]:
            raise _wrong(text, f"the quote at character {at} is not closed")
        found = tokens(shown)
        count += len(found)
        if count > MAX_WORDS:
            raise _wrong(text, f"at most {MAX_WORDS} words; character {at} begins one more")
        if not found:
            yield _Lexeme("blank", at, shown)
            continue
        # A star extends the word that it touches: `auth*` and `"log in"*`, but not `foo-*`.
        touches = len(shown.rstrip("*")) == found[-1][2] or bool(match["star"])
        prefix = shown.endswith("*") and touches
        words = tuple(word for word, _, _ in found)
        term = Word(words[0], prefix) if len(words) == 1 else Phrase(words, prefix, _former(shown))
        yield _Lexeme("term", at, shown, term)
    yield _Lexeme("end", len(text) + 1, "the end")


def _former(text: str) -> tuple[str, ...]:
    if not _APART.search(text):
        return ()
    return tuple(match[0].translate(_FOLDING) for match in _FORMER_WORD.finditer(text))


class _Parser:
    """Recursive descent over the lexemes; only parentheses recurse, and only so deep."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = list(_lexemes(text))
        self._next = 0
        self._depth = 0

    def whole(self) -> Expr:
        expr = self._either()
        if self._peek.kind == ")":
            raise self._wrong(f"')' at character {self._peek.at} closes nothing")
        return expr

    @property
    def _peek(self) -> _Lexeme:
        return self._lexemes[self._next]

    def _either(self) -> Expr:
        parts = [self._every()]
        while self._peek.kind == "||":
            self._next += 1
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Or(tuple(_flat(parts, Or)))

    def _every(self) -> Expr:
        parts: list[Expr] = []
        blank: _Lexeme | None = None
        expected = True
        while True:
            lexeme = self._peek
            if lexeme.kind == "blank":
                blank = lexeme
                self._next += 1
            elif lexeme.kind == "&&" and not expected:
                blank, expected = None, True
                self._next += 1
            elif lexeme.kind in ("!", "(", "term"):
                parts.append(self._single())
                expected = False
            else:
                break
        if expected and blank is not None:
            raise self._empty(blank)
        if expected:
            where = "at the end" if lexeme.kind == "end" else f"before '{lexeme.shown}'"
            raise self._wrong(f"a word is expected {where} (character {lexeme.at})")
        return parts[0] if len(parts) == 1 else And(tuple(_flat(parts, And)))

    def _single(self) -> Expr:
        start = self._next
        while self._peek.kind == "!":
            self._next += 1
        signs = self._next - start
        lexeme = self._peek
        self._next += 1
        if lexeme.term is not None:
            expr: Expr = lexeme.term
        elif lexeme.kind == "(":
            expr = self._group(lexeme)
        elif lexeme.kind == "blank":
            raise self._empty(lexeme)
        else:
            raise self._wrong(f"a word is expected after '!' (character {self._lexemes[start].at})")
        if signs % 2 == 0:
            return expr
        return expr.part if isinstance(expr, Not) else Not(expr)

    def _group(self, opening: _Lexeme) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"more than {MAX_DEPTH} parentheses inside each other (character {opening.at})")
        expr = self._either()
        if self._peek.kind != ")":
            raise self._wrong(f"'(' at character {opening.at} is not closed")
        self._next += 1
        self._depth -= 1
        return expr

    def _empty(self, lexeme: _Lexeme) -> InvalidParameter:
        shown = lexeme.shown if len(lexeme.shown) <= 20 else lexeme.shown[:20] + "…"
        return self._wrong(f"{shown} holds no letter or digit (character {lexeme.at})")

    def _wrong(self, problem: str) -> InvalidParameter:
        return _wrong(self._text, problem)


def _wrong(text: str, problem: str) -> InvalidParameter:
    return InvalidParameter.invalid("text", problem, text)


def _flat(parts: list[Expr], kind: type[And] | type[Or]) -> Iterator[Expr]:
    for part in parts:
        if isinstance(part, kind):
            yield from part.parts
        else:
            yield part
