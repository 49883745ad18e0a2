"""Commands as agents write them pass under a sensible policy."""

import subprocess

import pytest

from shiftlog.guard.policy.files import LocalFiles, NoFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import read_policy, shell_rules
from tests.guard.policy.innocent import DENY, INNOCENT

POLICY = read_policy({"deny": list(DENY)}, "policy.json")


def refused(judge: Judge) -> list[str]:
    judgements = [(text, judge.judge(text)) for text in INNOCENT]
    return [text for text, found in judgements if found.violations or found.asks or found.syntax_error]


def test_there_are_many_and_bash_reads_them_all() -> None:
    assert len(set(INNOCENT)) >= 300
    for text in INNOCENT:
        assert subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False).returncode == 0, (
            text
        )


def test_none_is_refused_where_the_kernel_holds() -> None:
    assert refused(Judge(shell_rules(POLICY), kernel=True, files=LocalFiles())) == []


def test_fewer_than_one_in_two_hundred_are_refused_where_only_text_is_checked() -> None:
    found = refused(Judge(shell_rules(POLICY), kernel=False, files=NoFiles()))
    assert len(found) < 0.005 * len(INNOCENT), found


@pytest.mark.parametrize("text", ["nc -l 80", "sudo -n nc x", "git push --force origin main", "git -C x push -f"])
def test_the_same_policy_still_refuses_what_it_names(text: str) -> None:
    assert Judge(shell_rules(POLICY), kernel=True, files=LocalFiles()).judge(text).verdict == "denied"
