"""Fit an answer into `max_chars`: first fewer items, then shorter texts. It stays valid JSON and can be paged on."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from shiftlog.journal.history.cursors import Cursor
from shiftlog.journal.history.items import Item
from shiftlog.text.printable import one_line

Answered = dict[str, Any]

_SHORTEST = 24
_LEVELS = ((2_000, 50), (500, 20), (160, 8), (80, 3), (_SHORTEST, 1), (_SHORTEST, 0))
_MORE = "cut; call query_history with next_cursor, or with a larger max_chars for whole texts, or read "
_LAST = "cut; call query_history with a larger max_chars for whole texts, or read "
SESSION_URI = "shiftlog://sessions/{id}"
TURN_URI = f"{SESSION_URI}/turns/{{request_id}}"


def size(value: object) -> int:
    """Return the characters of a value in compact JSON."""
    return len(msgspec.json.encode(value).decode("utf-8"))


def fit(
    head: Mapping[str, Any],
    rows: Sequence[tuple[Item, Cursor]],
    question: Mapping[str, Any],
    *,
    total: int,
    is_last: bool,
    max_chars: int,
    resource: str = SESSION_URI,
) -> Answered:
    """Return what was read whole (`head`) and a page of its parts in at most so many characters of JSON.

    The head gets at most two thirds. An item that alone is too long is shortened, so that every page moves on.
    `resource` holds the whole texts.
    """
    whole: Answered = {
        **head,
        "items": [item for item, _ in rows],
        "total": total,
        "next_cursor": None if is_last or not rows else rows[-1][1].encoded(question),
        "truncated": False,
    }
    if size(whole) <= max_chars:
        return whole
    longest = max((cursor.encoded(question) for _, cursor in rows), key=len, default=None)
    shell: Answered = {"items": [], "total": total, "next_cursor": longest, "truncated": True}
    shell["note"] = _MORE + resource
    room = max_chars - size(shell)
    # If the head has to lose facts, only its names stay, which leave room for those of an item.
    short_head = _shortened(dict(head), *((room * 2 // 3, room // 3) if rows else (room, room)))
    room -= size(short_head) - 1
    items: list[Item] = []
    for item, _ in rows:
        if items and size(item) >= room:
            break
        items.append(_shortened(item, room - 1, room - 1))
        room -= size(items[-1]) + 1
    way_on = whole["next_cursor"] if len(items) == len(rows) else rows[len(items) - 1][1].encoded(question)
    note = (_MORE if way_on else _LAST) + resource
    return {**short_head, **shell, "items": items, "next_cursor": way_on, "note": note}


def _shortened(value: Item, room: int, bare_room: int) -> Item:
    """Cut the texts and lists of an object until it fits; where that is not enough, leave only what names it."""
    if size(value) <= room:
        return value
    cut: Any = value
    for max_text, max_list in _LEVELS:
        cut = _cut(value, max_text, max_list)
        if size(cut) <= room:
            return cut
    return _bare(cut, bare_room)


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
    """Return True for ids and hashes, which are useless when cut."""
    return len(text) <= 210 and " " not in text and ("Z-" in text or text.startswith("sha256:"))


def _bare(value: Item, room: int) -> Item:
    """Keep the keys that name a thing, in order, while they fit."""
    bare: Item = {}
    for key, item in value.items():
        kept = _bare(cast(Item, item), room - size({**bare, key: {}}) + 2) if isinstance(item, dict) else item
        if kept in ("", None, [], {}):
            continue
        if size({**bare, key: kept}) <= room:
            bare[key] = kept
    return bare
