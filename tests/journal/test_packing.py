"""Bodies prepared for bulk: long texts that come again, and what counts as simple to spell."""

import hashlib

import pytest

from shiftlog.journal.packing import prepare, salt_from, spelled
from shiftlog.model.canonical import canonical
from shiftlog.model.entry import Kind
from shiftlog.store import blobs


def test_a_long_text_that_comes_again_is_kept_as_the_same_blob() -> None:
    texts = [f"{number} " + "a line of a file\n" * 400 for number in range(200)]
    for text in (*texts, texts[0], texts[-1]):
        ready = prepare(Kind.DIALOG, {"role": "tool", "content": text}, salt_from("x"))
        (kept,) = ready.long_texts
        assert kept.digest == hashlib.sha256(text.encode()).digest()
        assert kept.chars == len(text)
        assert blobs.unpack(kept.data) == text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"a": "text", "b": 1, "c": None, "d": True},
        {"a": {"b": [1, "two", {"c": None}]}},
        {"a": [1.5, {"b": 2.0}]},
        {"a": {"b": 1e21}},
        {"é": "name", "z": {"é": 1}},
        {"a": [[["deep", {"é": [0.1]}]]]},
        {"a": ("one", 2)},
    ],
)
def test_the_fast_spelling_is_the_canonical_one(body: dict[str, object]) -> None:
    assert spelled(body) == canonical(body)
