"""Prices: from counted tokens to US dollars. A model without a price costs an unknown amount, never nothing.

Beside the model, the service that answered (fast, priority, batch, flex) and the length of the prompt decide a price.
They are the *tier* of a response; model and tier together are the name under which it is billed.

Here are the shape of the data and the arithmetic. The prices themselves, model names above all, live in
`defaults/prices.toml` and in the operator's `[runs.prices]`; reading those files is the work of `config`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from shiftlog.model.nouns import Usage

PER_TOKENS = 1_000_000
# A tenth of a millionth of a cent: far below the price of one token.
DECIMALS = 9

Amount = TypeVar("Amount", int, float)

# The lengths of a prompt, in tokens, beyond which some vendor has another price.
PROMPT_SIZES = (100_000, 128_000, 200_000, 256_000, 272_000)
STANDARD_SERVICES = frozenset({"standard", "default", "auto"})
SERVICES = ("fast", "priority", "batch", "flex")

_SERVICE = re.compile(r"[a-z][a-z_]{0,19}")
_LENGTH = re.compile(r" >(\d{1,4})k$")
_VARIANT = re.compile(r"\[[^\]]*\]$")
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens of each class; a cache class without a price of its own costs what input costs.

    The exception is a cache written for an hour: no vendor sells it at the price of input, so without a price it is
    unknown. `fast`, `priority`, `batch` and `flex` multiply every class, `long_input` and `long_output` those of
    prompts with more than `long_over` tokens.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_creation: float | None = None
    cache_creation_1h: float | None = None
    fast: float | None = None
    priority: float | None = None
    batch: float | None = None
    flex: float | None = None
    long_over: int | None = None
    long_input: float = 1.0
    long_output: float = 1.0

    def knows(self, used: Usage) -> bool:
        """Return True if there is a price for every class that was used."""
        return self.cache_creation_1h is not None or not used.cache_creation_1h_tokens

    def for_service(self, service: str | None) -> "Price | None":
        """Return the price of a service; None if it is unknown."""
        factor = getattr(self, service) if service in SERVICES else None
        return self if service is None else self._times(factor, factor) if factor is not None else None

    def for_length(self, over: int) -> "Price":
        """Return the price of a prompt with more than `over` tokens."""
        is_long = self.long_over is not None and over >= self.long_over
        return self._times(self.long_input, self.long_output) if is_long else self

    def _times(self, given: float, output: float) -> "Price":
        return replace(
            self,
            input=round(self.input * given, DECIMALS),
            cached_input=_product(self.cached_input, given),
            cache_creation=_product(self.cache_creation, given),
            cache_creation_1h=_product(self.cache_creation_1h, given),
            output=round(self.output * output, DECIMALS),
        )

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


def _product(price: float | None, factor: float) -> float | None:
    return None if price is None else round(price * factor, DECIMALS)


def billing_tier(service: str | None, prompt_tokens: int) -> str | None:
    """Return the tier of a response: service and length of its prompt; None for a short one in the usual service."""
    over = max((size for size in PROMPT_SIZES if prompt_tokens > size), default=0)
    if not over and (service is None or service in STANDARD_SERVICES):
        return None
    named = service if service and service not in STANDARD_SERVICES and _SERVICE.fullmatch(service) else ""
    return " ".join(filter(None, (named, f">{over // 1000}k" if over else ""))) or None


def billed_name(model: object, tier: object) -> str:
    """Return the name under which a response is billed: `opus`, `opus-fast`, `opus >200k`, `opus-fast >200k`."""
    if not isinstance(model, str) or not model or not isinstance(tier, str) or not tier:
        return model if isinstance(model, str) else ""
    return f"{model} {tier}" if tier.startswith(">") else f"{model}-{tier}"


def listed_name(billed: str) -> str:
    """Return the name under which usage is listed: that of the bill, without the length of the prompt."""
    return _LENGTH.sub("", billed)


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
        """Return the price of a model, or of a name under which it is billed, in force at a moment, by default now.

        It stands under the model's own name, else under that without variant (`[1m]`) or date at its end.
        """
        found = self._find(model)
        if found is None:
            return None
        name, service, over = found
        ended = (price for until, price in self.earlier.get(name, ()) if at is not None and at < until)
        price = next(ended, self.models[name]).for_service(service)
        return None if price is None else price.for_length(over)

    def cost_of(self, model: str | None, used: Usage, at: datetime | None = None) -> float | None:
        """Return the cost of tokens counted at a moment, or None where a class of them has no price."""
        price = self.price_of(model, at)
        return None if price is None or not price.knows(used) else price.cost_of(used)

    def changes(self, model: str | None) -> list[datetime]:
        """Return the moments at which the price of a model changed."""
        found = self._find(model)
        return [until for until, _ in self.earlier.get(found[0], ())] if found else []

    def _find(self, billed: str | None) -> tuple[str, str | None, int] | None:
        """Return the row of a billed name, the service in it, and the length that its prompts exceed."""
        length = _LENGTH.search(billed or "")
        whole, over = listed_name(billed or ""), int(length[1]) * 1000 if length else 0
        plain, _, service = whole.rpartition("-")
        for name, asked in ((whole, None), (plain, service)):
            row = next((spelling for spelling in _spellings(name) if spelling in self.models), None)
            if row is not None:
                return row, asked, over
        return None


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
