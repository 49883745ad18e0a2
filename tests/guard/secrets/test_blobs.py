"""Folding encoded data."""

import base64
import hashlib
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.guard.secrets.blobs import MIN_RUN_CHARS, fold_blobs, may_hold_run
from shiftlog.guard.secrets.redactor import Redactor, Rule
from tests.guard.secrets.corpus import CASES

DATA = random.Random(1).randbytes(300)
ENCODED = base64.b64encode(DATA).decode()
URL_ENCODED = base64.urlsafe_b64encode(DATA).decode()
DIGEST = hashlib.sha256(DATA).hexdigest()[:12]
PEM = "\n".join(ENCODED[start : start + 64] for start in range(0, len(ENCODED), 64))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"image {ENCODED} end", f"image [BLOB:base64:300:{DIGEST}] end"),
        (f"image {URL_ENCODED} end", f"image [BLOB:base64:300:{DIGEST}] end"),
        (f"src='data:image/png;base64,{ENCODED}'", f"src='[BLOB:image/png:300:{DIGEST}]'"),
        (f"-----BEGIN CERTIFICATE-----\n{PEM}\n-----END CERTIFICATE-----", f"[BLOB:base64:300:{DIGEST}]"),
    ],
)
def test_a_blob_becomes_its_kind_size_and_digest(text: str, expected: str) -> None:
    assert fold_blobs(text) == (expected, 1)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a" * 500,
        "0123456789abcdef" * 40,
        ENCODED[:200],
        "-" * 400,
        "word " * 200,
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_blob_is_left_alone(text: str) -> None:
    assert fold_blobs(text) == (text, 0)


def test_folding_twice_is_folding_once() -> None:
    once, count = fold_blobs(f"a {ENCODED} b {ENCODED}")
    assert count == 2
    assert fold_blobs(once) == (once, 0)


@given(before=st.text(max_size=40), run=st.integers(0, 80), after=st.text(max_size=40))
def test_a_glance_never_passes_over_a_run(before: str, run: int, after: str) -> None:
    text = before + ENCODED[: MIN_RUN_CHARS + run] + after
    assert may_hold_run(text.encode("utf-8", "surrogatepass"))


def test_a_glance_passes_over_prose() -> None:
    assert not may_hold_run(("a word of some letters, " * 200).encode())
    assert not may_hold_run(ENCODED[: MIN_RUN_CHARS - 1].encode())


@given(st.lists(st.sampled_from([ENCODED, f"data:image/png;base64,{ENCODED[:8]}", PEM, "word ", "\n", "é", "=" * 9])))
def test_a_plain_text_has_nothing_to_mask_or_fold(parts: list[str]) -> None:
    redactor, text = Redactor(), "".join(parts)
    if redactor.is_plain(text):
        assert redactor.text(text).text == text
        assert fold_blobs(text) == (text, 0)


def test_no_text_with_a_secret_is_plain() -> None:
    redactor = Redactor()
    masked = [case.text for case in CASES if redactor.text(case.text).count]
    assert len(masked) > 100
    assert not [text for text in masked if redactor.is_plain(text)]


def test_what_only_a_rule_of_the_operator_finds_is_not_plain() -> None:
    redactor = Redactor([Rule(id="ticket", pattern=r"TICKET-\d+")])
    assert not redactor.is_plain("see TICKET-77")
    assert redactor.is_plain("see ticket 77")


def flat(text: str) -> object:
    return {"a": text}


def nested(text: str) -> object:
    return {"a": {"b": [{"c": text}], "d": 1}}


@pytest.mark.parametrize("wrap", [flat, nested])
def test_a_value_is_plain_where_all_its_texts_are(wrap: Callable[[str], object]) -> None:
    redactor = Redactor([Rule(id="ticket", pattern=r"TICKET-\d+")])
    for text in (*(case.text for case in CASES), f"an image: {ENCODED}", "see TICKET-77"):
        value = wrap(text)
        if redactor.is_plain_value(value):
            assert redactor.value(value) == (value, 0, {})
            assert fold_blobs(text) == (text, 0)
    assert redactor.is_plain_value(wrap("see ticket 77"))
    assert not redactor.is_plain_value(wrap(f"an image: {ENCODED}"))
    assert not redactor.is_plain_value(wrap("see TICKET-77"))


def test_a_value_under_the_name_of_a_secret_is_not_plain() -> None:
    assert not Redactor().is_plain_value({"password": "some words"})
    assert not Redactor().is_plain_value({"a": {"password": "some words"}})
