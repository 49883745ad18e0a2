"""Canonical JSON after RFC 8785, and the hashes over it computed a second way."""

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.canonical import body_hash, canonical, entry_hash, first_prev_hash, sha256

# Doubles and their ECMAScript spelling: the edges where notations change, and neighbours that must not round.
NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (9007199254740992.0, "9007199254740992"),
    (295147905179352830000.0, "295147905179352830000"),
    (9.999999999999997e22, "9.999999999999997e+22"),
    (1e23, "1e+23"),
    (999999999999999700000.0, "999999999999999700000"),
    (999999999999999900000.0, "999999999999999900000"),
    (1e21, "1e+21"),
    (1e20, "100000000000000000000"),
    (123456789012345680.0, "123456789012345680"),
    (9.999999999999997e-7, "9.999999999999997e-7"),
    (0.000001, "0.000001"),
    (1.5e-6, "0.0000015"),
    (-1.5e-7, "-1.5e-7"),
    (333333333.3333332, "333333333.3333332"),
    (-0.0000033333333333333333, "-0.0000033333333333333333"),
    (1424953923781206.2, "1424953923781206.2"),
    (4.5, "4.5"),
    (2e-3, "0.002"),
    (-1e16, "-10000000000000000"),
    (1.25e17, "125000000000000000"),
]

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("number", "spelling"), NUMBERS)
def test_a_double_is_written_as_ecmascript_writes_it(number: float, spelling: str) -> None:
    assert canonical(number) == spelling.encode()
    assert canonical([number]) == f"[{spelling}]".encode()
    assert float(spelling) == number


def test_integers_are_written_plain_whatever_their_size() -> None:
    assert canonical([0, -1, 2**53 - 1, 10**20]) == b"[0,-1,9007199254740991,100000000000000000000]"


def test_strings_escape_only_what_json_must() -> None:
    text = "\u20ac$\u000f\nA'\u0042\u0022\u005c\\\"\b\t\f\r/\u007f\u2028é\U0001f600"
    spelling = '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"\\b\\t\\f\\r/\u007f\u2028é😀"'
    assert canonical(text) == spelling.encode()


def test_keys_are_sorted_by_utf_16_and_not_by_code_point() -> None:
    keys = ["€", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "ö"]
    written = canonical({key: n for n, key in enumerate(keys)}).decode()
    assert list(json.loads(written)) == ["\r", "1", "\u0080", "ö", "€", "\U0001f600", "\ufb33"]


def test_nothing_but_the_value_shows_in_the_spelling() -> None:
    one = {"b": [True, None, {"z": 1.0, "a": "x"}], "a": -0.0}
    other = {"a": 0, "b": (True, None, {"a": "x", "z": 1})}
    assert canonical(one) == canonical(other) == b'{"a":0,"b":[true,null,{"a":"x","z":1}]}'


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, {1: 2}, {"a": {None: 1}}, b"x", {"a": object()}, "\ud800"]
)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON|surrogates not allowed"):
        canonical(value)


def test_a_value_nested_without_end_is_refused() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="not a JSON value"):
        canonical(value)


@given(JSON_VALUES)
def test_the_canonical_form_reads_back_and_is_its_own_canonical_form(value: object) -> None:
    written = canonical(value)
    assert canonical(json.loads(written)) == written
    # Where all numbers are doubles, as in JSON, nothing was lost.
    assert json.loads(written, parse_int=float) == json.loads(json.dumps(value), parse_int=float)


def test_the_hashes_are_those_of_the_design() -> None:
    session = "Codex-20260701T120000Z-x"
    first = hashlib.sha256(session.encode()).digest()
    assert first_prev_hash(session) == "sha256:" + first.hex()
    salt, body = b"0123456789abcdef", b'{"a":1}'
    hash_of_body = "sha256:" + hashlib.sha256(salt + body).hexdigest()
    assert body_hash(salt, body) == hash_of_body
    facts = {"at": "2026-07-01T12:00:00.000Z", "body_hash": hash_of_body, "kind": "dialog", "seq": 3, "turn": None}
    chained = hashlib.sha256(first + json.dumps(facts, separators=(",", ":")).encode()).hexdigest()
    assert (
        entry_hash(
            first_prev_hash(session),
            seq=3,
            kind="dialog",
            at="2026-07-01T12:00:00.000Z",
            turn=None,
            hash_of_body=hash_of_body,
        )
        == f"sha256:{chained}"
    )
    assert sha256(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
