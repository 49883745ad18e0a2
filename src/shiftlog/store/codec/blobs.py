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
LEVEL = 3


def externalise(value: object, keep: Callable[[bytes, str], None]) -> object:
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


def internalise(value: object, fetch: Callable[[bytes], str]) -> object:
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


class _Coders(threading.local):
    """Compressors are not shared between threads, and making one costs as much as a short text."""

    def __init__(self) -> None:
        self.pack = zstandard.ZstdCompressor(level=LEVEL).compress
        self.unpack = zstandard.ZstdDecompressor().decompress


_coders = _Coders()


def pack(text: str) -> bytes:
    """Compress a text; the inverse of `unpack`."""
    return pack_bytes(text.encode("utf-8"))


def unpack(data: bytes) -> str:
    """Return a compressed text."""
    return unpack_bytes(data).decode("utf-8")


def pack_bytes(data: bytes) -> bytes:
    """Compress bytes; the inverse of `unpack_bytes`."""
    return _coders.pack(data)


def unpack_bytes(data: bytes) -> bytes:
    """Return compressed bytes."""
    return _coders.unpack(data)
