"""The exec broker: a denied program runs by no spelling, every start is recorded, and nothing fails open."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.shell.sandbox import kernel
from shiftlog.shell.sandbox.sandbox import ALLOW_ALL, ExecRules, JudgeSpec
from tests.shell.sandbox.conftest import JUDGE, Shells, needs_broker
from tests.shell.sandbox.spellings import WAYS

pytestmark = needs_broker()
Make = Callable[..., Shells]


LISTS = "[[ $said == *LISTED* ]]"


def _prepare(shells: Shells) -> None:
    shutil.copy("/bin/ls", shells.workspace / "copied-before")
    for place in shells.make_places(len(WAYS)):
        (place / "LISTED").touch()
        os.link(shells.workspace / "copied-before", place / "copied-before")


def test_the_spellings_work_in_plain_bash(make_shells: Make) -> None:
    shells = make_shells()
    _prepare(shells)
    silent: list[str] = []
    for number, (name, way) in enumerate(WAYS.items()):
        done = subprocess.run(
            ["bash", "-c", way],
            cwd=shells.workspace / f"way{number}",
            env=shells.env,
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if "LISTED" not in done.stdout:
            silent.append(name)
    assert len(WAYS) - len(silent) >= 75, silent


@pytest.mark.parametrize("mode", ["full-access", "workspace-write"])
def test_a_denied_program_runs_by_no_spelling(make_shells: Make, mode: str) -> None:
    shells = make_shells(mode)
    _prepare(shells)
    assert shells.run_each(WAYS, shells.denying("ls"), LISTS) == []


@pytest.mark.long
def test_the_broker_alone_knows_links_copies_loaders_and_applets(make_shells: Make) -> None:
    """A kernel without Landlock."""
    shells = make_shells()
    _prepare(shells)
    shells.sandbox.capabilities = replace(shells.sandbox.capabilities, landlock_abi=0)
    assert shells.run_each(WAYS, shells.denying("ls"), LISTS) == []


def test_a_denied_program_gets_126_and_is_named(make_shells: Make) -> None:
    """Acceptance case 36: `x=ls; $x /` gets 126 and `programs` names ls denied."""
    shells = make_shells()
    ran = shells.run("x=ls; $x /; echo $?", shells.denying("ls"))
    assert (ran.out, ran.verdicts("ls")) == ("126\n", ["denied"])


def test_a_program_started_from_python_is_refused(make_shells: Make) -> None:
    """Acceptance case 35: no listing, and both layers are named."""
    shells = make_shells()
    spec = shells.denying("ls")
    ran = shells.run("python3 -c \"import os; os.system('ls /')\"", spec)
    assert ran.out == ""
    assert shells.sandbox.enforcement(spec) == ("syntax+kernel", None)


def test_a_copy_lists_nothing(make_shells: Make) -> None:
    """Acceptance case 36: `cp /bin/ls x && ./x`."""
    shells = make_shells()
    (shells.workspace / "seen").touch()
    assert "seen" not in shells.run("cp /bin/ls x && ./x", shells.denying("ls")).out


def test_an_argument_rule_holds_for_copies_and_spares_other_arguments(make_shells: Make) -> None:
    shells = make_shells()
    spec = shells.denying("git push --force")
    ran = shells.run(
        "git --version; cp $(command -v git) g; ./g push --force; echo $?; git push -n --force; echo $?", spec
    )
    assert ran.out.splitlines()[1:] == ["126", "126"]
    assert ran.out.startswith("git version")


def test_an_allow_list_lets_only_listed_programs_start(make_shells: Make) -> None:
    shells = make_shells()
    ran = shells.run("echo hi | cat; grep x y; echo $?; /bin/true; echo $?", shells.allowing("cat"))
    assert ran.out == "hi\n126\n126\n"


def test_an_allow_list_lends_a_listed_script_its_interpreter_only(make_shells: Make, tmp_path: Path) -> None:
    shells = make_shells()
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, first in (("tool", "#!/usr/bin/env python3"), ("direct", "#!/usr/bin/perl")):
        script = bin_dir / name
        script.write_text(f"{first}\nprint('{name} ran')\n")
        script.chmod(0o755)
    shells.env["PATH"] = f"{bin_dir}:/usr/bin:/bin"
    ran = shells.run(
        "tool; direct; python3 -c 'print(1)'; perl -e 'print 2'; env true; echo", shells.allowing("tool", "direct")
    )
    assert ran.out == "tool ran\ndirect ran\n", ran.err
    assert ran.verdicts("python3")[-1:] == ["denied"]


def test_starts_are_recorded_in_order_with_arguments_and_parents(make_shells: Make) -> None:
    shells = make_shells()
    ran = shells.run("true; /bin/echo a b; sh -c '/bin/echo c; /bin/true'; ls", shells.denying("ls"))
    seen = [(start.program, start.argv[1:], start.verdict) for start in ran.starts]
    assert seen[:3] == [
        ("echo", ("a", "b"), "allowed"),
        ("sh", ("-c", "/bin/echo c; /bin/true"), "allowed"),
        ("echo", ("c",), "allowed"),
    ]
    assert seen[-1][::2] == ("ls", "denied")
    nested = ran.starts[2]
    assert len(nested.parents) == len(ran.starts[1].parents) + 1
    assert ran.starts[1].pid in nested.parents


def test_many_long_arguments_are_judged_whole_and_recorded_cut(make_shells: Make) -> None:
    shells = make_shells()
    spec = shells.denying("git push --force")
    padding = "git push $(printf -- '-n%.0s ' {1..20000}) --force; echo $?"
    ran = shells.run(padding, spec)
    start = ran.starts[-1]
    assert (ran.out, start.argv_total) == ("126\n", 20003)
    assert sum(map(len, start.argv)) <= 8192


def test_a_missing_program_is_missing_and_not_denied(make_shells: Make) -> None:
    shells = make_shells()
    ran = shells.run("./nothing; echo $?; no-such-program; echo $?; /etc; echo $?", shells.denying("ls"))
    assert ran.out == "127\n127\n126\n"


def test_processes_that_die_while_they_wait_do_no_harm(make_shells: Make) -> None:
    shells = make_shells(process=True)
    spec = replace(shells.denying("ls"), judge=ALLOW_ALL)
    script = "for i in {1..200}; do (exec /bin/true) & kill -9 $! 2>/dev/null; done; wait; /bin/echo still here"
    ran = shells.run(script, spec)
    assert ran.out == "still here\n"


def test_interrupted_programs_start_all_the_same(make_shells: Make) -> None:
    """Signals during a start, as Go and bash send them, must not surface as failures."""
    shells = make_shells()
    script = (
        "trap : USR1; (while kill -USR1 $$ 2>/dev/null; do :; done) & k=$!; n=0; "
        "for i in {1..100}; do /bin/true && n=$((n+1)); done; kill $k; echo $n"
    )
    assert shells.run(script, shells.denying("ls")).out == "100\n"


def test_starts_fail_closed_when_the_supervisor_is_killed(make_shells: Make) -> None:
    shells = make_shells(process=True)
    spec = replace(shells.denying("ls"), judge=ALLOW_ALL)
    launch = shells.sandbox.prepare(spec)
    assert launch is not None
    wrapped = launch.wrap(["bash", "-c", "/bin/echo before; read -r; /bin/echo after; echo $?"], shells.env, "/")
    with subprocess.Popen(
        wrapped.argv,
        env=wrapped.env,
        pass_fds=wrapped.pass_fds,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        launch.started()
        assert shell.stdout.readline() == "before\n"
        supervisor = shells.sandbox.supervision.process
        assert supervisor is not None
        supervisor.kill()
        supervisor.wait()
        out, _ = shell.communicate("go\n", timeout=20)
    launch.close()
    assert "after" not in out
    assert out.strip() == "126"


def test_a_shell_after_a_killed_supervisor_gets_a_new_one(make_shells: Make) -> None:
    shells = make_shells(process=True)
    spec = replace(shells.denying("ls"), judge=ALLOW_ALL)
    assert shells.run("/bin/echo one", spec).out == "one\n"
    supervisor = shells.sandbox.supervision.process
    assert supervisor is not None
    supervisor.kill()
    supervisor.wait()
    assert shells.run("/bin/echo two; ls", spec).out == "two\n"


def test_a_judge_that_cannot_be_made_starts_no_shell(make_shells: Make) -> None:
    shells = make_shells()
    broken = JudgeSpec(factory="tests.shell.sandbox.judges:BrokenJudge")
    ran = shells.run("echo never", replace(shells.denying("ls"), judge=broken))
    assert (ran.code, ran.out) == (125, "")
    assert "supervisor" in ran.err


def test_one_supervisor_serves_many_shells_by_their_own_rules(make_shells: Make) -> None:
    shells = make_shells(process=True)
    plain = replace(shells.base, rules=ExecRules(deny=("nothing-here",)))
    denying = replace(shells.denying("ls"), judge=ALLOW_ALL)
    first = shells.sandbox.supervision.process
    assert "etc" in shells.run("ls /", plain).out
    assert shells.run("ls /", denying).out == ""
    assert shells.sandbox.supervision.process is first


def test_the_supervisor_cannot_be_traced_or_read(make_shells: Make) -> None:
    shells = make_shells(process=True)
    spec = replace(shells.denying("ls"), judge=ALLOW_ALL)
    process = shells.sandbox.supervision.process
    assert process is not None
    script = f"""python3 - <<'END'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("ptrace", libc.ptrace(16, {process.pid}, 0, 0))
