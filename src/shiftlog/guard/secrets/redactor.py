"""The redactor: masks secrets in texts and JSON values before they are stored or shown.

Pure, and idempotent on lines of up to 64 KiB. `scan` goes through a text, `json_values` through a JSON value, and the
modules in `detectors` recognise secrets.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TypeVar, cast

from shiftlog.guard.linear import LinearPattern, PatternError, compile_linear, quote_literal, tells_whether
from shiftlog.guard.secrets.blobs import MARKS, may_hold_run
from shiftlog.guard.secrets.detectors.assignments import find_assignments
from shiftlog.guard.secrets.detectors.kinds import ALL_KINDS, LEARNED, SecretKind, SecretSpan, placeholder
from shiftlog.guard.secrets.detectors.lines import is_suspicious
from shiftlog.guard.secrets.detectors.names import classify_name
from shiftlog.guard.secrets.detectors.tokens import SHAPES
from shiftlog.guard.secrets.json_values import JsonMask, is_innocent_name
from shiftlog.guard.secrets.scan import LINE_BYTES, Scan, ScanRules, find_long_line

RULE_IDS = frozenset({*(shape.rule for shape in SHAPES), *(kind.rule for kind in ALL_KINDS)})
# Fields of vendors' records and tools that hold paths.
PATH_FIELDS = frozenset({"file_path", "filePath", "notebook_path", "path", "cwd", "workdir"})

_RULE_ID = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_WHOLE_TEXT_ESCAPES = re.compile(r"(?>(?:[^\\]|\\[^AzC])*)\\[AzC]", re.DOTALL)
_LEARNED_CHARS = 8
_GLANCE_CHARS = 16_384
_GLANCE_DEPTH = 8
_FLAT = frozenset({str, int, float, bool, type(None)})
_SHOWN_BYTES = 60
_MIN_TEXT_CHARS = 7  # `pw=abcd` is the shortest secret that a detector finds


class InvalidRule(ValueError):
    """An operator's rule cannot be used; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An operator's rule: the pattern's match in a line, or its first group, is a secret.

    The pattern is in RE2 syntax and sees one line at a time. Raises `InvalidRule`.
    """

    id: str
    pattern: str
    klass: str = ""  # shown by placeholders outside command text; by default the id

    def __post_init__(self) -> None:
        for name in (self.id, self.klass or self.id):
            if not _RULE_ID.fullmatch(name):
                raise InvalidRule(f"{name!r} is not of the form {_RULE_ID.pattern}")
        if _WHOLE_TEXT_ESCAPES.match(self.pattern):
            raise InvalidRule(rf"rule {self.id}: \A, \z and \C have no meaning within a line")
        if self.compiled()[0].search(b"") is not None:
            raise InvalidRule(f"rule {self.id}: the pattern matches the empty text")

    def compiled(self) -> tuple[LinearPattern, SecretKind]:
        """Return the compiled pattern and the kind of its findings."""
        try:
            return compile_linear(f"(?m){self.pattern}", text=True), SecretKind(self.id, self.klass or self.id)
        except PatternError as error:
            raise InvalidRule(f"rule {self.id}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A text without its secrets, and the number of secrets in total and of each class."""

    text: str
    count: int = 0
    classes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSecret:
    """The place of a secret and the rule that found it; `shown` is the text around it, masked."""

    line: int
    column: int
    characters: int
    rule: str
    klass: str
    shown: str


T = TypeVar("T")


