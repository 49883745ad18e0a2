"""Fields: each accepts what it says, refuses the rest by path, and shows it in its schema."""

import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Boolean, Choice, Field, Integer, ListOf, Number, Record, SessionRef, Text
from shiftlog.params.wording import SHELL

ITEM = Record(fields={"role": Choice(required=True, values=("model", "tool")), "note": Text()})
FIELDS = Record(
    fields={
        "title": Text(required=True, max_chars=20),
        "body": Text(lines=True),
        "agent": Text(pattern="[A-Z][a-z]*"),
        "count": Integer(minimum=0, maximum=10),
        "cost": Number(),
        "flag": Boolean(),
        "tags": ListOf(item=Text(max_chars=5), max_items=3),
        "items": ListOf(item=ITEM),
        "session": SessionRef(),
    }
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def refused(field: Field, value: object) -> dict[str, object]:
    with pytest.raises(InvalidParameter) as error:
        field.read(value, "it")
    return error.value.details


def attempt(arguments: dict[str, Any]) -> tuple[dict[str, Any], InvalidParameter | None]:
    """Return what was read, or nothing and the error."""
    try:
        return FIELDS.read(arguments), None
    except InvalidParameter as error:
        return {}, error


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        (Text(), "", ""),
        (Text(), "é\t"[0], "é"),
        (Text(lines=True), "a\nb\tc\x1b[0m", "a\nb\tc\x1b[0m"),
        (Integer(), "30", 30),
        (Integer(), " -5 ", -5),
        (Integer(), 5.0, 5),
        (Integer(), 2**53 - 1, 2**53 - 1),
        (Number(), 0.5, 0.5),
        (Number(), "0.5", 0.5),
        (Number(), 3, 3.0),
        (Boolean(), True, True),
        (Boolean(), "Yes", True),
        (Boolean(), 0, False),
        (Boolean(), " false ", False),
        (Choice(values=("a", "b")), "b", "b"),
        (Choice(values=("a_b",), fold=True), "  A_B ", "a_b"),
        (Choice(values=("a",), aliases={"alpha": "a"}), "alpha", "a"),
        (ListOf(item=Text()), "one", ["one"]),
        (ListOf(item=Text()), "  ", []),
        (ListOf(item=Integer()), (1, "2"), [1, 2]),
        (SessionRef(), 42, "42"),
        (SessionRef(), "Codex-x", "Codex-x"),
    ],
)
def test_what_a_field_accepts_is_read_into_its_type(field: Field, value: object, read: object) -> None:
    result = field.read(value, "it")
    assert result == read
    assert type(result) is type(read)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Text(), 1),
        (Text(), ["x"]),
        (Text(), "a\nb"),
        (Text(), "a\x00b"),
        (Text(), "a\u2028b"),
        (Text(), "\ud800"),
        (Text(lines=True), "a\x00b"),
        (Text(lines=True), "a\x7fb"),
        (Text(max_chars=3), "four"),
        (Text(required=True), "  "),
        (Text(pattern="[a-z]+"), "a1"),
        (Text(pattern="[a-z]+"), "a\n"),
        (Integer(), True),
        (Integer(), "x"),
        (Integer(), 1.5),
        (Integer(), math.nan),
        (Integer(), 2**53),
        (Integer(), 10**6_000),
        (Integer(), "9" * 40),
        (Integer(minimum=1, maximum=90), 0),
        (Integer(minimum=1, maximum=90), 91),
        (Number(), "abc"),
        (Number(), "nan"),
        (Number(), math.inf),
        (Number(), -1),
        (Number(), "-1"),
        (Number(), True),
        (Number(), 10**6_000),
        (Boolean(), "maybe"),
        (Boolean(), 2),
        (Boolean(), 10**6_000),
        (Boolean(), None),
        (Choice(values=("a",)), "A"),
        (Choice(values=("a",)), 1),
        (Choice(values=("a",)), ["a"]),
        (ListOf(item=Text()), {"a": 1}),
        (ListOf(item=Text()), 7),
        (ListOf(item=Integer()), "1"),
        (ListOf(item=Text(), max_items=2), ["a", "b", "c"]),
        (ListOf(item=Text(), required=True), []),
        (SessionRef(), True),
        (SessionRef(), 4.2),
        (SessionRef(), 10**6_000),
        (SessionRef(required=True), " "),
        (SessionRef(), "\udfff"),
    ],
    ids=lambda value: type(value).__name__,  # a value may have more digits than Python writes
)
def test_what_a_field_does_not_accept_is_refused_by_its_path(field: Field, value: object) -> None:
    assert refused(field, value)["parameter"] == "it"


