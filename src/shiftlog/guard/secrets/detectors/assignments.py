"""Finds secrets announced by a name on the same line: assignments, JSON and YAML keys, flags, attributes.

Only the value is masked. `headers` judges header values, `tokens` finds secrets that need no name, `contexts` passwords
in URLs and short flags.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shiftlog.guard.linear import compile_linear
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.headers import judge_header
from shiftlog.guard.secrets.detectors.kinds import SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.names import NAME_PATTERN, SecretName, classify_name
from shiftlog.guard.secrets.detectors.quotes import (
    OPENING,
    UNQUOTED,
    closing_quote,
    is_inside_quotes,
    run_end,
    trim_code,
)
from shiftlog.guard.secrets.detectors.values import JUDGED_CHARS, Need, Notation, is_secret, is_worded
from shiftlog.guard.secrets.detectors.words import split_words

_NAMES = compile_linear(NAME_PATTERN)
_NAME_START = re.compile(r"(?P<dashes>-{0,2})[\w-]{0,64}$", re.ASCII)
_NAME = re.compile(
    r"(?P<name>[\w-]{1,64}(?: (?:key|token|phrase))?)(?P<close>\\{0,7}[\"'`]?\]?\*{0,2}|\[\d*\])(?P<before>[ \t]{0,16})"
    r"(?P<sep>:=|=>|[!=]?={1,2}|\?=|\+=|:(?!:)(?:\*\*)?|,(?=[ \t]*\\{0,7}[\"'])|\((?=\\{0,7}[\"'])|>|(?<=[ \t]))"
    r"(?P<after>[ \t]{0,16})",
    re.ASCII | re.IGNORECASE,
)
_TYPED = re.compile(r"[\w.<>\[\]&|'?*, ]{1,60}?\s?=\s?(?=[fFbBrRuU@]{0,2}\\{0,7}[\"'`])", re.ASCII)
# `{"name": "DB_PASSWORD", "value": "…"}`, `<add key="ApiKey" value="…"/>`, `<string name="api_key">…<`
_PAIR_BEFORE = re.compile(r"\b(?:name|key)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"'][\w.-]*$", re.ASCII | re.I)
_PAIR_AFTER = re.compile(
    r"\\{0,7}[\"']\s{0,4}(?:(?:,\s{0,4}|(?<=\s))\\{0,7}[\"']?value\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}(?=\\{0,7}[\"'])|>)",
    re.ASCII | re.I,
)
_SPACED = re.compile(
    r"(?:ENV|(?P<macro>#define)|setx|set -[a-z]{1,3}|setenv|configure set|config set)\s{1,4}"
    r"(?P<name>[A-Za-z_][\w.-]{1,63})\s{1,8}(?(macro)(?=L?\"))"
    r"|(?:login\s{1,4}\S{1,128}\s{1,4}password|requirepass|masterauth|bindpw|rootpw)\s{1,8}",
    re.ASCII,
)
# Prose: `the password is …`, `password for admin: …`, `password "…"`
_SAID = re.compile(
    r"pass(?:word|wd|phrase|code)[ \t]{1,4}(?:(?=[\"'`])|(?:is|was)(?: now)?:?[ \t]{1,4}"
    r"|(?:for|of|to|on)[ \t]{1,4}[\w@.'\"/-]{1,80}:[ \t]{1,4})",
    re.ASCII | re.I,
)
_OTHER_PART = re.compile(r"[^;]{0,256};\s?[A-Za-z][A-Za-z ]{1,40}=", re.ASCII)
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40,}")
_URL_SIGNATURE = re.compile(r"[A-Za-z0-9%/+_-]{40,}={0,2}")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*$", re.ASCII)

_SECRET_WORDS = frozenset({"password", "passwd", "secret", "token", "credential", "credentials", "key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Announcement:
    """A name that announces a secret, and the syntax around it."""

    name: SecretName
    text: str
    start: int
    value: int
    sep: str
    spaced: bool
    flag: bool
    quoted: bool
    preceding: str

    @property
    def notation(self) -> Notation:
        attached = self.sep == "=" and not self.spaced
        if self.flag or self.sep == ">" or (attached and (self.text.isupper() or self.preceding in ("?", "&"))):
            return Notation.SHELL
        return Notation.CONFIG if attached or self.sep in (":", ":**") else Notation.CODE

    @property
    def need(self) -> Need:
        """How suspicious the value must look: comparisons and arguments often announce no secret."""
        if self.sep in (",", "(") or "==" in self.sep or self.sep == "!=" or (self.preceding == "/" and not self.flag):
            return Need.RANDOM
        if (self.flag or self.text.isupper()) and self.notation == Notation.SHELL and not self.name.weak:
            return Need(max(self.name.need - 1, Need.PLAIN))
        return self.name.need


def find_assignments(line: str, data: bytes) -> Iterator[SecretSpan]:
    """Yield the secrets in a line that a name announces."""
    position = 0
    for hit in _NAMES.finditer(data):
        if hit.start() < position:
            continue
        finding = _judge_spaced(line, hit.start()) or _judge_named(line, hit.start()) or _judge_said(line, hit.start())
        if finding is not None:
            yield finding
            position = finding.end


def _judge_spaced(line: str, start: int) -> SecretSpan | None:
    match = _SPACED.match(line, start)
    name = classify_name(match["name"] or "password") if match else None
    if match is None or name is None or name.header:
        return None
    return _judge_value(line, match.end(), name, name.kind, Notation.SHELL, name.need)


def _judge_said(line: str, start: int) -> SecretSpan | None:
    """Find a password in prose; a word without digits is just more prose."""
    match = _SAID.match(line, start)
    name = classify_name("password") if match else None
    found = _judge_value(line, match.end(), name, name.kind, Notation.SHELL, Need.MIXED) if match and name else None
    return found if found and any(map(str.isdigit, line[found.start : found.end])) else None


def _judge_named(line: str, inside: int) -> SecretSpan | None:
    """Judge the value after the name that includes the character at `inside`."""
    announced = _read_announcement(line, inside)
    if announced is None:
        return None
    name, start = announced.name, announced.start
    if _PAIR_BEFORE.search(line, max(0, start - 80), start):
        pair = _PAIR_AFTER.match(line, start + len(announced.text))
        need = Need.PLAIN if announced.text.isupper() else name.need
        return _judge_value(line, pair.end(), name, name.kind, Notation.SHELL, need) if pair else None
    if not _leads_to_value(line, announced):
        return None
    if name.header:
        return judge_header(line, name, start, announced.value, announced.sep, quoted_name=announced.quoted)
    value = announced.value
    if announced.sep == ":" and (typed := _TYPED.match(line, value)):
        value = typed.end()
    opening = OPENING.match(line, value)
    if opening and not announced.quoted and is_inside_quotes(line, start, opening["quote"]):
        return None  # the quote ends the text around the name: `input("Password: ")`
    kind, in_query = _kind_of(line, announced), announced.preceding in ("?", "&")
    notation, need = announced.notation, announced.need
    if kind in (kinds.CONNECTION_PART, kinds.AZURE_PART) and announced.text[0].isupper():
        notation, need = Notation.SHELL, Need.PLAIN  # variables are not named like parts of a connection string
    return _judge_value(line, value, name, kind, notation, need, in_query=in_query)


def _read_announcement(line: str, inside: int) -> _Announcement | None:
    inside += len(line[inside : inside + 8]) - len(line[inside : inside + 8].lstrip("-"))
    before = _NAME_START.search(line, max(0, inside - 64), inside)
    start, dashes = (before.end("dashes"), before["dashes"]) if before else (inside, "")
    preceding = line[before.start() - 1 : before.start()] if before and before.start() else ""
    if preceding == "\\" and line[start] in "nrt":
        start += 1  # an escaped line break, not a letter of the name
    match = _NAME.match(line, start)
    if match is None or line.endswith(("::", "[REDACTED:"), 0, start):
        return None
    name = classify_name(match["name"])
    if preceding == "/" and not dashes and not _is_key_of_path(match, name):
        return None
    return name and _Announcement(
        name=name,
        text=match["name"],
        start=start,
        value=match.end(),
        sep=match["sep"],
        spaced=bool(match["before"] or match["after"]),
        flag=bool(dashes),
        quoted=any(quote in match["close"] for quote in "\"'`"),
        preceding=preceding,
    )


def _is_key_of_path(match: re.Match[str], name: SecretName | None) -> bool:
    """Return True for `/apiKey:…` and `/apiKey=…`; any other name at the end of a path is part of the path."""
    attached = match["sep"] in (":", "=") and not (match["before"] or match["after"])
    return attached and name is not None and name.kind == kinds.API_KEY


def _leads_to_value(line: str, announced: _Announcement) -> bool:
    """Return True if the text after a name leads to its value."""
    if announced.sep == "":
        return announced.flag
    if announced.sep == ">":
        closed = line.find("</", announced.value, announced.value + JUDGED_CHARS) > 0
        return closed and announced.preceding in ("<", ":")
    if announced.sep == announced.preceding == ":" and not announced.spaced:
        return False  # part of a resource name: `arn:…:secret:prod/db`
    return announced.sep != "(" or not announced.name.weak


def _kind_of(line: str, announced: _Announcement) -> SecretKind:
    kind = announced.name.kind
    if announced.flag:
        return kinds.CLI_API_KEY if kind == kinds.API_KEY else kinds.CLI_PASSWORD
    if announced.sep == "=" and not announced.spaced:
        parts = announced.preceding == ";" or _OTHER_PART.match(line, announced.value) is not None
        if parts and not announced.text.isupper():
            return kinds.AZURE_PART if announced.text.lower().endswith("key") else kinds.CONNECTION_PART
    return kind


def _judge_value(
    line: str, start: int, name: SecretName, kind: SecretKind, notation: Notation, need: Need, *, in_query: bool = False
) -> SecretSpan | None:
    opening = OPENING.match(line, start)
    if opening:
        start = opening.end()
        end = closing_quote(line, start, opening["quote"])
        value = line[start:end]
        if not _is_secret(name, value, need, notation, quoted=True, context=""):
            return None
    else:
        unquoted = UNQUOTED.match(line, start, start + JUDGED_CHARS)
        if unquoted is None:
            return None
        bracketed = notation != Notation.SHELL or any(bracket in line[:start] for bracket in "([{")
        value = trim_code(unquoted[0]) if bracketed else unquoted[0].rstrip(",;")
        if in_query:
            value = value.partition("#")[0]
        if not _is_secret(name, value, need, notation, quoted=False, context=line[start : start + JUDGED_CHARS]):
            return None
        end = run_end(line, start) if unquoted.end() == start + JUDGED_CHARS else start + len(value)
    if kind == kinds.PASSWORD and _AWS_SECRET.fullmatch(value):
        kind = kinds.AWS_SECRET
    return SecretSpan(start, end, kind)


def _is_secret(name: SecretName, value: str, need: Need, notation: Notation, *, quoted: bool, context: str) -> bool:
    if name.kind == kinds.SIGNATURE:
        return (_URL_SIGNATURE if notation == Notation.SHELL else _LONG_HEX).fullmatch(value) is not None
    if name.kind == kinds.API_KEY and len(value) >= 20 and " " not in value:
        variable = not quoted and notation != Notation.SHELL and _IDENTIFIER.match(value)
        if not variable or any(map(str.isdigit, value)):
            need = Need.ANY
    if name.kind == kinds.PASSWORD and _is_aws_secret(value):
        return True  # its slashes may make it look like a path
    if need == Need.RANDOM and notation == Notation.CODE and not any(map(str.isdigit, value)):
        return False
    if need != Need.ANY and _names_secret(value):
        return False
    return is_secret(value, need=need, notation=notation, quoted=quoted, context=context)


def _is_aws_secret(value: str) -> bool:
    """Return True if a value looks like an AWS secret access key."""
    return (
        _AWS_SECRET.fullmatch(value) is not None
        and any(map(str.isupper, value))
        and any(map(str.islower, value))
        and any(map(str.isdigit, value))
        and not is_worded(value)
    )


def _names_secret(value: str) -> bool:
    """Return True for a label such as `challengePassword` or `reset-token`, which names a secret itself."""
    words = split_words(value)
    return len(words) > 1 and words[-1] in _SECRET_WORDS and all(word.isalpha() for word in words) and " " not in value
