"""Finds secrets announced by a name on the same line: assignments, JSON and YAML keys, flags, attributes.

Only the value is masked. `headers` judges header values, `tokens` finds secrets that need no name, `contexts` passwords
in URLs and short flags.
"""

import re
from collections.abc import Iterator
from string import ascii_letters, digits
from typing import NamedTuple

from shiftlog.guard.linear import compile_linear, spans_of
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.announcements import (
    CONVERTED,
    DECLARES,
    DESCRIBED,
    DOTTED_START,
    ESCAPED_END,
    LINE_REST,
    LINE_START,
    LISTED_AFTER,
    LISTED_BEFORE,
    NAME,
    OTHER_PART,
    PAIR_AFTER,
    PAIR_BEFORE,
    SAID,
    SAID_START,
    SETTER,
    SPACED,
    TAGGED,
    TYPED,
)
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
from shiftlog.guard.secrets.detectors.values import (
    JUDGED_CHARS,
    OWN_THING,
    Need,
    Notation,
    is_chosen,
    is_random,
    is_secret,
    is_unlike_prose,
    is_worded,
    names_secret,
)
from shiftlog.guard.secrets.detectors.words import split_words

_find_names = spans_of(compile_linear(NAME_PATTERN))
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+]{40}")
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40,}")
_URL_SIGNATURE = re.compile(r"[A-Za-z0-9%/+_-]{40,}={0,2}")
_OBJECT = re.compile(r"\{\s*\\{1,7}\"[^\"]*\":")  # names in it tell its secrets
_COUNTED = re.compile(r"\d+ (?:bytes|chars|characters|days|hours|items|minutes|seconds|tokens|words|years)\b")
_LISTED = re.compile(r"\[\s{0,4}(?=\\{0,7}[\"'])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*$", re.ASCII)
# Shells keep the present and the last directory under a name that elsewhere means a password.
_DIRECTORY = re.compile(r"""(?i:(?:OLD)?PWD)['"]?[ \t]{0,4}[=:][ \t]{0,4}['"]?[/~]""")
_NAME_CHARS, _NAME_SIGNS = 64, f"{ascii_letters}{digits}_-"


class _Announcement(NamedTuple):
    """A name that announces a secret, and the syntax around it."""

    name: SecretName
    text: str
    start: int
    value: int
    sep: str
    spaced: bool
    wide: bool
    flag: bool
    quoted: bool
    preceding: str
    line: str

    @property
    def leads(self) -> bool:
        return _leads_line(self.line, self.start, self.name)

    @property
    def listed(self) -> bool:
        return _is_listed(self.line, self.start, self.value)

    @property
    def is_set(self) -> bool:
        """Return True for the first argument of a call that sets it: `setItem("token", …)`."""
        return SETTER.search(self.line, max(0, self.start - 160), self.start) is not None

    @property
    def _is_setter(self) -> bool:
        """Return True for `.apiKey(`, `setPassword(` and `with_token(`, but not for `.getToken(`."""
        first = split_words(self.text)[0]
        return first in ("set", "with") or (self.preceding == "." and classify_name(first) is not None)

    @property
    def notation(self) -> Notation:
        attached = self.sep == "=" and not self.spaced
        if self.flag or self.sep == ">" or (self.text.isupper() and self.sep in ("?=", ":=")):
            return Notation.SHELL
        if attached and (self.text.isupper() or self.preceding in ("?", "&", ";") or self.listed):
            return Notation.SHELL
        return Notation.CONFIG if attached or self.sep == ":**" or (self.sep == ":" and self.spaced) else Notation.CODE

    @property
    def need(self) -> Need:
        """Return how suspicious the value must look: comparisons and arguments often announce no secret."""
        if (
            "==" in self.sep
            or self.sep in ("!=", "||", "??", "?:", "or", ":-")
            or (self.preceding == "/" and not self.flag)
        ):
            return Need.RANDOM
        if self.sep == ",":
            atom = self.preceding == ":" and self.line[max(0, self.start - 2) : self.start - 1] in "{ "
            return self.name.need if self.text.isupper() or self.flag or atom or self.is_set else Need.RANDOM
        if self.flag and self.sep.startswith(":") and self.preceding != "/":
            return max(self.name.need, Need.DIGITS)  # `--token: …` describes a flag
        if self.preceding == "@" and self.sep == "" and self.leads:
            return self.name.need
        if self.sep == "(" and self._is_setter:
            return self.name.need
        if self.sep in ("(", "\\t") or (self.sep == "" and not self.flag):
            compound = self.sep == "" and len(split_words(self.text)) > 1
            return self.name.need if compound else max(self.name.need, Need.DIGITS)
        if self.flag and self.sep == "" and self.wide:
            return Need.RANDOM  # a line of a help text
        decided = self.flag or self.quoted or self.text.isupper() or self.sep == "="
        return min(self.name.need, Need.MIXED) if decided and not self.name.weak else self.name.need


