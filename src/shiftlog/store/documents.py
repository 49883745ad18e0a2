"""Nouns as documents: how sessions, turns, leases and receipts are written into a store and read back."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from shiftlog.model.nouns import Lease, Receipt, Session, Turn

T = TypeVar("T", Session, Turn, Lease, Receipt)

_REQUIRED: dict[type, frozenset[str]] = {
    noun: frozenset(f.name for f in fields(noun) if f.default is MISSING and f.default_factory is MISSING)
    for noun in (Session, Turn, Lease, Receipt)
}
_NAMES: dict[type, tuple[str, ...]] = {noun: tuple(f.name for f in fields(noun)) for noun in (Session, Turn)}
_VALUES: dict[type, Callable[[Any], tuple[Any, ...]]] = {noun: attrgetter(*names) for noun, names in _NAMES.items()}
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    noun: msgspec.json.Decoder(noun) for noun in (Session, Turn, Lease, Receipt)
}


def to_document(noun: Session | Turn | Lease | Receipt) -> dict[str, Any]:
    """Return a noun as JSON values; optional fields that are empty are left out, since no default is anything else."""
    document: dict[str, Any] = msgspec.to_builtins(noun)
    required = _REQUIRED[type(noun)]
    return {name: value for name, value in document.items() if value or name in required}


def encoded(noun: Session | Turn) -> bytes:
    """Return a noun's document as JSON text, without making the document first."""
    kind = type(noun)
    names, required = _NAMES[kind], _REQUIRED[kind]
    values = zip(names, _VALUES[kind](noun), strict=True)
    return encode({name: value for name, value in values if value or name in required})


def from_document(document: object, noun: type[T]) -> T:
    """Return the noun that a document was made from."""
    return msgspec.convert(document, noun)


def read_document(data: bytes, noun: type[T]) -> T:
    """Return the noun of an encoded document."""
    return _DECODERS[noun].decode(data)


encode = msgspec.json.encode
decode = msgspec.json.decode
