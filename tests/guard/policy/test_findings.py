"""What else a judgement says: read-only proofs, secrets that were assigned, explanations and suggestions."""

import pytest

from shiftlog.guard.policy.explain import explain
from shiftlog.guard.policy.files import LocalFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, read_policy, shell_rules
from shiftlog.guard.policy.suggest import suggest_allow

judge = Judge(shell_rules(OperatorPolicy()), kernel=True)


@pytest.mark.parametrize(
    "text",
    ["ls -la", "cat a | grep b | wc -l", "cd /tmp && pwd", "find . -name '*.py' | sort -u", "echo $x 2>&1 >/dev/null",
     "if [ -f a ]; then head -5 a; fi", 'for f in *; do stat "$f"; done', "diff <(sort a) <(sort b)",
     'x=$(date); echo "$x"', 'find . -name "$x"', "uniq -c a", "sort -u -k2 a", "echo x >&2", "find . -name '*'"],
)  # fmt: skip
def test_the_tree_proves_these_read_only(text: str) -> None:
    assert judge.judge(text).read_only


@pytest.mark.parametrize(
    "text",
    ["echo x > f", "touch f", "git --version", "make", "sort -o f f", "find . -delete", "find . -exec rm {} +", "$x",
     "tee f", "source env.sh", "sed -i s/a/b/ f", "trap 'touch x' EXIT", "fi",
     "eval ls", "bash x.sh", "cat <<E >> f\nE", "./ls", "PATH=. ls", "f() { ls; }; f", "uniq a b", "ls | xargs rm",
     "sort -uo f f", "sort --outp=f f", 'sort -"$x" f', "tree -ao f", "diff --outp=f a b", "ptx -G a b", "uniq - b",
     "uniq $x", 'x=-delete; find . "$x"', 'find . "-dele$x"', 'find "$x" -name y', "find . -name x -delete",
     "date -us 2020-01-01", "echo x >&3"],
)  # fmt: skip
def test_nothing_else_is_taken_for_read_only(text: str) -> None:
    assert not judge.judge(text).read_only


def test_values_assigned_to_names_that_look_secret_are_learned() -> None:
    found = judge.judge(
        "export API_TOKEN=abc123XYZ DB_PASSWORD='p w' NAME=bob; GH_TOKEN=$x true; env AWS_SECRET_KEY=k9k9 ls"
    )
    assert found.learned == {"abc123XYZ", "p w", "k9k9"}


def test_an_explanation_says_what_each_token_was_taken_for() -> None:
    policy = read_policy({"deny": ["ls"], "ask": ["git push"]}, "policy.json")
    strict = Judge(shell_rules(policy), kernel=True, files=LocalFiles())
    found = explain(strict, 'A=1 sudo -u root bash -c "ls /" > out\ngit push; $x')
    told = {(token.line, token.column): (token.role, token.text, token.reasons) for token in found.tokens}
    assert found.judgement.verdict == "denied"
    assert told[(1, 1)] == ("assignment", "A=1", ())
    assert told[(1, 5)] == ("program", "sudo", ("starts 'sudo'",))
    assert told[(1, 18)][2] == ("starts 'bash' through sudo",)
    assert told[(1, 26)][2] == ("starts 'ls' through sudo → bash", "blocked by operator policy: 'ls' is denylisted")
    assert told[(1, 33)] == ("redirection", "> out", ())
    assert told[(2, 1)][2] == ("starts 'git'", "needs approval: 'git push'")
    assert told[(2, 11)][2] == ("the program '$x' is left to the kernel",)


def test_a_history_suggests_the_programs_that_it_used() -> None:
    history = ["git status", "git diff | head", "/usr/bin/make test", "cd src && ./run.sh", "$tool x", 'echo "broken']
    found = suggest_allow(history)
    assert found.allow == ("./run.sh", "git", "head", "make")
    assert found.uses["git"] == 2
    assert found.undecided == ("$tool x",)
    assert suggest_allow(history, least_uses=2).allow == ("git",)
