"""Small documents compressed one by one: what was packed reads the same, under the first dictionary too."""

import base64
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.store.codec.packed import MARK, WORTHWHILE_BYTES, packed, unpacked

LINES = {
    "category": "tool_result",
    "content": "a line that a tool has shown\n" * 12,
    "role": "tool",
    "timestamp": "2026-01-05T08:00:03Z",
}
# As it was packed before there was a second dictionary.
PACKED_BEFORE = "ASi1L/1gwACtAQDAYXRoYXQgYSBzaG93blxuIjVUMDgzWiJ9CQBAiKQcQE0x3qOglDWSBSQVTIscLozA6BwPCA=="


@given(content=st.text(max_size=4000))
def test_any_document_comes_back(content: str) -> None:
    document = json.dumps({"content": content}).encode()
    kept = packed(document)
    assert unpacked(kept) == document
    assert len(kept) <= len(document)
    assert kept[:1] in (MARK, b"{")


def test_a_document_of_before_is_still_read() -> None:
    assert json.loads(unpacked(base64.b64decode(PACKED_BEFORE))) == LINES


def test_what_is_short_stays_plain_and_what_repeats_gets_small() -> None:
    short = json.dumps({"content": "x" * (WORTHWHILE_BYTES // 2)}).encode()
    assert packed(short) == short
    assert len(packed(json.dumps(LINES).encode())) < 80


@pytest.mark.parametrize("data", [b"\x01", b"\x01\x02", b"\x01\x02abc", b"\x01\x28\xb5\x2f\xfd"])
def test_a_damaged_document_is_an_error(data: bytes) -> None:
    with pytest.raises(zstandard.ZstdError):
        unpacked(data)