class Redactor:
    """Masks secrets. Built once from the operator's rules, never changed, shared by all threads."""

    def __init__(
        self,
        extra_rules: Sequence[Rule] = (),
        silenced: frozenset[str] = frozenset(),
        *,
        learned: Iterable[str] = (),
    ) -> None:
        self._extra_rules = tuple(extra_rules)
        self._learned = frozenset(learned)
        patterns = [rule.compiled() for rule in extra_rules if rule.id not in silenced]
        literals = {line for value in self._learned for line in value.splitlines() if line.strip()}
        if literals:
            longest_first = sorted(literals, key=lambda literal: (-len(literal), literal))
            patterns.append((compile_linear("|".join(map(quote_literal, longest_first))), LEARNED))
        self._rules = ScanRules(patterns=tuple(patterns), silenced=silenced)

    def text(self, value: str, *, by_rule: bool = False, only: frozenset[str] | None = None) -> Redacted:
        """Mask the secrets of a text; with `only`, those of some classes.

        Placeholders name the class, or with `by_rule` (command text and output) the rule.
        """
        if len(value) < _MIN_TEXT_CHARS and not self._rules.patterns:
            return Redacted(text=value)
        data = value.encode("utf-8", "surrogatepass")
        has_long_line = len(data) > LINE_BYTES and find_long_line(data, 0) < len(data)
        if not has_long_line and not self._rules.trigger(data):
            return Redacted(text=value)
        scan = Scan(self.rules(by_rule=by_rule, only=only))
        masked, _ = scan.push(data, final=True)
        masked += scan.close()
        if not scan.classes:
            return Redacted(text=value)
        classes = dict(sorted(scan.classes.items()))
        return Redacted(text=masked.decode("utf-8", "surrogatepass"), count=sum(classes.values()), classes=classes)

    def explain(self, data: bytes) -> list[FoundSecret]:
        """Return where the secrets of a text are, by which rule, and their lines without any secret."""
        scan = Scan(self._rules, found=[])
        scan.push(data, final=True)
        spans = scan.found or []
        ends, starts = [0, *(span.end for span in spans)], [*(span.start for span in spans[1:]), len(data)]
        return [self._explained(data, *found) for found in zip(spans, ends, starts, strict=False)]

    def _explained(self, data: bytes, span: SecretSpan, previous: int, following: int) -> FoundSecret:
        """Describe a secret; its surroundings end at the secrets before and after it."""
        start, end, kind = span
        begin, stop = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", start)
        last = min(following, stop if stop >= 0 else len(data))
        before = data[max(begin, previous, start - _SHOWN_BYTES) : start]
        after = data[min(end, last) : last][:_SHOWN_BYTES]
        shown = b"".join((before, placeholder(kind, by_rule=True).encode(), after)).decode(errors="replace")
        return FoundSecret(
            line=data.count(b"\n", 0, start) + 1,
            column=len(data[begin:start].decode(errors="replace")) + 1,
            characters=len(data[start:end].decode(errors="replace")),
            rule=kind.rule,
            klass=kind.klass,
            shown=self.text(shown, by_rule=True).text,
        )

    def is_plain(self, value: str) -> bool:
        """Return True if a quick search shows nothing to mask and no blob; False means that there may be some."""
        data = value.encode("utf-8", "surrogatepass")
        if _has_mark()(data) or is_suspicious(data) or self._rules.trigger_added(data):
            return False
        return (len(data) <= LINE_BYTES or find_long_line(data, 0) == len(data)) and not may_hold_run(data)

    def is_plain_value(self, value: object) -> bool:
        """Return True if `is_plain` holds for every text and key of a small JSON value."""
        texts: list[str] = []
        return _gathered(value, texts, 0) and self.is_plain("\n".join(texts))

    def value(
        self, value: T, *, by_rule: bool = False, path_fields: frozenset[str] = frozenset()
    ) -> tuple[T, int, dict[str, int]]:
        """Mask the secrets of a JSON value: in strings, in keys, and in the values of keys that name a secret.

        Under the keys in `path_fields` only secrets with a shape of their own are masked. Return the masked value, the
        number of secrets, and the number of each class.
        """
        if isinstance(value, str):
            redacted = self.text(value, by_rule=by_rule)
            return cast(T, redacted.text), redacted.count, redacted.classes
        if self.has_nothing_in(value):
            return value, 0, {}

        def mask_text(text: str, only: frozenset[str] | None, counts: Counter[str]) -> str:
            redacted = self.text(text, by_rule=by_rule, only=only)
            if redacted.count:
                counts.update(redacted.classes)
            return redacted.text

        walk = JsonMask(mask_text=mask_text, rules=self.rules(by_rule=by_rule), path_fields=path_fields)
        masked = walk.mask(value)
        if not walk.counts:
            return value, 0, {}
        return cast(T, masked), walk.counts.total(), dict(sorted(walk.counts.items()))

    def has_nothing_in(self, value: object) -> bool:
        """Return True if a quick search of a small value shows nothing to mask; False means that there may be some."""
        texts: list[str] = []
        if not _gathered(value, texts, 0):
            return False
        # No pattern matches across lines, so one search of all texts is enough.
        return not self._rules.trigger("\n".join(texts).encode("utf-8", "surrogatepass"))

    def rules(self, *, by_rule: bool = False, only: frozenset[str] | None = None) -> ScanRules:
        """Return the rules for a scan that masks as this redactor does."""
        if by_rule or only is not None:
            return replace(self._rules, by_rule=by_rule, classes=only)
        return self._rules

    def learning(self, values: Iterable[str]) -> "Redactor":
        """Return a redactor that also masks these values wherever they appear."""
        learned = self._learned.union(values)
        return Redactor(self._extra_rules, self._rules.silenced, learned=learned)


