"""Lists: which program an entry means, whose rule it is, and what the refusal says."""

import os
import shutil
from pathlib import Path

import pytest

from shiftlog.guard.policy.explain import explain
from shiftlog.guard.policy.files import LocalFiles, NoFiles
from shiftlog.guard.policy.found import Definitions
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, combine, read_policy, shell_rules
from shiftlog.model.shell_errors import PolicyDenied, PolicyUndecidable

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def judge_with(
    *, deny: tuple[str, ...] = (), allow: tuple[str, ...] = (), path: str = SYSTEM_PATH, kernel: bool = True
) -> Judge:
    return Judge(
        shell_rules(OperatorPolicy(), deny=deny, allow=allow, path=path), kernel=kernel, files=LocalFiles(path)
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("tool", "other"):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\necho {name}\n")
        script.chmod(0o755)
    return tmp_path


def test_a_denied_name_is_denied_by_any_path_with_that_name_and_any_link_to_it(programs: Path) -> None:
    (programs / "alias").symlink_to(programs / "bin" / "tool")
    os.link(programs / "bin" / "tool", programs / "hard")
    judge = judge_with(deny=("tool",), path=f"{programs}/bin")
    for text in ("tool", "./tool", "/nowhere/tool", "./alias", f"{programs}/alias", "./hard", "bin/../hard"):
        assert judge.judge(text, cwd=str(programs)).verdict == "denied", text
    assert judge.judge("./other", cwd=f"{programs}/bin").verdict == "allowed"


def test_an_allowed_name_permits_the_bare_name_and_that_very_file_only(programs: Path) -> None:
    (programs / "git").write_text("#!/bin/sh\n")
    judge = judge_with(allow=("tool",), path=f"{programs}/bin")
    assert judge.judge("tool").verdict == "allowed"
    assert judge.judge(f"{programs}/bin/tool").verdict == "allowed"
    assert judge.judge("bin/../bin/tool", cwd=str(programs)).verdict == "allowed"
    assert judge.judge("./tool", cwd=str(programs)).verdict == "denied"
    assert judge.judge("other").verdict == "denied"


def test_entries_with_a_slash_mean_that_file(programs: Path) -> None:
    path = f"{programs}/bin"
    denied = judge_with(deny=(f"{path}/tool",), path=path)
    assert denied.judge("tool").verdict == "denied"
    assert denied.judge("/elsewhere/tool").verdict == "allowed"
    allowed = judge_with(allow=(f"{path}/tool",), path=path)
    assert allowed.judge("tool").verdict == "allowed"
    assert allowed.judge("other").verdict == "denied"


def test_without_files_to_look_at_a_path_is_never_taken_for_an_allowed_name() -> None:
    judge = Judge(shell_rules(OperatorPolicy(), allow=["git"]), kernel=False, files=NoFiles())
    assert judge.judge("git status").verdict == "allowed"
    assert judge.judge("/usr/bin/git status").verdict == "denied"


def test_being_the_same_multi_call_binary_means_nothing(tmp_path: Path) -> None:
    box = tmp_path / "busybox"
    shutil.copy("/bin/true", box)
    (tmp_path / "cat").symlink_to(box)
    (tmp_path / "nc").symlink_to(box)
    judge = judge_with(deny=("nc",), path=str(tmp_path))
    assert judge.judge("cat f").verdict == "allowed"
    assert judge.judge("busybox nc").verdict == "denied"


@pytest.mark.parametrize(
    "text", ["git push --force", "git push origin main --force", "git -C x push --force", "sudo git push --force"]
)
def test_an_entry_of_several_words_needs_all_of_them(text: str) -> None:
    judge = judge_with(deny=("git push --force",))
    found = judge.judge(text)
    assert found.violations[0].message == "blocked by policy: 'git push --force' is denylisted"
    assert judge.judge("git push origin main").verdict == "allowed"
    assert judge.judge("git log --force").verdict == "allowed"


def test_an_allow_entry_of_several_words_permits_nothing_and_the_refusal_says_how_to_write_it() -> None:
    judge = judge_with(allow=("git status", " make "))
    found = judge.judge("git status")
    with pytest.raises(PolicyDenied) as caught:
        raise found.violations[0].as_error()
    said = "An allow entry names a program alone: write 'git' instead of 'git status' "
    said += "(further words count in deny and ask)"
    assert (caught.value.message, caught.value.hint) == ("blocked by policy: 'git' not in allowlist", said)
    assert said in explain(judge, "git status").tokens[0].reasons
    assert judge.judge("npm ci").violations[0].hint is None
    assert judge.judge("make").verdict == "allowed"


def test_an_argument_that_may_complete_an_entry_is_undecidable_only_without_the_kernel() -> None:
    text = 'git push "$FLAG"'
    assert judge_with(deny=("git push --force",)).judge(text).verdict == "allowed"
    assert judge_with(deny=("git push --force",), kernel=False).judge(text).verdict == "undecidable"
    assert judge_with(deny=("git push --force",), kernel=False).judge('git push "origin/$B"').verdict == "allowed"
    assert judge_with(deny=("git push --force",), kernel=False).judge('git commit -m "$M"').verdict == "allowed"


def test_the_operators_deny_beats_a_shells_allow_and_says_whose_it_is() -> None:
    """Case 37."""
    policy = read_policy({"deny": ["curl"]}, "policy.json")
    judgement = Judge(shell_rules(policy, allow=["curl"]), kernel=True, files=LocalFiles()).judge("curl -V")
    with pytest.raises(PolicyDenied) as caught:
        raise judgement.violations[0].as_error()
    assert caught.value.message == "blocked by operator policy: 'curl' is denylisted"
    assert caught.value.details == {
        "source": "operator",
        "list": "deny",
        "entry": "curl",
        "program": "curl",
        "via": [],
        "line": 1,
        "column": 1,
    }


def test_allow_lists_are_intersected_and_the_one_that_lacks_the_program_is_named() -> None:
    policy = combine(read_policy({"allow": ["git", "make"]}, "a"), read_policy({"allow": ["git", "npm"]}, "b"))
    judge = Judge(shell_rules(policy, allow=["git", "make", "npm", "cat"]), kernel=True, files=LocalFiles())
    assert judge.judge("git status").verdict == "allowed"
    assert judge.judge("make").violations[0].message == "blocked by operator policy: 'make' not in allowlist"
    assert judge.judge("cat f").violations[0].source == "operator"
    own = Judge(shell_rules(OperatorPolicy(), allow=["git"]), kernel=True, files=LocalFiles())
    assert own.judge("make").violations[0].message == "blocked by policy: 'make' not in allowlist"


def test_all_violations_are_found_and_the_first_in_the_text_is_raised() -> None:
    judgement = judge_with(deny=("ls", "nc")).judge("echo hi\ntimeout 5 sudo nc x; ls")
    assert [(violation.program, violation.line, violation.column) for violation in judgement.violations] == [
        ("nc", 2, 16),
        ("ls", 2, 22),
    ]
    assert judgement.violations[0].via == ("timeout", "sudo")
    undecided = judge_with(deny=("ls",), kernel=False).judge("$x; ls")
    with pytest.raises(PolicyUndecidable) as caught:
        raise undecided.violations[0].as_error()
    assert caught.value.message == "blocked by policy: the program '$x' cannot be decided before it runs"
    assert caught.value.details == {"what": "the program '$x'", "text": "$x", "line": 1, "column": 1}


def test_ask_comes_after_deny_and_names_the_program() -> None:
    policy = read_policy({"ask": ["git push", "docker"], "deny": ["git push --force"]}, "policy.json")
    judge = Judge(shell_rules(policy), kernel=True, files=LocalFiles())
    asked = judge.judge("git push origin && docker ps")
    assert asked.verdict == "asked"
    assert [ask.message for ask in asked.asks] == ["needs approval: 'git push'", "needs approval: 'docker'"]
    assert judge.judge("git push --force").verdict == "denied"


def test_deny_patterns_match_the_raw_text_and_are_numbered() -> None:
    policy = read_policy({"deny_patterns": ["zzz", r"(?i)drop\s+table"]}, "policy.json")
    found = Judge(shell_rules(policy), kernel=True).judge('echo hi\npsql -c "é DROP table x"')
    assert found.verdict == "denied"
    assert found.violations[0].message == "blocked by operator policy: matches deny pattern 2"
    assert (found.violations[0].line, found.violations[0].column) == (2, 12)


def test_functions_judged_before_may_be_called_under_an_allow_list_unless_denied_or_unset() -> None:
    judge = judge_with(allow=("echo", "git"), kernel=False)
    defined = judge.judge("build() { git status; }")
    assert defined.verdict == "allowed"
    assert judge.judge("build", defined.definitions).verdict == "allowed"
    assert judge.judge("build").verdict == "denied"
    assert judge.judge("unset -f build; build", defined.definitions).verdict == "denied"
    assert judge.judge("false && curl() { :; }; curl x").verdict == "denied"
    named = Judge(shell_rules(OperatorPolicy(), deny=["curl"]), kernel=True, files=LocalFiles())
    assert named.judge("curl", Definitions(functions=frozenset({"curl"}))).verdict == "denied"


def test_an_alias_of_an_earlier_command_is_expanded_with_its_arguments() -> None:
    judge = judge_with(deny=("ls",))
    known = judge.judge("alias run='env A=1'").definitions
    assert judge.judge("run ls", known).verdict == "denied"
    assert judge.judge("run date", known).verdict == "allowed"


@pytest.mark.parametrize(
    "text",
    [
        "export LD_PRELOAD=./x.so",
        "BASH_ENV=x git status",
        "for PATH in x; do git x; done",
        "read PATH",
        "((PATH=1))",
        "((x = PATH <<= 1))",
        "((--PATH))",
        "let 'PATH = 1'",
        "true $((PATH++)) $[PATH]",
        "for ((PATH=1;;)); do git x; done",
        "a[PATH=1]=2",
        "a=([PATH=1]=2)",
        "true ${a[PATH=1]}",
        "x=abc; true ${x:PATH=1}",
        "read 'a[PATH=1]'",
        "declare -i x=PATH=1",
        "[[ PATH=1 -eq 1 ]]",
        "coproc PATH { git x; }",
        "true {PATH}>/dev/null",
        "true ${LD_PRELOAD:=./x.so}",
        "printf -v 'PATH[0]' x",
        "printf -v $x y",
        "read -r $x",
        "read -a$x",
        "mapfile -t $x",
        "getopts x $x",
        "wait -n -p $x",
        "unset $x",
    ],
)
def test_under_an_allow_list_changing_how_programs_are_found_is_left_to_the_kernel(text: str) -> None:
    assert judge_with(allow=("git",)).judge(text).verdict == "deferred"
    assert judge_with(allow=("git",), kernel=False).judge(text).verdict == "undecidable"
    assert judge_with(deny=("nc",)).judge(text).verdict == "allowed"


@pytest.mark.parametrize(
    "text",
    [
        "jobs -x mark",
        "hash -lp /bin/mark git",
        "b['$(mark)']=1",
        "echo ${b['$(mark)']}",
        "declare -i 'a=b[$(mark)]'",
        "declare -a b='($(mark))'",
        "a='b[$(mark)]'; echo $((a))",
        "for PS4 in '$(mark)'; do set -x; :; done",
        "mapfile -t PATH < f",
        "unset PS4; true ${PS4:='$(mark)'}; set -x; :",
        "coproc b[$(mark)] { :; }",
        "GIT_PAGER=mark git log",
        "true ${GIT_PAGER:=mark}; export GIT_PAGER; git log",
        "export GIT_SSH_COMMAND='mark -i key'",
    ],
)
def test_an_allow_list_holds_where_only_text_is_checked_for_what_bash_or_a_setting_starts(text: str) -> None:
    judge = Judge(shell_rules(OperatorPolicy(), allow=["echo", "git"]), kernel=False, files=NoFiles())
    assert judge.judge(text).verdict in ("denied", "undecidable")


@pytest.mark.parametrize(
    "text",
    [
        "&>f echo hi",
        "if &>>f git; then :; fi",
        "GIT_PAGER=git git log",
        "m['a']=1; echo ${m['a']}",
        "jobs -l",
        "for ((i=0; i<3; i++)); do echo $i $((i == PATH)); done",
        "echo ${line#PATH=} ${x:-PATH=1} ${PATH:0:5} ${#PATH} ${x:=5}",
        'IFS=: read -r -p "$p" -t $t -a parts <<< "$PATH"',
        'wait $! $p; unset a[$i]; getopts "$o" opt; mapfile -n $n lines; printf -v x %s y',
        "exec {fd}>x; coproc X { git log; }; coproc git log",
        "[[ $x == PATH=1 ]]",
    ],
)
def test_an_allow_list_permits_where_only_text_is_checked_what_starts_listed_programs(text: str) -> None:
    judge = Judge(shell_rules(OperatorPolicy(), allow=["echo", "git"]), kernel=False, files=NoFiles())
    assert judge.judge(text).verdict == "allowed"


@pytest.mark.parametrize(
    "text",
    [
        "strace -f -o '|ls' true",
        "strace -fo '!ls' true",
        "strace --output='|ls -l' true",
        'strace -o "$x" true',
        "curl -fsSLo x.sh u && sh x.sh",
        "curl u --output ./x && bash x",
        "curl -LO http://h/a/x.sh?y; . ./x.sh",
        "wget -qO x u; sh < x",
        "wget http://h/x; sh x",
    ],
)
def test_a_deny_list_holds_where_only_text_is_checked_for_traces_in_pipes_and_scripts_just_loaded(text: str) -> None:
    judge = Judge(shell_rules(OperatorPolicy(), deny=["ls"]), kernel=False, files=NoFiles())
    assert judge.judge(text).verdict in ("denied", "undecidable")


@pytest.mark.parametrize(
    "text", ["strace -f -o trace true", "curl -o x.tar.gz u; sh build.sh", "wget -q http://h/x; cat x", "curl u | cat"]
)
def test_other_traces_and_downloads_pass_a_deny_list(text: str) -> None:
    judge = Judge(shell_rules(OperatorPolicy(), deny=["ls"]), kernel=False, files=NoFiles())
    assert judge.judge(text).verdict == "allowed"


def test_the_name_of_a_shell_in_a_setting_is_no_text_that_it_reads() -> None:
    judge = Judge(shell_rules(OperatorPolicy(), deny=["ls"]), kernel=False, files=NoFiles())
    assert judge.judge("SHELL=/bin/bash git status").verdict == "allowed"
