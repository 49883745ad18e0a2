"""The table of places: every row masks its example, takes linear time, and its trigger finds the example."""

import re
import time

import pytest

from shiftlog.guard.linear import compile_linear
from shiftlog.guard.secrets.detectors.place import Place
from shiftlog.guard.secrets.detectors.places import NAMED_PLACES, PLACE_HINT, PLACES
from shiftlog.guard.secrets.redactor import Redactor

redactor = Redactor()
_MARKS = re.compile("[⟦⟧]")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_the_example_of_a_place_is_masked_and_nothing_else(place: Place) -> None:
    before, secret, after = _MARKS.split(place.example)
    masked = redactor.text(before + secret + after, by_rule=True).text
    around = redactor.text(before, by_rule=True).text  # the id of a key is masked wherever it stands
    assert re.fullmatch(re.escape(around) + r"\[REDACTED:\w+\]" + re.escape(after), masked), masked


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_the_trigger_of_a_place_finds_its_example(place: Place) -> None:
    assert compile_linear(place.trigger).search(_MARKS.sub("", place.example).encode()) is not None


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_the_hint_of_a_place_finds_its_example(place: Place) -> None:
    hints = compile_linear(f"{PLACE_HINT}|{NAMED_PLACES}")
    assert hints.search(_MARKS.sub("", place.example).encode()) is not None


def test_names_of_places_are_told_apart() -> None:
    assert len({place.name for place in PLACES}) == len(PLACES)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_repeated_starts_of_a_place_take_linear_time(place: Place) -> None:
    start = _MARKS.split(place.example)[0]
    small, large = (start * (size // len(start)) for size in (4_000, 32_000))
    redactor.text(small)
    short = _processor_seconds(small)
    tries = [_processor_seconds(large)]
    while tries[-1] > 24 * short + 0.3 and len(tries) < 3:  # a stalled machine slows a try down, not all of them
        tries.append(_processor_seconds(large))
    assert tries[-1] <= 24 * short + 0.3, (short, tries)


def _processor_seconds(text: str) -> float:
    start = time.process_time()
    redactor.text(text)
    return time.process_time() - start
