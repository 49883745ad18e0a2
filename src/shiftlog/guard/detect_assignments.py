"""Secrets announced by a name on the same line: assignments, JSON and YAML keys, flags, headers, attributes.

Finds name, separator and value, and keeps all but the value. Tokens that need no name are in `detect_tokens`,
passwords in addresses and short flags in `detect_places`.
"""

import re
from collections.abc import Iterator

from shiftlog.guard import detect_kinds as kinds
from shiftlog.guard.detect_kinds import Finding, Kind
from shiftlog.guard.detect_names import NAME_PATTERN, SecretName, classify_name
from shiftlog.guard.detect_values import JUDGED_CHARS, Need, Setting, is_reference, is_secret
from shiftlog.guard.redact_re2 import compile_linear

MAX_SECRET_CHARS = 16 * 1024

_NAMES = compile_linear(NAME_PATTERN)
_NAME_START = re.compile(r"(?P<dashes>-{0,2})[\w-]{0,64}$", re.ASCII)
_NAME = re.compile(
    r"(?P<name>[\w-]{1,64}(?: (?:key|token|phrase))?)(?P<close>\\{0,7}[\"'`]?\]?\*{0,2}|\[\d*\])"
    r"(?P<before>[ \t]{0,16})(?P<sep>:=|=>|[!=]?={1,2}|\?=|\+=|:(?!:)(?:\*\*)?|,(?=[ \t]*\\{0,7}[\"'])|\((?=\\{0,7}[\"'])|>|(?<=[ \t]))"
    r"(?P<after>[ \t]{0,16})",
    re.ASCII | re.IGNORECASE,
)
_TYPED = re.compile(r"[\w.<>\[\]&|'?*, ]{1,60}?\s?=\s?(?=[fFbBrRuU@]{0,2}\\{0,7}[\"'`])", re.ASCII)
# `{"name": "DB_PASSWORD", "value": "…"}`, `<add key="ApiKey" value="…"/>`, `<string name="api_key">…<`
_PAIR_BEFORE = re.compile(r"\b(?:name|key)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"'][\w.-]*$", re.ASCII | re.IGNORECASE)
_PAIR_AFTER = re.compile(
    r"\\{0,7}[\"']\s{0,4}(?:(?:,\s{0,4}|(?<=\s))\\{0,7}[\"']?value\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}(?=\\{0,7}[\"'])|>)",
    re.ASCII | re.IGNORECASE,
)
_SPACED = re.compile(
    r"(?:ENV|setx|set -[a-z]{1,3}|setenv|configure set|config set)\s{1,4}(?P<name>[A-Za-z_][\w.-]{1,63})\s{1,4}"
    r"|login\s{1,4}\S{1,128}\s{1,4}(?P<netrc>password)\s{1,4}",
    re.ASCII,
)
_OPENING = re.compile(r"[fFbBrRuUL@$]{0,2}(?P<quote>\\{0,7}[\"'`])")
_UNQUOTED = re.compile(
    r"(?:[^\s\"'`<>&;,\\]|&(?![\w-]+=|&)|;(?!\s|$|[\w -]+=)|,(?!\s|$|[\w.-]+\s?[=:]|[\"'{\[])"
    r"|\\(?![nrt](?:[\w.-]+\s?[=:]|\s|$|\\|[\"'])|\\{0,6}[\"']))+"
)
_RUN = re.compile(r"[^\s\"'`<>]*")
_SCHEME = re.compile(r"(?P<scheme>basic|bearer|digest|token|negotiate|ntlm)(?P<gap>[ \t]{1,4})", re.I)
_HEADER_VALUE = re.compile(r"(?:[^\"'`\\\r\n]|\\(?![nr\"']))+")
_RAW_HEADER_VALUE = re.compile(r"[^\r\n]+")
_COOKIE_PAIR = re.compile(r"[\w.%-]+=\S")
_CONNECTION = re.compile(r"(?:^|[;\"'=\s])[A-Za-z][A-Za-z ]{1,40}=[^;=]{0,256};", re.ASCII)
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40,}")
_URL_SIGNATURE = re.compile(r"[A-Za-z0-9%/+_-]{40,}={0,2}")
_PROSE_HEADER = re.compile(r"[a-z]+(?: [a-z,]+){1,}[.)]?$|(?:required|optional|none|yes|no|see|the|basic|bearer|token)\b", re.I)
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$.]*$", re.ASCII)