@cache
def _has_mark() -> Callable[[bytes], bool]:
    """Return a search for the start of a blob, compiled with the first text that needs it."""
    return tells_whether(compile_linear(MARKS))


def _gathered(value: object, texts: list[str], depth: int) -> bool:
    """Add the texts of a value to a list; return False if they must be searched one by one."""
    if isinstance(value, str):
        texts.append(value)
        return len(value) <= _GLANCE_CHARS
    if depth > _GLANCE_DEPTH:
        return False
    if isinstance(value, dict):
        items = cast(dict[object, object], value)
        if not all(map(_is_innocent_key, items)):
            return False
        found = [item for item in items.values() if type(item) is str]
        texts += found
        if max(map(len, found), default=0) > _GLANCE_CHARS:
            return False
        # Most values are strings or numbers; only nested ones need a call each.
        return len(found) == len(items) or all(
            _gathered(item, texts, depth + 1) for item in items.values() if type(item) not in _FLAT
        )
    if isinstance(value, list | tuple):
        parts = cast(Sequence[object], value)
        if len(parts) > 1 and not all(isinstance(part, dict) for part in parts):
            return False  # neighbours may announce each other
        return all(_gathered(part, texts, depth + 1) for part in parts)
    return value is None or isinstance(value, int | float)


@lru_cache(maxsize=1024)
def _is_innocent_key(key: object) -> bool:
    """Return True if a key announces no secret, neither alone nor with its neighbours."""
    return isinstance(key, str) and key.isidentifier() and is_innocent_name(key)


def learnable_values(command: str) -> frozenset[str]:
    """Return the values that a command assigns to secret-like names, if they are worth learning.

    A value needs eight characters of two classes: `TOKEN=return` teaches nothing.
    """
    found: set[str] = set()
    for data in command.encode("utf-8", "surrogatepass").split(b"\n"):
        for finding in find_assignments(data.decode("latin-1"), data, 0, len(data)):
            value = data[finding.start : finding.end].decode("utf-8", "surrogatepass")
            if is_learnable(value):
                found.add(value)
    return frozenset(found)


def names_secret(name: str) -> bool:
    """Return True if a variable name announces a secret."""
    return classify_name(name) is not None


def is_learnable(value: str) -> bool:
    """Return True if a secret value is unusual enough to be masked everywhere."""
    tests: tuple[Callable[[str], bool], ...] = (str.islower, str.isupper, str.isdigit, lambda sign: not sign.isalnum())
    return len(value) >= _LEARNED_CHARS and sum(any(map(test, value)) for test in tests) >= 2
