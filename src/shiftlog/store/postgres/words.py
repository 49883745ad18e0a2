"""The words that entries are found by, as SQLite splits them: in a tsvector, and expressions as tsquery.

Both stores find the same because both ask the same tokenizer. A tsvector holds at most 16,383 places and 255 of one
word; a text with more keeps its words in a line as well, where phrases are looked for.
"""

import threading
from collections import defaultdict
from typing import Any, NamedTuple

import apsw

from shiftlog.model.search import And, Expr, Not, Or, Phrase, Word, apart, line_of

MOST_PLACES = 16_383
MOST_OF_A_WORD = 255
MOST_WORD_BYTES = 2_046
MOST_BYTES = 900_000  # PostgreSQL takes a mebibyte
_PLACE_BYTES = 2
_WORD_BYTES = 4
# No text has a word with a space in it.
_NEVER = "' '"


class _Tokenizers(threading.local):
    """A tokenizer for each thread: they cannot be shared."""

    def __init__(self) -> None:
        self._db = apsw.Connection(":memory:")
        self.split = self._db.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])


_tokenizers = _Tokenizers()


def words_of(text: str) -> list[str]:
    """Return the folded words of a text in their order."""
    data = apart(text).encode("utf-8", "replace")
    return _tokenizers.split(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)  # pyright: ignore[reportReturnType]


class Findable(NamedTuple):
    """The columns `words` and `line` of a text."""

    words: str | None
    line: str | None


def findable(text: str) -> Findable:
    """Return the columns by which a text is found."""
    words = words_of(text)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words, 1):
        places[word].append(place)
    is_whole = len(words) <= MOST_PLACES and all(len(each) <= MOST_OF_A_WORD for each in places.values())
    sizes = [len(word.encode()) for word in places]
    size = sum(sizes) + _WORD_BYTES * len(places) + _PLACE_BYTES * min(len(words), MOST_PLACES)
    if size > MOST_BYTES or max(sizes, default=0) > MOST_WORD_BYTES:
        return Findable(None, line_of(words))
    made = " ".join(
        f"{_quoted(word)}:{','.join(str(min(place, MOST_PLACES)) for place in each[:MOST_OF_A_WORD])}"
        for word, each in places.items()
    )
    return Findable(made, None if is_whole else line_of(words))


def condition(expr: Expr) -> tuple[str, list[Any], str | None]:
    """Return the condition that a row `f` of `found` matches an expression, its values, and the query to rank by.

    The first part is for the index and lets more rows through than the second.
    """
    whole = _query(expr)
    likely = _likely(expr)
    lines, needles = _in_line(expr)
    exact = f"CASE WHEN f.line IS NULL THEN f.words @@ ?::tsquery ELSE {lines} END"
    if likely == whole:
        # Each word of a text is in its tsvector, if it has one; only the places may be missing.
        return f"(f.words @@ ?::tsquery OR f.words IS NULL AND {lines})", [whole, *needles], likely
    if likely is None:
        return exact, [whole, *needles], None
    return f"(f.words @@ ?::tsquery OR f.words IS NULL) AND {exact}", [likely, whole, *needles], likely


def _terms(expr: Word | Phrase) -> list[str]:
    given = (expr.text,) if isinstance(expr, Word) else expr.words
    return [word for each in given for word in words_of(each)]


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _spelled(expr: Word | Phrase) -> list[str]:
    """Return the words of a term as a tsquery names them."""
    words = _terms(expr)
    if not words or any(len(word.encode()) > MOST_WORD_BYTES for word in words):
        return [_NEVER]
    spelled = [_quoted(word) for word in words]
    if expr.prefix:
        spelled[-1] += ":*"
    return spelled


def _query(expr: Expr) -> str:
    """Return the tsquery that means an expression, for rows that hold all places of their words."""
    match expr:
        case Not(part=part):
            return f"!({_query(part)})"
        case And(parts=parts):
            return "(" + " & ".join(map(_query, parts)) + ")"
        case Or(parts=parts):
            return "(" + " | ".join(map(_query, parts)) + ")"
        case _:
            return "(" + " <-> ".join(_spelled(expr)) + ")"


def _likely(expr: Expr) -> str | None:
    """Return a tsquery for the index that every row meets that matches and has words; None if all rows do."""
    match expr:
        case Not():
            return None
        case And(parts=parts):
            found = [query for query in map(_likely, parts) if query is not None]
            return "(" + " & ".join(found) + ")" if found else None
        case Or(parts=parts):
            each = [_likely(part) for part in parts]
            found = [query for query in each if query is not None]
            return "(" + " | ".join(found) + ")" if len(found) == len(each) else None
        case _:
            return "(" + " & ".join(_spelled(expr)) + ")"


def _in_line(expr: Expr) -> tuple[str, list[str]]:
    """Return the condition on `f.line` that means an expression, and its values."""
    match expr:
        case Not(part=part):
            inner, values = _in_line(part)
            return f"NOT ({inner})", values
        case And(parts=parts) | Or(parts=parts):
            made = [_in_line(part) for part in parts]
            joint = " AND " if isinstance(expr, And) else " OR "
            return "(" + joint.join(inner for inner, _ in made) + ")", [value for _, each in made for value in each]
        case _:
            words = " ".join(_terms(expr))
            return "strpos(f.line, ?) > 0", [f" {words}" if expr.prefix else f" {words} "]
