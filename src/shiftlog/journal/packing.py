"""Preparing bodies for bulk writing: encoded, hashed, long texts compressed, with the words they are found by.

What comes out is what `Entry.chained` and the store would have made of the same body one by one.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from shiftlog.journal.texts import body_facet, body_text
from shiftlog.model.canonical import canonical
from shiftlog.model.entry import Kind
from shiftlog.store import blobs
from shiftlog.store.documents_packed import packed
from shiftlog.store.incoming import Prepared
from shiftlog.store.sources import LongText

SALT_BYTES = 16

_SIMPLE = frozenset({str, int, bool, type(None)})
_RECENT = 128
_RECENT_BYTES = 16_384
_recent: dict[bytes, LongText] = {}
_encode = msgspec.json.Encoder(order="sorted").encode


def prepare(kind: Kind, body: dict[str, Any], salt: bytes) -> Prepared:
    """Return a body ready for its row."""
    spelling = spelled(body)
    document = spelling
    long_texts: list[LongText] = []
    if len(spelling) > blobs.LONG_TEXT_BYTES:

        def keep(digest: bytes, text: str) -> None:
            long_texts.append(_long_text(digest, text))

        document = _encode(blobs.externalise(body, keep))
    return Prepared(
        document=packed(document),
        salt=salt,
        body_hash=hashlib.sha256(salt + spelling).digest(),
        text=body_text(kind, body),
        facet=body_facet(kind, body),
        long_texts=tuple(long_texts),
    )


def _long_text(digest: bytes, text: str) -> LongText:
    """Return a long text compressed; transcripts hold the same file or output again soon after."""
    known = _recent.get(digest)
    if known is None:
        known = LongText(digest, len(text), blobs.pack(text))
        if len(known.data) <= _RECENT_BYTES:
            if len(_recent) >= _RECENT:
                _recent.clear()
            _recent[digest] = known
    return known


def spelled(body: dict[str, Any]) -> bytes:
    """Return the canonical spelling; the fast encoder writes the same for what is neither a float nor odd text."""
    if _is_simple(body):
        try:
            return _encode(body)
        except (UnicodeEncodeError, OverflowError):
            pass
    return canonical(body)


def _is_simple(value: object) -> bool:
    """Tell whether a value holds only texts, whole numbers and the like, under ASCII names."""
    if type(value) is dict:
        items = cast(dict[str, object], value)
        if not "".join(items).isascii():
            return False
        parts = items.values()
    elif type(value) is list or type(value) is tuple:
        parts = cast(Sequence[object], value)
    else:
        return type(value) in _SIMPLE
    if _SIMPLE.issuperset(map(type, parts)):
        return True
    for item in parts:  # noqa: SIM110 - a generator costs as much again
        if type(item) not in _SIMPLE and not _is_simple(item):
            return False
    return True


def salt_from(*parts: str) -> bytes:
    """Return the salt of an imported entry, equal on every machine that reads the same record."""
    return hashlib.sha256("\0".join(("shiftlog-import", *parts)).encode("utf-8", "surrogatepass")).digest()[:SALT_BYTES]
