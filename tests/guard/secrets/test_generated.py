"""Redaction on a generated corpus: contexts × names × values × encodings, drawn anew on every run.

`python -m bench redaction` draws many more samples and shows where it fails.
"""

import random

import pytest

from shiftlog.guard.secrets.redactor import Redactor
from tests.guard.secrets.generated.drawing import CONTEXTS, Sample, draw_samples, tally

SAMPLES = 4 * len(CONTEXTS)
redactor = Redactor()


@pytest.fixture(scope="module")
def drawn() -> tuple[int, list[Sample]]:
    seed = random.randrange(10**9)
    return seed, list(draw_samples(seed, SAMPLES))


def test_secrets_are_told_from_look_alikes_in_contexts_of_all_kinds(drawn: tuple[int, list[Sample]]) -> None:
    seed, samples = drawn
    seen, held_out = tally(lambda text: redactor.text(text).text, samples)
    says = f"seed {seed}: {seen.recall=:.4f} {seen.precision=:.4f} {held_out.recall=:.4f} {held_out.precision=:.4f}"
    assert min(seen.recall, seen.precision) >= 0.985, says
    assert min(held_out.recall, held_out.precision) >= 0.97, says


def test_each_context_was_drawn_and_half_of_them_are_look_alikes(drawn: tuple[int, list[Sample]]) -> None:
    assert {sample.context for sample in drawn[1]} == set(CONTEXTS)
    innocent = sum(not context.secret for context in CONTEXTS)
    assert len(CONTEXTS) >= 1200
    assert 0.4 <= innocent / len(CONTEXTS) <= 0.6


def test_the_same_seed_draws_the_same_samples() -> None:
    first, second = ([sample.case for sample in draw_samples(7, 300)] for _ in range(2))
    assert first == second