print("traceme", libc.ptrace(0, 0, 0, 0))
try:
    open("/proc/{process.pid}/mem", "r+b")
    print("opened")
except OSError:
    print("refused")
END"""
    assert shells.run(script, spec).out == "ptrace -1\ntraceme -1\nrefused\n"


def test_set_uid_gains_nothing(make_shells: Make, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a set-uid file of another user")
    copy = tmp_path / "id"
    shutil.copy("/usr/bin/id", copy)
    os.chown(copy, 65534, 65534)
    copy.chmod(0o4755)
    tmp_path.chmod(0o755)
    assert subprocess.run([copy, "-u"], capture_output=True, text=True, check=True).stdout == "65534\n"
    shells = make_shells()
    ran = shells.run(f"{copy} -u; grep NoNewPrivs /proc/self/status", shells.denying("ls"))
    assert ran.out.split() == ["0", "NoNewPrivs:", "1"]


def test_programs_of_another_architecture_set_are_ended(make_shells: Make) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("x32 and i386 calls exist on x86_64 only")
    shells = make_shells()
    # execve under its x32 number: refused before anybody asks.
    script = (
        "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); "
        "l.syscall(0x40000000 + 520, 0, 0, 0); print(ctypes.get_errno())'"
    )
    assert shells.run(script, shells.denying("ls")).out == "38\n"


def test_pipes_break_quietly_as_in_a_plain_shell(make_shells: Make) -> None:
    """The launcher is a Python program and must not leave SIGPIPE ignored behind."""
    shells = make_shells()
    ran = shells.run('yes | head -1; echo "${PIPESTATUS[0]}"', shells.denying("ls"))
    assert (ran.out, ran.err) == (f"y\n{128 + signal.SIGPIPE}\n", "")


def test_what_an_agent_puts_into_the_environment_acts_only_inside(make_shells: Make, tmp_path: Path) -> None:
    """LD_PRELOAD must reach the shell and never the launcher, which is not yet confined."""
    shells = make_shells("workspace-write")
    marker = tmp_path / "marker"
    shells.env |= {"BASH_ENV": str(tmp_path / "env.sh"), "PYTHONPATH": str(tmp_path), "LD_PRELOAD": "/nonexistent.so"}
    (tmp_path / "env.sh").write_text(f"echo x > {marker}; echo env ran\n")
    (tmp_path / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')\n")
    ran = shells.run("echo $LD_PRELOAD")
    assert ran.out == "env ran\n/nonexistent.so\n"
    assert not marker.exists()


def test_names_only_judge_is_reached_with_the_path_as_started(make_shells: Make) -> None:
    shells = make_shells()
    judge = JudgeSpec(factory=JUDGE, options={"deny": ["innocent"]})
    spec = replace(shells.denying("nothing"), judge=judge)
    ran = shells.run("ln -s /bin/true innocent; ./innocent; echo $?; /bin/true; echo $?", spec)
    assert ran.out == "126\n0\n"


def test_a_judge_that_fails_refuses_the_start_and_the_next_is_judged_again(make_shells: Make) -> None:
    shells = make_shells()
    judge = JudgeSpec(factory="tests.shell.sandbox.judges:FailingJudge")
    ran = shells.run("/bin/true; echo $?; /bin/echo fine", replace(shells.denying("nothing"), judge=judge))
    assert ran.out == "126\nfine\n"


def test_a_kernel_without_killable_waits_serves_as_well(make_shells: Make) -> None:
    shells = make_shells()
    shells.sandbox.capabilities = replace(shells.sandbox.capabilities, filter_flags=kernel.FILTER_FLAG_NEW_LISTENER)
    ran = shells.run("for i in {1..50}; do /bin/true || echo failed; done; ls; echo $?", shells.denying("ls"))
    assert ran.out == "126\n"
