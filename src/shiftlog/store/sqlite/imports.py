"""The part of SQLite in imports: the keys of origins in memory, and long texts ordered by pages."""

from collections.abc import Iterable

import apsw

from shiftlog.facts.batch import LongText

# A store with at most _KEYS_READ keys remembers all of them, up to _KEYS_KEPT; each takes 90 bytes.
_KEYS_READ = 4_096
_KEYS_KEPT = 120_000

# For pages of 4 KiB, SQLite's default; the bytes of a row besides its text are an estimate.
PAGE_BYTES = 4061
_OVERFLOW_BYTES = 4092
_LEAST_LOCAL = 489
_ROW_BYTES = 50


class OriginKeys:
    """The keys of all origins, while they are few enough to stay in memory.

    In a first import nearly every key is new, and a lookup for each would be a twentieth of its work. A key that was
    rolled back stays here, which costs a lookup in vain.
    """

    def __init__(self) -> None:
        self._keys: set[bytes] | None = None
        self._version: object = None

    def among(self, keys: Iterable[bytes], db: apsw.Connection) -> list[bytes]:
        """Return those keys, each once, that may be stored; `db` is in a transaction."""
        version = db.pragma("data_version")
        if version != self._version:  # another process has written since
            self._version = version
            stored = {row[0] for row in db.execute("SELECT key FROM origins LIMIT ?", (_KEYS_READ + 1,))}
            self._keys = stored if len(stored) <= _KEYS_READ else None
        return list(dict.fromkeys(keys) if self._keys is None else self._keys.intersection(keys))

    def add(self, keys: Iterable[bytes]) -> None:
        """Remember keys that are stored now."""
        if self._keys is not None:
            self._keys.update(keys)
            if len(self._keys) > _KEYS_KEPT:
                self._keys = None


def by_pages(texts: list[LongText]) -> list[tuple[bytes, int, bytes]]:
    """Return the rows of long texts in an order in which those fill a page that fit into it together.

    A row goes to the end of the table, to the last page if there is room for all of it there. As texts come, a fifth of
    the pages would stay empty.
    """
    pages: list[tuple[int, list[LongText]]] = []
    for text in sorted(texts, key=lambda text: (-_room_of(text), text.digest)):
        needed = _room_of(text)
        place = next((place for place, (free, _) in enumerate(pages) if free >= needed), None)
        if place is None:
            pages.append((PAGE_BYTES - needed, [text]))
        else:
            free, kept = pages[place]
            pages[place] = (free - needed, [*kept, text])
    return [(text.digest, text.chars, text.data) for _, kept in pages for text in kept]


def _room_of(text: LongText) -> int:
    """Return the bytes of a long text on its leaf page; the rest gets overflow pages of its own."""
    size = len(text.data) + _ROW_BYTES
    return size if size <= PAGE_BYTES else _LEAST_LOCAL + (size - _LEAST_LOCAL) % _OVERFLOW_BYTES
