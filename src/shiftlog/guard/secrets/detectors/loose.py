"""Finds the quoted value after the name of a secret in any syntax: only signs and small words stand between them.

Examples: `case "api_key": return "…"`, `<td>Password</td><td>…</td>`, `"api_key", "…"`. `evidence` finds values without
quotes, `assignments` decides where a sign of assignment alone stands between them.
"""

import re
from collections.abc import Iterator

from shiftlog.guard.linear import compile_linear, spans_of
from shiftlog.guard.secrets.detectors.kinds import SIGNATURE, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_ENDING, SecretName, classify_name
from shiftlog.guard.secrets.detectors.quotes import QUOTE, closing_quote, is_inside_quotes
from shiftlog.guard.secrets.detectors.values import (
    JUDGED_CHARS,
    OWN_THING,
    Need,
    Notation,
    is_secret,
    names_secret,
)
from shiftlog.guard.secrets.detectors.words import FUNCTION_WORDS

_WORDS = (
    r"(?:is|are|was|now|set|to|as|the|a|new|for|return|returns|than|ist|lautet|est|es|jest|er|default|value"
    r"|prod|production|staging|dev|test|live)"
)
_TAG = r"</?[\w:.-]{1,40}>"
_TAGS = re.compile(_TAG)
LOOSE_PATTERN = rf"{NAME_ENDING}(?:\W|\W(?i:{_WORDS})\b|{_TAG})+?(?:[\"'`>]|{_TAG})[^\s\"'`<>]{{4}}"
_find_names = spans_of(compile_linear(LOOSE_PATTERN))
_NAME = re.compile(
    r"[\w.-]{1,64}?(?:[. ](?:key|token|phrase|codes?|password|secret))?(?![\w-])", re.ASCII | re.IGNORECASE
)
_GAP = re.compile(
    rf"(?:{_TAG}|(?<!\w){_WORDS}(?![\w-])|[^\w<\\]|\\(?=\\{{0,6}}[\"'`])|<(?!/?\w)){{1,40}}?"
    rf"(?=[A-Za-z0-9!])(?!{_WORDS}(?![\w-]))",
    re.ASCII | re.IGNORECASE,
)
_OPENING = re.compile(rf"(?:{QUOTE})$")
_WORD_BEFORE = re.compile(r"\b([A-Za-z]{3,20}) $")
_RUN_SIGNS = re.compile(r"[\w.-]{0,64}$", re.ASCII)
_APART = frozenset("[|")  # lists and the next cell of a table
_DECIDED = re.compile(r"[\"'`\\)\]*\s]*(?:[:=!?+|]{1,2}=?|=>|<-|:-|\[[\"'\\].*)[\"'`\\\s]*$|.*[.;/]")
_STRONG = re.compile(r"[:=>]|\b(?:is|return|default|value)\b", re.I)


def find_loose(line: str, data: bytes, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the values after names of secrets, in a part of a line."""
    for inside, _ in _find_names(data, begin, stop):
        run = _RUN_SIGNS.search(line, max(0, inside - 64), inside)
        match = _NAME.match(line, run.start() if run else inside)
        name = _classify(line, match) if match else None
        if match is None or name is None or name.header or name.weak or name.kind == SIGNATURE:
            continue
        if line.endswith("[REDACTED:", 0, match.start()):
            continue
        gap = _GAP.match(line, match.end())
        if gap is None or _DECIDED.match(_TAGS.sub("", gap[0])):
            continue
        span = _judge(line, match.start(), gap, name.need)
        if span is not None:
            yield SecretSpan(*span, name.kind)


def _classify(line: str, name: re.Match[str]) -> SecretName | None:
    """Classify a name, with the word before it if that says more: `deploy token`."""
    before = _WORD_BEFORE.search(line, max(0, name.start() - 24), name.start())
    if before and before[1].lower() not in FUNCTION_WORDS and (longer := classify_name(f"{before[1]} {name[0]}")):
        return longer
    return classify_name(name[0])


def _judge(line: str, name: int, gap: re.Match[str], need: Need) -> tuple[int, int] | None:
    start, opening = gap.end(), _OPENING.search(gap[0])
    quote = opening[0] if opening else ""
    if quote and (gap[0].count(quote) % 2 == 0) == is_inside_quotes(line, name, quote):
        end = closing_quote(line, start, quote)
    elif line[start - 1] == ">" and line.find("</", start, start + JUDGED_CHARS) > 0:
        end = line.find("</", start)
    else:
        return None
    value = line[start:end]
    if " " in value or OWN_THING.match(value) or names_secret(value):
        return None
    if not _APART.isdisjoint(gap[0]) or not _STRONG.search(gap[0]):
        need = max(need, Need.DIGITS)
    return (start, end) if is_secret(value, need=need, notation=Notation.SHELL, quoted=True) else None
