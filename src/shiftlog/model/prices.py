"""Prices: from counted tokens to US dollars. A model without a price costs an unknown amount, never nothing.

Here are the shape of the data and the arithmetic. The prices themselves, model names above all, live in
`defaults/prices.toml` and in the operator's `[runs.prices]`; reading those files is the work of `config`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from shiftlog.model.nouns import Usage

PER_TOKENS = 1_000_000
# A tenth of a millionth of a cent: far below the price of one token.
DECIMALS = 9

Amount = TypeVar("Amount", int, float)

_VARIANT = re.compile(r"\[[^\]]*\]$")
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens of each class cost; a cache class without a price of its own costs what input costs."""

    input: float
    output: float
    cached_input: float | None = None
    cache_creation: float | None = None
    cache_creation_1h: float | None = None

    def cost_of(self, used: Usage) -> float:
        """Return the cost of counted tokens; reasoning is part of output and not added again."""
        return round(_total(used, self.classes) / PER_TOKENS, DECIMALS)

    def billionths_of(self, used: Usage) -> int | None:
        """Return the cost in billionths of a dollar where it is a whole number for each token, else None.

        Then what many used together costs what each of them costs, added up; a rounded cost does not promise that.
        """
        whole = _billionths(self.classes)
        return None if whole is None else _total(used, whole)

    @property
    def classes(self) -> tuple[float, float, float, float, float]:
        """Return the prices of input, cached input, cache creation, the same for an hour, and output."""
        cached = self.input if self.cached_input is None else self.cached_input
        creation = self.input if self.cache_creation is None else self.cache_creation
        for_an_hour = creation if self.cache_creation_1h is None else self.cache_creation_1h
        return self.input, cached, creation, for_an_hour, self.output


@lru_cache(maxsize=256)
def _billionths(prices: tuple[float, ...]) -> tuple[int, ...] | None:
    exact = [Decimal(repr(price)) * 10**DECIMALS / PER_TOKENS for price in prices]
    is_whole = all(price == price.to_integral_value() for price in exact)
    return tuple(map(int, exact)) if is_whole else None


def _total(used: Usage, prices: Sequence[Amount]) -> Amount:
    given, cached, creation, for_an_hour, output = prices
    return (
        used.input_tokens * given
        + used.cached_input_tokens * cached
        + (used.cache_creation_tokens - used.cache_creation_1h_tokens) * creation
        + used.cache_creation_1h_tokens * for_an_hour
        + used.output_tokens * output
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The known prices by model name; `earlier` ones, the oldest first, each with the moment at which it ended."""

    models: Mapping[str, Price]
    earlier: Mapping[str, tuple[tuple[datetime, Price], ...]] = field(
        default_factory=dict[str, tuple[tuple[datetime, Price], ...]]
    )

    def price_of(self, model: str | None, at: datetime | None = None) -> Price | None:
        """Return the price of a model in force at a moment, by default now.

        It stands under the model's own name, else under that without variant (`[1m]`) or date at its end.
        """
        name = self._name(model)
        if name is None:
            return None
        ended = (price for until, price in self.earlier.get(name, ()) if at is not None and at < until)
        return next(ended, self.models[name])

    def cost_of(self, model: str | None, used: Usage, at: datetime | None = None) -> float | None:
        """Return the cost of tokens counted at a moment, or None where the model has no price."""
        price = self.price_of(model, at)
        return None if price is None else price.cost_of(used)

    def changes(self, model: str | None) -> list[datetime]:
        """Return the moments at which the price of a model changed."""
        return [until for until, _ in self.earlier.get(self._name(model) or "", ())]

    def _name(self, model: str | None) -> str | None:
        return next((name for name in _spellings(model or "") if name in self.models), None)


def _spellings(model: str) -> Iterator[str]:
    name = model.strip()
    yield name
    plain = _VARIANT.sub("", name)
    yield plain
    yield _DATED.sub("", plain)


def counted(
    *, input_tokens: int = 0, cached_input_tokens: int = 0, output_tokens: int = 0, cached_in_input: bool = False
) -> Usage:
    """Return reported tokens with each counted once; some backends report cached input as a part of input."""
    fresh = max(input_tokens - cached_input_tokens, 0) if cached_in_input else input_tokens
    return Usage(input_tokens=fresh, cached_input_tokens=cached_input_tokens, output_tokens=output_tokens)
