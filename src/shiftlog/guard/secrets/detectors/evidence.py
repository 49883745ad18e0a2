"""Weighs the evidence for random-looking values near a word for a secret, in any syntax and in many languages.

Examples: `password → …`, `<td>Token</td><td>…</td>`, `use … as the password`, `le mot de passe de la base est « … »`.
A value needs a digit. What is observed about the value, the text between it and the name, and the rest of the line
counts points from one table; above zero the value is a secret. `bench/evidence_points.py` fits the table.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from string import ascii_letters, digits
from typing import NamedTuple

from shiftlog.guard.linear import compile_linear, spans_of
from shiftlog.guard.secrets.detectors.kinds import PASSWORD, SIGNATURE, SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.language.bigrams import randomness
from shiftlog.guard.secrets.detectors.language.foreign import FOREIGN_NAME
from shiftlog.guard.secrets.detectors.names import NAME_ENDING, NAME_HINT, SecretName, classify_name
from shiftlog.guard.secrets.detectors.tokens import token_kind
from shiftlog.guard.secrets.detectors.values import Need, is_chosen, is_path, is_reference
from shiftlog.guard.secrets.detectors.words import FUNCTION_WORDS

_BEFORE_CHARS, _AFTER_CHARS, _MIN_CHARS = 120, 60, 6
_SIGN_CHARS, _WORD_SIGNS = 256, f"{ascii_letters}{digits}+/_.~=-"
_RUN = r"[A-Za-z0-9+/_~.!#$%&*?^@=-]"
_ODD = r"[a-z][A-Z]{2}[A-Za-z]|[A-Za-z][A-Z][a-z][A-Z]"
_DENSE = rf"(?:{_RUN}{{5}}[0-9]|[0-9]{_RUN}{{5}}|{_ODD})"
#: Words beside which a random value is a secret, though they name none.
RELATED_NAME = r"\b(?i:log-?in|logon|sign-?in|auth|unseal|unlock|bearer|jwt|totp|psk|pkey)\b|\s-(?:[pPkwat]|pw|pass)\s"
_ANNOUNCED = rf"(?:{NAME_HINT}|{FOREIGN_NAME}|{RELATED_NAME})"
EVIDENCE_PATTERN = rf"{_ANNOUNCED}.*{_DENSE}|{_DENSE}.*{_ANNOUNCED}"
_find_names = spans_of(compile_linear(NAME_ENDING))
_find_related = spans_of(compile_linear(RELATED_NAME))
_find_foreign = spans_of(compile_linear(FOREIGN_NAME))
_GLUE = frozenset("-./@")
_NAME_START = re.compile(r"[\w.-]{0,64}$", re.ASCII)
_NAME = re.compile(
    r"[\w.-]{1,64}?(?:[. ](?:key|token|phrase|codes?|password|secret))?(?![\w-]|\.\w)", re.ASCII | re.IGNORECASE
)
_WORD_BEFORE = re.compile(r"\b([A-Za-z]{3,20}) $")
_ENCODED_SIGN = r"(?:!\[CDATA\[|\\{1,7}u00(?:2[267]|3[dD])|%(?:26|3[ADad]|22)|&(?:quot|amp|#[0-9]+);)"
_TOKEN = re.compile(
    rf"{_ENCODED_SIGN}*((?:(?!{_ENCODED_SIGN}|&[\w.-]+=)[!-~])+)".replace("[!-~]", r"[^\x00- \"'`<>,;|\x7f-\xff]")
)
_ELSEWHERE = re.compile(r"://|\[REDACTED")  # `contexts` and `assignments` look into URLs
_DIGIT = re.compile(f"[0-9]|{_ODD}")
# A value after a sign within a word: `rotated=…`.
_INNER_SIGN = re.compile(r"(?<=[\w)\]}])(?::[=?-]|=>|->|=|:(?!/))(?==*[^=\s])")
_QUOTES = frozenset("\"'`")
_LEFT_SIGNS, _RIGHT_SIGNS = "([{*~|,;:=>", ",;:.!?*~|"
_OWNER = re.compile(
    r"(?<![\w\x80-\xff])([A-Za-z_][\w.-]{0,40}+)(\\{0,7}[\"']?\]?\s{0,3}(?::=|=>|<-|[=:]))\s{0,3}[bru@]?\\{0,7}[\"'`(\[]{0,2}$",
    re.ASCII,
)
_IN_PROSE = re.compile(r"[A-Za-z\x80-\xff] $")
_NEUTRAL = frozenset("a default defaultvalue example fallback is now val value".split())
_WORDS = re.compile(r"[A-Za-z\x80-\xff]+")
_CLAUSE_END = re.compile(r"(?<![.?])[.!;]\s")
_SIGN = re.compile(
    r"(?:[:=|>]|\xe2\x86\x92|\xef\xbc\x9a|\xe2\x80\x94)[^\w,]*$|\b(?:is|ist|lautet|est|es|jest|er|to)\W*$", re.I
)
_OWN_THING = re.compile(
    r"[0-7][0-9A-HJKMNP-TV-Z]{25}$|[a-z]{2,8}_[A-Za-z0-9]+$|[0-9a-f]{7,12}$|[0-9a-f]{40}$|[0-9a-f]{64}$|[0-9A-F]{16}$|[0-9A-F]{40}$|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
)
_NO_SECRET = re.compile(
    r"(?i)[0-9.,:/_%+-]*[a-z]{0,3}$|v?\d+(?:\.\d+)+|\d{4}-\d\d|0x[0-9a-f]{1,16}$|#[0-9a-f]{3,8}$|(?:sha\d{1,3}|md5)[-_:~]"
    r"|aaaa[bc]3|.*://|[\w.+-]+@[\w.-]+$|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,4}(?::\d+)?$|--?[a-z]|ENC\[|http/"
    r"|[~^<>=]{1,2}v?\d|[0-9a-f]{7,}\.\.\.?[0-9a-f]{7,}"
    r"|(?-i:[A-Z]{2,5}-?\d[\d-]*$|AC[0-9a-f]{32}$)"
)
_CODE = re.compile(r"[({\[].*[)}\]]|&&|\|\||=>|==|;.|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|\w+\(|[+*/]\w+\.")
_LETTER = re.compile("[\xc3-\xc5][\x80-\xbf]")
_BREAK = "\\n"
_KINDS = (re.compile("[0-9]"), re.compile("[a-z]"), re.compile("[A-Z]"), re.compile(r"[^A-Za-z0-9._/+=-]"))

#: What counts for and against a secret. Fitted, then rounded.
POINTS = {
    "random": 5.0,
    "next to its name": 2.0,
    "strong name": 1.6,
    "in quotes": 1.4,
    "another value between": 1.1,
    "of 12 to 80": 1.0,
    "start": 0.9,
    "2 kinds of signs": 0.9,
    "rather random": 0.7,
    "an id or a digest": 0.7,
    "a sign or verb before": 0.7,
    "slashes": 0.6,
    "of 8 to 11": 0.6,
    "related name": 0.5,
    "4 kinds of signs": 0.4,
    "brackets inside": 0.4,
    "weak name": 0.2,
    "foreign name": 0.1,
    "very long": 0.0,
    "3 kinds of signs": -0.2,
    "a few words away": -0.2,
    "a comma between": -0.7,
    "short": -0.8,
    "an identifier without quotes": -1.1,
    "many words away": -1.2,
    "bare token name": -1.7,
    "hardly random": -2.5,
    "not random": -3.4,
    "before its name": -4.8,
}


class _Name(NamedTuple):
    """A word that announces a secret: where it stands, what it names, and how strongly."""

    start: int
    end: int
    kind: SecretKind
    strength: str


def find_by_evidence(line: str, data: bytes, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the random-looking values near names of secrets, in a part of a line."""
    for name, start, end, observed in weigh(line, data, begin, stop):
        if sum(POINTS.get(sign, 0.0) for sign in observed) > 0:
            yield SecretSpan(start, end, name.kind)