def test_a_path_leads_into_lists_and_records() -> None:
    with pytest.raises(InvalidParameter, match=r"Parameter 'items\[1\]\.role' is invalid: one of model, tool") as error:
        FIELDS.read({"title": "x", "items": [{"role": "tool"}, {"role": "assistant"}]})
    assert error.value.details["allowed"] == ["model", "tool"]
    assert refused(ListOf(item=Text()), ["a", 3])["parameter"] == "it[1]"
    assert refused(ListOf(item=Text()), ["a", None])["parameter"] == "it[1]"


def test_null_counts_as_absent_even_for_a_required_field() -> None:
    assert FIELDS.read({"title": "x", "body": None}) == {"title": "x"}
    with pytest.raises(InvalidParameter, match="Parameter 'title' cannot be null or empty"):
        FIELDS.read({"title": None})


@pytest.mark.parametrize(
    ("name", "nearest"), [("titel", "title"), ("BODY", "body"), ("item", "items"), ("agents", "agent")]
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InvalidParameter) as error:
        FIELDS.read({"title": "x", name: 1})
    assert error.value.details["parameter"] == name
    assert error.value.details["nearest"] == nearest


def test_a_name_far_from_all_others_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidParameter, match=r"unknown parameter; the nearest is '.*', known are title, ") as error:
        FIELDS.read({"title": "x", "zzz": 1})
    assert error.value.details["nearest"] in FIELDS.fields


def test_a_very_long_unknown_name_is_cut() -> None:
    with pytest.raises(InvalidParameter) as error:
        FIELDS.read({"n" * 1_000_000: 1})
    assert len(error.value.message) < 500


def test_the_schema_says_what_the_check_does() -> None:
    schema = FIELDS.type_schema()
    assert schema["required"] == ["title"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["title"] == {"type": "string", "maxLength": 20}
    assert schema["properties"]["agent"]["pattern"] == "^[A-Z][a-z]*$"
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 0, "maximum": 10}
    assert schema["properties"]["items"]["items"]["properties"]["role"]["enum"] == ["model", "tool"]
    assert schema["properties"]["session"]["type"] == ["string", "integer"]
    jsonschema.Draft202012Validator.check_schema(schema)


def test_description_and_default_are_shown() -> None:
    assert Integer(description="How many.", default=3).schema() == {
        "type": "integer",
        "description": "How many.",
        "default": 3,
    }


@given(st.dictionaries(st.sampled_from([*FIELDS.fields, "other"]), ANYTHING, max_size=4))
def test_any_value_is_read_or_refused_and_never_breaks_the_check(arguments: dict[str, Any]) -> None:
    values, error = attempt(arguments)
    if error is not None:
        assert str(error.details["parameter"]).split("[")[0].split(".")[0] in (*arguments, "title")
    assert values.keys() <= arguments.keys()


@given(st.dictionaries(st.sampled_from(list(FIELDS.fields)), ANYTHING, max_size=4))
def test_what_the_schema_allows_the_check_allows_apart_from_characters(arguments: dict[str, Any]) -> None:
    arguments = {name: value for name, value in arguments.items() if not isinstance(value, bytes)}
    schema: Any = jsonschema.Draft202012Validator(FIELDS.type_schema())
    _, error = attempt(arguments)
    if schema.is_valid(arguments) and error is not None:
        assert any(word in error.message for word in ("character", "Unicode", "cannot be null", "integer"))


@pytest.mark.parametrize(
    ("field", "value", "constraint"),
    [
        (Integer(minimum=0), 2**53, "integer of at most 9007199254740991"),
        (Integer(minimum=0), -1, "integer of at least 0"),
        (Integer(minimum=1, maximum=90), 2**53, "integer 1..90"),
        (Number(), 1e300, "a number of at most 1e+290"),
        (Number(), 10**400, "a number of at most 1e+290"),
        (Number(), "1e400", "a finite number of at least 0"),
        (Number(), -1, "a finite number of at least 0"),
    ],
)
def test_a_number_that_is_too_large_is_refused_in_words_that_are_true(
    field: Field, value: object, constraint: str
) -> None:
    assert refused(field, value)["constraint"] == constraint


def test_a_field_that_says_how_large_it_may_be_takes_numbers_beyond_those_of_json_readers() -> None:
    assert Integer(minimum=0, maximum=2**63 - 1).read(2**62, "it") == 2**62


@pytest.mark.parametrize("value", [0, 2**53, 10**30, float(2**53), 1e300])
def test_a_shell_tool_names_the_range_for_a_whole_number_of_any_size(value: object) -> None:
    assert refused(Integer(minimum=1, maximum=500).worded(SHELL), value)["expected"] == "an integer of 1 to 500"


def test_a_range_that_the_operator_may_change_is_shown_and_left_to_the_service_to_check() -> None:
    seconds = Integer(minimum=1, maximum=3600, bounds=False).worded(SHELL)
    assert seconds.read(2**60, "it") == 2**60
    assert seconds.type_schema() == {"type": "integer", "minimum": 1, "maximum": 3600}
