"""Counts, sizes, money and durations as people read them."""

from collections.abc import Callable

import pytest

from shiftlog.text.figures import (
    binary_size,
    count,
    duration,
    exact_money,
    largest_unit,
    milliseconds,
    money,
    short_count,
    size,
    stopwatch,
    tokens,
)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-3, "0 s"), (59.9, "59 s"), (60, "1 min"), (7_199, "1 h"), (200_000, "2 d")]
)
def test_spans_of_time_take_the_largest_unit(seconds: float, shown: str) -> None:
    assert largest_unit(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (82_400_000_000, "82.4 GB"), (5e15, "5000.0 TB")],
)
def test_sizes_take_the_unit_that_suits_them(number: float, shown: str) -> None:
    assert size(number) == shown


def test_counts_agree_with_their_nouns() -> None:
    assert [count(n, "entry") for n in (0, 1, 2_000)] == ["0 entries", "1 entry", "2,000 entries"]
    assert [count(n, "turn") for n in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


@pytest.mark.parametrize(("number", "says"), [(999, "999"), (999_949, "1M"), (999_499, "999k"), (1_000, "1k")])
def test_a_count_takes_the_unit_that_it_is_rounded_to(number: int, says: str) -> None:
    assert short_count(number) == says


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (tokens(950), "950 tokens"),
        (tokens(4_120_000), "4.12 M tokens"),
        (money(0.001), "<$0.01"),
        (money(12.5), "$12.50"),
        (money(1_234.5), "$1,234"),
        (exact_money(0.25), "$0.2500"),
        (exact_money(0.00001), "<$0.0001"),
        (exact_money(0), "$0.00"),
        (binary_size(1_536), "1.5 KB"),
        (binary_size(1 << 20), "1 MB"),
        (duration(0.25), "250 ms"),
        (duration(4.25), "4.2 s"),
        (duration(185), "3 min 5 s"),
        (duration(11_100), "3 h 5 min"),
        (duration(180_000), "2 d 2 h"),
        (milliseconds(0.5), "under 1 ms"),
        (milliseconds(1_500), "1.5 s"),
        (stopwatch(4_200), "4.2 s"),
        (stopwatch(185_000), "3:05"),
        (stopwatch(3_785_000), "1:03:05"),
    ],
)
def test_figures_read_well(shown: str, expected: str) -> None:
    assert shown == expected


@pytest.mark.parametrize("shown", [short_count, money, binary_size, duration, milliseconds])
def test_a_missing_figure_is_empty_on_the_page(shown: Callable[[object], str]) -> None:
    assert shown(None) == ""
