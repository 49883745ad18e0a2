"""Follows secrets from line to line: a line announces one, a later line holds it.

Examples are values under a YAML key, `.netrc` files, form data, tables, lists of recovery codes and wrapped tokens.
Private keys and environment dumps are followed by `scan`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from shiftlog.guard.linear import compile_linear, tells_whether
from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.language.foreign import FOREIGN_NAME
from shiftlog.guard.secrets.detectors.names import NAME_ENDING, SecretName, classify_name
from shiftlog.guard.secrets.detectors.values import (
    OWN_THING,
    Need,
    Notation,
    is_chosen,
    is_random,
    is_reference,
    is_secret,
    is_unlike_prose,
)

CONTEXT_CHARS = 256
MAX_LINE_CHARS = 4096
_TABLE_CELLS = 40
_LINES = 200  # how far a secret may be followed

_TITLE = (
    rf"(?:{FOREIGN_NAME}|(?i:passw(?:or)?d|passwd|pwd|passphrase|secret|token|credentials?"
    r"|(?:api|access|secret|private)[-_ ]?key))"
)
_END = r"(?:\\[nr]|(?m:$))"  # of a line, or of one that is written within a string
_CELLS = r"[\w .()/#|\t;,*+>\"'`\r-]*"  # of the header of a table
_SAID_END = r"(?::|\xef\xbc\x9a|\b(?:is|below|this|ist|est))"
#: Lines that announce a secret for a later line.
FOLLOW_PATTERN = "|".join(
    (
        rf"\b(?i:name|key)[\"']?\s*[:=>]\s*[\"']?[\w.-]*{NAME_ENDING}(?:[\"']?,?|</key>)\s*{_END}",
        rf"{NAME_ENDING}[\"']?\s*(?::\s*[|>][-+]?|[\"']\s*:|=\s*\(?)\s*{_END}",
        rf"{NAME_ENDING}[ =]*\\\s*{_END}",
        rf"{_TITLE}:?\s*{_END}",
        rf"{_TITLE}\b(?:[^={{}}\[\]()]| \([^()]*\))*{_SAID_END}\s*{_END}",
        rf"(?:\bUSER[ \t]+\S+|\b331[ -].*)\s*{_END}",
        rf"{_TITLE}(?:_plain|_text|_value)?[\"'`*]*[ ]*[|\t]",
        rf"\|[ \t\w]*{_TITLE}(?:_plain|_text|_value)?[ ]*{_END}",
        rf"(?m:^)[\w -]*[ ]{{2}}{_TITLE}\s*{_END}",
        rf"(?m:^)\s*{_TITLE}[ ]{{2}}[\w \r-]*(?m:$)",
        rf"(?m:^){_CELLS}{_TITLE}[\"'`]*[ ]*[,;]{_CELLS}(?m:$)",
        rf"\\*[\"'][ ]*[,;\t][ ]*\\*[\"'][\w .-]*{_TITLE}\\*[\"']\s*{_END}",
        rf"(?:\b|\\n)(?:machine|login|user|account|open)[ \t]+\S+\s*{_END}",
        r"form-data;\s*name=",
        r"\bexpect\b.*assword",
        r"\bchpasswd(?::|\s*<<)|<auth-user-pass>",
        rf"(?i:credentials|passwords|tokens|secrets|api_?keys)[\"']?:\s*\{{?\s*{_END}",
        r"(?i:(?:recovery|backup|scratch|emergency) codes?)",
        rf"[Cc]ookies\\*[\"']?\s*[:=]\s*[\[{{]\s*{_END}",
        rf"variable\s+\\*\"[\w-]+\\*\"\s*\{{\s*{_END}",
    )
)

#: What such a line contains if it names no secret.
FOLLOW_HINT = "|".join(
    (
        rf"(?:machine|login|user|account|open|USER)[ \t]+\S+\s*{_END}",
        r"\b331[ -]",
        r"form-data;\s*name=",
        r"assword|chpasswd|<auth-user-pass>",
        rf"(?i:credentials|passwords|tokens|secrets|api_?keys)[\"']?:[ \t]*\{{?[ \t\r]*{_END}",
        r"(?i:(?:scratch|emergency) codes?)",
        r"variable\s+\\*\"",
    )
)


_ANNOUNCES = re.compile(
    r"[\"']?(?:name|key)[\"']?\s*[:=]\s*[\"']?(?P<pair>[A-Za-z_][\w.-]{1,63})[\"']?,?\s*$"
    r"|<key>(?P<plist>[\w.-]{1,64})</key>\s*$"
    r"|(?:^|[\s\"'{,-])(?P<block>[A-Za-z_][\w.-]{1,63})[\"']?\s*:\s*[|>][-+]?\s*$"
    r"|(?:^|[\s.\"'{,-])(?P<literal>[A-Za-z_][\w.-]{1,63})(?:[\"']\s*:|\s*=)\s*\(?\s*$"
    r"|--(?P<flag>[A-Za-z][\w-]{1,63})[ =]*\\\s*$"
    r"|form-data;\s*name=\"(?P<form>[\w.\[\]-]{1,64})\"\s*$"
    r"|\bvariable\s+\"(?P<variable>[\w-]{1,64})\"\s*\{\s*$"
    r"|^[\s>*#-]{0,12}(?P<heading>(?:[\w-]{1,64} ){0,3}[\w-]{1,64}):?\s*$",
    re.I | re.ASCII,
)
_VALUE_LINES = {
    "pair": re.compile(r"\s*[\"']?value[\"']?\s*[:=]\s*(?P<quote>[\"']?)(?P<value>.+?)(?P=quote),?\s*$", re.I),
    "plist": re.compile(r"\s*<string>(?P<value>[^<]{1,512})</string>"),
    "block": re.compile(r"\s+(?P<value>\S.*?)\s*$"),
    "literal": re.compile(r"\s*[bru]?(?P<quote>[\"'])(?P<value>.{4,512}?)(?P=quote)[\s,;)}]*$"),
    "flag": re.compile(r"\s*[\"']?(?P<value>[^\s\"']+)"),
    "form": re.compile(r"\s*(?P<value>\S[^\r\n]{0,511}?)\s*$"),
    "variable": re.compile(r"\s*default\s*=\s*\"(?P<value>[^\"]{1,512})\""),
    "heading": re.compile(r"\s*[\"'`]?(?P<value>[^\s\"'`]{8,256})[\"'`]?\s*$"),
}
#: How many lines may stand between the announcement and the value.
_GAPS = {"pair": 3, "form": 2, "heading": 1, "variable": 6}
_NETRC = re.compile(r"\s*(?:machine|login|user|account|open)[ \t]+\S{1,128}\s*$")
_NETRC_PASSWORD = re.compile(
    r"\s*(?:password|passwd|secret|user[ \t]+\S{1,64})[ \t]+[\"']?(?P<value>[^\s\"']{1,256})[\"']?\s*$"
)
_ASKED = re.compile(r"[\s>C:-]{0,8}USER[ \t]+\S{1,128}\s*$|[\s<S:-]{0,8}331[ -]")
_PASS = re.compile(r"[\s>C:-]{0,8}PASS[ \t]{1,4}(?P<value>\S{4,256})\s*$")
_announces_alone = tells_whether(compile_linear(rf"{_TITLE}(?:\b.*)?{_SAID_END}\s*$"))
_ALONE = re.compile(r"\s*[\"'`]?(?P<value>[^\s\"'`]{8,256})[\"'`]?\s*$")
_PROMPT = re.compile(r"\bexpect\b")
_ANSWER = re.compile(r"\s*send\s+(?:--\s+)?\"(?P<value>[^\"\\$]{4,256})\\[rn]\"")
_CODES = re.compile(r"(?:recovery|backup|scratch|emergency) codes?[^:]{0,80}:?\s*$", re.I)
_CODE = re.compile(
    r"[\s>*#|-]{0,12}(?:\d{1,2}[.)]\s{0,4})?`?(?P<value>[A-Za-z0-9]{4,12}(?:(?P<gap>[- ])[A-Za-z0-9]{4,12}){0,5})`?\s*$"
)
_PARENT = re.compile(
    r"(?P<indent>\s*)[\"']?[\w-]{0,32}(?:credentials|passwords|tokens|secrets|api_?keys)[\"']?:\s*\{?\s*$", re.I
)
_CHILD = re.compile(
    r"\s+[\"']?(?!\w*(?:id|sha|hash|digest|ref"
    r"|url)[\"']?:)[\w.@-]{1,64}[\"']?:\s{1,4}[\"']?(?P<value>[^\s\"',]{12,256})[\"']?,?\s*$",
    re.I,
)
_ACCOUNTS = re.compile(r"\bchpasswd(?::\s*$|\s*<<)")
_ACCOUNT = re.compile(r"\s*(?:-\s+)?[a-z_][\w.-]{0,31}:(?P<value>[^\s:$*!<]\S{3,128})\s*$")
_LIST_START = re.compile(r"\s+(?:list|users|expire):")
_COOKIE_LIST = re.compile(r"[Cc]ookies[\"']?\s*[:=]\s*[\[{]\s*$")
_COOKIE_VALUE = re.compile(r"\s*[\"']value[\"']\s*:\s*[\"'](?P<value>[^\"']{1,4096})[\"']")
_LIST_END = re.compile(r"\s*[\]}]\s*[\]},]*\s*$|\s*\]")
_RULE = re.compile(r"[\s|:+=-]+$")
_QUOTED_CELLS = {
    sign: re.compile(rf'(?:[ ]*"(?>(?:[^"]++|"")*)"[^{sign}]*|[^{sign}]*){sign}') for sign in (",", ";", "\t")
}
_COLUMNS = "  "  # columns that blanks align, as in `NAME   TOKEN   AGE`
_COLUMN_TITLES = re.compile(r"\s*[A-Z][\w-]*(?: [\w-]+)?(?: {2,}[A-Z][\w-]*(?: [\w-]+)?)+\s*$", re.ASCII)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_HEADER = re.compile(f"{_CELLS}$", re.ASCII)
_CELL_NAME = re.compile(r"[\w .()/#-]{0,40}$", re.ASCII)
_RUN = re.compile(r"\s*(?P<value>[A-Za-z0-9+/_.~-]{6,4096}={0,2})(?P<after>[\"'`,;)\]}]*)\s*$")
_HEX = re.compile(r"[0-9a-fA-F]+$")
_FULL_SIZES = {"github": (40, 93), "npm": (40,), "google": (39,), "gitlab": (26,), "huggingface": (37,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The possible contents of the next line."""

    find: Callable[[str], tuple[list[SecretSpan], bool]]  # the secrets of a line, and whether to go on
    lines: int = _LINES
    topic: str = ""  # a newer expectation of the same topic replaces an older one