def weigh(line: str, data: bytes, begin: int, stop: int) -> Iterator[tuple[_Name, int, int, list[str]]]:
    """Yield each value that may be a secret, the name that announces it, and what is observed about them."""
    names = sorted(_names(line, data, begin, stop))
    if not names:
        return
    first, last = max(begin, names[0].start - _AFTER_CHARS), min(stop, names[-1].end + _BEFORE_CHARS)
    first = max(first - _SIGN_CHARS, begin) + len(line[max(first - _SIGN_CHARS, begin) : first].rstrip(_WORD_SIGNS))
    previous_end = -1
    for match in _TOKEN.finditer(line, first, stop):
        if match.start() > last:
            return
        if len(match[1]) < _MIN_CHARS or _DIGIT.search(match[1]) is None or _ELSEWHERE.search(match[1]):
            continue
        start, end = _trim(line, *match.span(1))
        value = line[start:end]
        if end - start < _MIN_CHARS or not _may_be_secret(line, start, value):
            continue
        name = _announcer(names, start, end)
        if name and (_is_owned(line, start) or (_OWN_THING.match(value) and not _is_direct(line, name, start))):
            name = None
        gap = line[min(name.end, end) : max(start, name.start)] if name else ""
        if name is not None and _BREAK not in gap and "ENC[" not in gap and not _CLAUSE_END.search(gap):
            yield name, start, end, ["start", *_of_value(value), *_of_place(line, name, start, end, previous_end)]
        previous_end = end


