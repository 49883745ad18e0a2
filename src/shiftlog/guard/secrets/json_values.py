"""Masking secrets in JSON values, where keys decide as well as text.

Walks without recursion, so no nesting is too deep. How a text is masked is the caller's; which keys and which
neighbours announce a secret is here.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.contexts import find_flags
from shiftlog.guard.secrets.detectors.headers import judge_header_text
from shiftlog.guard.secrets.detectors.kinds import Finding, Kind
from shiftlog.guard.secrets.detectors.names import SecretName, classify_name
from shiftlog.guard.secrets.detectors.tokens import token_kind
from shiftlog.guard.secrets.detectors.values import Need, Setting, is_path, is_random, is_secret

# Fields of vendors' records and tools that hold paths. In them only what is a secret by its own shape is masked.
PATH_FIELDS = frozenset({"file_path", "filePath", "notebook_path", "path", "cwd", "workdir"})
PATH_CLASSES = frozenset({"url_password", "provider_key", "jwt"})
# Objects whose keys are paths.
_PATH_KEYED = frozenset({"changes"})

_PAIR_NAMES = ("name", "key", "Name", "Key")
_PAIR_VALUES = ("value", "Value")
_NAME = re.compile(r"[\w .$@/-]{1,128}", re.ASCII)
_LONG_HEX = re.compile(r"[0-9a-fA-F]{40,}")
_MIN_DIGITS = 4
_MIN_KEY_CHARS = 16  # a shorter identifier is no token
_MAX_ARGUMENTS = 256


class MaskText(Protocol):
    """Masks one text, all classes or only some, and counts in the given counter."""

    def __call__(self, text: str, only: frozenset[str] | None, counts: Counter[str]) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the keys above a value say about it."""

    secret: SecretName | None = None
    direct: bool = False
    only: frozenset[str] | None = None


_NOWHERE = _Place()
Slot = list[Any] | dict[Any, Any]


@dataclass(slots=True, kw_only=True)
class JsonMask:
    """One walk through a JSON value."""

    mask_text: MaskText
    placeholder: Callable[[Kind], str]
    allow: Callable[[Kind], bool]
    path_fields: frozenset[str]
    counts: Counter[str] = field(default_factory=Counter[str])
    _waiting: list[tuple[object, Slot, Any, _Place]] = field(default_factory=list[tuple[object, Slot, Any, _Place]])

    def mask(self, value: object) -> object:
        """Return the value without its secrets; objects and arrays are copied, nothing is changed in place."""
        root: list[Any] = [None]
        tuples: list[tuple[Slot, Any]] = []
        self._waiting.append((value, root, 0, _NOWHERE))
        while self._waiting:
            item, slot, key, place = self._waiting.pop()
            if isinstance(item, str):
                slot[key] = self._mask_string(item, place)
            elif isinstance(item, Mapping):
                slot[key] = self._enter_object(cast(Mapping[Any, object], item), place)
            elif isinstance(item, list | tuple):
                slot[key] = self._enter_array(cast(Sequence[object], item), place)
                if isinstance(item, tuple):
                    tuples.append((slot, key))
            else:
                slot[key] = self._mask_number(item, place)
        for slot, key in reversed(tuples):
            slot[key] = tuple(slot[key])
        return root[0]

    def _enter_object(self, item: Mapping[Any, object], place: _Place) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        paired = _paired_name(item)
        for key, value in item.items():
            below = self._place_below(key, place)
            if paired and key in _PAIR_VALUES:
                below = _Place(secret=paired, direct=True)
            if isinstance(key, str) and (len(key) >= _MIN_KEY_CHARS or not key.isidentifier()):
                key = self._free_key(self.mask_text(key, place.only, self.counts), made)
            made[key] = None
            self._waiting.append((value, made, key, below))
        return made

    def _place_below(self, key: object, place: _Place) -> _Place:
        if not isinstance(key, str):
            return _Place(secret=place.secret)
        if key in self.path_fields:
            return _Place(only=PATH_CLASSES)
        if key in _PATH_KEYED and self.path_fields:
            return _Place(only=PATH_CLASSES)
        name = _announced_by(key)
        if name is not None and self.allow(name.kind):
            return _Place(secret=name, direct=True)
        return _Place(secret=place.secret)

    @staticmethod
    def _free_key(key: str, made: Mapping[Any, object]) -> str:
        """Two keys may mask to the same text; neither value is dropped."""
        free, number = key, 2
        while free in made:
            free, number = f"{key} ({number})", number + 1
        return free

    def _enter_array(self, items: Sequence[object], place: _Place) -> list[Any]:
        made: list[Any] = [None] * len(items)
        places = dict.fromkeys(range(len(items)), place)
        if place.secret is None and len(items) <= _MAX_ARGUMENTS and all(isinstance(item, str) for item in items):
            words = cast(Sequence[str], items)
            places |= {index: _Place(secret=name, direct=True) for index, name in _announced_items(words)}
            items = self._mask_flags(words)
        for index, item in enumerate(items):
            self._waiting.append((item, made, index, places[index]))
        return made

    def _mask_flags(self, words: Sequence[str]) -> Sequence[str]:
        """Mask what short flags of known programs give away in an argument list."""
        if not any(word.startswith("-") for word in words) or not self.allow(kinds.CLI_PASSWORD):
            return words
        line = " ".join(words)
        found = list(find_flags(line, line.encode())) if line.isascii() else []
        return self._cut(words, found) if found else words

    def _cut(self, words: Sequence[str], found: Iterable[Finding]) -> list[str]:
        masked = list(words)
        start = 0
        for index, word in enumerate(words):
            for finding in found:
                if start <= finding.start and finding.end <= start + len(word):
                    head, tail = word[: finding.start - start], word[finding.end - start :]
                    masked[index] = f"{head}{self.placeholder(finding.kind)}{tail}"
                    self.counts[finding.kind.klass] += 1
                    break
            start += len(word) + 1
        return masked

    def _mask_string(self, text: str, place: _Place) -> str:
        name = place.secret
        if name is not None:
            finding = _judge(_view(text), name, direct=place.direct)
            if finding is not None:
                data = text.encode("utf-8", "surrogatepass")
                head, tail = data[: finding.start], data[finding.end :]
                self.counts[finding.kind.klass] += 1
                masked = head + self.placeholder(finding.kind).encode() + tail
                return masked.decode("utf-8", "surrogatepass")
        return self.mask_text(text, place.only, self.counts)

    def _mask_number(self, item: object, place: _Place) -> object:
        if place.secret is None or not place.direct or isinstance(item, bool) or not isinstance(item, int | float):
            return item
        if sum(map(str.isdigit, str(item))) < _MIN_DIGITS or place.secret.kind in (kinds.SIGNATURE, kinds.COOKIE):
            return item
        self.counts[place.secret.kind.klass] += 1
        return self.placeholder(place.secret.kind)