class SecretFollower:
    """Remembers what earlier lines announced. Lines that announce nothing need not be shown while it is idle."""

    def __init__(self) -> None:
        self._expected: list[Expectation] = []
        self._fresh: list[Expectation] = []

    def branch(self) -> "SecretFollower":
        """Return a follower that expects the same and goes on by itself."""
        other = SecretFollower()
        other._expected, other._fresh = [*self._expected], [*self._fresh]
        return other

    @property
    def idle(self) -> bool:
        """Return True if no later line is expected to hold a secret."""
        return not self._expected

    @property
    def is_blank(self) -> bool:
        """Return True if nothing at all is expected."""
        return not self._expected and not self._fresh

    def find(self, line: str) -> list[SecretSpan]:
        """Return the secrets that earlier lines announced in this line."""
        found: list[SecretSpan] = []
        left: list[Expectation] = []
        for expectation in self._expected:
            spans, goes_on = expectation.find(line)
            found += spans
            if goes_on and expectation.lines > 1:
                left.append(replace(expectation, lines=expectation.lines - 1))
        self._expected = left
        return found

    def expect_rest(self, span: SecretSpan, size: int) -> None:
        """Expect the rest of a wrapped token, which ends at a column of the next line."""

        def find(line: str) -> tuple[list[SecretSpan], bool]:
            return [SecretSpan(len(line) - len(line.lstrip()), size, span.kind)], False

        self._fresh.append(Expectation(find=find, lines=1, topic="wrapped"))

    def read(self, line: str, findings: Iterable[SecretSpan], *, announces: bool) -> None:
        """Learn what a line and the secrets found in it announce for the next lines.

        `announces`: `FOLLOW_PATTERN` matches the line.
        """
        if len(line) > MAX_LINE_CHARS:
            return
        fresh = [*self._fresh, *(_announced(line) if announces else ())]
        goes_on = next((finding for finding in findings if _may_go_on(line, finding)), None)
        if goes_on is not None:
            in_hex = _HEX.match(line, goes_on.end - 16, goes_on.end) is not None
            fresh.append(Expectation(find=_rest_of(goes_on.kind, in_hex=in_hex), topic="rest"))
        topics = {expectation.topic for expectation in fresh}
        self._expected = [old for old in self._expected if old.topic not in topics] + fresh
        self._fresh = []


