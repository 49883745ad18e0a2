"""Finds passwords by their context: URLs, authorization schemes, short flags, SQL statements.

`assignments` finds secrets that a name announces.
"""

import base64
import binascii
import re
from collections.abc import Iterator

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretSpan
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE, NEW_LINE
from shiftlog.guard.secrets.detectors.values import is_random, is_reference

_ADDRESS = re.compile(
    r"://(?P<token>[\w.~-]{16,256})(?::(?:x-oauth-basic)?)?@(?=[\w\[.-])"
    r"|://(?P<user>[^\s/:@\"'<>`\\\[\]]{0,256}):(?P<password>[^\s/\"'<>`\\]{1,512})@(?=[\w\[${(%*.-]|[\s\"'`,;)]|$)"
    r"|://[^\s/:@\"'<>`\\\[\]]{0,256}:(?P<slashed>(?!\d{1,5}/)[^\s\"'<>`\\@]{4,256})@(?=[\w.-]{1,256}(?::\d{1,5})?(?:[/?\s\"']|$))"
    r"|(?<![\w/])[\w.%-]{1,64}:(?P<dsn>(?!//|\d+:)[^\s\"'<>`\\@]{1,256})@(?=(?:tcp|unix)\(|[a-z]{2,12}://)"
)
_BASE64_SIGNS = frozenset("+/=~")
_ALONE = rf"(?:(?<![\w-])|{NEW_LINE})"
_BEARER = re.compile(_ALONE + r"[Bb](?:earer|EARER)[ \t]{1,4}(?P<value>[\w.~+/=-]{4,65536})", re.ASCII)
_BASIC = re.compile(_ALONE + r"[Bb](?:asic|ASIC)[ \t]{1,4}(?P<value>[A-Za-z0-9+/]{8,4096}={0,2})(?![\w+/=])", re.ASCII)


ADDRESS_PATTERN = r"://[^\s/:@]*:[^\s@]+@|://[\w.~-]{16,256}:?@|[\w.%-]:[^\s@]+@(?:(?:tcp|unix)\(|[a-z]{2,12}://)"
SCHEME_PATTERN = LINEAR_EDGE + r"(?i:(?:bearer|basic)[ \t]+[A-Za-z0-9._~+/-]{4})"


def find_addresses(line: str, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the passwords in URLs, in a part of a line."""
    for match in _ADDRESS.finditer(line, begin, stop):
        group = "password" if match["password"] else match.lastgroup
        if group == "token" and not is_random(match[group]):
            continue
        if group and not is_reference(match[group]):
            yield SecretSpan(match.start(group), match.end(group), kinds.URL_PASSWORD)


def find_schemes(line: str, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the values after `Bearer` and `Basic` outside a header, in a part of a line."""
    for match in _matches(_BEARER, line, begin, stop):
        value = match["value"].rstrip(".")
        if _is_bearer_value(value, line[match.end() : match.end() + 1]):
            yield SecretSpan(match.start("value"), match.start("value") + len(value), kinds.BEARER)
    for match in _matches(_BASIC, line, begin, stop):
        if _is_user_and_password(match["value"]):
            yield SecretSpan(match.start("value"), match.end("value"), kinds.BASIC_AUTH)


def _matches(pattern: re.Pattern[str], line: str, begin: int, stop: int) -> Iterator[re.Match[str]]:
    """Yield the matches that start in a part of a line, even if they end behind it."""
    for match in pattern.finditer(line, begin, stop):
        whole = match if match.end() < stop else pattern.match(line, match.start())
        if whole is not None:
            yield whole


def _is_bearer_value(value: str, following: str) -> bool:
    """Return True if a value after `Bearer` is a token; a short one must not look like a word."""
    if is_reference(value) or following in ("=", "(") or value.startswith("realm"):
        return False
    if len(value) >= 8 and len(_BASE64_SIGNS.intersection(value)) > 1:
        return True
    if len(value) >= 16:
        return is_random(value) or any(map(str.isdigit, value)) or not re.search(r"[._/-]|[a-z][A-Z]", value)
    return len(value) >= 8 and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_user_and_password(value: str) -> bool:
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and min(decoded) >= 32
