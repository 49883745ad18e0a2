"""The redactor: masks secrets in any text or JSON value before it is stored or shown.

Pure and idempotent. The detectors are in the `detect_*` modules, the walk through a text in `redact_scan`; streams
are masked by `redact_stream`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shiftlog.guard.detect_kinds import LEARNED, Kind
from shiftlog.guard.redact_re2 import PatternError, compile_linear, quote_literal
from shiftlog.guard.redact_scan import LINE_BYTES, Rules, Scan, find_long_line

_RULE_ID = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_WHOLE_TEXT_ESCAPES = re.compile(r"(?:[^\\]|\\[^AzC])*+\\[AzC]", re.DOTALL)


class InvalidRule(ValueError):
    """An operator's rule that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An operator's rule: what the pattern matches in a line, or its first group, is a secret.

    The pattern is in RE2's syntax and sees one line at a time. Raises `InvalidRule`.
    """

    id: str
    pattern: str

    def __post_init__(self) -> None:
        if not _RULE_ID.fullmatch(self.id):
            raise InvalidRule(f"rule id {self.id!r} is not of the form {_RULE_ID.pattern}")
        if _WHOLE_TEXT_ESCAPES.match(self.pattern):
            raise InvalidRule(rf"rule {self.id}: \A, \z and \C have no meaning within a line")
        try:
            pattern = compile_linear(f"(?m){self.pattern}", text=True)
        except PatternError as error:
            raise InvalidRule(f"rule {self.id}: {error}") from None
        if pattern.search(b"") is not None:
            raise InvalidRule(f"rule {self.id}: the pattern matches the empty text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A text without its secrets, how many there were, and how many of each class."""

    text: str
    count: int = 0
    classes: Mapping[str, int] = field(default_factory=dict[str, int])


class Redactor:
    """Masks secrets; built once from the operator's rules and shared by all threads."""

    def __init__(
        self,
        extra_rules: Sequence[Rule] = (),
        silenced: frozenset[str] = frozenset(),
        *,
        learned: Iterable[str] = (),
    ) -> None:
        patterns = [
            (compile_linear(f"(?m){rule.pattern}", text=True), Kind(rule.id, rule.id))
            for rule in extra_rules
            if rule.id not in silenced
        ]
        self._learned = frozenset(learned)
        literals = sorted({line for value in self._learned for line in value.splitlines() if line}, key=len, reverse=True)
        if literals:
            patterns.append((compile_linear("|".join(map(quote_literal, literals))), LEARNED))
        self._rules = Rules(patterns=tuple(patterns), silenced=silenced)

    def text(self, value: str, *, by_rule: bool = False, only: frozenset[str] | None = None) -> Redacted:
        """Mask the secrets of a text, of the classes in `only` where it is given.

        Placeholders name the class; with `by_rule`, as in command text and output, the rule.
        """
        data = value.encode("utf-8", "surrogatepass")
        if not self._rules.trigger(data) and (len(data) <= LINE_BYTES or find_long_line(data, 0) == len(data)):
            return Redacted(text=value)
        scan = Scan(self.rules(by_rule=by_rule, only=only))
        masked, _ = scan.push(data, final=True)
        masked += scan.close()
        if not scan.classes:
            return Redacted(text=value)
        return Redacted(
            text=masked.decode("utf-8", "surrogatepass"),
            count=scan.classes.total(),
            classes=dict(sorted(scan.classes.items())),
        )

    def rules(self, *, by_rule: bool = False, only: frozenset[str] | None = None) -> Rules:
        """Return what a scan needs to know to mask as this redactor does."""
        if by_rule or only is not None:
            return replace(self._rules, by_rule=by_rule, classes=only)
        return self._rules
