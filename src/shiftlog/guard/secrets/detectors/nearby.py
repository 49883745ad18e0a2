"""Finds random-looking values close to the name of a secret. The text between name and value does not matter.

Examples: `Field(default="…")`, `token,…`, `use … as the password`, `Q: What is the password? A: …`.
"""

import re
from collections.abc import Iterator
from typing import TypeGuard

from shiftlog.guard.linear import compile_linear, spans_of
from shiftlog.guard.secrets.detectors.kinds import SIGNATURE, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_ENDING, SecretName, classify_name
from shiftlog.guard.secrets.detectors.tokens import token_kind

_BEFORE_CHARS, _AFTER_CHARS = 80, 48
# A run with a digit, which random values of this length have.
_RUN = r"[A-Za-z0-9+/_~-]"
_DENSE = rf"(?:{_RUN}{{6}}[0-9]|[0-9]{_RUN}{{6}})"
NEARBY_PATTERN = rf"{NAME_ENDING}\b.*{_DENSE}|{_DENSE}.*{NAME_ENDING}\b"
_find_runs = spans_of(compile_linear(rf"{_RUN}{{12,200}}={{0,2}}"))
_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_MIXED = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])")
# Such a part of the turns between small letters, capitals and digits tells a random run from an identifier.
_TURNS = 0.42
_GLUED_BEFORE, _GLUED_AFTER = frozenset("./@#$%:&?<-"), frozenset("(@:<[/")
_PATH_PART = re.compile(r"(?:^|/)[a-z]{3,}/|/[a-z]{3,}$")
_OTHER = re.compile(r"-|(?i:sha\d{1,3}|md5)[-_:]|AAAA[BC]3|[a-z]{2,8}_[A-Za-z0-9]+$|\d{4}-\d\d|AC[0-9a-f]{32}")
_KEY = re.compile(
    r"(?P<key>[A-Za-z_][\w.-]{0,63})\\{0,7}[\"']?\]?\s{0,4}(?:=>|:=|<-|[:=])"
    r"\s{0,4}[bBrRuUfF@]?\\{0,7}[\"'`(\[]{0,2}$"
)
_NEUTRAL = frozenset("a default defaultvalue example fallback is value val now".split())
_NAMES = re.compile(
    r"(?<![\w])(?:(?:access|api|auth|encryption|master|private|secret|signing) key|[A-Za-z_][\w.-]{2,64})(?![\w-])",
    re.ASCII | re.I,
)
_MASK = re.compile(r"^[A-Z]*:?[\w.-]*\]|\[REDACTED(?::[\w.-]*)?\]?")  # the first one is cut
_CLAUSE = re.compile(r";|[.!] |\\n")


def find_nearby(line: str, data: bytes, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the random values beside the name of a secret, in a part of a line."""
    for start, end in _find_runs(data, begin, stop):
        if _is_glued(line, start, end):
            continue
        escaped = line[start - 1 : start] == "\\" and line[start] in "nrt"  # a line break before the value
        value = line[start + escaped : end]
        if _is_key_like(value) and token_kind(value) is None and (name := _name_beside(line, start, end)):
            yield SecretSpan(start + escaped, end, name.kind)


def _is_glued(line: str, start: int, end: int) -> bool:
    """Return True if a run is a part of a path, an address, a call or a longer run."""
    before, after = line[max(0, start - 1) : start], line[end : end + 1]
    goes_on = after.isalnum() or (after == "." and line[end + 1 : end + 2].isalnum())
    return before in _GLUED_BEFORE or before.isalnum() or after in _GLUED_AFTER or goes_on


def _is_key_like(value: str) -> bool:
    """Return True if a run looks like a key: letters of both cases and digits, no known shape of another thing."""
    if _MIXED.match(value) is None or len(_TURN.findall(value)) < _TURNS * (len(value) - 1):
        return False
    return _OTHER.match(value) is None and _PATH_PART.search(value) is None


def _name_beside(line: str, start: int, end: int) -> SecretName | None:
    before = _CLAUSE.split(_MASK.sub("", line[max(0, start - _BEFORE_CHARS) : start]))[-1]
    after = _CLAUSE.split(_MASK.sub("", line[end : end + _AFTER_CHARS]))[0]
    key = _KEY.search(before)
    if key is not None and key["key"].lower() not in _NEUTRAL:
        name = classify_name(key["key"])
        return name if _counts(name) else None
    for text in (*reversed(_NAMES.findall(before)), *_NAMES.findall(after)):
        name = classify_name(text)
        if _counts(name):
            return name
    return None


def _counts(name: SecretName | None) -> TypeGuard[SecretName]:
    return name is not None and not name.header and not name.weak and name.kind != SIGNATURE
