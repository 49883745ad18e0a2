"""Nouns and bodies of entries as bytes: the one encode/decode pair for each kind of thing that a store keeps.

Long texts leave bodies and turns for blobs: encoding hands each to `keep`, decoding gets it back from `fetch`.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

import msgspec
import zstandard

from shiftlog.model.nouns import Lease, Receipt, Session, Turn
from shiftlog.store.codec import blobs
from shiftlog.store.codec.blobs import Fetch, Keep
from shiftlog.store.codec.packed import packed, unpacked

T = TypeVar("T", Session, Turn, Lease, Receipt)

# A finished turn is written once and read seldom, so a long one is compressed.
PACKED_TURN_BYTES = 1024

_REQUIRED: dict[type, frozenset[str]] = {
    noun: frozenset(f.name for f in fields(noun) if f.default is MISSING and f.default_factory is MISSING)
    for noun in (Session, Turn, Lease, Receipt)
}
# For nouns without slots, in the order of the class.
_DEFAULTS: dict[type, dict[str, Any]] = {noun: {f.name: f.default for f in fields(noun)} for noun in (Session, Turn)}
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    noun: msgspec.json.Decoder(noun) for noun in (Session, Turn, Lease, Receipt)
}

encode = msgspec.json.encode
decode = msgspec.json.decode


def encode_noun(noun: Session | Turn | Lease | Receipt) -> bytes:
    """Return a noun as JSON; optional fields that are empty are left out, since no default is anything else."""
    required = _REQUIRED[type(noun)]
    values = vars(noun) if hasattr(noun, "__dict__") else msgspec.to_builtins(noun)
    return encode({name: value for name, value in values.items() if value or name in required})


def decode_noun(data: bytes, noun: type[T]) -> T:
    """Return the noun that `encode_noun` wrote."""
    return _whole(_DECODERS[noun].decode(data))


def encode_turn(turn: Turn, keep: Keep) -> bytes:
    """Return a turn as JSON without its long texts, compressed if it is finished and long."""
    document = encode_noun(turn)
    if len(document) > blobs.LONG_TEXT_BYTES or blobs.holds_reference(document):
        document = encode(blobs.externalise(decode(document), keep))
    return packed(document) if turn.is_terminal and len(document) >= PACKED_TURN_BYTES else document


def decode_turn(data: bytes, fetch: Fetch) -> Turn:
    """Return the turn that `encode_turn` wrote."""
    data = unpacked(data)
    if not blobs.holds_reference(data):
        return decode_noun(data, Turn)
    return _whole(msgspec.convert(blobs.internalise(decode(data), fetch), Turn))


def decode_body(data: bytes, fetch: Fetch) -> dict[str, Any]:
    """Return the body of an entry, plain or packed; raise ValueError if it is damaged."""
    try:
        data = unpacked(data)
        body: Any = decode(data)
    except (msgspec.DecodeError, zstandard.ZstdError) as error:
        raise ValueError("a body cannot be read") from error
    if blobs.holds_reference(data):
        body = blobs.internalise(body, fetch)
    if not isinstance(body, dict):
        raise ValueError("a body is not an object")
    return body  # pyright: ignore[reportUnknownVariableType]


def _whole(noun: T) -> T:
    """Give a noun just decoded the fields that its document left out; msgspec sets none in nouns without slots.

    All of them stand in the order of the class, so that equal nouns are written, and sealed, alike.
    """
    if (defaults := _DEFAULTS.get(type(noun))) is not None:
        object.__setattr__(noun, "__dict__", {**defaults, **vars(noun)})
    return noun
