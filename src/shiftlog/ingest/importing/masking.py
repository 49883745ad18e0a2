"""Masking for the import: texts, paths and JSON values without secrets and bulk, cut to the stored length.

The redactor finds the secrets. Here results are remembered and masked classes counted; bodies are composed elsewhere.
"""

import hashlib
import operator
from collections import Counter
from typing import Any, cast

from shiftlog.guard.secrets.blobs import fold_blobs, may_hold_blob
from shiftlog.guard.secrets.redactor import PATH_FIELDS, Redacted, Redactor
from shiftlog.guard.secrets.scan import PATH_CLASSES

MAX_TEXT_CHARS = 1_048_576
_REMEMBERED = 64
_REMEMBERED_PATHS = 1024
# Names and ids stay as they are; other changed values of a session are text.
_NAMES = frozenset({"branch", "version", "model", "permission_mode", "mode", "number", "sha"})
_NUMBERS: frozenset[type] = frozenset({int, float, bool})
_PATHS = PATH_FIELDS | {"worktree", "moved_from", "plan_file"}

Body = dict[str, Any]


class Masker:
    """Masks values and counts the classes of what it masked."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._masked: Counter[str] = Counter()
        self._memo: dict[str, tuple[str, dict[str, int]]] = {}
        self._known_paths: dict[str, Redacted] = {}
        self._known_words: set[str] = set()

    def masked(self) -> dict[str, int]:
        """Return the classes of what was masked since the last fact."""
        return dict(self._masked)

    def text(self, value: str, *, counted: bool = True) -> str:
        """Return a text without secrets and encoded data; copies of a stored text are not counted again."""
        if self._redactor.is_plain(value):
            return value
        known = self._memo.get(value)
        if known is None:
            redacted = self._redactor.text(value)
            known = (folded(redacted.text), redacted.classes)
            if len(self._memo) >= _REMEMBERED:
                self._memo.clear()
            self._memo[value] = known
        if counted and known[1]:
            self._masked.update(known[1])
        return known[0]

    def path(self, value: str) -> str:
        """Return a path without the secrets that are masked in paths too."""
        redacted = self._known_paths.get(value)
        if redacted is None:
            if len(self._known_paths) >= _REMEMBERED_PATHS:
                self._known_paths.clear()
            redacted = self._known_paths[value] = self._redactor.text(value, only=PATH_CLASSES)
        if redacted.count:
            self._masked.update(redacted.classes)
        return redacted.text

    def _value(self, value: Any) -> Any:
        if self._redactor.is_plain_value(value):
            return value
        masked, _, classes = self._redactor.value(value, path_fields=_PATHS)
        if classes:
            self._masked.update(classes)
        return folded(masked)

    def _json(self, value: Body) -> Body:
        if not value:
            return {}
        # Digests of unstored values stay, whatever their name.
        kept = {name: item for name, item in value.items() if is_digest(item)}
        if len(kept) == len(value):
            return kept
        return {**cut_value(self._value({n: item for n, item in value.items() if n not in kept}))[0], **kept}

    def _fields(self, fields: dict[str, Any]) -> Body:
        made: Body = {}
        for name, value in fields.items():
            if name in ("model", "reasoning_effort", "model_provider", "images"):
                made[name] = value
            elif name in ("context_list", "files_modified", "plan_file"):
                made[name] = self._paths(value)
            elif isinstance(value, str):
                made[name] = cut(self.text(value, counted=False))[0]
            else:
                made[name] = cut_value(self._redactor.value(value, path_fields=_PATHS)[0])[0]
        return made

    def _paths(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._path_or_text(value)
        return [self._path_or_text(item) for item in value if isinstance(item, str)]

    def _path_or_text(self, value: str) -> str:
        # Text selected in an editor comes in the same list.
        if len(value) > 4096 or "\n" in value or " " in value.strip():
            return self.text(value, counted=False)
        return self.path(value)

    def _changes(self, changes: Body) -> Body:
        made: Body = {}
        for name, value in changes.items():
            if name in _NAMES or not isinstance(value, str | dict | list):
                made[name] = value
            elif isinstance(value, str):
                made[name] = self.path(value) if name in _PATHS else self.text(value)
            else:
                made[name] = cut_value(self._value(value))[0]
        return made

    def _has_known_words(self, vendor: Body) -> bool:
        """Return True if every non-numeric counter was already checked for secrets."""
        for value in vendor.values():
            if isinstance(value, int):
                continue
            if isinstance(value, str):
                if value not in self._known_words:
                    return False
            elif not isinstance(value, dict) or not _NUMBERS.issuperset(map(type, cast(Body, value).values())):
                return False
        return True

    def _words_masked(self, vendor: Body) -> Body:
        masked = self._json(vendor)
        if masked == vendor and len(self._known_words) < _REMEMBERED_PATHS:
            self._known_words.update(value for value in vendor.values() if isinstance(value, str))
        return masked


def is_digest(value: Any) -> bool:
    """Return True for a number, or a length and digest in place of a text: nothing needs masking."""
    if not isinstance(value, dict):
        return isinstance(value, bool | int | float)
    return {"bytes", "sha256"}.issuperset(cast(Body, value))


def cut(text: str) -> tuple[str, dict[str, int | str] | None]:
    """Return the stored part of a text and, if it was cut, the length and digest of the whole."""
    if len(text) <= MAX_TEXT_CHARS:
        return text, None
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text[:MAX_TEXT_CHARS], {"chars": len(text), "sha256": digest}


def cut_value(value: Any) -> tuple[Any, dict[str, int | str] | None]:
    """Return a JSON value with long strings cut, and the length and digest of the longest one."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, dict):
        items: Any = cast(Body, value).items()
    elif isinstance(value, list):
        items = enumerate(cast(list[Any], value))
    else:
        return value, None
    changed: dict[Any, Any] = {}
    full = None
    for name, item in items:
        if isinstance(item, str) and len(item) <= MAX_TEXT_CHARS:
            continue
        kept, whole = cut_value(item)
        if whole is not None:
            changed[name] = kept
            full = max(filter(None, (full, whole)), key=operator.itemgetter("chars"))
    if not changed:
        return cast(Any, value), None
    if isinstance(value, dict):
        return {**cast(Body, value), **changed}, full
    return [changed.get(at, item) for at, item in enumerate(cast(list[Any], value))], full


def folded(value: Any) -> Any:
    """Fold encoded data in the strings of a JSON value."""
    if isinstance(value, str):
        return fold_blobs(value)[0] if may_hold_blob(value) else value
    if isinstance(value, dict):
        items = cast(Body, value).items()
        return {name: item if type(item) is str and not may_hold_blob(item) else folded(item) for name, item in items}
    if isinstance(value, list):
        return [folded(item) for item in cast(list[Any], value)]
    return value
