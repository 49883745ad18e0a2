"""The agent's statement: what is accepted, in which forms, and how the rest is refused."""

import json

import pytest

from shiftlog.journal.continuity.statement import STATEMENT
from shiftlog.model.errors import InvalidParameter

WHOLE = {
    "version": "1",
    "goal": "Ship the fix",
    "done": "Narrowed it down.\nTo eviction.",
    "next": "Guard eviction",
    "blockers": "Slow CI",
    "do_not": "Raise the TTL",
    "refuted": "Clock skew",
    "receipts": ["run 1123"],
    "written_by": "codex",
    "written_at": "2026-06-28T18:00:00+00:00",
    "ttl_days": 2,
    "handoff_to": "beta",
}


@pytest.mark.parametrize("version", ["1", "1.0", "v1", 1, 1.0])
def test_a_statement_is_read_from_an_object_or_its_json_text(version: object) -> None:
    given_ = {**WHOLE, "version": version, "ttl_days": "2"}
    expected = {**WHOLE, "version": version if isinstance(version, str) else "1"}
    assert STATEMENT.read(given_, "capsule") == expected
    assert STATEMENT.read(json.dumps(given_), "capsule") == expected


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"mood": "good"}, "capsule.mood"),
        ({"goal": "x" * 4001}, "capsule.goal"),
        ({"goal": 7}, "capsule.goal"),
        ({"version": "2"}, "capsule.version"),
        ({"version": True}, "capsule.version"),
        ({"version": None}, "capsule.version"),
        ({"receipts": ["x"] * 21}, "capsule.receipts"),
        ({"receipts": ["ok", "x" * 501]}, "capsule.receipts[1]"),
        ({"written_at": "yesterday"}, "capsule.written_at"),
        ({"written_at": "0001-01-01T00:00:00+14:00"}, "capsule.written_at"),
        ({"ttl_days": 0}, "capsule.ttl_days"),
        ({"ttl_days": "366"}, "capsule.ttl_days"),
        ({"handoff_to": "---"}, "capsule.handoff_to"),
        ({"written_by": "x" * 201}, "capsule.written_by"),
    ],
)
def test_a_statement_outside_the_form_is_refused_naming_the_field(change: dict[str, object], parameter: str) -> None:
    for value in ({**WHOLE, **change}, json.dumps({**WHOLE, **change})):
        with pytest.raises(InvalidParameter) as caught:
            STATEMENT.read(value, "capsule")
        assert caught.value.details["parameter"] == parameter


@pytest.mark.parametrize("text", ["", "not json", "[1]", "7", "[" * 100_000, '{"version": "1"'])
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        STATEMENT.read(text, "capsule")
    assert caught.value.details["parameter"] == "capsule"


def test_the_schema_names_every_field_that_an_agent_needs() -> None:
    schema = STATEMENT.schema()
    assert schema["type"] == "object"
    listed = set(schema["properties"])
    assert set(WHOLE) - listed == {"written_at", "written_by", "ttl_days"}
    assert listed <= set(WHOLE)
    assert schema["required"] == ["version"]


@pytest.mark.parametrize("as_text", [False, True])
def test_every_fault_of_a_statement_is_named_at_once(as_text: bool) -> None:
    given = {"mood": "x", "goal": "g" * 4_001, "next": ["ok", 7, "n" * 1_001], "done": "d" * 4_001, "ttl_days": 0}
    faults = STATEMENT.faults(json.dumps(given) if as_text else given, "capsule")
    named = {str(fault.details["parameter"]) for fault in faults}
    assert named == {
        "capsule.mood", "capsule.version", "capsule.goal", "capsule.next[1]", "capsule.next[2]", "capsule.done",
        "capsule.ttl_days",
    }  # fmt: skip
    assert not [fault for fault in faults if fault.details["problem"] == "missing"], "the tool lacks no parameter"
    assert not STATEMENT.faults({"version": 1, "next": ["a"]}, "capsule")
