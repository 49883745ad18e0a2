"""Nouns as documents: how sessions, turns, leases and receipts are written into a store and read back."""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

import msgspec

from shiftlog.model.nouns import Lease, Receipt, Session, Turn

T = TypeVar("T", Session, Turn, Lease, Receipt)

_REQUIRED: dict[type, frozenset[str]] = {
    noun: frozenset(f.name for f in fields(noun) if f.default is MISSING and f.default_factory is MISSING)
    for noun in (Session, Turn, Lease, Receipt)
}
# Of the nouns without slots; where a field has none, whatever is read takes its place.
_DEFAULTS: dict[type, dict[str, Any]] = {noun: {f.name: f.default for f in fields(noun)} for noun in (Session, Turn)}
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
    required = _REQUIRED[type(noun)]
    return encode({name: value for name, value in vars(noun).items() if value or name in required})


def from_document(document: object, noun: type[T]) -> T:
    """Return the noun that a document was made from."""
    return _whole(msgspec.convert(document, noun))


def read_document(data: bytes, noun: type[T]) -> T:
    """Return the noun of an encoded document."""
    return _whole(_DECODERS[noun].decode(data))


def _whole(noun: T) -> T:
    """Give a noun the fields that its document left out: without slots msgspec trusts in the defaults of the class.

    All of them stand in the order of the class, so that equal nouns are written, and sealed, alike.
    """
    if (defaults := _DEFAULTS.get(type(noun))) is not None:
        object.__setattr__(noun, "__dict__", {**defaults, **vars(noun)})
    return noun


encode = msgspec.json.encode
decode = msgspec.json.decode
