"""Snippets: the one line of a long text that shows best why a search found it, with the matches marked.

Finding it takes one pass over the text for all plain words and one more for each phrase or prefix.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from shiftlog.model.search import Expr, Term, Word, line_of, needle, positive_terms, tokens

MIN_CHARS = 20
_MATCHES_PER_TERM = 10_000

# Controls and direction marks become spaces; marks of the text's own must not pass for ours.
_SINGLE: dict[int, str] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " "),
    **dict.fromkeys((0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), " "),
    ord("«"): "‹",
    ord("»"): "›",
}


@dataclass(slots=True)
class _Span:
    """A stretch to mark: where it is in the line and which terms it shows."""

    start: int
    end: int
    terms: set[int] = field(default_factory=set[int])


def snippet(text: str, expr: Expr, *, max_chars: int = 160) -> str:
    """Return the stretch of a text with the most distinct terms, the earliest of equals, on one line.

    Matches are marked « »; without any, the beginning is shown. `max_chars` counts marks and ellipses.
    """
    if max_chars < MIN_CHARS:
        raise ValueError(f"a snippet takes at least {MIN_CHARS} characters")
    line = " ".join(text.translate(_SINGLE).split())
    spans = _spans(line, positive_terms(expr))
    if not spans:
        return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"
    # A fifth of the room is kept for the words around the matches.
    first, last = _best(spans, max_chars - 2 - max_chars // 5)
    return _shown(line, spans, first, last, max_chars - 2)


def _spans(line: str, terms: Sequence[Term]) -> list[_Span]:
    """Return the stretches of the terms, in order, overlapping ones joined."""
    found = tokens(line)
    spans: list[_Span] = []
    for start, end, term in sorted(_matches([word for word, _, _ in found], terms)):
        left, right = found[start][1], found[end - 1][2]
        if spans and left < spans[-1].end:
            spans[-1].end = max(spans[-1].end, right)
        else:
            spans.append(_Span(left, right))
        spans[-1].terms.add(term)
    return spans


def _matches(words: list[str], terms: Sequence[Term]) -> list[tuple[int, int, int]]:
    """Return first word, word after the last, and term of each match, for every term its first thousands."""
    plain = {term.text: n for n, term in enumerate(terms) if isinstance(term, Word) and not term.prefix}
    left = Counter(dict.fromkeys(plain.values(), _MATCHES_PER_TERM))
    found: list[tuple[int, int, int]] = []
    for at, word in enumerate(words):
        number = plain.get(word)
        if number is not None and left[number]:
            left[number] -= 1
            found.append((at, at + 1, number))
    others = [(n, term) for n, term in enumerate(terms) if not isinstance(term, Word) or term.prefix]
    if not others:
        return found
    joined = line_of(words)
    begins = list(accumulate((len(word) + 1 for word in words), initial=0))
    for n, term in others:
        wanted = needle(term)
        length = 1 if isinstance(term, Word) else len(term.words)
        at = -1
        for _ in range(_MATCHES_PER_TERM):
            at = joined.find(wanted, at + 1)
            if at < 0:
                break
            first = bisect_left(begins, at)
            found.append((first, first + length, n))
    return found


def _best(spans: list[_Span], room: int) -> tuple[int, int]:
    """Return the first and last span of the window that shows the most distinct terms."""
    shown: Counter[int] = Counter()
    best, most, last = (0, 0), 0, -1
    for first, span in enumerate(spans):
        while last + 1 < len(spans):
            marks = 2 * (last + 2 - first)
            if last >= first and spans[last + 1].end - span.start + marks > room:
                break
            last += 1
            shown.update(spans[last].terms)
        if len(shown) > most:
            best, most = (first, last), len(shown)
        for term in span.terms:
            shown[term] -= 1
            if not shown[term]:
                del shown[term]
    return best


def _shown(line: str, spans: list[_Span], first: int, last: int, room: int) -> str:
    """Return the spans with the words around them, marked, within the room and two ellipses."""
    left, right = spans[first].start, spans[last].end
    spare = room - (right - left) - 2 * (last + 1 - first)
    if spare < 0:
        head, tail = "…" if left else "", "…" if right < len(line) else ""
        return f"{head}«{line[left : left + room - 3]}…»{tail}"
    floor = spans[first - 1].end if first else 0
    ceiling = spans[last + 1].start if last + 1 < len(spans) else len(line)
    before = min(left - floor, spare // 3)
    after = min(ceiling - right, spare - before)
    before = min(left - floor, spare - after)
    start = _word_start(line, left - before, left)
    end = _word_end(line, right, right + after)
    pieces = ["…" if start else "", line[start:left].lstrip()]
    at = left
    for span in spans[first : last + 1]:
        pieces += line[at : span.start], "«", line[span.start : span.end], "»"
        at = span.end
    pieces += line[right:end].rstrip(), "…" if end < len(line) else ""
    return "".join(pieces)


def _word_start(line: str, start: int, limit: int) -> int:
    """Return where the next whole word begins, unless there is none before the limit."""
    if start == 0 or line[start - 1] == " ":
        return start
    space = line.find(" ", start, limit)
    return start if space < 0 else space + 1


def _word_end(line: str, limit: int, end: int) -> int:
    """Return where the last whole word ends, unless there is none after the limit."""
    if end == len(line) or line[end] == " ":
        return end
    space = line.rfind(" ", limit, end)
    return end if space < 0 else space