def _names(line: str, data: bytes, begin: int, stop: int) -> Iterator[_Name]:
    for inside, _ in _find_names(data, begin, stop):
        run = _NAME_START.search(line, max(0, inside - 64), inside)
        start = run.start() if run else inside
        if line[start - 1 : start] == "\\" and line[start] in "nrt":
            start += 1
        text = _NAME.match(line, max(start, inside))
        name = _classify(line, start, text.end()) if text and not line.endswith("[REDACTED:", 0, start) else None
        if text and name is not None and not name.header and name.kind != SIGNATURE:
            strength = "weak" if name.weak else "bare token" if name.need == Need.DIGITS else "strong"
            yield _Name(start, text.end(), name.kind, strength)
    for start, end in _find_related(data, begin, stop):
        if line[start - 1 : start] not in _GLUE and line[end : end + 1] not in _GLUE:
            yield _Name(start, end, PASSWORD, "related")
    for start, end in _find_foreign(data, begin, stop):
        yield _Name(start, end, PASSWORD, "foreign")


def _classify(line: str, start: int, end: int) -> SecretName | None:
    """Classify a name, with the word before it if that says more: `deploy token`."""
    before, text = _WORD_BEFORE.search(line, max(0, start - 24), start), line[start:end].strip(".-")
    if before and before[1].lower() not in FUNCTION_WORDS and (longer := classify_name(f"{before[1]} {text}")):
        return longer
    return classify_name(text)


def _trim(line: str, start: int, end: int) -> tuple[int, int]:
    """Drop what stands around a value in a word: escapes, a name and a sign before it, brackets."""
    if line[start] == "\\" and line[start + 1 : start + 2] in "nrt":
        start += 2
    escape = line.find("\\", start, end)
    if escape >= 0:
        end = escape
    for sign in _INNER_SIGN.finditer(line, start, end):
        if end - sign.end() >= _MIN_CHARS and _may_lead(line[start : sign.start()]):
            is_flag = line[start] == "-"
            start = sign.end()
            if "=" in sign[0] and not is_flag:
                break
        elif "=" in sign[0] and end - sign.end() < _MIN_CHARS:
            start = sign.end()
    if line.count("]", start, end) > line.count("[", start, end) and end - line.rfind("]", start, end) > _MIN_CHARS:
        start = line.rfind("]", start, end) + 1
    while start < end and line[start] in _LEFT_SIGNS:
        start += 1
    while end > start and (line[end - 1] in _RIGHT_SIGNS or _closes(line, start, end)):
        end -= 1
    return start, end