def _announced(line: str) -> Iterable[Expectation]:
    if _NETRC.match(line):
        yield Expectation(find=_find_netrc, lines=3, topic="netrc")
    if _ASKED.match(line):
        yield Expectation(find=_find_pass, lines=3, topic="asked")
    if _announces_alone(line[-CONTEXT_CHARS:].encode("latin-1")):
        yield Expectation(find=_find_alone, lines=3, topic="sentence")
    if "assword" in line and _PROMPT.search(line):
        yield Expectation(find=_find_answer, lines=2, topic="answer")
    if _COOKIE_LIST.search(line[-CONTEXT_CHARS:]):
        yield Expectation(find=_find_cookie, topic="cookies")
    if _CODES.search(line[-CONTEXT_CHARS:]):
        yield Expectation(find=_find_code, lines=24, topic="codes")
    if parent := _PARENT.match(line[:CONTEXT_CHARS]):
        yield Expectation(find=_find_children(len(parent["indent"])), lines=40, topic="children")
    if _ACCOUNTS.search(line):
        yield Expectation(find=_find_account, lines=12, topic="accounts")
    if line.strip() == "<auth-user-pass>":
        yield Expectation(find=_find_second(), lines=2, topic="accounts")
    if (columns := _read_header(line)) is not None:
        yield Expectation(find=columns, topic="table")
    match = _ANNOUNCES.search(line[-CONTEXT_CHARS:])
    shape = match.lastgroup if match else None
    name = classify_name(match[shape]) if match and shape else None
    if shape is not None and name is not None and not name.header:
        yield Expectation(find=_value_of(shape, name), lines=1 + _GAPS.get(shape, 0), topic=shape)


