"""Finds passwords by their context: URLs, authorization schemes, short flags, SQL statements.

`assignments` finds secrets that a name announces.
"""

import base64
import binascii
import re
from collections.abc import Iterator

from shiftlog.guard.linear import compile_linear
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.quotes import EDGE, LINEAR_EDGE, NEW_LINE
from shiftlog.guard.secrets.detectors.values import Need, Notation, is_random, is_reference, is_secret

_VALUE = r"(?:\\?\"(?P<d0>[^\"\\]{1,512})|\\?'(?P<s0>[^'\\]{1,512})|(?P<u0>[^\s\"'|;&<>\\]{1,512}))"
_ADDRESS = re.compile(
    r"://(?P<user>[^\s/:@\"'<>`\\]{0,256}):(?P<password>[^\s/\"'<>`\\]{1,512})@(?=[\w\[${(%*.-])"
    r"|://[^\s/:@\"'<>`\\]{0,256}:(?P<slashed>(?!\d{1,5}/)[^\s\"'<>`\\@]{4,256})@(?=[\w.-]{1,256}(?::\d{1,5})?(?:[/?\s\"']|$))"
    r"|(?<![\w/])[\w.%-]{1,64}:(?P<dsn>[^\s/\"'<>`\\@]{1,256})@(?=(?:tcp|unix)\()"
)
_BASE64_SIGNS = frozenset("+/=~")
_ALONE = rf"(?:(?<![\w-])|{NEW_LINE})"
_BEARER = re.compile(_ALONE + r"[Bb](?:earer|EARER)[ \t]{1,4}(?P<value>[\w.~+/=-]{4,65536})", re.ASCII)
_BASIC = re.compile(_ALONE + r"[Bb](?:asic|ASIC)[ \t]{1,4}(?P<value>[A-Za-z0-9+/]{8,4096}={0,2})(?![\w+/=])", re.ASCII)


def _flag(pattern: str) -> re.Pattern[str]:
    return re.compile(EDGE + pattern.removeprefix(r"\b") if pattern.startswith(r"\b") else pattern)


_FLAGS = (
    _flag(rf"\bsshpass\s{{1,4}}-p\s{{0,4}}{_VALUE}"),
    _flag(rf"\b(?:mysql\w{{0,12}}|mariadb[\w-]{{0,12}}|7za?|rar|unrar)\b.{{0,300}}?\s-p{_VALUE}"),
    _flag(
        r"\b(?:(?:docker|podman|nerdctl|helm registry|oc|az|buildah|skopeo|cf|gh)\s{1,4}login|mongo\w{0,10}"
        r"|cqlsh|twine|sqlcmd|bcp|svn|ftp|lftp|mosquitto_\w{3}|rabbitmqadmin|zip|unzip|impacket-\w{1,20})\b"
        rf".{{0,300}}?\s-[pP]\s{{1,4}}{_VALUE}"
    ),
    _flag(
        r"\b(?:curl|wget|https?|xh|curlie|ab)\b.{0,500}?"
        r"\s(?:-u|--user|-a|--auth|-A|--proxy-user|-U|--basic-auth)[ =]{0,3}"
        r"(?:\"[^\s:\"/]{1,128}:(?P<d0>[^\"]{1,512})\"|'[^\s:'/]{1,128}:(?P<s0>[^']{1,512})'"
        r"|[^\s:\"'/]{1,128}:(?!//)(?P<u0>[^\s\"'|;&<>\\]{1,512}))"
    ),
    _flag(rf"\bssh-keygen\b.{{0,200}}?\s-P\s{{1,4}}{_VALUE}"),
    _flag(rf"\bssh-keygen\b.{{0,200}}?\s-N\s{{1,4}}{_VALUE}"),
    _flag(rf"\bredis-cli\b.{{0,300}}?\s-a\s{{1,4}}{_VALUE}"),
    _flag(rf"\bldap[a-z]{{3,8}}\b.{{0,300}}?\s-w\s{{0,4}}{_VALUE}"),
    _flag(rf"\b(?:smbclient|smbmap|net|rpcclient|mount)\b.{{0,300}}?\s-U\s{{0,4}}[\"']?[\w\\.-]{{1,64}}%{_VALUE}"),
    _flag(rf"\bhtpasswd\s{{1,4}}-\w{{0,6}}b\w{{0,6}}\s{{1,4}}\S{{1,256}}\s{{1,4}}\S{{1,64}}\s{{1,4}}{_VALUE}"),
    _flag(rf"\s-(?:pass|passin|passout|srp-pass)\s{{1,4}}[\"']?pass:{_VALUE}"),
    _flag(
        rf"\becho\s{{1,4}}(?:-n\s{{1,4}})?{_VALUE}[\"']?\s{{0,4}}\|\s{{0,4}}(?:sudo\s{{1,4}}-\w*S|passwd\s{{1,4}}--stdin|su\b)"
    ),
    _flag(
        rf"\becho\s{{1,4}}(?:-n\s{{1,4}})?[\"']?[\w.-]{{1,64}}:{_VALUE}[\"']?\s{{0,4}}\|\s{{0,4}}(?:sudo\s{{1,4}})?chpasswd"
    ),
    _flag(rf"\bConvertTo-SecureString\s{{1,4}}(?:-String\s{{1,4}})?{_VALUE}"),
)
_COOKIES = _flag(r"\bcurl\b.{0,500}?\s(?:-b|--cookie)[ =]{0,3}(?P<quote>[\"']?)(?P<s0>[\w.%-]{1,128}=[^\s\"']{4,4096})")
_SQL = re.compile(
    r"\b(?:IDENTIFIED\s{1,4}BY|(?:WITH|SET|ENCRYPTED|ROLE|USER)\b.{0,100}?\bPASSWORD)\s{1,4}(?:PASSWORD\s{1,4})?'(?P<s0>[^']{1,256})'",
    re.I,
)
_PORTS = re.compile(r"[\d.:/]+(?:tcp|udp)?$")