def _may_lead(text: str) -> bool:
    """Return True if a text before a sign may be the name of what follows: `host`, `smtp_password(prod)`, `bob`."""
    return text[-1:] in (")", "]", "}") or text.isalpha() or is_chosen(text)


def _closes(line: str, start: int, end: int) -> bool:
    """Return True if a text ends with a bracket that was opened before it."""
    place = ")]}".find(line[end - 1])
    return place >= 0 and line.count(")]}"[place], start, end) > line.count("([{"[place], start, end)


def _may_be_secret(line: str, start: int, value: str) -> bool:
    """Return False for values that are something else for certain."""
    if _NO_SECRET.match(value) or is_reference(value):
        return False
    if _LETTER.match(line, start + len(value)) or _LETTER.match(line, max(0, start - 2)):
        return False  # a part of a longer word
    if line[start - 1 : start] not in _QUOTES and _CODE.search(value):
        return False
    return token_kind(value) is None and not is_chosen(value) and not is_path(value)


def _announcer(names: list[_Name], start: int, end: int) -> _Name | None:
    """Return the closest name before a value, or else after it; None if a name overlaps the value."""
    place = bisect_left(names, (start + 1,))
    before, after = names[max(0, place - 2) : place], names[place : place + 1]
    if any(name.end > start for name in before) or any(name.start < end for name in after):
        return None
    if before and start - before[-1].end <= _BEFORE_CHARS:
        return before[-1]
    return after[0] if after and after[0].start <= end + _AFTER_CHARS else None


def _is_owned(line: str, start: int) -> bool:
    """Return True if a value belongs to a name that announces no secret, as in `"tenant": "…"`."""
    owner = _OWNER.search(line, max(0, start - 60), start)
    if owner is None or owner[1].lower() in _NEUTRAL:
        return False
    if owner[2].strip() == ":" and _IN_PROSE.search(line, max(0, owner.start() - 2), owner.start()):
        return False  # `the key to use: …`
    name = classify_name(owner[1])
    return name is None or name.kind == SIGNATURE


def _is_direct(line: str, name: _Name, start: int) -> bool:
    """Return True if no word stands between a name that means nothing else and the value after it."""
    return name.strength in ("strong", "foreign") and start >= name.end and not _WORDS.search(line, name.end, start)


def _of_value(value: str) -> Iterator[str]:
    bits, size = randomness(value), len(value)
    yield "random" if bits >= 18 else "rather random" if bits >= 8 else "hardly random" if bits >= 0 else "not random"
    yield f"{sum(pattern.search(value) is not None for pattern in _KINDS)} kinds of signs"
    yield "short" if size < 8 else "of 8 to 11" if size < 12 else "of 12 to 80" if size <= 80 else "very long"
    if any(bracket in value for bracket in "([{"):
        yield "brackets inside"
    if "/" in value:
        yield "slashes"


def _of_place(line: str, name: _Name, start: int, end: int, previous_end: int) -> Iterator[str]:
    yield f"{name.strength} name"
    before = name.end <= start
    gap = line[name.end : start] if before else line[end : name.start]
    words = len(_WORDS.findall(gap))
    if not before:
        yield "before its name"
    yield "next to its name" if words == 0 else "a few words away" if words <= 3 else "many words away"
    if "," in gap:
        yield "a comma between"
    if before and previous_end > name.end:
        yield "another value between"
    if before and _SIGN.search(gap):
        yield "a sign or verb before"
    if _OWN_THING.match(line, start, end):
        yield "an id or a digest"
    if line[start - 1 : start] in _QUOTES:
        yield "in quotes"
    elif line[start:end].isidentifier():
        yield "an identifier without quotes"
    if line[end : end + 1] in ("(", "["):
        yield "called or indexed"
    if line[start - 1 : start] in ("/", "@", "#", "$", "%", "&", "?", "-", ".", "\\") and start:
        yield "part of a longer word"
