"""Program starts as the kernel reports them: links, copies, loaders, applets and scripts are what they are."""

import os
import shutil
from pathlib import Path

import pytest

from shiftlog.guard.policy.files import LocalFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, read_policy, shell_rules

LOADERS = [path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if Path(path).exists()]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    shutil.copy("/bin/cat", binaries / "tool")
    shutil.copy("/bin/true", binaries / "other")
    return tmp_path


def judge_in(place: Path, *, deny: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Judge:
    path = f"{place}/bin:/usr/bin:/bin"
    return Judge(shell_rules(OperatorPolicy(), deny=deny, allow=allow, path=path), kernel=True, files=LocalFiles(path))


def test_a_denied_program_is_denied_by_name_link_hard_link_and_copy(place: Path) -> None:
    judge = judge_in(place, deny=("tool",))
    (place / "link").symlink_to(place / "bin" / "tool")
    os.link(place / "bin" / "tool", place / "hard")
    shutil.copy(place / "bin" / "tool", place / "copy")
    for path in ("bin/tool", "link", "hard", "copy"):
        found = judge.judge_start(str(place / path), ["anything"], cwd="/")
        assert (found.verdict, found.list, found.entry) == ("denied", "deny", "tool"), path
    assert judge.judge_start("copy", ["x"], cwd=str(place)).verdict == "denied"
    assert judge.judge_start(str(place / "bin" / "other"), ["other"]).verdict == "allowed"


@pytest.mark.skipif(not LOADERS, reason="needs a known dynamic loader")
def test_a_loader_is_judged_as_the_program_it_is_given(place: Path) -> None:
    judge = judge_in(place, deny=("tool",))
    tool, other = str(place / "bin" / "tool"), str(place / "bin" / "other")
    assert judge.judge_start(LOADERS[0], ["ld.so", tool]).verdict == "denied"
    assert judge.judge_start(LOADERS[0], ["ld.so", "--library-path", "/lib", tool, "x"]).verdict == "denied"
    assert judge.judge_start(LOADERS[0], ["ld.so", other]).verdict == "allowed"


def test_a_multi_call_binary_is_judged_by_its_applet(place: Path) -> None:
    box = place / "bin" / "busybox"
    shutil.copy("/bin/echo", box)
    (place / "bin" / "nc").symlink_to(box)
    (place / "bin" / "wc").symlink_to(box)
    judge = judge_in(place, deny=("nc",))
    assert judge.judge_start(str(box), ["busybox", "nc", "-l"]).verdict == "denied"
    assert judge.judge_start(str(box), ["busybox", "wc"]).verdict == "allowed"
    assert judge.judge_start(str(place / "bin" / "nc"), ["nc"]).verdict == "denied"
    assert judge.judge_start(str(place / "bin" / "wc"), ["wc"]).verdict == "allowed"


def test_a_script_is_judged_with_its_interpreter_and_an_interpreter_with_its_script(place: Path) -> None:
    script = place / "deploy.sh"
    script.write_text(f"#!{place}/bin/tool -x\n")
    script.chmod(0o755)
    assert judge_in(place, deny=("tool",)).judge_start(str(script), ["deploy.sh"]).verdict == "denied"
    assert judge_in(place, deny=("deploy.sh",)).judge_start("/bin/sh", ["sh", str(script)]).verdict == "denied"
    assert judge_in(place, deny=("other",)).judge_start(str(script), ["deploy.sh"]).verdict == "allowed"


def test_argument_rules_hold_for_real_arguments(place: Path) -> None:
    judge = judge_in(place, deny=("tool push --force",))
    tool = str(place / "bin" / "tool")
    assert judge.judge_start(tool, ["tool", "push", "origin", "--force"]).entry == "tool push --force"
    assert judge.judge_start(tool, ["tool", "push", "origin"]).verdict == "allowed"


def test_under_an_allow_list_only_listed_files_start(place: Path) -> None:
    judge = judge_in(place, allow=("tool",))
    assert judge.judge_start(str(place / "bin" / "tool"), ["tool"]).verdict == "allowed"
    assert judge.judge_start(str(place / "bin" / "other"), ["tool"]).verdict == "denied"
    shutil.copy("/bin/true", place / "tool")
    assert judge.judge_start(str(place / "tool"), ["tool"]).list == "allow"


def test_the_interpreter_of_a_listed_script_may_start(place: Path) -> None:
    script = place / "bin" / "job"
    script.write_text("#!/usr/bin/env other\n")
    script.chmod(0o755)
    judge = judge_in(place, allow=("job",))
    assert judge.judge_start(str(script), ["job"]).verdict == "allowed"
    assert judge.judge_start(str(place / "bin" / "other"), ["other", str(script)]).verdict == "allowed"
    assert judge.judge_start(str(place / "bin" / "tool"), ["tool"]).verdict == "denied"


def test_dangerous_rules_and_ask_hold_for_starts_too() -> None:
    policy = read_policy({"ask": ["git push"]}, "policy.json")
    judge = Judge(shell_rules(policy), kernel=True, files=LocalFiles())
    assert judge.judge_start("/bin/rm", ["rm", "-rf", "/"]).entry == "rm -rf"
    assert judge.judge_start("/bin/rm", ["rm", "-rf", "build"]).verdict == "allowed"
    assert judge.judge_start("/usr/bin/git", ["git", "push"]).verdict == "asked"
