"""Calls of functions under an allow list, where text is all that is judged: only what is sure to be defined passes."""

import pytest

from shiftlog.guard.policy.files import NoFiles
from shiftlog.guard.policy.found import Definitions
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, read_policy, shell_rules

WRAPPERS = ["echo", "env", "xargs", "find", "nohup", "timeout", "bash", "git", "watch"]
judge = Judge(shell_rules(OperatorPolicy(), allow=WRAPPERS), kernel=False, files=NoFiles())


def verdicts(*texts: str) -> list[str]:
    """Judge the commands of one shell, each of which ran to its end."""
    known, found = Definitions(), list[str]()
    for text in texts:
        judgement = judge.judge(text, known)
        known = judgement.definitions
        found.append(judgement.verdict)
    return found


@pytest.mark.parametrize(
    "text",
    ["ls() { echo; }; ls", "ls() { echo; }; eval ls", "ls() { echo; }; echo $(ls)", "{ ls() { echo; }; }; ls",
     "unset -f ls; ls() { echo; }; ls", "main() { ls; }; ls() { echo; }; main", "bash -c 'ls() { echo; }; ls'",
     "bash <<< 'ls() { echo; }; ls'", "ls() { echo; }; trap ls EXIT", "eval 'ls() { echo; }'; ls"],
)  # fmt: skip
def test_a_function_that_is_defined_may_be_called(text: str) -> None:
    assert verdicts(text) == ["allowed"]


@pytest.mark.parametrize("how", ["command", "exec", "env", "xargs", "nohup", "timeout 3", "bash -c", "watch"])
def test_what_is_started_past_a_function_is_the_program_of_its_name(how: str) -> None:
    assert verdicts(f"ls() {{ echo; }}; {how} ls") == ["denied"]


@pytest.mark.parametrize(
    "text",
    ["ls() { echo; } & ls", "{ ls() { echo; }; } > f; ls", "trap 'ls() { echo; }' EXIT; ls",
     "bash -c 'ls() { echo; }'; ls", "alias q='ls() { echo; }'; ls", "PROMPT_COMMAND='ls() { echo; }'; ls",
     "f() { unset -f ls; }; ls() { echo; }; f; ls", "main() { ls; }; main; ls() { echo; }",
     "main() { command ls; }; ls() { echo; }; main", "main() { ls; }; ls() { unset -f ls; ls; }; main"],
)  # fmt: skip
def test_a_definition_that_may_not_be_there_permits_nothing(text: str) -> None:
    assert verdicts(text)[0] == "denied"


def test_a_function_of_an_earlier_command_may_be_called() -> None:
    assert verdicts("cd /tmp; export A=1; f() { return 1; }; g() { echo $A; }", "f; g; pwd") == ["allowed", "allowed"]
    assert verdicts("return 0; ls() { echo; }", "ls") == ["allowed", "denied"]


def test_of_a_command_that_broke_off_only_what_came_first_is_known() -> None:
    judgement = judge.judge("f() { echo; }; readonly x=1; x=2; ls() { echo; }")
    assert judgement.definitions.functions == {"f", "ls"}
    assert judgement.definitions_if_stopped.functions == {"f"}


@pytest.mark.parametrize("text", ["env kill 1", "exec true", "find . -exec test -f {} ;", "timeout 3 printf x"])
def test_a_program_named_like_a_builtin_must_be_listed_where_a_program_starts_it(text: str) -> None:
    assert verdicts(text) == ["denied"]
    assert verdicts("kill 1; true; bash -c 'test -f x; command printf x'") == ["allowed"]


def test_a_denied_name_stays_denied_as_a_function() -> None:
    strict = Judge(shell_rules(read_policy({"deny": ["ls"]}, "policy.json")), kernel=True)
    assert strict.judge("ls() { echo; }; ls").verdict == "denied"