def find_assignments(line: str) -> Iterator[Finding]:
    """Yield the secrets of a line that a name announces."""
    position = 0
    for hit in _NAMES.finditer(line.encode("latin-1")):
        if hit.start() < position:
            continue
        finding = _judge_spaced(line, hit.start()) or _judge_name(line, hit.start())
        if finding is not None:
            yield finding
            position = finding.end


def _judge_spaced(line: str, start: int) -> Finding | None:
    match = _SPACED.match(line, start)
    name = classify_name(match["name"] or match["netrc"]) if match else None
    return _judge_value(line, match.end(), name, name.kind, Setting.SHELL) if match and name else None


def _judge_name(line: str, inside: int) -> Finding | None:
    """Judge the name of which the character at `inside` is a part."""
    before = _NAME_START.search(line, max(0, inside - 64), inside)
    start, dashes = (before.end("dashes"), before["dashes"]) if before else (inside, "")
    preceding = line[before.start() - 1 : before.start()] if before and before.start() else ""
    if preceding == "\\" and line[start] in "nrt":
        start += 1  # the line break of an escaped text, not a letter of the name
    match = _NAME.match(line, start)
    if match is None or (preceding == "/" and not dashes) or line.endswith("[REDACTED:", 0, start):
        return None
    name = classify_name(match["name"])
    if name is None:
        return None
    if _PAIR_BEFORE.search(line, max(0, start - 80), start) and (pair := _PAIR_AFTER.match(line, match.end("name"))):
        need = Need.PLAIN if match["name"].isupper() else name.need
        return _judge_value(line, pair.end(), name, name.kind, Setting.SHELL, need=need)
    sep, spaced = match["sep"], bool(match["before"] or match["after"])
    if (sep == "" and not dashes) or (sep == ">" and preceding not in ("<", ":")):
        return None
    if name.header:
        return _judge_header(line, match, name)
    setting = _setting_of(sep, preceding, dashes, match["name"], spaced=spaced)
    kind = name.kind
    if dashes:
        kind = kinds.CLI_API_KEY if kind == kinds.API_KEY else kinds.CLI_PASSWORD
    elif sep == "=" and not spaced and _in_connection_string(line, match):
        kind = kinds.AZURE_PART if match["name"].lower().endswith("key") else kinds.CONNECTION_PART
    return _judge_value(line, match.end(), name, kind, setting, need=_need_of(name, sep, setting), sep=sep)


def _setting_of(sep: str, preceding: str, dashes: str, name: str, *, spaced: bool) -> Setting:
    if dashes or sep == ">":
        return Setting.SHELL
    if sep == "=" and not spaced and (name.isupper() or preceding in ("?", "&")):
        return Setting.SHELL
    return Setting.CONFIG if sep[:1] in (":", "=") and not (spaced and sep == "=") and sep != "=>" else Setting.CODE


def _need_of(name: SecretName, sep: str, setting: Setting) -> Need:
    """Comparisons, arguments and calls name many things that are no secrets; a shell's assignment rarely does."""
    if sep in (",", "(") or "==" in sep or sep == "!=":
        return Need.RANDOM
    if setting == Setting.SHELL and name.need > Need.PLAIN:
        return Need(name.need - 1)
    return name.need


def _in_connection_string(line: str, match: re.Match[str]) -> bool:
    start = match.start("name")
    if line[start - 1 : start] == ";":
        return True
    return _CONNECTION.match(line, max(0, start - 1), start + JUDGED_CHARS * 2) is not None and (
        re.compile(r"[^;]{0,256};\s?[A-Za-z][A-Za-z ]{1,40}=").match(line, match.end()) is not None
    )


def _judge_value(
    line: str,
    start: int,
    name: SecretName,
    kind: Kind,
    setting: Setting,
    *,
    need: Need | None = None,
    sep: str = "",
) -> Finding | None:
    need = name.need if need is None else need
    typed = _TYPED.match(line, start) if sep == ":" else None
    if typed:
        start = typed.end()
    opening = _OPENING.match(line, start)
    if opening:
        start = opening.end()
        end = _closing_quote(line, start, opening["quote"])
        value = line[start:end]
        secret = _is_secret_of(name, value, need, setting, quoted=True, context="")
    else:
        unquoted = _UNQUOTED.match(line, start, start + JUDGED_CHARS)
        if unquoted is None:
            return None
        value = unquoted[0].rstrip(",;") if setting == Setting.SHELL else _trim(unquoted[0])
        context = line[start : start + JUDGED_CHARS]
        secret = _is_secret_of(name, value, need, setting, quoted=False, context=context)
        end = start + len(value)
        if secret and unquoted.end() == start + JUDGED_CHARS:
            run = _RUN.match(line, start, start + MAX_SECRET_CHARS)
            end = run.end() if run else end
    if not secret:
        return None
    if kind == kinds.PASSWORD and _AWS_SECRET.fullmatch(value):
        kind = kinds.AWS_SECRET
    return Finding(start, end, kind)


