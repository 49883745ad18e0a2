"""Times: one spelling outside, one in the chain, and what is refused as a time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model import times

MOMENTS = st.datetimes(timezones=st.just(UTC))


def test_results_show_whole_seconds_in_utc() -> None:
    at = datetime(2026, 7, 1, 14, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert times.shown(at) == "2026-07-01T12:00:00Z"
    assert times.shown_or_none(None) is None
    assert times.compact(at) == "20260701T120000Z"


def test_the_journal_keeps_milliseconds() -> None:
    at = datetime(2026, 7, 1, 12, 0, 0, 123_999, tzinfo=UTC)
    assert times.precise(at) == "2026-07-01T12:00:00.123Z"
    assert times.truncated(at) == datetime(2026, 7, 1, 12, 0, 0, 123_000, tzinfo=UTC)


@given(MOMENTS)
def test_what_is_shown_reads_back_to_its_second(at: datetime) -> None:
    assert times.parse(times.shown(at)) == at.replace(microsecond=0)
    assert times.parse(times.precise(at)) == times.truncated(at)


@given(MOMENTS, MOMENTS)
def test_precise_times_sort_as_text_as_they_do_as_times(one: datetime, other: datetime) -> None:
    by_text = times.precise(one) <= times.precise(other)
    assert by_text == (times.truncated(one) <= times.truncated(other))


@pytest.mark.parametrize(
    "text",
    [
        "2026-07-01T12:00:00",
        "2026-07-01",
        "noon",
        "",
        "2026-07-01x12:00:00Z",
        "2026-07-01-12:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_text_that_names_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is expected|Invalid isoformat"):
        times.parse(text)


@pytest.mark.parametrize(
    "text", ["2026-07-01t10:00:00z", "2026-07-01 12:00:00.1234567+02:00", "20260701T100000,5Z", "2026-W27-3T10Z"]
)
def test_the_spellings_of_iso_8601_name_the_same_second(text: str) -> None:
    assert times.shown(times.parse(text)) == "2026-07-01T10:00:00Z"


NOW = datetime(2026, 7, 8, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7d", "2026-07-01T12:30:00Z"),
        ("2w", "2026-06-24T12:30:00Z"),
        ("12h", "2026-07-08T00:30:00Z"),
        ("30min", "2026-07-08T12:00:00Z"),
        ("30m", "2026-07-08T12:00:00Z"),
        (" 90 S ", "2026-07-08T12:28:30Z"),
    ],
)
def test_an_age_is_a_time_before_now(text: str, meant: str) -> None:
    read = times.read_relative(text, NOW)
    assert isinstance(read, datetime)
    assert times.shown(read) == meant


def test_days_have_names_and_other_texts_are_no_ages() -> None:
    assert times.read_relative("today", NOW) == "2026-07-08"
    assert times.read_relative("Yesterday", NOW) == "2026-07-07"
    assert [times.read_relative(text, NOW) for text in ("", "7", "d", "7 years", "-7d", "2026-07-01", "७d")] == [
        None
    ] * 7
