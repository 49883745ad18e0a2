"""Fitting a capsule into its budget: what is dropped, what is cut, in which order, and the count of both.

Sizes are bytes of compact UTF-8 JSON, kept as running totals, so that the work grows with the number of items
only. `build` decides what the items say.
"""

import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Item = dict[str, object] | str
Aged = tuple[int, Item]

KEYS = (
    "origin",
    "goal",
    "asked",
    "done",
    "next",
    "blockers",
    "do_not",
    "refuted",
    "decisions",
    "requirements",
    "files_touched",
    "open_turn",
    "last_shell_cwd",
    "last_commands",
    "shells",
    "usage",
    "checkpoints",
    "receipts",
    "closing_note",
    "stated",
    "truncated",
    "budget_bytes",
)
# Lists of facts, which shrink first, and lists of what was said, in the order in which they shrink.
FACTS = ("checkpoints", "last_commands", "receipts")
SAID = ("done", "decisions", "blockers", "do_not", "refuted")
LISTS = (*FACTS, "shells", "requirements", "files_touched", *SAID, "asked", "next")
FEW, MANY = 3, 10
MIN_BUDGET_BYTES = 2_000
# What a state of git takes more than null.
GIT_BYTES = len('"committed"') - len("null")

_ELLIPSIS = "…"
_ELLIPSIS_BYTES = 3
# What may be cut inside an item; the rest is ids, figures and words of ours.
_TEXTS = frozenset(
    {
        "text",
        "path",
        "command",
        "last_line",
        "label",
        "cwd",
        "file_path",
        "query_title",
        "query_text",
        "interpretation",
        "response",
        "last_lines",
        "written_by",
        "handoff_to",
    }
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def size(value: object) -> int:
    """Return the bytes of a value in compact UTF-8 JSON."""
    return len(_ENCODER.encode(value).encode("utf-8"))


def clipped(text: str, most: int) -> str:
    """Cut a text to so many bytes of its JSON form and an ellipsis, where that makes it shorter."""
    if len(text) <= most + _ELLIPSIS_BYTES and _bytes(text) <= most + _ELLIPSIS_BYTES:
        return text
    fits = bisect_right(range(most + 1), most, key=lambda chars: _bytes(text[:chars])) - 1
    return text[:fits] + _ELLIPSIS


def _bytes(text: str) -> int:
    return size(text) - 2


@dataclass(slots=True)
class _Unit:
    """A list's item, or the value of a field that is no list: as it is, and as it is shown."""

    age: int
    whole: Item
    shown: Item
    size: int
    cuts: int = 0

    @classmethod
    def of(cls, item: Item, age: int = 0) -> "_Unit":
        return cls(age, item, item, _room(item))

    def clip(self, most: int) -> None:
        self.shown, self.cuts = _clipped_inside(self.whole, most)
        self.size = _room(self.shown)


def _room(item: Item) -> int:
    """Return the bytes to keep for an item: how a file stands in git is told later."""
    return size(item) + (GIT_BYTES if isinstance(item, dict) and "git" in item else 0)


def _clipped_inside(value: Any, most: int, name: str = "text") -> tuple[Any, int]:
    """Return a value with its texts cut, at any depth, and how many were."""
    if isinstance(value, str):
        short = clipped(value, most) if name in _TEXTS else value
        return short, int(short != value)
    if isinstance(value, dict):
        inside = {key: _clipped_inside(item, most, key) for key, item in cast("dict[str, Any]", value).items()}
        return {key: short for key, (short, _) in inside.items()}, sum(cuts for _, cuts in inside.values())
    if isinstance(value, list):
        parts = [_clipped_inside(item, most, name) for item in cast("list[Any]", value)]
        return [short for short, _ in parts], sum(cuts for _, cuts in parts)
    return value, 0


class _ItemList:
    """The items of one list: shown in their order, dropped by age."""

    def __init__(self, items: Iterable[Aged]) -> None:
        self.units = [_Unit.of(item, age) for age, item in items]
        self.by_age = sorted(self.units, key=lambda unit: unit.age)
        self.gone = 0

    def __len__(self) -> int:
        return len(self.units) - self.gone

    def droppable(self, keep: int) -> list[_Unit]:
        """Return the items that may still go, oldest first, if so many must stay."""
        return self.by_age[self.gone : max(len(self.units) - keep, self.gone)]

    def shown(self) -> list[Item]:
        gone = {id(unit) for unit in self.by_age[: self.gone]}
        return [unit.shown for unit in self.units if id(unit) not in gone]


class _Fitting:
    """A capsule while it is cut to its budget; `total` does not count the content of `truncated`."""

    def __init__(
        self,
        fixed: Mapping[str, object],
        singles: Mapping[str, Item | None],
        lists: Mapping[str, Iterable[Aged]],
        omitted: Mapping[str, int],
        budget: int,
    ) -> None:
        self.fixed = fixed
        self.singles = {name: _Unit.of(item) for name, item in singles.items() if item is not None}
        self.item_lists = {name: _ItemList(items) for name, items in lists.items()}
        self.dropped = Counter(omitted)
        self.cut: Counter[str] = Counter()
        self.budget = budget
        self.level: int | None = None
        bare: dict[str, object] = {**fixed, "truncated": {}}
        bare.update(dict.fromkeys(singles))
        bare.update({name: [] for name in lists})
        self.total = size(bare) + sum(unit.size - size(None) for unit in self.singles.values())
        for items in self.item_lists.values():
            self.total += sum(unit.size + 1 for unit in items.units) - bool(items.units)

    def fit(self) -> None:
        for name in FACTS:
            self._drop(name, keep=FEW)
        self._fold_files()
        for name in SAID:
            self._drop(name, keep=MANY)
        self._cut(200)
        for name in LISTS:
            self._drop(name, keep=FEW)
        self._cut(80)
        for name in LISTS:
            self._drop(name, keep=1)
        # Only ids and figures at their very limits come this far.
        self._drop_single("usage")
        self._drop_single("last_shell_cwd")
        self._shorten_open_turn()
        self._cut(40)
        self._drop_single("closing_note")
        self._cut(20)
        if self.level is not None:
            for name in reversed(LISTS):
                self._restore((name,), self.level)

    def _fold_files(self) -> None:
        """Show files beyond the most changed ones as their folders."""
        files = self.item_lists.get("files_touched")
        if files is None or len(files.units) <= MANY or not self._over():
            return
        folded = _ItemList(folded_files([(unit.age, unit.whole) for unit in files.units]))
        self.total -= sum(unit.size + 1 for unit in files.units) - sum(unit.size + 1 for unit in folded.units)
        self.item_lists["files_touched"] = folded

    def result(self) -> dict[str, object]:
        values: dict[str, object] = {**self.fixed, "truncated": self._truncated()}
        values.update({name: items.shown() for name, items in self.item_lists.items()})
        values.update({name: unit.shown for name, unit in self.singles.items()})
        return {name: values.get(name) for name in KEYS}

    def _truncated(self) -> dict[str, object]:
        counts: dict[str, object] = {name: self.dropped[name] for name in KEYS if self.dropped[name]}
        cut = {name: self.cut[name] for name in KEYS if self.cut[name]}
        return {**counts, "cut": cut} if cut else counts

    def _over(self) -> bool:
        if self.total > self.budget:
            return True
        return self.total - size({}) + size(self._truncated()) > self.budget

    def _drop(self, *names: str, keep: int) -> None:
        """Drop items, the oldest of all the named lists first, until the capsule fits."""
        droppable = [
            (unit.age, n, name) for n, name in enumerate(names) for unit in self.item_lists[name].droppable(keep)
        ]
        for _, _, name in sorted(droppable):
            if not self._over():
                return
            self._take_off(name)

    def _take_off(self, name: str) -> None:
        items = self.item_lists[name]
        unit = items.by_age[items.gone]
        self.total -= unit.size + (len(items) > 1)
        self.cut[name] -= unit.cuts
        self.dropped[name] += 1
        items.gone += 1

    def _shorten_open_turn(self) -> None:
        """Leave of an open turn what it is about, without what was said and run last."""
        unit = self.singles.get("open_turn")
        if unit is not None and isinstance(unit.whole, dict) and self._over():
            self.total -= unit.size
            self.cut["open_turn"] -= unit.cuts
            unit.whole = {**unit.whole, "last_dialog": [], "last_command": None}
            unit.clip(self.level or 80)
            self.total += unit.size
            self.cut["open_turn"] += unit.cuts

    def _drop_single(self, name: str) -> None:
        if name in self.singles and self._over():
            unit = self.singles.pop(name)
            self.total -= unit.size - size(None)
            self.cut[name] -= unit.cuts
            self.dropped[name] += 1

    def _cut(self, most: int) -> None:
        """Cut texts, the longest first, until the capsule fits."""
        if not self._over():
            return
        self.level = most
        units = list(self.singles.items())
        for name, items in self.item_lists.items():
            units += [(name, unit) for unit in items.by_age[items.gone :]]
        for name, unit in sorted(units, key=lambda named: -named[1].size):
            size_before, cuts_before = unit.size, unit.cuts
            unit.clip(most)
            self.total += unit.size - size_before
            self.cut[name] += unit.cuts - cuts_before
            if not self._over():
                return

    def _restore(self, names: Iterable[str], most: int) -> None:
        """Take back, newest first, what need not have been dropped now that long texts are cut."""
        gone = [
            (unit.age, n, name)
            for n, name in enumerate(names)
            for unit in self.item_lists[name].by_age[: self.item_lists[name].gone]
        ]
        for _, _, name in sorted(gone, reverse=True):
            self._put_back(name, most)
            if self._over():
                self._take_off(name)
                return

    def _put_back(self, name: str, most: int) -> None:
        items = self.item_lists[name]
        items.gone -= 1
        unit = items.by_age[items.gone]
        unit.clip(most)
        self.total += unit.size + (len(items) > 1)
        self.cut[name] += unit.cuts
        self.dropped[name] -= 1


def fitted(
    fixed: Mapping[str, object],
    singles: Mapping[str, Item | None],
    lists: Mapping[str, Iterable[Aged]],
    *,
    omitted: Mapping[str, int],
    budget_bytes: int,
) -> dict[str, object]:
    """Return the capsule made of these parts, within the budget.

    `fixed` is never changed, `singles` are cut, `lists` hold `(age, item)` in the order to be shown;
    `omitted` counts what was left out before.
    """
    if budget_bytes < MIN_BUDGET_BYTES:
        raise ValueError(f"a capsule needs a budget of at least {MIN_BUDGET_BYTES} bytes")
    fitting = _Fitting(fixed, singles, lists, omitted, budget_bytes)
    fitting.fit()
    return fitting.result()


def refitted(capsule: Mapping[str, Any], budget_bytes: int, newest: Mapping[str, int]) -> dict[str, Any]:
    """Return a capsule that was made before, within a budget of now; what it lacks already stays counted.

    Of the lists that are named the first items, so many, are the newest.
    """
    fixed = {"origin": capsule["origin"], "budget_bytes": budget_bytes}
    omitted = {name: count for name, count in capsule["truncated"].items() if name != "cut"}
    lists = {name: _aged(name, capsule.get(name) or [], newest.get(name, 0)) for name in LISTS}
    singles = {name: capsule.get(name) for name in KEYS if name not in {*fixed, *lists, "truncated"}}
    fitting = _Fitting(fixed, singles, lists, omitted, budget_bytes)
    fitting.cut.update(capsule["truncated"].get("cut", {}))
    fitting.fit()
    return fitting.result()


def folded_files(files: Sequence[Aged]) -> list[Aged]:
    """Return the most changed files as they are, and the others as their folders, few of them.

    Files are ranked by their changes: those are the last to be dropped.
    """
    ranked = sorted(files, key=lambda aged: (_figure(aged[1], "changes"), aged[0]))
    others, most = ranked[:-MANY], ranked[-MANY:]
    depth = max(str(_path(item)).count("/") for _, item in others)
    while len(folders := _folders(others, depth)) > MANY and depth > 1:
        depth -= 1
    smaller = sorted(folders.values(), key=lambda item: _figure(item, "changes"))
    return [*enumerate(smaller), *((len(smaller) + n, item) for n, (_, item) in enumerate(most))]


def _folders(files: Iterable[Aged], depth: int) -> dict[str, dict[str, object]]:
    folders: dict[str, dict[str, object]] = {}
    for _, item in files:
        parts = _path(item).split("/")
        name = "/".join(parts[: min(depth, len(parts) - 1)]) + "/"
        folder = folders.setdefault(name, {"path": name if name != "/" else "./", "changes": 0, "files": 0})
        folder["changes"] = _figure(folder, "changes") + _figure(item, "changes")
        folder["files"] = _figure(folder, "files") + max(_figure(item, "files"), 1)
    return folders


def _path(item: Item) -> str:
    return item if isinstance(item, str) else str(item.get("path", ""))


def _figure(item: Item, name: str) -> int:
    value = 0 if isinstance(item, str) else item.get(name, 0)
    return value if isinstance(value, int) else 0


def claimed_age(name: str, position: int) -> int:
    """Return the age of a claimed item, which goes last; of claimed plans the first step goes last."""
    return sys.maxsize - position if name == "next" else sys.maxsize


def _aged(name: str, items: Sequence[Item], newest: int) -> list[Aged]:
    """Return the items of a list with their ages: the entry that they cite, else their position."""
    aged: list[Aged] = []
    for position, item in enumerate(items):
        seq = None if isinstance(item, str) else item.get("seq")
        is_newest = position < newest or (isinstance(item, dict) and item.get("basis") == "claimed")
        age = claimed_age(name, position) if is_newest else seq if isinstance(seq, int) else position
        aged.append((age, item))
    return aged
