"""Masks secrets in JSON values, where keys and neighbouring values can announce a secret.

The walk does not recurse, so no nesting is too deep. The caller decides how a text is masked.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.headers import judge_header_text
from shiftlog.guard.secrets.detectors.kinds import SecretSpan, placeholder
from shiftlog.guard.secrets.detectors.lines import find_only_places
from shiftlog.guard.secrets.detectors.names import SecretName, classify_name
from shiftlog.guard.secrets.detectors.tokens import token_kind
from shiftlog.guard.secrets.detectors.values import Need, Notation, is_path, is_random, is_secret
from shiftlog.guard.secrets.scan import PATH_CLASSES, ScanRules

# Objects whose keys are paths.
_PATH_KEYED = frozenset({"changes"})

_PAIR_NAMES = ("name", "key", "Name", "Key")
_PAIR_VALUES = ("value", "Value")
_NAME = re.compile(r"[\w .$@/-]{1,128}", re.ASCII)
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40,}")
_MIN_DIGITS = 4
_MIN_KEY_CHARS = 16  # a shorter identifier cannot be a token
_MAX_ARGUMENTS = 256


class MaskText(Protocol):
    """Masks one text, all classes or only some, and adds to the counter."""

    def __call__(self, text: str, only: frozenset[str] | None, counts: Counter[str]) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyContext:
    """The hints that the keys above a value give about it."""

    secret: SecretName | None = None
    direct: bool = False
    only: frozenset[str] | None = None


_NO_CONTEXT = _KeyContext()
Slot = list[Any] | dict[Any, Any]
_Pending = tuple[object, Slot, Any, _KeyContext]  # a value, where its masked form goes, and its context


@dataclass(slots=True, kw_only=True)
class JsonMask:
    """One walk through a JSON value."""

    mask_text: MaskText
    rules: ScanRules
    path_fields: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter[str])
    _waiting: list[_Pending] = field(default_factory=list[_Pending])

    def mask(self, value: object) -> object:
        """Return a copy of the value without its secrets."""
        root: list[Any] = [None]
        tuples: list[tuple[Slot, Any]] = []
        self._waiting.append((value, root, 0, _NO_CONTEXT))
        while self._waiting:
            item, slot, key, context = self._waiting.pop()
            if isinstance(item, str):
                slot[key] = self._mask_string(item, context)
            elif isinstance(item, Mapping):
                slot[key] = self._enter_object(cast(Mapping[Any, object], item), context)
            elif isinstance(item, list | tuple):
                slot[key] = self._enter_array(cast(Sequence[object], item), context)
                if isinstance(item, tuple):
                    tuples.append((slot, key))
            else:
                slot[key] = self._mask_number(item, context)
        for slot, key in reversed(tuples):
            slot[key] = tuple(slot[key])
        return root[0]

    def _enter_object(self, item: Mapping[Any, object], context: _KeyContext) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        paired = _paired_name(item)
        for key, value in item.items():
            below = self._context_below(key, context)
            if paired and key in _PAIR_VALUES:
                below = _KeyContext(secret=paired, direct=True)
            elif key not in _PAIR_VALUES and _is_listed_cookie(item, context):
                below = _NO_CONTEXT
            if isinstance(key, str) and (len(key) >= _MIN_KEY_CHARS or not key.isidentifier()):
                masked, number = self.mask_text(key, context.only, self.counts), 2
                key = masked
                while key in made:  # two keys may mask to the same text, and neither value may be dropped
                    key, number = f"{masked} ({number})", number + 1
            made[key] = None
            self._waiting.append((value, made, key, below))
        return made

    def _context_below(self, key: object, context: _KeyContext) -> _KeyContext:
        if not isinstance(key, str):
            return _KeyContext(secret=context.secret)
        if key in self.path_fields or (key in _PATH_KEYED and self.path_fields):
            return _KeyContext(only=PATH_CLASSES)
        name = _announced_by(key)
        if name is not None and self.rules.allow(name.kind):
            return _KeyContext(secret=name, direct=True)
        return _KeyContext(secret=context.secret)

    def _enter_array(self, items: Sequence[object], context: _KeyContext) -> list[Any]:
        made: list[Any] = [None] * len(items)
        contexts = dict.fromkeys(range(len(items)), context)
        if context.secret is None and len(items) <= _MAX_ARGUMENTS and all(isinstance(item, str) for item in items):
            words = cast(Sequence[str], items)
            contexts |= {index: _KeyContext(secret=name, direct=True) for index, name in _announced_items(words)}
            items = self._mask_flags(words)
        for index, item in enumerate(items):
            self._waiting.append((item, made, index, contexts[index]))
        return made

    def _mask_flags(self, words: Sequence[str]) -> Sequence[str]:
        """Mask the passwords that an argument list gives to known programs by short flags."""
        if not any(word.startswith("-") for word in words) or not self.rules.allow(kinds.CLI_PASSWORD):
            return words
        line = " ".join(words)
        found = list(find_only_places(line)) if line.isascii() else []
        masked = list(words)
        start = 0
        for index, word in enumerate(words):
            for finding in found:
                if start <= finding.start and finding.end <= start + len(word):
                    head, tail = word[: finding.start - start], word[finding.end - start :]
                    masked[index] = f"{head}{placeholder(finding.kind, by_rule=self.rules.by_rule)}{tail}"
                    self.counts[finding.kind.klass] += 1
                    break
            start += len(word) + 1
        return masked

    def _mask_string(self, text: str, context: _KeyContext) -> str:
        name = context.secret
        if name is not None:
            data = text.encode("utf-8", "surrogatepass")
            finding = _judge(data.decode("latin-1"), name, direct=context.direct)
            if finding is not None:
                head, tail = data[: finding.start], data[finding.end :]
                self.counts[finding.kind.klass] += 1
                masked = head + placeholder(finding.kind, by_rule=self.rules.by_rule).encode() + tail
                return masked.decode("utf-8", "surrogatepass")
        return self.mask_text(text, context.only, self.counts)

    def _mask_number(self, item: object, context: _KeyContext) -> object:
        if context.secret is None or not context.direct or isinstance(item, bool) or not isinstance(item, int | float):
            return item
        if sum(map(str.isdigit, str(item))) < _MIN_DIGITS or context.secret.kind in (kinds.SIGNATURE, kinds.COOKIE):
            return item
        self.counts[context.secret.kind.klass] += 1
        return placeholder(context.secret.kind, by_rule=self.rules.by_rule)


def is_innocent_name(key: str) -> bool:
    """Return True if a key is too short for a token, announces no secret and is not half of a pair."""
    return len(key) < _MIN_KEY_CHARS and key not in _PAIR_VALUES and _announced_by(key) is None


def _is_listed_cookie(item: Mapping[Any, object], context: _KeyContext) -> bool:
    """Return True for `{"name": …, "value": …, "domain": …}` in a list of cookies: only the value is secret."""
    in_cookies = context.secret is not None and context.secret.kind == kinds.COOKIE
    return in_cookies and any(key in item for key in _PAIR_VALUES)


def _announced_by(text: str) -> SecretName | None:
    """Return what a key announces, if it has the form of a name."""
    if text.lower() == "cookies":
        return classify_name("cookie")
    return classify_name(text) if _NAME.fullmatch(text) else None


def _judge(text: str, name: SecretName, *, direct: bool) -> SecretSpan | None:
    """Judge a string under a key that names a secret; deeper below that key, as if it stood in a text."""
    if name.kind == kinds.SIGNATURE:
        secret = _LONG_HEX.fullmatch(text) is not None
    elif name.kind == kinds.COOKIE:
        # In an object every member is the value of a cookie.
        one = not direct and is_secret(text, need=Need.ANY, notation=Notation.DATA, quoted=True)
        secret = one or is_random(text) or judge_header_text(text, name) is not None
    elif name.header and direct:
        return judge_header_text(text, name)
    else:
        secret = is_secret(text, need=Need.ANY if direct else name.need, notation=Notation.DATA, quoted=True)
        secret = secret and not is_path(text)
    kind = (token_kind(text) or name.kind) if name.kind == kinds.PASSWORD else name.kind
    return SecretSpan(0, len(text), kind) if secret else None


def _paired_name(item: Mapping[Any, object]) -> SecretName | None:
    """Return the secret name of a pair such as `{"name": "DB_PASSWORD", "value": …}`."""
    if not any(key in item for key in _PAIR_VALUES):
        return None
    names = (item.get(key) for key in _PAIR_NAMES)
    return next((found for name in names if isinstance(name, str) and (found := _announced_by(name))), None)


def _announced_items(words: Sequence[str]) -> Iterable[tuple[int, SecretName]]:
    """Yield items after a name, as in `["Authorization", "Bearer …"]` and `["--password", "…"]`."""
    for index in range(1, len(words)):
        before = words[index - 1]
        if before.startswith("-") and "=" not in before:
            name = _announced_by(before)
            if name is not None and not words[index].startswith("-"):
                yield index, name
        elif len(words) == 2 and (name := _announced_by(before)) is not None and name.header:
            yield index, name
