"""Long texts: strings over 4 KiB leave a JSON value for content-addressed blobs, and come back into it.

A reference is the object `{"$blob": "<sha256 hex>"}`; no body of ours has such an object of its own.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import cast

import zstandard

LONG_TEXT_BYTES = 4096
REFERENCE = "$blob"
# Inside a JSON text these bytes can only be the key of a reference: within a string the quotes are escaped.
REFERENCE_MARK = f'"{REFERENCE}"'.encode()
LEVEL = 3

# Stores a long text under its digest; returns the long text of a digest.
Keep = Callable[[bytes, str], None]
Fetch = Callable[[bytes], str]


def holds_reference(document: bytes) -> bool:
    """Return True if a JSON text refers to a blob."""
    return REFERENCE_MARK in document


def externalise(value: object, keep: Keep) -> object:
    """Return the value with each long text replaced by its reference, after `keep(hash, text)`."""
    if isinstance(value, str):
        if len(value) * 4 <= LONG_TEXT_BYTES:
            return value
        data = value.encode("utf-8")
        if len(data) <= LONG_TEXT_BYTES:
            return value
        digest = hashlib.sha256(data).digest()
        keep(digest, value)
        return {REFERENCE: digest.hex()}
    if isinstance(value, dict):
        items = cast(dict[str, object], value)
        if REFERENCE in items:
            raise ValueError(f"a body must not use the key {REFERENCE}")
        return {key: externalise(item, keep) for key, item in items.items()}
    if isinstance(value, list | tuple):
        parts = cast(Sequence[object], value)
        return [externalise(item, keep) for item in parts]
    return value


def internalise(value: object, fetch: Fetch) -> object:
    """Return the value with each reference replaced by its text."""
    if isinstance(value, dict):
        items = cast(dict[str, object], value)
        reference = items.get(REFERENCE)
        if isinstance(reference, str):
            return fetch(bytes.fromhex(reference))
        return {key: internalise(item, fetch) for key, item in items.items()}
    if isinstance(value, list):
        parts = cast(Sequence[object], value)
        return [internalise(item, fetch) for item in parts]
    return value


class _BlobCoders(threading.local):
    """A compressor for each thread: they cannot be shared, and making one costs as much as a short text."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=LEVEL).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_coders = _BlobCoders()


def pack(text: str) -> bytes:
    """Compress a text."""
    return _coders.pack(text.encode("utf-8"))


def unpack(data: bytes) -> str:
    """Return the text that `pack` compressed; raise ValueError if it is damaged."""
    try:
        return _coders.unpack(data).decode("utf-8")
    except zstandard.ZstdError as error:
        raise ValueError("a long text cannot be read") from error
