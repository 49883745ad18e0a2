"""Near-miss names: which known name a mistyped one probably meant. What an error then says, its caller decides."""

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from shiftlog.text.printable import excerpt


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name most like the given one; of dotted names the last part alone may decide."""
    wanted = name.casefold()

    def likeness(other: str) -> float:
        other = other.casefold()
        last = SequenceMatcher(None, wanted.rpartition(".")[2], other.rpartition(".")[2]).ratio()
        return max(last, SequenceMatcher(None, wanted, other).ratio())

    return max(known, key=likeness)


def suggestion(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the known name that was probably meant, None if none is alike enough (`least` of 1)."""
    return next(iter(similar_names(name, known, most=1, least=least)), None)


def similar_names(name: str, known: Iterable[str], *, most: int, least: float) -> list[str]:
    """Return up to `most` known names like the given one, the most alike first."""
    return get_close_matches(name.casefold(), list(known), n=most, cutoff=least)


def unknown_and_nearest(name: object, known: Iterable[str]) -> tuple[str, str | None]:
    """Return an unknown name, safe to print, and the closest known one."""
    shown = excerpt(name)
    return shown, suggestion(shown, known, least=0.0)