def find_assignments(line: str, data: bytes, begin: int, stop: int, *, settings: bool = False) -> Iterator[SecretSpan]:
    """Yield the secrets that names in a part of a line announce.

    `settings`: the line belongs to a section of a configuration file.
    """
    position = 0
    for start, _ in _find_names(data, begin, stop):
        if start < position:
            continue
        finding = _judge_spaced(line, start) or _judge_named(line, start, settings) or _judge_said(line, start)
        if finding is not None:
            yield finding
            position = finding.end


def _judge_spaced(line: str, start: int) -> SecretSpan | None:
    match = SPACED.match(line, start)
    name = classify_name(match["name"] or match["setter"] or "password") if match else None
    if match is None or name is None or name.header:
        return None
    need = name.need if name.weak else min(name.need, Need.MIXED)
    return _judge_value(line, match.end(), name, name.kind, Notation.SHELL, need)


def _judge_said(line: str, start: int) -> SecretSpan | None:
    """Find a secret in prose; what looks like a word or a number is just more prose."""
    match = SAID.match(line, start)
    name = classify_name("password") if match else None
    found = _judge_value(line, match.end(), name, name.kind, Notation.SHELL, Need.MIXED) if match and name else None
    if found is None or match is None:
        return None
    end = found.end - (line[found.end - 1] in ".,;:)" and match["close"] is None)
    value = line[found.start : end]
    loose = match["bare"] is not None or match["told"] is not None
    if loose and OWN_THING.match(value):
        return None
    said = is_random(value) if loose else is_unlike_prose(value)
    if not said and line[found.start - 1] in "\"'`" and match["bare"] is None:
        said = (
            match[0].lower().startswith(("passw", "passphrase", "passcode")) and match["close"] is None
        )  # `the password is "…"`
    if not said and match["told"] is None and match[0].rstrip().endswith(":"):
        said = not is_chosen(value) and LINE_REST.match(line, end) is not None  # the answer to a prompt
    return SecretSpan(found.start, end, found.kind) if said else None


def _judge_named(line: str, inside: int, settings: bool) -> SecretSpan | None:
    """Judge the value after the name that includes the character at `inside`."""
    announced = _read_announcement(line, inside)
    if announced is None:
        return None
    name, start = announced.name, announced.start
    if _DIRECTORY.match(line, start):
        return None
    if _is_in_pair(line, start):
        pair = PAIR_AFTER.match(line, start + len(announced.text))
        if pair and name.header:
            return judge_header(line, name, start, pair.end(), ":", quoted_name=True)
        need = Need.PLAIN if announced.text.isupper() else name.need
        return _judge_value(line, pair.end(), name, name.kind, Notation.SHELL, need) if pair else None
    if not _leads_to_value(line, announced):
        return None
    if name.header:
        if announced.quoted and (listed := _LISTED.match(line, announced.value)):
            announced = announced._replace(value=listed.end())
        sep = "=>" if announced.sep == "," and announced.is_set else announced.sep
        return judge_header(line, name, start, announced.value, sep, quoted_name=announced.quoted)
    value = announced.value
    if name.header and announced.quoted is False and announced.sep == "" and not announced.flag:
        return None
    if announced.sep == ":" and (typed := TYPED.match(line, value)):
        value, announced = typed.end(), announced._replace(sep="=", spaced=True)
    if announced.sep == ":" and (inner := TAGGED.match(line, value) or DESCRIBED.match(line, value)):
        value = inner.end()
    notation, need = announced.notation, announced.need
    if converted := CONVERTED.match(line, value):
        value = converted.end()
    opening = OPENING.match(line, value)
    if opening and opening["quote"] == "`" and announced.sep == "=" and not announced.spaced:
        return None  # a command of a shell
    if announced.sep == "," and opening is None:
        return None
    if opening and not announced.quoted and is_inside_quotes(line, start, opening["quote"]):
        return None  # the quote ends the text around the name: `input("Password: ")`
    if (
        opening
        and announced.preceding in (":", "[", "@")
        and not announced.text.isupper()
        and _is_binding(line, opening, announced)
    ):
        return None
    kind, in_query = _kind_of(line, announced), announced.preceding in ("?", "&")
    if (settings or "-" in announced.text) and announced.sep == "=" and announced.leads:
        notation = Notation.CONFIG
    if kind in (kinds.CONNECTION_PART, kinds.AZURE_PART) and announced.text[0].isupper():
        notation, need = Notation.SHELL, Need.PLAIN  # variables are not named like parts of a connection string
    return _judge_value(line, value, name, kind, notation, need, in_query=in_query, announced=announced)


