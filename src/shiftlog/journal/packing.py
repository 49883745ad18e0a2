"""Preparing bodies for bulk writing: encoded, hashed, long texts compressed, with the words they are found by.

What comes out is what `Entry.chained` and the store would have made of the same body one by one.
"""

import hashlib
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

_encode = msgspec.json.Encoder(order="sorted").encode


def prepare(kind: Kind, body: dict[str, Any], salt: bytes) -> Prepared:
    """Return a body ready for its row."""
    spelling = _spelled(body)
    document = spelling
    long_texts: list[LongText] = []
    if len(spelling) > blobs.LONG_TEXT_BYTES:

        def keep(digest: bytes, text: str) -> None:
            long_texts.append(LongText(digest, len(text), blobs.pack(text)))

        document = _encode(blobs.externalise(body, keep))
    return Prepared(
        document=packed(document),
        salt=salt,
        body_hash=hashlib.sha256(salt + spelling).digest(),
        text=body_text(kind, body),
        facet=body_facet(kind, body),
        long_texts=tuple(long_texts),
    )


def _spelled(body: dict[str, Any]) -> bytes:
    """Return the canonical spelling; the fast encoder writes the same for what is neither a float nor odd text."""
    if all(_is_simple(value) for value in body.values()):
        try:
            return _encode(body)
        except (UnicodeEncodeError, OverflowError):
            pass
    return canonical(body)


def _is_simple(value: object) -> bool:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is dict:
        items = cast(dict[str, object], value)
        return all(map(str.isascii, items)) and all(map(_is_simple, items.values()))
    return kind is list and all(map(_is_simple, cast(list[object], value)))


def salt_from(*parts: str) -> bytes:
    """Return the salt of an imported entry, equal on every machine that reads the same record."""
    return hashlib.sha256("\0".join(("shiftlog-import", *parts)).encode("utf-8", "surrogatepass")).digest()[:SALT_BYTES]