def _is_secret_of(name: SecretName, value: str, need: Need, setting: Setting, *, quoted: bool, context: str) -> bool:
    if name.kind == kinds.SIGNATURE:
        return _LONG_HEX.fullmatch(value) is not None
    if name.kind == kinds.API_KEY and len(value) >= 20 and " " not in value:
        code = not quoted and setting != Setting.SHELL and _IDENTIFIER.match(value) and not any(map(str.isdigit, value))
        return not code and is_secret(value, need=Need.ANY, setting=setting, quoted=quoted, context=context)
    return is_secret(value, need=need, setting=setting, quoted=quoted, context=context)


def _closing_quote(line: str, start: int, quote: str) -> int:
    """Find where a quoted value ends: at its own kind of quote, or at the end of what may be one secret."""
    limit = min(len(line), start + MAX_SECRET_CHARS)
    position = start
    while True:
        end = line.find(quote, position, limit)
        if end < 0:
            return limit
        slashes = 0
        while end - slashes > start and line[end - slashes - 1] == "\\":
            slashes += 1
        if slashes == 0 or (len(quote) == 1 and slashes % 2 == 0):
            return end
        position = end + len(quote)


def _trim(value: str) -> str:
    """Drop the closing brackets that belong to the code around an unquoted value."""
    value = value.rstrip(",;")
    while value and value[-1] in ")]}" and value.count(value[-1]) > value.count("([{"[")]}".index(value[-1])]):
        value = value[:-1].rstrip(",;")
    return value


def _judge_header(line: str, match: re.Match[str], name: SecretName) -> Finding | None:
    """A header's value goes on to the end of its line, or of the quotes it stands in."""
    start = match.end()
    opening = _OPENING.match(line, start)
    if opening:
        start, end = opening.end(), _closing_quote(line, opening.end(), opening["quote"])
        quoted = True
    elif match["sep"] in (",", "(", ">", "") and not match["dashes"]:
        return None
    else:
        if line[start : start + 1] == "[" and match["sep"] == "=":
            start += 1
        before = line[: match.start("name")].rstrip("\\")
        raw = not before or before[-1] not in "\"'`"
        shape = _RAW_HEADER_VALUE if raw and "\\n" not in line[start:] and not before.count('"') % 2 else _HEADER_VALUE
        found = shape.match(line, start, start + MAX_SECRET_CHARS)
        if found is None:
            return None
        end = start + len(found[0].rstrip())
        if line[start - 1] == "[":
            end = line.find("]", start, end) if "]" in line[start:end] else end
        quoted = False
    return _judge_header_value(line, start, end, name, quoted=quoted or "-" in match["name"])


def _judge_header_value(line: str, start: int, end: int, name: SecretName, *, quoted: bool) -> Finding | None:
    kind = name.kind
    scheme = _SCHEME.match(line, start, end) if kind == kinds.AUTHORIZATION else None
    if scheme:
        start = scheme.end()
        kind = {"basic": kinds.BASIC_AUTH, "bearer": kinds.BEARER}.get(scheme["scheme"].lower(), kind)
        if kind == kinds.BEARER:
            kind = Kind(kinds.BEARER.rule, kinds.AUTHORIZATION.klass)
    value = line[start:end]
    setting = Setting.DATA if quoted or scheme or name.kind == kinds.COOKIE else Setting.CONFIG
    if name.kind == kinds.COOKIE and not _COOKIE_PAIR.search(value):
        return None
    if not quoted and not scheme and _is_code_or_prose(value):
        return None
    if not scheme and name.kind == kinds.API_KEY:
        first = _UNQUOTED.match(line, start, end)
        end = start + len(first[0].rstrip(",;)}]")) if first and not quoted else end
        value = line[start:end]
    if is_secret(value, need=Need.ANY, setting=setting, quoted=quoted, context=value):
        return Finding(start, end, kind)
    return None


def _is_code_or_prose(value: str) -> bool:
    first = value.rstrip(",;)}] ")
    if _PROSE_HEADER.match(value):
        return True
    if _IDENTIFIER.match(first):
        return classify_name(first) is not None or first != value or not first.isalnum() or first != first.lower()
    return is_reference(first)