def _is_in_pair(line: str, start: int) -> bool:
    """Return True if a name is the value of another: `"name": "DB_PASSWORD", "value": …`."""
    return PAIR_BEFORE.search(line, max(0, start - 80), start) is not None


def _is_binding(line: str, opening: re.Match[str], announced: _Announcement) -> bool:
    """Return True for attributes of templates, such as `:api-key="userKey"`, whose value is a variable."""
    value = line[opening.end() : closing_quote(line, opening.end(), opening["quote"])]
    return announced.sep == "=" and not announced.spaced and _IDENTIFIER.match(value) is not None and is_chosen(value)


def _read_announcement(line: str, inside: int) -> _Announcement | None:
    inside += len(line[inside : inside + 8]) - len(line[inside : inside + 8].lstrip("-"))
    run = max(0, inside - _NAME_CHARS) + len(line[max(0, inside - _NAME_CHARS) : inside].rstrip(_NAME_SIGNS))
    dashes = "--"[: len(line[run : min(run + 2, inside)]) - len(line[run : min(run + 2, inside)].lstrip("-"))]
    start, preceding = run + len(dashes), line[run - 1 : run] if run else ""
    if preceding == "\\" and line[start] in "nrt":
        start += 1  # an escaped line break, not a letter of the name
    match = NAME.match(line, start)
    if match is None or line.endswith(("::", "[REDACTED:"), 0, start) or line.startswith("user.signingkey", start - 5):
        return None  # also git's id of a key
    name = classify_name(match["name"])
    if name is None and preceding == "." and (dotted := DOTTED_START.search(line, max(0, start - 64), start)):
        name = classify_name(dotted[0] + match["name"])
    if preceding == "/" and not (dashes or _is_key_of_path(match, name) or _is_in_pair(line, start)):
        return None
    return name and _Announcement(
        name=name,
        text=match["name"],
        start=start,
        value=match.end(),
        sep=match["sep"].lower(),
        spaced=bool(match["before"] or match["after"]),
        wide=len(match["before"]) > 1,
        flag=(bool(dashes) and preceding != "\\") or (preceding == "/" and _is_windows_flag(match)),
        quoted=bool(match["close"].rstrip(")]*")),
        preceding=preceding,
        line=line,
    )


def _is_listed(line: str, start: int, value: int) -> bool:
    """Return True for `name=value` beside others, as in logs, and after a flag, as in `--set name=value`."""
    return (
        LISTED_BEFORE.search(line, max(0, start - 160), start) is not None
        or LISTED_AFTER.match(line, value) is not None
    )


def _leads_line(line: str, start: int, name: SecretName) -> bool:
    """Return True if a name is the first word of its line, apart from what tools put before lines."""
    begin = max(0, start - 160)
    if LINE_START.search(line, begin, start):
        return True
    said = SAID_START.search(line, begin, start) if name.need == Need.PLAIN else None
    return said is not None and DECLARES.search(said[0]) is None


def _is_key_of_path(match: re.Match[str], name: SecretName | None) -> bool:
    """Return True for `/apiKey:…` and `/apiKey=…`; any other name at the end of a path is part of the path."""
    attached = match["sep"] in (":", "=") and not (match["before"] or match["after"])
    return attached and name is not None and (name.kind == kinds.API_KEY or _is_windows_flag(match))


def _is_windows_flag(match: re.Match[str]) -> bool:
    return match["sep"] == ":" and match.string[max(0, match.start() - 2) : match.start()] == " /"


def _leads_to_value(line: str, announced: _Announcement) -> bool:
    """Return True if the text after a name leads to its value."""
    if announced.sep == "":
        tab, quoted = line[announced.value - 1] == "\t", OPENING.match(line, announced.value) is not None
        said = quoted and not announced.quoted and announced.text.lower() != "pass"
        return announced.flag or (announced.leads and tab) or said or _is_directive(line, announced)
    if announced.sep == ">":
        closed = line.find("</", announced.value, announced.value + JUDGED_CHARS) > 0
        return closed and announced.preceding in ("<", ":")
    if announced.sep == ":" and line[announced.value - 2 : announced.value - 1] == " " and not announced.quoted:
        return False  # a word of a markup: `Pass :func:`
    if announced.sep == announced.preceding == ":" and not announced.spaced:
        return False  # part of a resource name: `arn:…:secret:prod/db`
    return announced.sep != "(" or not announced.name.weak


