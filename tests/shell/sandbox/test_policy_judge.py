"""The policy's judge in the supervisor: every spelling of the policy's table, lists, argument rules and approvals."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.guard.policy.lists import ShellRules, entries
from shiftlog.shell.sandbox.judging import exec_rules, judge_spec
from shiftlog.shell.sandbox.sandbox import SandboxSpec
from tests.guard.policy.spellings import SPELLINGS
from tests.shell.sandbox.conftest import Shells, needs_broker, needs_confinement

pytestmark = [needs_broker(), needs_confinement()]
Make = Callable[..., Shells]


def _spec(shells: Shells, rules: ShellRules) -> SandboxSpec:
    return replace(shells.base, rules=exec_rules(rules), judge=judge_spec(rules))


@pytest.fixture
def marked(make_shells: Make, tmp_path: Path) -> tuple[Shells, Path, Path]:
    """A shell whose PATH begins with a directory of denied programs that leave a file behind."""
    shells = make_shells(process=True)
    programs, left = tmp_path / "programs", tmp_path / "left"
    programs.mkdir()
    mark = programs / "mark"
    mark.write_text(f"#!/bin/sh\n: > {left}\n")
    mark.chmod(0o755)
    shutil.copy("/usr/bin/touch", programs / "markbin")
    with (programs / "markbin").open("ab") as binary:
        binary.write(b"\0not the machine's own touch")
    shells.env["PATH"] = f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return shells, programs, left


def test_no_spelling_of_the_policy_table_runs_a_denied_program(marked: tuple[Shells, Path, Path]) -> None:
    shells, programs, left = marked
    rules = ShellRules(deny=entries(("mark", "markbin"), "shell", "deny"), path=shells.env["PATH"])
    spec = _spec(shells, rules)
    ways = {
        spelling.text: spelling.text.replace("@D@", str(programs)).replace("@F@", str(left))
        for spelling in SPELLINGS
        if all(shutil.which(program) is not None for program in spelling.needs)
    }
    assert len(ways) >= 150
    shells.make_places(len(ways))
    assert shells.run_each(ways, spec, f"[[ -e {left} ]] && rm -f {left}") == []


def test_programs_beside_a_denied_one_still_run(marked: tuple[Shells, Path, Path]) -> None:
    shells, programs, left = marked
    beside = programs / "beside"
    shutil.copy(programs / "mark", beside)
    beside.write_text(f"#!/bin/sh\necho ran > {left}\n")
    rules = ShellRules(deny=entries(("mark",), "shell", "deny"), path=shells.env["PATH"])
    shells.run("beside", _spec(shells, rules))
    assert left.read_text() == "ran\n"


def test_the_record_says_which_list_refused(make_shells: Make) -> None:
    shells = make_shells(process=True)
    path = shells.env["PATH"]
    operator = ShellRules(deny=entries(("ls",), "operator", "deny"), path=path)
    assert [start.reason for start in shells.run("x=ls; $x", _spec(shells, operator)).starts] == [
        "blocked by operator policy: 'ls' is denylisted"
    ]
    shell = ShellRules(allow=(entries(("git",), "shell", "allow"),), path=path)
    ran = shells.run("x=ls; $x; git --version", _spec(shells, shell))
    assert [(start.program, start.verdict, start.reason) for start in ran.starts] == [
        ("ls", "denied", "blocked by policy: 'ls' not in allowlist"),
        ("git", "allowed", None),
    ]


def test_several_allow_lists_permit_what_is_in_all_of_them(make_shells: Make) -> None:
    shells = make_shells(process=True)
    lists = (entries(("cat", "git", "sed"), "operator", "allow"), entries(("cat", "sed", "ls"), "shell", "allow"))
    rules = ShellRules(allow=lists, path=shells.env["PATH"])
    ran = shells.run("echo hi | cat | sed s/h/H/; git --version; echo $?; ls; echo $?", _spec(shells, rules))
    assert ran.out == "Hi\n126\n126\n"


def test_an_argument_rule_is_judged_after_expansion(make_shells: Make) -> None:
    shells = make_shells(process=True)
    rules = ShellRules(deny=entries(("git push --force",), "operator", "deny"), path=shells.env["PATH"])
    ran = shells.run('a=(push --force); git "${a[@]}"; echo $?; git push 2>/dev/null; echo $?', _spec(shells, rules))
    assert ran.out == "126\n128\n"


def test_what_must_be_asked_is_refused_until_it_is_permitted(make_shells: Make) -> None:
    shells = make_shells(process=True)
    rules = ShellRules(ask=entries(("ls",), "operator", "ask"), path=shells.env["PATH"])
    launch = shells.sandbox.prepare(_spec(shells, rules))
    assert launch is not None
    (shells.workspace / "seen").touch()
    wrapped = launch.wrap(["bash", "-c", "while read -r; do ls; echo $?; done"], shells.env, str(shells.workspace))
    with subprocess.Popen(
        wrapped.argv,
        env=wrapped.env,
        pass_fds=wrapped.pass_fds,
        cwd=shells.workspace,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        launch.started()
        said: list[str] = []
        for entries_now, lines in (((), 1), (("ls",), 2), ((), 1)):
            launch.permit(entries_now)
            shell.stdin.write("go\n")
            said += [shell.stdout.readline().strip() for _ in range(lines)]
        shell.stdin.close()
    launch.close()
    assert said == ["126", "seen", "0", "126"]
