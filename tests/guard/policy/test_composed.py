"""Spellings that nobody wrote: composed of many parts, none that runs a denied program passes by its text."""

import random
import shutil
from pathlib import Path

import pytest

from shiftlog.guard.policy.files import NoFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from tests.guard.policy.composing import CARRIERS, WORDS, compose
from tests.guard.policy.marker import DENIED, Marker, make_marker

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
COMPOSED = pytest.mark.parametrize("composed", [400, pytest.param(20_000, marks=pytest.mark.guard)])


@pytest.fixture
def marker(tmp_path: Path) -> Marker:
    return make_marker(tmp_path / "bin")


def test_most_parts_run_the_program_in_plain_bash(marker: Marker, tmp_path: Path) -> None:
    parts = [*WORDS, *(carrier("mark") for carrier in CARRIERS)]
    idle = [text for text in parts if not marker.runs(text, tmp_path / "scratch")]
    assert len(idle) < 0.1 * len(parts), idle


@COMPOSED
def test_no_composed_spelling_passes_where_only_text_is_checked(marker: Marker, tmp_path: Path, composed: int) -> None:
    draw = random.Random(composed)
    judge = Judge(shell_rules(OperatorPolicy(), deny=DENIED, path=marker.path), kernel=False, files=NoFiles())
    texts = {compose(draw) for _ in range(composed)}
    judged = {text: judge.judge(marker.fill(text)) for text in texts}
    passed = [text for text, found in judged.items() if not found.violations and not found.syntax_error]
    assert [text for text in passed if marker.runs(text, tmp_path / "scratch")] == []
