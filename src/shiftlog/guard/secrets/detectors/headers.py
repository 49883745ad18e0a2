"""Judges the values of `Authorization`, `Cookie` and `X-Api-Key`, in headers, JSON keys or arguments.

Such a value extends to the end of its line or quotes, and does not have to look random.
"""

import re

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.names import SecretName, classify_name
from shiftlog.guard.secrets.detectors.quotes import MAX_SECRET_CHARS, OPENING, UNQUOTED, closing_quote, is_inside_quotes
from shiftlog.guard.secrets.detectors.values import JUDGED_CHARS, Need, Notation, is_random, is_reference, is_secret
from shiftlog.guard.secrets.detectors.words import PLAIN_WORDS, split_words

_LOOKED_AT_CHARS = 1024
_MAX_HEADER_CHARS = 16 * 1024
_SCHEME = re.compile(r"(?P<scheme>basic|bearer|digest|token|negotiate|ntlm)(?P<gap>[ \t]{1,4})", re.I)
_SCHEME_KINDS = {
    "basic": kinds.BASIC_AUTH,
    "bearer": SecretKind(kinds.BEARER.rule, kinds.AUTHORIZATION.klass),
}
_WITHIN_QUOTES = re.compile(r"(?:[^\"'`\\\r\n]|\\(?![nr\"']))+")
_COOKIE_PAIR = re.compile(r"(?<![\w.%-])[\w.%-]{1,128}+=[^\s=]")
_CODE = re.compile(r"\?\s?[\"'`\w]|\|\||&&|=>|\.\w+\(|void 0|[\"'`]\s?\+")
_COOKIE_CODE = re.compile(r"\bfunction\b|=>|\)\{|\);|\breturn\b|\bvoid 0")
_CODE_SIGN = re.compile(r"[(){},;]")
_CALL = re.compile(r"[A-Za-z_]\w{1,32}\([\w .:,+]{0,80}\)")
_ATTACHED = re.compile(r"[A-Za-z0-9._~+/=-]{16,}$")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$.]*$", re.ASCII)
_PROSE = re.compile(r"[A-Za-z]?[a-z]+(?: (?:[a-z,]+|\d{1,3}(?![^ .)])))+[.)]?$")


def judge_header(
    line: str, name: SecretName, name_start: int, start: int, sep: str, *, quoted_name: bool
) -> SecretSpan | None:
    """Find the secret part of a header value that starts at `start`."""
    opening = OPENING.match(line, start)
    if opening and (quoted_name or not is_inside_quotes(line, name_start, opening["quote"])):
        end = closing_quote(line, opening.end(), opening["quote"])
        if sep in (",", "(") and not _is_argument(line[opening.end() : end]):
            return None
        return _judge(line, name, opening.end(), end, quoted=True)
    if opening or sep not in (":", "=", "=>", ":**") or (quoted_name and not _SCHEME.match(line, start)):
        return None
    if sep == "=" and line[start : start + 1] == "[":
        end = line.find("]", start, start + MAX_SECRET_CHARS)
        return _judge(line, name, start + 1, max(start, end), quoted=True)
    if name.kind == kinds.COOKIE and (sep != ":" or not _COOKIE_PAIR.match(line, start)):
        return None
    if any(is_inside_quotes(line, name_start, quote) for quote in ('"', "'", "`", '\\"')):
        value = _WITHIN_QUOTES.match(line, start, start + MAX_SECRET_CHARS)
        end = value.end() if value else start
    else:
        end = _line_end(line, start, name)
    while end > start and line[end - 1] in " \t\r":
        end -= 1
    return _judge(line, name, start, end, quoted=False)


def _line_end(line: str, start: int, name: SecretName) -> int:
    """Return the end of a header that no quotes enclose; in code a cookie ends with its first pair."""
    end = min(len(line), start + _MAX_HEADER_CHARS)
    if name.kind == kinds.COOKIE and _COOKIE_CODE.search(line, start, end):
        found = _CODE_SIGN.search(line, start, end)
        return found.start() if found else end
    return end


def judge_header_text(value: str, name: SecretName) -> SecretSpan | None:
    """Find the secret part of a text that is a whole header value."""
    return _judge(value, name, 0, min(len(value), MAX_SECRET_CHARS), quoted=True)


def _is_argument(value: str) -> bool:
    """Return True if a quoted text in a call is a value: it has a scheme, looks random or is a cookie."""
    return _SCHEME.match(value) is not None or is_random(value[:JUDGED_CHARS]) or _COOKIE_PAIR.search(value) is not None


def _judge(line: str, name: SecretName, start: int, end: int, *, quoted: bool) -> SecretSpan | None:
    kind = name.kind
    scheme = _SCHEME.match(line, start, end) if kind == kinds.AUTHORIZATION else None
    if scheme:
        start, kind = scheme.end(), _SCHEME_KINDS.get(scheme["scheme"].lower(), kind)
    elif kind == kinds.API_KEY and not quoted:
        first = UNQUOTED.match(line, start, end)
        end = start + len(first[0].rstrip(",;)}]")) if first else end
    value = line[start : min(end, start + _LOOKED_AT_CHARS)]
    if kind == kinds.COOKIE and not _COOKIE_PAIR.search(value):
        return None
    if value.startswith(("http://", "https://", "{", "(", "!")) or _is_label(value) or _CALL.match(value):
        return None
    if not quoted and not scheme and kind != kinds.COOKIE and _is_code_or_prose(value):
        return None
    if not quoted and not scheme and kind == kinds.AUTHORIZATION and line[start - 1 : start] == ":":
        return (
            SecretSpan(start, end, kind) if _ATTACHED.match(value) and is_random(value) else None
        )  # not `a:b` of code
    secret = is_secret(value, need=Need.ANY, notation=Notation.DATA, quoted=True)
    return SecretSpan(start, end, kind) if secret else None


def _is_label(value: str) -> bool:
    """Return True for a word instead of a value: `Bearer token`, `'Proxy-Authorization': 'Authorization'`."""
    return value.partition(",")[0].lower() in PLAIN_WORDS or value.lower() in ("cookie", "set-cookie", "x-api-key")


def _is_code_or_prose(value: str) -> bool:
    """Return True for `Authorization: required`, `authorization: string;`, `Authorization: authHeader,`, sentences."""
    first = value[:JUDGED_CHARS].rstrip(",;)}] ")
    if is_reference(first) or _PROSE.match(value) or _CODE.search(value):
        return True
    if not _IDENTIFIER.match(first):
        return re.match(r"[A-Za-z_$][\w$.]*[(\[]", first) is not None
    words = split_words(first)
    return first != value or classify_name(first) is not None or PLAIN_WORDS.issuperset(words)
