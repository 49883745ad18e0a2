"""Ids of sessions, turns and agents: the lists of the contracts, and what is made from free text."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model import ids
from shiftlog.model.errors import InvalidParameter, InvalidRequestId, InvalidSessionId

NOON = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)

VALID_SESSIONS = [
    "ClaudeCode-20260409T120000Z-implement-auth",
    "Copilot-20260304T113901Z-refactor-session",
    "SessionId-20260525T100000Z-fix",
    "A-20240229T235959Z-1",
    "Codex-20260701T100000Z-nightly",
]
INVALID_SESSIONS = [
    "claudecode-20260409T120000Z-task",
    "Copilot-20260304-feature",
    "Copilot-20260304T113901Z-",
    "Copilot-20260304T113901Z-Fix",
    "Copilot-20260304T113901Z-a--b",
    "Copilot-20260230T113901Z-x",
    "Copilot-20260304T250000Z-x",
    "Copilot-20260304T113960Z-x",
    "Copilot-20260304T113901Z-x\n",
    "Copilot-20260304T113901Z-ｘ",
    "Copilot-２0260304T113901Z-x",
    "Cöpilot-20260304T113901Z-x",
    "codex-20260701T100000Z-x",
    "e4ee2456",
    "-1",
    "",
    "Copilot-20260304T113901Z-" + "x" * 200,
]
VALID_TURNS = ["req-20260409T120001Z-add-jwt-001", "req-20260409T120002Z-query-todos", "req-20240229T000000Z-1"]
INVALID_TURNS = [
    "request-20260409T120001Z-task",
    "req-20260409-task",
    "req-20260409T120001Z-Add",
    "req-20260409T120001Z-add\n",
    "req-20260229T120001Z-add",
    "req-20260409T120001Z-",
    "req-20260409T120001Z-" + "x" * 200,
    "",
]


@pytest.mark.parametrize("text", VALID_SESSIONS)
def test_a_session_id_of_the_contract_is_accepted_as_it_is(text: str) -> None:
    assert ids.check_session_id(text) == text
    assert ids.check_session_id(text, text.split("-", maxsplit=1)[0]) == text


@pytest.mark.parametrize("text", INVALID_SESSIONS)
def test_a_malformed_session_id_is_refused_with_format_and_regex(text: str) -> None:
    with pytest.raises(InvalidSessionId, match="Session ID does not conform to canonical format") as refused:
        ids.check_session_id(text)
    assert refused.value.details["expectedFormat"] == "<Agent>-<yyyyMMddTHHmmssZ>-<suffix>"
    assert refused.value.details["regex"] == r"^[A-Z][A-Za-z0-9]*-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*$"
    if len(text) <= 200:
        assert refused.value.details["providedId"] == text


def test_the_prefix_of_a_session_id_must_be_the_agent_to_the_letter() -> None:
    with pytest.raises(InvalidSessionId, match="Session ID prefix must match agent name") as refused:
        ids.check_session_id("Codex-20260701T100000Z-x", "CodeX")
    assert refused.value.details["agent"] == "CodeX"


@pytest.mark.parametrize("text", VALID_TURNS)
def test_a_request_id_of_the_contract_is_accepted_as_it_is(text: str) -> None:
    assert ids.check_request_id(text) == text


@pytest.mark.parametrize("text", INVALID_TURNS)
def test_a_malformed_request_id_is_refused_with_format_and_regex(text: str) -> None:
    with pytest.raises(InvalidRequestId, match="Request ID does not conform to canonical format") as refused:
        ids.check_request_id(text)
    assert refused.value.details["expectedFormat"] == "req-<yyyyMMddTHHmmssZ>-<slugOrOrdinal>"


def test_ids_of_exactly_200_characters_are_accepted_and_longer_ones_not() -> None:
    at_the_limit = "Codex-20260701T100000Z-".ljust(200, "x")
    assert ids.is_session_id(at_the_limit)
    assert not ids.is_session_id(at_the_limit + "x")


@pytest.mark.parametrize("text", ["42", "1", "999999999999999999"])
def test_an_alias_is_a_positive_integer(text: str) -> None:
    assert ids.is_alias(text)


@pytest.mark.parametrize("text", ["-1", "0", "042", "42\n", "٤٢", "4.2", "", "9" * 201])
def test_anything_else_is_no_alias(text: str) -> None:
    assert not ids.is_alias(text)


def test_a_vendor_id_is_a_uuid_in_any_case() -> None:
    assert ids.is_vendor_id("e4ee2456-8a54-4492-9915-1904d6b2966a")
    assert ids.is_vendor_id("E4EE2456-8A54-4492-9915-1904D6B2966A")
    assert not ids.is_vendor_id("e4ee2456")
    assert not ids.is_vendor_id("e4ee2456-8a54-4492-9915-1904d6b2966a\n")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Fix upload", "fix-upload"),
        ("  Fix: the *upload*!  ", "fix-the-upload"),
        ("ÄÖÜ", "fallback"),
        ("", "fallback"),
        ("---", "fallback"),
        ("a" * 47 + " b", "a" * 47),
        ("a" * 60, "a" * 48),
        ("Über 9 Dinge", "ber-9-dinge"),
    ],
)
def test_a_slug_is_lower_case_words_of_at_most_48_characters(text: str, made: str) -> None:
    assert ids.slug(text, "fallback") == made


def the_nth(minted: str, n: int) -> str:
    """Return the id that is free where so many less one are taken."""
    taken = {minted, *(f"{minted}-{number}" for number in range(2, n))} if n > 1 else set[str]()
    return ids.free_id(minted, taken.__contains__)


@given(st.text(max_size=600), st.integers(1, 999))
def test_whatever_the_title_a_minted_id_is_well_formed(title: str, n: int) -> None:
    assert ids.is_session_id(the_nth(ids.mint_session_id("Codex", title, NOON), n))
    assert ids.is_request_id(the_nth(ids.mint_request_id(title, NOON), n))


def test_the_longest_agent_and_title_still_mint_a_well_formed_id() -> None:
    assert ids.is_session_id(the_nth(ids.mint_session_id("A" * 64, "x" * 500, NOON), 10_000))


def test_a_taken_minted_id_gets_the_next_number() -> None:
    minted = ids.mint_session_id("Codex", "Fix upload", NOON)
    assert [the_nth(minted, n) for n in (1, 2, 3)] == [
        "Codex-20260701T120000Z-fix-upload",
        "Codex-20260701T120000Z-fix-upload-2",
        "Codex-20260701T120000Z-fix-upload-3",
    ]


@given(st.integers(1, 2000))
def test_the_next_number_is_found_with_few_questions(taken: int) -> None:
    asked: list[str] = []

    def is_taken(name: str) -> bool:
        asked.append(name)
        return int(name.removeprefix("a").removeprefix("-") or 1) <= taken

    assert ids.free_id("a", is_taken) == f"a-{taken + 1}"
    assert len(asked) <= 2 * taken.bit_length() + 2


@given(st.sets(st.integers(1, 40)))
def test_among_taken_numbers_with_gaps_a_free_one_is_found(taken: set[int]) -> None:
    names = {"a" if number == 1 else f"a-{number}" for number in taken}
    assert ids.free_id("a", names.__contains__) not in names


def test_agent_ids_that_differ_in_case_width_or_punctuation_have_one_key() -> None:
    assert {ids.agent_key(text) for text in ("My Agent/One", "my-agent-one", " MY  AGENT one ")} == {"my-agent-one"}
    assert ids.agent_key("ＣＯＤＥＸ") == ids.agent_key("codex")
    assert ids.agent_key("my_agent") != ids.agent_key("my-agent")
    assert ids.agent_key("a.b_c:d@e") == "a.b_c:d@e"


@pytest.mark.parametrize("text", ["   ", "---", "", "x" * 201, "!?"])
def test_an_agent_id_without_a_key_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        ids.agent_key(text)
    assert refused.value.details["parameter"] == "agent_id"


@given(st.text(min_size=1, max_size=200))
def test_the_key_of_a_key_is_itself(text: str) -> None:
    try:
        key = ids.agent_key(text)
    except InvalidParameter:
        return
    if len(key) <= 200:
        assert ids.agent_key(key) == key


@pytest.mark.parametrize(
    "text", ["e4ee2456-8a54-4492-9915-1904d6b2966a", "agent-0123456789ab", "0123456789abcdef01234567"]
)
def test_an_agent_id_drawn_anew_for_each_run_is_recognised(text: str) -> None:
    assert ids.is_unstable_agent_id(text)


@pytest.mark.parametrize("text", ["nightly-fixer", "Codex", "agent-one", "deadbeef"])
def test_an_agent_id_that_an_owner_chose_is_not_taken_for_a_random_one(text: str) -> None:
    assert not ids.is_unstable_agent_id(text)