def _value_of(shape: str, name: SecretName) -> Callable[[str], tuple[list[SecretSpan], bool]]:
    need = name.need if name.weak else min(name.need, Need.MIXED)

    def find(line: str) -> tuple[list[SecretSpan], bool]:
        match = _VALUE_LINES[shape].match(line)
        blank = not line.strip(" \t\r`")
        if match is None or blank:
            return [], blank or shape in ("variable", "pair")
        if shape == "heading":
            secret = _is_told(match["value"])
        else:
            secret = is_secret(match["value"], need=need, notation=Notation.SHELL, quoted=True)
        return [SecretSpan(*match.span("value"), name.kind)] if secret else [], False

    return find


def _find_netrc(line: str) -> tuple[list[SecretSpan], bool]:
    match = _NETRC_PASSWORD.match(line)
    if match is None:
        return [], _NETRC.match(line) is not None
    secret = is_secret(match["value"], need=Need.PLAIN, notation=Notation.SHELL, quoted=True)
    return [SecretSpan(*match.span("value"), kinds.PASSWORD)] if secret else [], False


def _find_pass(line: str) -> tuple[list[SecretSpan], bool]:
    """Find the password that a client of FTP or POP3 sends after its user."""
    match = _PASS.match(line)
    secret = match is not None and is_secret(match["value"], need=Need.PLAIN, notation=Notation.SHELL, quoted=True)
    return ([SecretSpan(*match.span("value"), kinds.PASSWORD)] if match and secret else []), match is None


