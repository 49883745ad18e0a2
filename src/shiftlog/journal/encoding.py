"""Encode bodies for their rows: canonical spelling, hash, long texts compressed, and the words for the search index.

`prepare` serves the pen; `prepare_all` serves import workers, which prepare whole batches.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from shiftlog.facts.batch import BodyDraft, DialogBody, LongText, OrderedBody, Prepared
from shiftlog.journal.texts import DECISION, facet, search_text
from shiftlog.model.canonical import canonical
from shiftlog.model.entry import Kind
from shiftlog.store.codec import blobs
from shiftlog.store.codec.packed import packed

SALT_BYTES = 16

_SIMPLE = frozenset({str, int, bool, type(None)})
_REFERENCE = f'"{blobs.REFERENCE}"'.encode()
_RECENT = 128
_RECENT_BYTES = 16_384
_recent: dict[bytes, LongText] = {}
_encode = msgspec.json.Encoder(order="sorted").encode
_encode_in_order = msgspec.json.Encoder(order="deterministic").encode


def prepare(kind: Kind, body: dict[str, Any], salt: bytes) -> Prepared:
    """Return one body ready for its row; its document keeps the order of the names, as summaries show them."""
    body, spelling = cast("tuple[dict[str, Any], bytes]", _spelt(body))
    texts: dict[bytes, str] = {}
    stored = body if len(spelling) <= blobs.LONG_TEXT_BYTES else blobs.externalise(body, texts.__setitem__)
    return Prepared(
        packed(msgspec.json.encode(stored)),
        salt,
        hashlib.sha256(salt + spelling).digest(),
        search_text(kind, body),
        facet(kind, body),
        tuple(_long_text(*text) for text in texts.items()),
    )


def prepare_all(drafts: Sequence[BodyDraft]) -> list[Prepared]:
    """Return bodies ready for their rows, in their order.

    Each step is taken for all of them before the next: so it finds its code and tables still in the processor's cache.
    """
    spelt = [_spelt(draft.body) for draft in drafts]
    hashes = [
        hashlib.sha256(draft.salt + spelling).digest() for draft, (_, spelling) in zip(drafts, spelt, strict=True)
    ]
    parted = [(spelling, None) if len(spelling) <= blobs.LONG_TEXT_BYTES else _parted(body) for body, spelling in spelt]
    documents = [packed(document) for document, _ in parted]
    long_texts = [tuple([_long_text(*text) for text in texts]) if texts else () for _, texts in parted]
    return [
        Prepared(document, draft.salt, body_hash, *_found_by(draft), texts)
        for draft, body_hash, document, texts in zip(drafts, hashes, documents, long_texts, strict=True)
    ]


def _found_by(draft: BodyDraft) -> tuple[str, str | None]:
    body = draft.body
    if isinstance(body, DialogBody):
        return body.content, DECISION if body.category == DECISION else None
    # Usage has no words to find it by.
    return ("", None) if isinstance(body, OrderedBody) else (search_text(draft.kind, body), facet(draft.kind, body))


def _parted(body: dict[str, Any] | OrderedBody) -> tuple[bytes, list[tuple[bytes, str]]]:
    """Return the document of a long body, and the long texts that it only refers to."""
    texts: list[tuple[bytes, str]] = []

    def keep(digest: bytes, text: str) -> None:
        texts.append((digest, text))

    if isinstance(body, DialogBody):
        content = blobs.externalise(body.content, keep)
        document = _encode_in_order(msgspec.structs.replace(body, content=content))
        if len(document) <= blobs.LONG_TEXT_BYTES:
            return document, texts  # nothing else of it can be long
        texts.clear()
    whole = msgspec.to_builtins(body) if isinstance(body, OrderedBody) else body
    return _encode(blobs.externalise(whole, keep)), texts


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


def spelled(body: dict[str, Any] | OrderedBody) -> bytes:
    """Return the canonical spelling; the fast encoder writes the same for what is neither a float nor odd text."""
    is_ordered = isinstance(body, OrderedBody)
    open_part = body.open_part if is_ordered else body
    if open_part is None or _is_simple(open_part):
        try:
            spelling = _encode_in_order(body) if is_ordered else _encode(body)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if open_part is None or spelling.isascii() or _has_ascii_names(open_part):
                return spelling
    return canonical(msgspec.to_builtins(body) if is_ordered else body)


def _spelt(body: dict[str, Any] | OrderedBody) -> tuple[dict[str, Any] | OrderedBody, bytes]:
    """Return a body as it is stored, and its canonical spelling."""
    spelling = spelled(body)
    if b"$" not in spelling or _REFERENCE not in spelling:  # one sign is looked for ten times as quickly
        return body, spelling
    # The store keeps long texts under this very key, so what has it of its own is kept as the text that it is.
    if isinstance(body, DialogBody) and type(body.input) not in _SIMPLE:
        given = msgspec.json.encode(body.input)
        if _REFERENCE in given:
            body = msgspec.structs.replace(body, input=given.decode())
    whole = cast("dict[str, Any]", msgspec.to_builtins(body))
    kept = {name: _without_references(value) for name, value in whole.items()}
    if kept != whole:
        body = kept
    return body, spelled(body)


def _without_references(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        if blobs.REFERENCE in items:
            return msgspec.json.encode(items).decode()
        return {name: _without_references(item) for name, item in items.items()}
    return [_without_references(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _is_simple(value: object) -> bool:
    """Return True if a value holds only texts, whole numbers and the like."""
    if type(value) is dict:
        parts = cast(dict[str, object], value).values()
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


def _has_ascii_names(value: object) -> bool:
    """Return True if the names in a simple value are ASCII, which sort alike in all spellings."""
    if type(value) is dict:
        items = cast(dict[str, object], value)
        return "".join(items).isascii() and all(map(_has_ascii_names, items.values()))
    if type(value) is list or type(value) is tuple:
        return all(map(_has_ascii_names, cast(Sequence[object], value)))
    return True


def salt_from(*parts: str) -> bytes:
    """Return the salt of an imported entry, equal on every machine that reads the same record."""
    return hashlib.sha256("\0".join(("shiftlog-import", *parts)).encode("utf-8", "surrogatepass")).digest()[:SALT_BYTES]
