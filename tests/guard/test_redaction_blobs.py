"""Folding encoded data."""

import base64
import hashlib
import random

import pytest

from shiftlog.guard.redact_blobs import fold_blobs

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
