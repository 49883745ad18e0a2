"""Fitting a capsule into its budget: what is dropped, what is cut, in which order, and the count of both.

Sizes are bytes of compact UTF-8 JSON, kept as running totals, so that the work grows with the number of items
only. What the items say is decided in `capsule`.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Item = dict[str, object] | str
Aged = tuple[int, Item]

KEYS = (
    "origin",
    "goal",
    "done",
    "next",
    "blockers",
    "do_not",
    "refuted",
    "decisions",
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
# The oldest of these go first, list by list.
DROPPED = ("done", "files_touched", "decisions", "receipts", "checkpoints", "last_commands", "shells")
# Of these one item always stays.
ESSENTIAL = ("next", "blockers", "do_not", "refuted")
MIN_BUDGET_BYTES = 2_000

_ELLIPSIS = "…"
_ELLIPSIS_BYTES = 3
# What may be cut inside an item; the rest is ids, figures and words of ours.
_TEXTS = frozenset(
    {"text", "path", "command", "label", "cwd", "query_title", "query_text", "written_by", "handoff_to"}
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

    whole: Item
    shown: Item
    size: int
    cuts: int = 0

    def clip(self, most: int) -> None:
        if isinstance(self.whole, str):
            self.shown = clipped(self.whole, most)
            self.cuts = int(self.shown != self.whole)
        else:
            texts = {name: text for name, text in self.whole.items() if name in _TEXTS and isinstance(text, str)}
            short = {name: clipped(text, most) for name, text in texts.items()}
            self.shown = {**self.whole, **short}
            self.cuts = sum(short[name] != text for name, text in texts.items())
        self.size = size(self.shown)


class _Shelf:
    """The items of one list: shown in their order, dropped by age."""

    def __init__(self, items: Iterable[Aged]) -> None:
        aged = [(age, _Unit(item, item, size(item))) for age, item in items]
        self.units = [unit for _, unit in aged]
        self.by_age = [unit for _, unit in sorted(aged, key=lambda pair: pair[0])]
        self.gone = 0

    @property
    def kept(self) -> list[_Unit]:
        return self.by_age[self.gone :]

    def __len__(self) -> int:
        return len(self.by_age) - self.gone


class _Fitting:
    """One capsule on its way into the budget."""

    def __init__(
        self,
        fixed: Mapping[str, object],
        singles: Mapping[str, Item | None],
        lists: Mapping[str, Iterable[Aged]],
        omitted: Mapping[str, int],
        budget: int,
    ) -> None:
        self.fixed = fixed
        self.singles = {
            name: _Unit(item, item, size(item)) for name, item in singles.items() if item is not None
        }
        self.shelves = {name: _Shelf(items) for name, items in lists.items()}
        self.omitted = Counter(omitted)
        self.budget = budget
        self.level: int | None = None
        bare: dict[str, object] = {**dict.fromkeys(singles), **{name: [] for name in lists}, **fixed}
        self.total = size({**bare, "truncated": {}})
        self.total += sum(unit.size - size(None) for unit in self.singles.values())
        for shelf in self.shelves.values():
            self.total += sum(unit.size + 1 for unit in shelf.units) - bool(shelf.units)

    def fit(self) -> None:
        for name in DROPPED:
            self._drop_oldest(name, keep=0)
        self._cut(200)
        for name in ESSENTIAL:
            self._drop_oldest(name, keep=1)
        self._cut(80)
        # Only ids and figures at their very limits come this far.
        self._drop_single("usage")
        self._drop_single("last_shell_cwd")
        self._cut(40)
        self._drop_single("closing_note")
        self._cut(20)
        self._restore()

    def result(self) -> dict[str, object]:
        values: dict[str, object] = {**self.fixed, "truncated": self._truncated()}
        for name, shelf in self.shelves.items():
            kept = {id(unit) for unit in shelf.kept}
            values[name] = [unit.shown for unit in shelf.units if id(unit) in kept]
        for name, unit in self.singles.items():
            values[name] = unit.shown
        return {name: values.get(name) for name in KEYS}

    def _truncated(self) -> dict[str, object]:
        dropped = Counter({name: shelf.gone for name, shelf in self.shelves.items()}) + self.omitted
        counts: dict[str, object] = {name: dropped[name] for name in KEYS if dropped[name]}
        cut = {name: sum(unit.cuts for unit in units) for name, units in self._units().items()}
        if any(cut.values()):
            counts["cut"] = {name: count for name, count in cut.items() if count}
        return counts

    def _units(self) -> dict[str, list[_Unit]]:
        if self.level is None:
            return {}
        return {
            name: [self.singles[name]] if name in self.singles else self.shelves[name].kept
            for name in KEYS
            if name in self.singles or name in self.shelves
        }

    def _over(self) -> bool:
        if self.total > self.budget:
            return True
        return self.total - size({}) + size(self._truncated()) > self.budget

    def _drop_oldest(self, name: str, *, keep: int) -> None:
        shelf = self.shelves[name]
        while len(shelf) > keep and self._over():
            self.total -= shelf.by_age[shelf.gone].size + (len(shelf) > 1)
            shelf.gone += 1

    def _drop_single(self, name: str) -> None:
        if name in self.singles and self._over():
            self.total -= self.singles.pop(name).size - size(None)
            self.omitted[name] += 1

    def _cut(self, most: int) -> None:
        """Cut texts, the longest first, until the capsule fits."""
        if not self._over():
            return
        self.level = most
        units = [unit for units in self._units().values() for unit in units]
        for unit in sorted(units, key=lambda unit: -unit.size):
            before = unit.size
            unit.clip(most)
            self.total += unit.size - before
            if unit.cuts and not self._over():
                return

    def _restore(self) -> None:
        """Take back, newest first, what need not have been dropped now that long texts are cut."""
        if self.level is None:
            return
        for name in reversed((*DROPPED, *ESSENTIAL)):
            shelf = self.shelves[name]
            while shelf.gone:
                unit = shelf.by_age[shelf.gone - 1]
                unit.clip(self.level)
                self.total += unit.size + (len(shelf) > 0)
                shelf.gone -= 1
                if self._over():
                    self.total -= unit.size + (len(shelf) > 1)
                    shelf.gone += 1
                    break


def fitted(
    fixed: Mapping[str, object],
    singles: Mapping[str, Item | None],
    lists: Mapping[str, Iterable[Aged]],
    *,
    omitted: Mapping[str, int],
    budget_bytes: int,
) -> dict[str, object]:
    """Return the capsule made of these parts, within the budget.

    `fixed` is never touched, `singles` are cut, `lists` hold `(age, item)` in the order to be shown;
    `omitted` counts what was left out before.
    """
    if budget_bytes < MIN_BUDGET_BYTES:
        raise ValueError(f"a capsule needs a budget of at least {MIN_BUDGET_BYTES} bytes")
    fitting = _Fitting(fixed, singles, lists, omitted, budget_bytes)
    fitting.fit()
    return fitting.result()