def _find_alone(line: str) -> tuple[list[SecretSpan], bool]:
    """Find a random word alone in its line, after a sentence about a secret."""
    match = _ALONE.match(line)
    found = [SecretSpan(*match.span("value"), kinds.PASSWORD)] if match and _is_told(match["value"]) else []
    return found, not line.strip(" \t\r`>*")


def _is_told(value: str) -> bool:
    """Return True if a word alone in its line is a secret of the line before."""
    return is_unlike_prose(value) and is_secret(value, need=Need.DIGITS, notation=Notation.SHELL, quoted=True)


def _find_answer(line: str) -> tuple[list[SecretSpan], bool]:
    match = _ANSWER.match(line)
    return ([SecretSpan(*match.span("value"), kinds.PASSWORD)] if match else []), match is None


def _find_cookie(line: str) -> tuple[list[SecretSpan], bool]:
    match = _COOKIE_VALUE.match(line)
    return ([SecretSpan(*match.span("value"), kinds.COOKIE)] if match else []), _LIST_END.match(line) is None


def _find_code(line: str) -> tuple[list[SecretSpan], bool]:
    match = _CODE.match(line)
    worded = match is not None and is_chosen(match["value"]) and not any(map(str.isdigit, match["value"]))
    if match is None or (worded and match["gap"] != "-"):
        return [], not line.strip()
    return [SecretSpan(*match.span("value"), kinds.PASSWORD)], True


def _find_account(line: str) -> tuple[list[SecretSpan], bool]:
    """Find the password in a line `user:password` of a list."""
    match = _ACCOUNT.match(line)
    found = [SecretSpan(*match.span("value"), kinds.PASSWORD)] if match else []
    return found, match is not None or _LIST_START.match(line) is not None


def _find_children(indent: int) -> Callable[[str], tuple[list[SecretSpan], bool]]:
    """Return a search for random values under a key such as `credentials`, as far as the lines are indented more."""

    def find(line: str) -> tuple[list[SecretSpan], bool]:
        if len(line) - len(line.lstrip()) <= indent:
            return [], not line.strip()
        match = _CHILD.match(line)
        secret = match is not None and is_random(match["value"]) and OWN_THING.match(match["value"]) is None
        return ([SecretSpan(*match.span("value"), kinds.PASSWORD)] if match and secret else []), True

    return find


def _find_second() -> Callable[[str], tuple[list[SecretSpan], bool]]:
    """Return a search for a password in the line after that of its user."""
    users: list[str] = []

    def find(line: str) -> tuple[list[SecretSpan], bool]:
        users.append(line)
        value = line.strip()
        if len(users) < 2 or len(value) < 4:
            return [], len(users) < 2
        start = line.index(value)
        return [SecretSpan(start, start + len(value), kinds.PASSWORD)], False

    return find


def _rest_of(kind: SecretKind, *, in_hex: bool) -> Callable[[str], tuple[list[SecretSpan], bool]]:
    """Find the rest of a secret that ran into the end of its line; only a secret in hex goes on in hex."""

    def find(line: str) -> tuple[list[SecretSpan], bool]:
        match = _RUN.match(line)
        if match is None or is_chosen(match["value"]) or match["value"].startswith("--"):
            return [], False
        if OWN_THING.match(match["value"]) or (not in_hex and _HEX.match(match["value"])):
            return [], False
        return [SecretSpan(*match.span("value"), kind)], not match["after"]

    return find


def _may_go_on(line: str, finding: SecretSpan) -> bool:
    """Return True if a secret may have been wrapped: it is long, looks random and ends with its line."""
    if finding.end < len(line.rstrip()) or finding.end - finding.start < 24:
        return False
    if finding.end - finding.start in _FULL_SIZES.get(finding.kind.rule, ()):
        return False
    if finding.kind.klass in ("private_key", "provider_key", "jwt"):
        return True
    return is_random(line[finding.start : finding.end][-128:])


