"""Fitting an answer into `max_chars`: fewer items, then shorter texts, always valid and always with a way on."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from shiftlog.journal.cursors import Cursor
from shiftlog.journal.history_items import Item
from shiftlog.journal.texts import one_line

Answered = dict[str, Any]

_ENVELOPE_CHARS = 220
_SHORTEST = 24
_NOTE = "cut; read the resource shiftlog://sessions/{id}, or ask again with a larger max_chars"


def size(value: object) -> int:
    """Return the characters of a value in compact JSON."""
    return len(msgspec.json.encode(value).decode("utf-8"))


def fit_answer(
    head: Mapping[str, Any],
    rows: Sequence[tuple[Item, tuple[int, int]]],
    question: Mapping[str, Any],
    *,
    total: int,
    is_last: bool,
    max_chars: int,
) -> Answered:
    """Fit what was read whole (`head`) and a page of its parts; the head gets at most two thirds."""
    room = max_chars - _ENVELOPE_CHARS
    shortened, was_cut = _shortened(dict(head), room * 2 // 3 if rows else room)
    page = fit_items(
        [(item, Cursor(after=at)) for item, at in rows],
        question,
        total=total,
        is_last=is_last,
        max_chars=max_chars - size(shortened) - (len(_NOTE) + 20 if was_cut else 0),
    )
    answered = {**shortened, **page}
    if was_cut:
        answered["truncated"] = True
        answered["note"] = _NOTE
    return answered


def fit_items(
    rows: Sequence[tuple[Item, Cursor]],
    question: Mapping[str, Any],
    *,
    total: int,
    is_last: bool,
    max_chars: int,
) -> Answered:
    """Take as many items as fit; one that alone is too long is shortened, so that every page moves on."""
    room = max_chars - _ENVELOPE_CHARS
    items: list[Item] = []
    last: Cursor | None = None
    was_cut = False
    for item, cursor in rows:
        needed = size(item) + 1
        if needed > room:
            if items:
                is_last = False
                was_cut = True
                break
            item, _ = _shortened(item, max(room, 120))
            needed, was_cut = size(item) + 1, True
        items.append(item)
        last = cursor
        room -= needed
    return {
        "items": items,
        "total": total,
        "next_cursor": None if is_last or last is None else last.encoded(question),
        "truncated": was_cut,
    }


def _shortened(value: Item, room: int) -> tuple[Item, bool]:
    """Cut the texts and lists of an object until it fits; say whether anything was cut."""
    if size(value) <= room:
        return value, False
    cut: Any = value
    for max_text, max_list in ((2_000, 50), (500, 20), (160, 8), (80, 3), (_SHORTEST, 1), (_SHORTEST, 0)):
        cut = _cut(value, max_text, max_list)
        if size(cut) <= room:
            return cut, True
    return _bare(cut, room), True


def _cut(value: Any, max_text: int, max_list: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= max_text or _is_name(value) else one_line(value, max_text)
    if isinstance(value, list):
        parts = cast(list[Any], value)
        return [_cut(part, max_text, max_list) for part in parts[:max_list]]
    if isinstance(value, dict):
        items = cast(dict[str, Any], value)
        return {key: _cut(item, max_text, max_list) for key, item in items.items()}
    return value


def _is_name(text: str) -> bool:
    """Tell ids and hashes, which are useless when cut, from text."""
    return len(text) <= 210 and " " not in text and ("Z-" in text or text.startswith("sha256:"))


def _bare(value: Item, room: int) -> Item:
    """Keep the keys that name a thing, in order, while they fit."""
    bare: Item = {}
    for key, item in value.items():
        kept = _bare(cast(Item, item), room) if isinstance(item, dict) else item
        if kept in ("", None, [], {}):
            continue
        if size({**bare, key: kept}) <= room:
            bare[key] = kept
    return bare