def is_innocent_name(key: str) -> bool:
    """Return True if a key is too short to be a token, announces no secret, and is not half of a pair."""
    return len(key) < _MIN_KEY_CHARS and key not in _PAIR_VALUES and _announced_by(key) is None


def _announced_by(text: str) -> SecretName | None:
    """Say what a key announces, if it has the form of a name at all."""
    return classify_name(text) if _NAME.fullmatch(text) else None


def _view(text: str) -> str:
    """Show a text as the detectors want it: its UTF-8 bytes through Latin-1."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def _judge(text: str, name: SecretName, *, direct: bool) -> Finding | None:
    """Judge a string under a key that names a secret; deeper under it, as if it stood in a text."""
    if name.kind == kinds.SIGNATURE:
        secret = _LONG_HEX.fullmatch(text) is not None
    elif name.kind == kinds.COOKIE:
        # In an object every member is the value of a cookie.
        one = not direct and is_secret(text, need=Need.ANY, setting=Setting.DATA, quoted=True)
        secret = one or is_random(text) or judge_header_text(text, name) is not None
    elif name.header and direct:
        return judge_header_text(text, name)
    else:
        secret = is_secret(text, need=Need.ANY if direct else name.need, setting=Setting.DATA, quoted=True)
        secret = secret and not is_path(text)
    kind = (token_kind(text) or name.kind) if name.kind == kinds.PASSWORD else name.kind
    return Finding(0, len(text), kind) if secret else None


def _paired_name(item: Mapping[Any, object]) -> SecretName | None:
    """`{"name": "DB_PASSWORD", "value": …}`"""
    if not any(key in item for key in _PAIR_VALUES):
        return None
    names = (item.get(key) for key in _PAIR_NAMES)
    return next((found for name in names if isinstance(name, str) and (found := _announced_by(name))), None)


def _announced_items(words: Sequence[str]) -> Iterable[tuple[int, SecretName]]:
    """`["Authorization", "Bearer …"]` and `["--password", "…"]`"""
    for index in range(1, len(words)):
        before = words[index - 1]
        if before.startswith("-") and "=" not in before:
            name = _announced_by(before)
            if name is not None and not words[index].startswith("-"):
                yield index, name
        elif len(words) == 2 and (name := _announced_by(before)) is not None and name.header:
            yield index, name
