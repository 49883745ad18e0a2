"""No text makes the judge crash, hang or call something broken that bash reads."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.guard.policy.explain import explain
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, read_policy, shell_rules

PIECES = st.sampled_from(
    [
        *"ls nc echo a x= $x ${x} $(ls) `ls` <(ls) >(cat) ' \" \\ ; & && | || ( ) { } [[ ]] (( ))".split(),
        *"if then fi for in do done case esac ;; while <<E <<-'E' <<< > >> 2>&1 < ! time coproc".split(),
        *"function f() trap eval bash -c sudo -u env -S".split(),
        *"xargs -I{} find -exec + \\; {a,b} {1..3} ~ * ? [a] $'\\x6c' $\" # =( a=( @( !( é alias exec".split(),
        *["\n", "\nE\n", "\\\n", "\t", "\x00", "\ue000", '"$x"'],
    ]
)
SPACED = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=30).map(" ".join)
TEXTS = SPACED | st.lists(PIECES, max_size=30).map("".join)

judges = [
    Judge(shell_rules(read_policy({"deny": ["nc", "git push -f"], "ask": ["docker"]}, "p")), kernel=False),
    Judge(shell_rules(OperatorPolicy(), allow=["echo"]), kernel=True),
    Judge(shell_rules(OperatorPolicy()), kernel=False),
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
def test_any_text_gets_a_verdict(text: str) -> None:
    for judge in judges:
        judgement = judge.judge(text)
        assert judgement.verdict in ("allowed", "denied", "asked", "deferred", "undecidable", "not_checked")
        assert bool(judgement.violations) == (judgement.verdict in ("denied", "undecidable"))
        assert all(violation.line >= 1 and violation.column >= 1 for violation in judgement.violations)
    explain(judges[0], text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_quoted_text_never_starts_anything(text: str) -> None:
    quoted = "echo '" + text.replace("'", "") + "'"
    assert [start.name for start in judges[0].judge(quoted).starts] == ["echo"]


MEGABYTE = 1 << 20
LARGE = {
    "one quoted argument": ": '" + "x" * MEGABYTE + "'; echo ok",
    "many words": "echo " + "a " * (MEGABYTE // 2),
    "many commands": "echo a;" * (MEGABYTE // 7),
    "parentheses": "(" * MEGABYTE,
    "substitutions": "$(" * (MEGABYTE // 2),
    "arithmetic": "$((" * (MEGABYTE // 3),
    "braces": "echo " + "{a,b}" * (MEGABYTE // 5),
    "brackets": "[" * MEGABYTE,
    "backquotes": "`a" * (MEGABYTE // 2),
    "here-document": "cat <<E\n" + "x\n" * (MEGABYTE // 2) + "E\n",
    "continued here-document": "cat <<E\n" + "\\\n" * (MEGABYTE // 2) + "\nE",
    "pipes": "a|" * 9000 + "a",
    "nested shells": 'bash -c "' * 20_000,
    "wrappers": "env " * (MEGABYTE // 4) + "x",
    "expansions": "echo " + "${a" * (MEGABYTE // 3),
    "line continuations": "$\\\n" * (MEGABYTE // 3),
    "negations": "! ;" * (MEGABYTE // 3),
    "files written": "".join(f"echo >a{number};" for number in range(5000)),
    "denied programs": "nc;" * 9000,
    "subscripts": "x='" + "a[" * (MEGABYTE // 2) + "'",
    "letters of tar": "tar " + "c" * MEGABYTE,
    "jumps of sed": "sed '" + "b;" * (MEGABYTE // 2) + "'",
    "words of sed": "sed '" + " " * 100_000 + "x'",
}


@pytest.mark.parametrize("name", LARGE)
def test_a_megabyte_is_judged_or_refused_within_a_second(name: str) -> None:
    for judge in judges:
        assert any(_judging_s(judge, LARGE[name]) < 1.0 for _ in range(3)), "slow three times"


def _judging_s(judge: Judge, text: str) -> float:
    started = time.process_time()
    judge.judge(text)
    return time.process_time() - started


def test_deep_nesting_is_refused_and_never_overflows() -> None:
    for opened, closed in (("( ", " )"), ("$(", ")"), ("{ ", ";}"), ("if a; then ", "; fi"), ('"$(', ')"')):
        text = "echo " * (opened[0] in '"$') + opened * 3000 + "ls" + closed * 3000
        judgement = judges[2].judge(text)
        assert judgement.verdict == "undecidable"
        assert "nesting this deep" in judgement.violations[0].message


def test_a_long_innocent_argument_is_judged() -> None:
    """Case 20, as far as the policy goes."""
    assert judges[2].judge(": '" + "x" * MEGABYTE + "'\necho ok").verdict == "allowed"
