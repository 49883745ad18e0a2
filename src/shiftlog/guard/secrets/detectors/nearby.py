"""Finds random literals that stand in code beside the name of a secret, without being assigned to it.

Examples: `Field(default="…")`, `assertThat(token).isEqualTo("…")`, `props.put("db.password", "…")`.
"""

import re
from collections.abc import Iterator

from shiftlog.guard.linear import compile_linear, spans_of
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_ENDING, SecretName, classify_name
from shiftlog.guard.secrets.detectors.values import is_random

_BEFORE_CHARS, _AFTER_CHARS = 80, 60
_LITERAL_TEXT = r"[A-Za-z0-9+/_=-]{20,128}"
# What stands before such a literal; of keyword arguments only defaults count: other keywords say what their value is.
_LEAD = (
    r"(?:[({,]\s{0,4}|[|?]{2}=\s{0,4}|\b(?:default|fallback|value)\s{0,2}[=:]\s{0,4}|\b(?:assert\w{0,24}|eq)\s{1,4})"
    r"[bBrR]?\\{0,7}[\"']"
)
NEARBY_PATTERN = "|".join(
    (
        rf"{NAME_ENDING}\b.*{_LEAD}[A-Za-z0-9+/_=-]{{20}}",
        rf"{_LEAD}{_LITERAL_TEXT}\\*[\"'].*{NAME_ENDING}\b",
    )
)
_find_literals = spans_of(compile_linear(rf"{_LEAD}{_LITERAL_TEXT}\\*[\"']"))
_LITERAL = re.compile(rf"{_LEAD}(?<=(?P<quote>.))(?P<value>{_LITERAL_TEXT})\\{{0,7}}(?P=quote)")
_NAMES = re.compile(r"(?<![\w])[A-Za-z_][\w.-]{2,64}")


def find_nearby(line: str, data: bytes, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the random literals beside the name of a secret, in a part of a line."""
    for start, end in _find_literals(data, begin, stop):
        match = _LITERAL.match(line, start, end)
        value = match["value"] if match else ""
        if match is None or not (is_random(value) and any(map(str.isupper, value)) and any(map(str.islower, value))):
            continue
        if name := _name_beside(line, *match.span()):
            yield SecretSpan(*match.span("value"), name.kind)


def _name_beside(line: str, start: int, end: int) -> SecretName | None:
    before = line[max(0, start - _BEFORE_CHARS) : start].rpartition(";")[2]
    after = line[end : end + _AFTER_CHARS].partition(";")[0]
    for text in (*reversed(_NAMES.findall(before)), *_NAMES.findall(after)):
        name = classify_name(text)
        if name is not None and not name.header and not name.weak:
            return name
    return None