def _read_header(line: str) -> Callable[[str], tuple[list[SecretSpan], bool]] | None:
    """Return the search of a table's rows, if a line is the header of a table with a column of secrets."""
    if _HEADER.match(line) is None:
        return None
    separator = next((sign for sign in "|\t;," if sign in line), _COLUMNS if _COLUMN_TITLES.match(line) else None)
    if separator is None or len(line) > 1024:
        return None
    cells = _split(line, separator)
    texts = [line[start:end].strip("*") for start, end in cells]
    if not 2 <= len(cells) <= _TABLE_CELLS or not all(map(_is_cell_name, texts)):
        return None
    named = {index: name for index, text in enumerate(texts) if (name := classify_name(text)) and not name.header}
    api_keys = {
        index: name for index, text in enumerate(texts) if (name := classify_name(text)) and name.kind == kinds.API_KEY
    }
    columns = named | api_keys
    loose = separator in ("|", _COLUMNS) or f"{separator} " in line
    return _rows(separator, len(cells), columns, loose=loose) if columns else None


def find_row(line: str) -> Iterable[SecretSpan]:
    """Yield the secrets in a row of a table whose cell before names them: `| password | … |`."""
    if line.count("|") < 2 or len(line) > MAX_LINE_CHARS:
        return
    cells = _split(line, "|")
    if "||" in line:
        cells = [cell for cell in cells if cell[0] < cell[1]]  # as wikis write the titles of columns
    for before, cell in pairwise(cells):
        name = classify_name(line[before[0] : before[1]].strip("*"))
        value = line[cell[0] : cell[1]]
        if (
            name is not None
            and not name.weak
            and name.kind != kinds.SIGNATURE
            and (is_unlike_prose(value) or (name.need == Need.PLAIN and len(value) >= 8 and not is_chosen(value)))
            and " " not in value
            and not is_reference(value)
        ):
            yield SecretSpan(*cell, name.kind)


def _is_cell_name(text: str) -> bool:
    return len(text) > 0 and _CELL_NAME.match(text) is not None and text.count(" ") <= 3


def _rows(
    separator: str, count: int, columns: dict[int, SecretName], *, loose: bool
) -> Callable[[str], tuple[list[SecretSpan], bool]]:
    def find(line: str) -> tuple[list[SecretSpan], bool]:
        if _RULE.match(line):
            return [], bool(line.strip())
        cells = _split(line, separator) if len(line) <= MAX_LINE_CHARS else []
        if len(cells) != count:
            return [], False
        return [span for index, name in columns.items() if (span := _judge_cell(line, cells[index], name, loose))], True

    return find


def _judge_cell(line: str, cell: tuple[int, int], name: SecretName, loose: bool) -> SecretSpan | None:
    plain = name.need == Need.PLAIN or not (loose or name.weak)
    need = min(name.need, Need.MIXED) if plain else max(name.need, Need.DIGITS)
    secret = is_secret(line[cell[0] : cell[1]], need=need, notation=Notation.SHELL, quoted=True)
    return SecretSpan(*cell, name.kind) if secret else None


def _is_margin(line: str, cell: tuple[int, int]) -> bool:
    """Return True if there is no cell before the first bar, apart from what tools put before lines."""
    return cell[0] == cell[1] or not line[cell[0] : cell[1]].strip("+->#/ ")


def _pieces(line: str, separator: str) -> list[str]:
    """Split a row; within quotes a separator is part of its cell."""
    if separator not in _QUOTED_CELLS or '"' not in line:
        return line.split(separator)
    return [cell[0].removesuffix(separator) for cell in _QUOTED_CELLS[separator].finditer(f"{line}{separator}")]


def _split(line: str, separator: str) -> list[tuple[int, int]]:
    """Return where the cells of a row start and end, without blanks and quotes."""
    if separator == _COLUMNS:
        return [match.span() for match in _COLUMN.finditer(line)]
    spans: list[tuple[int, int]] = []
    position = 0
    for piece in _pieces(line, separator):
        inner = piece.strip(" \t\r\"'`")
        start = position + (piece.index(inner) if inner else 0)
        spans.append((start, start + len(inner)))
        position += len(piece) + 1
    if separator == "|":
        spans = spans[1 if _is_margin(line, spans[0]) else 0 : -1 if spans[-1][0] == spans[-1][1] else None]
    return spans
