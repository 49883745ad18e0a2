"""How well redaction does on the labelled corpus."""

import pytest

from shiftlog.guard.secrets.detectors.lines import find_in_line, is_suspicious
from shiftlog.guard.secrets.redactor import Redactor
from tests.guard.secrets.corpus import CASES, Case, draw_cases, score

redactor = Redactor()


def test_the_corpus_is_large_and_half_of_it_is_innocent() -> None:
    innocent = sum(case.innocent for case in CASES)
    assert len(CASES) >= 400
    assert 0.45 <= innocent / len(CASES) <= 0.55


@pytest.mark.parametrize("seed", [7, 101, 102])
def test_recall_and_precision_are_at_least_ninety_eight_in_a_hundred(seed: int) -> None:
    found = score(lambda text: redactor.text(text).text, draw_cases(seed))
    assert found.recall >= 0.98, found
    assert found.precision >= 0.98, found


def test_the_score_sees_what_is_missed_and_what_is_mistaken() -> None:
    cases = [Case(text="pw x", spans=((3, 4),)), Case(text="plain")]
    missed = score(lambda text: text, cases)
    assert (missed.masked, missed.missed, missed.mistaken) == (0, 1, 0)
    greedy = score(lambda text: "[REDACTED]", cases)
    assert (greedy.masked, greedy.missed, greedy.mistaken) == (1, 0, 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:40])
def test_each_secret_of_the_corpus_is_masked_and_nothing_else(case: Case) -> None:
    masked = redactor.text(case.text).text
    assert case.is_masked_exactly(masked), masked


def test_the_trigger_passes_over_no_line_in_which_a_detector_finds_something() -> None:
    lines = [line for case in CASES for line in case.text.split("\n")]
    found = [line for line in lines if any(find_in_line(line.encode().decode("latin-1")))]
    assert len(found) > 200
    assert [line for line in found if not is_suspicious(line.encode())] == []


def test_masking_the_corpus_as_one_text_masks_every_secret_of_it() -> None:
    whole = redactor.text("\n\n".join(case.text for case in CASES)).text
    long_secrets = [secret for case in CASES for secret in case.secrets if len(secret) > 12]
    assert [secret for secret in long_secrets if secret in whole] == []
