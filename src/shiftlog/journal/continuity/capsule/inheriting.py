"""The capsule of a predecessor as the oldest part of its successor's own, once that has turns.

Its agent's own words replace what was handed to it: plans, obstacles and rules that its statement names anew, plans
that it carried out, obstacles that it resolved. What was done and tried before stays so, whatever a statement lists.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from shiftlog.journal.continuity.capsule.budget import Aged, Item, claimed_age
from shiftlog.journal.continuity.capsule.gathering import compared

_SAID = ("done", "next", "blockers", "do_not", "refuted", "decisions")
_STANDING = ("blockers", "do_not")
_REPLACED = ("next", *_STANDING)
_KEPT = ("closing_note", "stated", "last_shell_cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """The work of the successor since: lists that it stated, compared words of finished work, what is resolved now."""

    stated: Collection[str]
    finished: Collection[str]
    has_finished: bool
    is_resolved: Callable[[str, int], bool]


def inherit(
    handed: Mapping[str, Any], lists: dict[str, list[Aged]], singles: dict[str, Item | None], since: Since
) -> dict[str, int]:
    """Add what was handed over to lists and single values; return how many items of each list were left out of it."""
    replaced = {name for name in _REPLACED if name in since.stated}
    for name in _SAID:
        if name not in replaced:
            items = [item for item in handed[name] if _still_counts(name, item, since)]
            lists[name] = _with_older(lists[name], items, name)
    for name in ("requirements", "receipts"):
        lists[name] = _with_older(lists[name], [text for text in handed[name] if not text.startswith("head ")], name)
    lists["asked"] = _with_older(lists["asked"], handed["asked"][:1], "asked")
    lists["files_touched"] = _with_older_files(lists["files_touched"], handed["files_touched"])
    goal = cast("Mapping[str, Any]", singles["goal"])
    if goal["basis"] == "recorded":
        singles["goal"] = handed["goal"]
    for name in _KEPT:
        singles[name] = singles[name] or handed[name]
    return {name: count for name, count in handed["truncated"].items() if name != "cut" and name not in replaced}


def _still_counts(name: str, item: Mapping[str, Any], since: Since) -> bool:
    text = str(item["text"])
    if name == "next":
        # Its predecessor's recorded plans were for the turn that it took up.
        is_over = item["basis"] == "recorded" and since.has_finished
        return not is_over and compared(text) not in since.finished
    return name not in _STANDING or not since.is_resolved(text, -1)


def _with_older(own: list[Aged], items: Sequence[Item], name: str) -> list[Aged]:
    """Return a list with older items between what is claimed in it and the rest; none that says the same."""
    known = {compared(_text(item)) for _, item in own}
    older = [_older(item, position - len(items), name) for position, item in enumerate(items)]
    older = [aged for aged in older if compared(_text(aged[1])) not in known]
    claimed = sum(_is_claimed(item) for _, item in own)
    return [*own[:claimed], *older, *own[claimed:]]


def _older(item: Item, age: int, name: str) -> Aged:
    """Return an item older than all entries; its number is one of another journal."""
    if isinstance(item, str):
        return age, item
    return (claimed_age(name, 0) if _is_claimed(item) else age), {**item, "seq": None}


def _with_older_files(own: list[Aged], files: Sequence[dict[str, Any]]) -> list[Aged]:
    """Return the files with those of the predecessor; of one that both changed the changes add up."""
    before = {str(file["path"]): file for file in files}
    merged: list[Aged] = []
    for age, item in own:
        file = cast("dict[str, Any]", item)
        earlier = before.pop(str(file["path"]), None)
        merged.append((age, {**file, "changes": file["changes"] + earlier["changes"]} if earlier else file))
    return [*((position - len(files), file) for position, file in enumerate(before.values())), *merged]


def _text(item: Item) -> str:
    return item if isinstance(item, str) else str(item.get("text", ""))


def _is_claimed(item: Item) -> bool:
    return isinstance(item, dict) and item.get("basis") == "claimed"
