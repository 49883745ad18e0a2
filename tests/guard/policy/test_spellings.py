"""The table of ways to run a denied program: each works in plain bash, hardly any passes the text check alone."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftlog.guard.policy.files import LocalFiles, NoFiles
from shiftlog.guard.policy.judge import Judge, Judgement
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from tests.guard.policy.marker import DENIED, Marker, make_marker
from tests.guard.policy.spellings import SPELLINGS, Spelling

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

AS_ROOT = ("su ", "runuser", "unshare", "nsenter", "chroot", "start-stop-daemon", "chrt")
THROUGH_AT_MOST = 0.03


@pytest.fixture(scope="module")
def marker(tmp_path_factory: pytest.TempPathFactory) -> Marker:
    return make_marker(tmp_path_factory.mktemp("marker") / "bin")


def judging(marker: Marker, *, kernel: bool) -> Callable[[Spelling], Judgement]:
    rules = shell_rules(OperatorPolicy(), deny=DENIED, path=marker.path)
    judge = Judge(rules, kernel=kernel, files=LocalFiles(marker.path) if kernel else NoFiles())
    return lambda spelling: judge.judge(marker.fill(spelling.text), cwd=str(marker.directory))


def test_the_table_is_long_and_holds_no_line_twice() -> None:
    assert len(SPELLINGS) >= 150
    assert len({spelling.text for spelling in SPELLINGS}) == len(SPELLINGS)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.text[:40])
def test_the_spelling_runs_the_program_in_plain_bash(spelling: Spelling, marker: Marker, tmp_path: Path) -> None:
    if not all(shutil.which(program) for program in spelling.needs):
        pytest.skip(f"needs {', '.join(spelling.needs)}")
    if os.geteuid() and spelling.text.startswith(AS_ROOT):
        pytest.skip("needs root")
    assert marker.runs(spelling.text, tmp_path / "work")


def test_at_most_three_in_a_hundred_pass_where_only_text_is_checked(marker: Marker) -> None:
    judge = judging(marker, kernel=False)
    through = [spelling.text for spelling in SPELLINGS if not judge(spelling).violations]
    assert len(through) <= THROUGH_AT_MOST * len(SPELLINGS), through


def test_no_spelling_is_taken_for_broken_text(marker: Marker) -> None:
    judge = judging(marker, kernel=False)
    assert [spelling.text for spelling in SPELLINGS if judge(spelling).syntax_error is not None] == []


def test_with_the_kernel_only_what_it_will_see_again_is_left_open(marker: Marker) -> None:
    judge = judging(marker, kernel=True)
    plain = [spelling for spelling in SPELLINGS if spelling.category in ("quoting", "lists and groups", "substitution")]
    assert {judge(spelling).verdict for spelling in plain} <= {"denied", "deferred", "allowed"}
    assert all(judge(spelling).verdict == "denied" for spelling in SPELLINGS if spelling.category == "quoting")