def _is_directive(line: str, announced: _Announcement) -> bool:
    """Return True for a name and one word alone in a line: `auth_pass …`."""
    value = UNQUOTED.match(line, announced.value)
    if (
        announced.name.weak
        or value is None
        or not announced.text.isidentifier()
        or "(" in value[0]
        or value[0][-1] in ".:,;"
    ):
        return False
    return LINE_REST.match(line, value.end()) is not None and announced.leads


def _kind_of(line: str, announced: _Announcement) -> SecretKind:
    kind = announced.name.kind
    if announced.flag:
        return kinds.CLI_API_KEY if kind == kinds.API_KEY else kinds.CLI_PASSWORD
    if announced.sep == "=" and not announced.spaced:
        parts = announced.preceding == ";" or OTHER_PART.match(line, announced.value) is not None
        if parts and not announced.text.isupper():
            return kinds.AZURE_PART if announced.text.lower().endswith("key") else kinds.CONNECTION_PART
    return kind


def _judge_value(
    line: str,
    start: int,
    name: SecretName,
    kind: SecretKind,
    notation: Notation,
    need: Need,
    *,
    in_query: bool = False,
    announced: _Announcement | None = None,
) -> SecretSpan | None:
    opening = OPENING.match(line, start)
    if opening:
        start = opening.end()
        end = closing_quote(line, start, opening["quote"])
        if line.startswith('\\"', start) and line.endswith('\\"', start + 4, end):
            start, end = start + 2, end - 2  # a literal within a literal
        value = line[start:end]
        if _OBJECT.match(value) or not _is_secret(name, value, need, notation, quoted=True, context=""):
            return None
    else:
        unquoted = UNQUOTED.match(line, start, start + JUDGED_CHARS)
        if unquoted is None:
            return None
        bracketed = notation != Notation.SHELL or any(bracket in line[max(0, start - 512) : start] for bracket in "([{")
        value = trim_code(unquoted[0]) if bracketed else unquoted[0].rstrip(",;")
        if in_query:
            value = value.partition("#")[0]
        value = ESCAPED_END.sub("", value)
        if value.startswith("**") and value.endswith("**"):
            start, value = start + 2, value[2:-2]  # Markdown
        if value.startswith("pass:"):
            start, value = start + 5, value[5:]
        if value.endswith((":", "=")) and classify_name(value[:-1]) is not None:
            return None  # another name: `credentials: secret_key_base: …`
        if notation != Notation.SHELL:
            value = value.partition(",")[0]
        alone = announced is not None and LINE_REST.match(line, start + len(value)) is not None and announced.leads
        if alone and notation == Notation.CONFIG and not name.weak:
            need = min(need, Need.MIXED)
        context = line[start : start + JUDGED_CHARS]
        if _COUNTED.match(context):
            return None
        if not _is_secret(name, value, need, notation, quoted=False, context=context, alone=alone):
            return None
        end = run_end(line, start) if unquoted.end() == start + JUDGED_CHARS else start + len(value)
    if kind == kinds.PASSWORD and _AWS_SECRET.fullmatch(value):
        kind = kinds.AWS_SECRET
    return SecretSpan(start, end, kind)


def _is_secret(
    name: SecretName, value: str, need: Need, notation: Notation, *, quoted: bool, context: str, alone: bool = False
) -> bool:
    if name.kind == kinds.SIGNATURE:
        return (_URL_SIGNATURE if notation == Notation.SHELL else _LONG_HEX).fullmatch(value) is not None
    if name.kind == kinds.API_KEY and len(value) >= 20 and " " not in value:
        variable = not quoted and notation != Notation.SHELL and _IDENTIFIER.match(value)
        if not variable or any(map(str.isdigit, value)):
            need = Need.ANY
    if name.kind == kinds.PASSWORD and _is_aws_secret(value):
        return True  # its slashes may make it look like a path
    if name.weak and name.need == Need.RANDOM and OWN_THING.match(value):
        return False  # the primary key of a row
    if need == Need.RANDOM and notation == Notation.CODE and not any(map(str.isdigit, value)):
        return False
    if need != Need.ANY and names_secret(value):
        return False
    return is_secret(value, need=need, notation=notation, quoted=quoted, context=context, alone=alone)


def _is_aws_secret(value: str) -> bool:
    """Return True if a value looks like an AWS secret access key."""
    return (
        _AWS_SECRET.fullmatch(value) is not None
        and any(map(str.isupper, value))
        and any(map(str.islower, value))
        and any(map(str.isdigit, value))
        and not is_worded(value)
    )