ADDRESS_PATTERN = r"://[^\s/:@]*:[^\s@]+@|[\w.%-]:[^\s/@]+@(?:tcp|unix)\("
SCHEME_PATTERN = LINEAR_EDGE + r"(?i:(?:bearer|basic)[ \t]+[A-Za-z0-9._~+/-]{4})"
FLAG_PATTERN = (
    LINEAR_EDGE + r"(?:sshpass\s+-p|(?:redis-cli|ssh-keygen|ldap[a-z]{3,8}|ConvertTo-SecureString)\s|htpasswd\s+-)"
    r"|\s-p[^\s-]"
    r"|\s-[pP]\s+[^\s-]"
    r"|\s(?:-u|--user|-a|--auth|-A|--proxy-user|-U|--basic-auth)[ =]*[\"']?[^\s:/\"']+:[^/\s]"
    r"|\s-U\s*[^\s%]+%"
    r"|\s(?:-b|--cookie)[ =]*[\"']?[\w.%-]+="
    r"|\s-(?:pass|passin|passout|srp-pass)\s+[\"']?pass:"
    r"|\|\s*(?:sudo\s|passwd\s|su\b|chpasswd)"
    r"|(?i:\bIDENTIFIED\s+BY\s|\bPASSWORD\s+(?:PASSWORD\s+)?')"
)

_ADDRESSES = compile_linear(ADDRESS_PATTERN)
_SCHEMES = compile_linear(SCHEME_PATTERN)
_FLAG_HITS = compile_linear(FLAG_PATTERN)
_COMMAND_CHARS = 640


def find_addresses(line: str, data: bytes) -> Iterator[SecretSpan]:
    """Yield the passwords in URLs."""
    if _ADDRESSES.search(data) is None:
        return
    for match in _ADDRESS.finditer(line):
        group = match.lastgroup if match.lastgroup != "user" else "password"
        if group and not is_reference(match[group]):
            yield SecretSpan(match.start(group), match.end(group), kinds.URL_PASSWORD)


def find_schemes(line: str, data: bytes) -> Iterator[SecretSpan]:
    """Yield the values after `Bearer` and `Basic` outside a header."""
    if _SCHEMES.search(data) is None:
        return
    for match in _BEARER.finditer(line):
        value = match["value"].rstrip(".")
        if _is_bearer_value(value, line[match.end() : match.end() + 1]):
            yield SecretSpan(match.start("value"), match.start("value") + len(value), kinds.BEARER)
    for match in _BASIC.finditer(line):
        if _is_user_and_password(match["value"]):
            yield SecretSpan(match.start("value"), match.end("value"), kinds.BASIC_AUTH)


def find_flags(line: str, data: bytes) -> Iterator[SecretSpan]:
    """Yield passwords in short flags of programs and in SQL statements."""
    for start, end in _flag_windows(line, data):
        for pattern in _FLAGS:
            for match in pattern.finditer(line, start, end):
                yield from _judge_group(match, kinds.CLI_PASSWORD)
        for match in _SQL.finditer(line, start, end):
            yield from _judge_group(match, kinds.PASSWORD)
        for match in _COOKIES.finditer(line, start, end):
            yield from _judge_group(match, kinds.COOKIE)


def _flag_windows(line: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the parts of a line around its flags, as long as a command may be; they do not overlap."""
    start = end = 0
    for hit in _FLAG_HITS.finditer(data):
        if hit.start() - _COMMAND_CHARS > end:
            if end:
                yield start, end
            start = max(end, hit.start() - _COMMAND_CHARS)
        end = hit.end() + _COMMAND_CHARS
    if end:
        yield start, min(end, len(line))


def _judge_group(match: re.Match[str], kind: SecretKind) -> Iterator[SecretSpan]:
    group = next((name for name in ("d0", "s0", "u0") if match.groupdict().get(name)), None)
    if group is None or _PORTS.match(match[group]):
        return
    if is_secret(match[group], need=Need.PLAIN, notation=Notation.SHELL, quoted=group != "u0"):
        yield SecretSpan(match.start(group), match.end(group), kind)


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
