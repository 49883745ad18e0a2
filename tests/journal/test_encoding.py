"""Bodies prepared for bulk: long texts that come again, and what counts as simple to spell."""

import hashlib
from typing import Any

import msgspec
import pytest

from shiftlog.facts.batch import BodyDraft, DialogBody, OrderedBody, UsageBody
from shiftlog.facts.transcript import RecordIds
from shiftlog.journal.encoding import prepare, prepare_all, salt_from, spelled
from shiftlog.model.canonical import canonical
from shiftlog.model.entry import Kind
from shiftlog.store.codec import blobs
from shiftlog.store.codec.packed import unpacked


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


def dialog(**more: Any) -> DialogBody:
    return DialogBody(category="tool_call", content="Bash: ls", role="tool", timestamp="2026-01-01T00:00:00Z", **more)


@pytest.mark.parametrize(
    "body",
    [
        dialog(),
        dialog(call_id="c", denied=True, duration_ms=3, exit_code=0, interrupted=True, is_error=True, nested=True),
        dialog(input={"z": 1, "a": ["text", None], "m": {"y": True, "b": "ü"}}, tool="Bash", orphan=True),
        dialog(input={"é": 1, "z": 2, "\U0001f600": 3, "\uffee": 4}, signature={"bytes": 1, "sha256": "0"}),
        dialog(input={"ratio": 1.0, "small": 1e-7}, test_clock=True),
        dialog(input="a text", full={"chars": 9, "sha256": "0"}, images=[{"media_type": "image/png", "bytes": 2}]),
        UsageBody(input_tokens=3, cached_input_tokens=2, model="m", vendor={"b": 1, "a": {"d": 0, "c": "x"}}),
        UsageBody(output_tokens=1, cost_usd=0.5, cost_source="vendor", copied=True, vendor={"rate": 0.1}),
    ],
)
def test_a_body_in_order_is_spelled_canonically(body: OrderedBody) -> None:
    assert spelled(body) == canonical(msgspec.to_builtins(body))


def test_the_fields_of_bodies_in_order_stand_as_canonical_json_sorts_them() -> None:
    for kind in (DialogBody, UsageBody, RecordIds):
        names = kind.__struct_fields__
        assert list(names) == sorted(names)


@pytest.mark.parametrize("content", ["short", "long " * 2000])
@pytest.mark.parametrize("given", [None, {"new": "short"}, {"new": "line\n" * 2000, "old": "x" * 5000}, {"ratio": 0.5}])
def test_a_dialog_body_is_prepared_as_its_dictionary_would_be(content: str, given: object) -> None:
    body = dialog(input=given, call_id="c" * 20)
    body.content = content
    salt = salt_from("x")
    (ready,) = prepare_all([BodyDraft(Kind.DIALOG, body, salt)])
    same = prepare(Kind.DIALOG, msgspec.to_builtins(body), salt)
    assert (ready.document, ready.salt, ready.body_hash, ready.text, ready.facet) == (
        same.document, same.salt, same.body_hash, same.text, same.facet,
    )  # fmt: skip
    assert set(ready.long_texts) == set(same.long_texts)


def test_an_input_that_looks_like_a_reference_to_a_long_text_is_kept_as_text() -> None:
    given = {"b": 1, "$blob": "00", "long": "x" * 9000}
    (ready,) = prepare_all([BodyDraft(Kind.DIALOG, dialog(input=given), salt_from("x"))])
    (kept,) = ready.long_texts
    assert msgspec.json.decode(blobs.unpack(kept.data)) == given


@pytest.mark.parametrize("long", ["", "x" * 9000])
def test_nothing_that_looks_like_a_reference_to_a_long_text_is_kept_as_one(long: str) -> None:
    body = {"kind": "child", "result": [{"$blob": "00"}, {"a": {"$blob": {"b": 1}, "c": long}}], "said": long}
    ready = prepare(Kind.IMPORT_NOTED, body, salt_from("x"))
    texts = {text.digest: blobs.unpack(text.data) for text in ready.long_texts}
    whole: Any = blobs.internalise(msgspec.json.decode(unpacked(ready.document)), texts.__getitem__)
    assert (whole["kind"], whole["said"]) == ("child", long)
    assert msgspec.json.decode(whole["result"][0]) == {"$blob": "00"}
    assert msgspec.json.decode(whole["result"][1]["a"]) == {"$blob": {"b": 1}, "c": long}


def test_bodies_that_are_prepared_together_keep_their_order() -> None:
    drafts = [BodyDraft(Kind.DIALOG, dialog(call_id=str(number)), salt_from(str(number))) for number in range(50)]
    assert prepare_all(drafts) == [prepare_all([draft])[0] for draft in drafts]
