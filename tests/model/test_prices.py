"""Prices: the arithmetic of token classes, the spellings of model names, and what is unknown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.model.nouns import Usage
from shiftlog.model.prices import Price, Prices, billed_name, billing_tier, counted

FULL = Price(input=5.0, cached_input=0.5, cache_creation=6.25, output=25.0)
PRICES = Prices(models={"big": FULL, "small": Price(input=1.0, output=4.0), "big[1m]": Price(input=9.0, output=9.0)})
TOKENS = st.integers(0, 10**12)


def test_each_class_has_its_own_price_and_reasoning_is_not_added_again() -> None:
    used = Usage(
        input_tokens=1_000_000,
        cached_input_tokens=2_000_000,
        cache_creation_tokens=400_000,
        output_tokens=100_000,
        reasoning_tokens=90_000,
    )
    assert FULL.cost_of(used) == 5.0 + 1.0 + 2.5 + 2.5


def test_a_cache_class_without_a_price_costs_what_input_costs() -> None:
    used = Usage(input_tokens=1, cached_input_tokens=1_000_000, cache_creation_tokens=1_000_000)
    assert Price(input=1.0, output=4.0).cost_of(used) == 2.000001


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("big", FULL),
        (" big ", FULL),
        ("big[200k]", FULL),
        ("big-20260101", FULL),
        ("big-2026-01-01", FULL),
        ("big@20260101", FULL),
        ("big-20260101[200k]", FULL),
        ("big[1m]", PRICES.models["big[1m]"]),
        ("bigger", None),
        ("big-3", None),
        ("BIG", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_is_tried_as_given_then_without_variant_then_without_date(name: str | None, price: Price | None) -> None:
    assert PRICES.price_of(name) == price


def test_a_model_without_a_price_costs_an_unknown_amount() -> None:
    assert PRICES.cost_of("nobody", Usage(input_tokens=1)) is None
    assert PRICES.cost_of("small", Usage(input_tokens=1)) == 0.000001


def test_the_price_of_a_single_token_does_not_vanish() -> None:
    assert Price(input=0.001, output=0.001).cost_of(Usage(input_tokens=1)) > 0


@given(TOKENS, TOKENS, TOKENS)
def test_cached_input_is_taken_out_of_input_only_where_it_is_a_part_of_it(fresh: int, cached: int, output: int) -> None:
    apart = counted(input_tokens=fresh, cached_input_tokens=cached, output_tokens=output)
    within = counted(
        input_tokens=fresh + cached, cached_input_tokens=cached, output_tokens=output, cached_in_input=True
    )
    assert apart == within


def test_more_cached_than_input_never_makes_less_than_nothing() -> None:
    assert counted(input_tokens=3, cached_input_tokens=5, cached_in_input=True).input_tokens == 0


def test_the_price_in_force_at_a_moment_is_the_first_that_had_not_ended() -> None:
    first, second = (datetime(2026, month, 1, tzinfo=UTC) for month in (2, 6))
    old, older = Price(input=2.0, output=8.0), Price(input=3.0, output=9.0)
    prices = Prices(models=PRICES.models, earlier={"big": ((first, older), (second, old))})
    moment = timedelta(milliseconds=1)
    found = [prices.price_of("big-20260101", at) for at in (first - moment, first, second - moment, second, None)]
    assert found == [older, old, old, FULL, FULL]
    assert prices.changes("big[200k]") == [first, second]
    assert prices.changes("small") == []


@pytest.mark.parametrize(
    ("service", "prompt", "tier"),
    [
        (None, 5, None),
        ("standard", 100_000, None),
        ("default", 5, None),
        ("fast", 5, "fast"),
        ("batch", 200_001, "batch >200k"),
        (None, 200_000, ">128k"),
        (None, 999_999, ">272k"),
        ("x y; drop", 5, None),
    ],
)
def test_the_service_and_the_length_of_the_prompt_are_the_tier(
    service: str | None, prompt: int, tier: str | None
) -> None:
    assert billing_tier(service, prompt) == tier


LONG = Price(
    input=2.0,
    output=10.0,
    cache_creation_1h=4.0,
    fast=6.0,
    batch=0.5,
    long_over=200_000,
    long_input=2.0,
    long_output=1.5,
)


@pytest.mark.parametrize(
    ("tier", "given", "output"),
    [
        (None, 2.0, 10.0),
        ("fast", 12.0, 60.0),
        ("batch", 1.0, 5.0),
        (">128k", 2.0, 10.0),
        (">200k", 4.0, 15.0),
        (">272k", 4.0, 15.0),
        ("fast >200k", 24.0, 90.0),
    ],
)
def test_each_tier_has_its_own_price(tier: str | None, given: float, output: float) -> None:
    price = Prices(models={"big": LONG}).price_of(billed_name("big-20260101", tier))
    assert price is not None
    assert (price.input, price.output, price.cache_creation_1h) == (given, output, given * 2)


def test_a_service_or_a_class_without_a_price_costs_an_unknown_amount() -> None:
    used = Usage(input_tokens=1, cache_creation_tokens=5, cache_creation_1h_tokens=5)
    assert PRICES.cost_of(billed_name("big", "fast"), Usage(input_tokens=1)) is None
    assert PRICES.cost_of(billed_name("big", "scale"), Usage(input_tokens=1)) is None
    assert PRICES.cost_of("big", used) is None, "no vendor sells an hour at the price of five minutes"
    assert Prices(models={"big": LONG}).cost_of("big", used) is not None


def test_a_model_whose_own_name_ends_like_a_service_is_that_model() -> None:
    prices = Prices(models={"grok-4": LONG, "grok-4-fast": FULL})
    assert prices.price_of("grok-4-fast") is FULL
