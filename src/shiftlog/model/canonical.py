"""Canonical JSON (RFC 8785) and the hashes that stand on it."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import cast

_FAST = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def canonical(value: object) -> bytes:
    """Return the one spelling of a JSON value; raise ValueError for what JSON cannot hold.

    The C encoder of the standard library already writes that spelling unless a float or a key beyond
    the Basic Multilingual Plane is inside, so only those take the slow way.
    """
    try:
        text = _FAST.encode(value) if _is_plain(value) else _encode(value)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from None
    return text.encode("utf-8")


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is dict:
        items = cast(dict[object, object], value)
        for key, item in items.items():
            if type(key) is not str or not (key.isascii() or max(key) < "\ud800") or not _is_plain(item):
                return False
        return True
    if kind is list or kind is tuple:
        return all(map(_is_plain, cast(Sequence[object], value)))
    # Enumerations of text are text; floats and unknown mappings take the slow way.
    return isinstance(value, str)


def _encode(value: object) -> str:
    if value is None or isinstance(value, bool | int | str):
        return _FAST.encode(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        parts = cast(Sequence[object], value)
        return "[" + ",".join(map(_encode, parts)) + "]"
    if isinstance(value, Mapping):
        given = cast(Mapping[object, object], value)
        items = {key: item for key, item in given.items() if isinstance(key, str)}
        if len(items) < len(given):
            raise ValueError("a JSON object has texts for keys")
        keys = sorted(items, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{encode_basestring(key)}:{_encode(items[key])}" for key in keys) + "}"
    raise ValueError(f"not a JSON value: {type(value).__name__}")


def _number(value: float) -> str:
    """Write a float as ECMAScript does."""
    if not math.isfinite(value):
        raise ValueError("not a JSON number")
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    power = int(exponent or 0)
    if not exponent or power < -6 or power >= 21:
        return f"{mantissa}e{power:+d}" if exponent else text
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{whole}{fraction.rstrip('0') if fraction != '0' else ''}"
    return f"{sign}{whole}{fraction.ljust(power, '0')}"


def sha256(data: bytes) -> str:
    """Return a SHA-256 as it is shown everywhere: `sha256:` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def first_prev_hash(session_id: str) -> str:
    """Return the hash that the first entry of a session is chained to."""
    return sha256(session_id.encode("utf-8"))


def body_hash(salt: bytes, body: bytes) -> str:
    """Return the hash of an entry's body in canonical JSON, made unguessable by its salt."""
    return sha256(salt + body)


def entry_hash(prev_hash: str, *, seq: int, kind: str, at: str, turn: str | None, hash_of_body: str) -> str:
    """Return the hash that chains an entry to the one before it."""
    # The canonical spelling of these five facts, written out because every entry needs it.
    named = "null" if turn is None else encode_basestring(turn)
    facts = f'{{"at":"{at}","body_hash":"{hash_of_body}","kind":"{kind}","seq":{seq},"turn":{named}}}'
    return sha256(bytes.fromhex(prev_hash[7:]) + facts.encode("utf-8"))
