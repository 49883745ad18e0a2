"""Near-miss names: which known name a mistyped one probably meant. What an error then says, its caller decides."""

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

from shiftlog.text.printable import excerpt

# Names that share a word, such as `id` and `session_id`, are at least this much alike.
ALIKE = 0.6
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BREAKS = re.compile(r"[\W_]+")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name most like the given one."""
    return max(known, key=lambda other: likeness(name, other))


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, None if none is alike enough."""
    return next(iter(similar_names(name, known, most=1, least=ALIKE)), None)


def similar_names(name: str, known: Iterable[str], *, most: int, least: float) -> list[str]:
    """Return up to `most` known names at least so much like the given one (1 is equal), the most alike first."""
    ranked = sorted(((likeness(name, other), other) for other in known), key=lambda pair: -pair[0])
    return [other for alike, other in ranked[:most] if alike >= least]


def likeness(name: str, other: str) -> float:
    """Return the likeness of two names, from 0 to 1; of dotted names the last part alone may decide."""
    one, two = _words(name), _words(other)
    if one == two:
        return 1.0
    last = _ratio(_words(name.rpartition(".")[2]), _words(other.rpartition(".")[2]))
    shares = bool(one) and (set(one) <= set(two) or set(two) <= set(one))
    return max(last, _ratio(one, two), ALIKE if shares else 0.0)


def unknown_and_nearest(name: object, known: Collection[str]) -> tuple[str, str | None, bool]:
    """Return an unknown name, safe to print, the nearest known one, and True if that one was probably meant."""
    shown = excerpt(name)
    near = nearest(shown, known) if known else None
    return shown, near, near is not None and likeness(shown, near) >= ALIKE


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _BREAKS.split(_HUMP.sub("_", name)) if word]


def _ratio(one: list[str], two: list[str]) -> float:
    return SequenceMatcher(None, "_".join(one), "_".join(two)).ratio()
