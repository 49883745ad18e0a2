"""A start that is judged as one program and loaded as another: the process ends before its first instruction."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.guard.policy.lists import ShellRules, entries
from shiftlog.shell.sandbox.judging import exec_rules, judge_spec
from shiftlog.shell.sandbox.sandbox import SandboxSpec
from tests.shell.sandbox.conftest import Shells, needs_broker
from tests.shell.sandbox.flipping import flipped

pytestmark = needs_broker()
Make = Callable[..., Shells]
TRIES = pytest.mark.parametrize("tries", [150, pytest.param(5000, marks=pytest.mark.guard)])
THREAD = pytest.mark.parametrize("process", [True, False], ids=["own process", "thread"])
NOTING = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = open(getenv("MARK"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    char line[256] = "%s";
    int length = %d;
    for (int i = 1; i < count; i++) length += strlen(strcat(strcat(line, " "), words[i]) + length);
    line[length] = '\n';
    write(file, line, length + 1);
}
"""
RACE_ARGUMENTS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char word[16];
static void *flip(void *_) {
    for (;;) { memcpy(word, "good", 5); usleep(rand() % 120); memcpy(word, "evil", 5); usleep(rand() % 120); }
}
int main(int argc, char **argv) {
    for (int i = atoi(argv[2]); i > 0; i--) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            srand(getpid());
            strcpy(word, "good");
            pthread_create(&thread, 0, flip, 0);
            usleep(rand() % 200);
            char *words[] = {"prog", word, 0};
            execv(argv[1], words);
            _exit(1);
        }
        waitpid(child, 0, 0);
    }
}
"""


REWRITE = """
import os, random, sys
texts = [open(name, "rb").read() for name in sys.argv[2:]]
while True:
    for text in texts:
        try:
            file = os.open(sys.argv[1], os.O_WRONLY)
        except OSError:  # it runs
            continue
        os.pwrite(file, text.ljust(max(map(len, texts)), b"\\0"), 0)
        os.close(file)
        for _ in range(random.randrange(800)):
            pass
"""


def _spec(shells: Shells, entry: str) -> SandboxSpec:
    rules = ShellRules(deny=entries((entry,), "operator", "deny"), path=shells.env["PATH"])
    return replace(shells.base, rules=exec_rules(rules), judge=judge_spec(rules))


def _program(place: Path, name: str, tmp_path: Path) -> Path:
    """Compile a program that notes its name and arguments in `$MARK`."""
    source = tmp_path / f"{name}.c"
    source.write_text(NOTING % (name, len(name)))
    _compile(source, place / name)
    return place / name


def _compile(source: Path, target: Path) -> None:
    subprocess.run(["cc", "-w", "-pthread", "-o", str(target), str(source)], check=True)


@pytest.fixture
def compiled(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")


@THREAD
@TRIES
def test_a_link_between_two_programs_starts_no_argument_that_is_denied(
    make_shells: Make, tmp_path: Path, compiled: None, process: bool, tries: int
) -> None:
    shells = make_shells("full-access", process=process)
    good, evil = (_program(shells.home, name, tmp_path) for name in ("good", "evil"))
    one, other, mark = shells.workspace / "one", shells.workspace / "other", shells.workspace / "mark"
    one.symlink_to(good)
    other.symlink_to(evil)
    shells.env |= {"PATH": f"{shells.home}:{shells.env['PATH']}", "MARK": str(mark)}
    with flipped(one, other, 0.0002):
        spec = _spec(shells, "evil --now")
        ran = shells.run(f"for i in $(seq {tries}); do ./one --now; done 2>/dev/null; :", spec, timeout=600)
    assert ran.code == 0, ran.err
    one.unlink()
    one.symlink_to(good)
    assert shells.run("./one --now", spec).code == 0  # the same program, once the link holds still
    ran_as = mark.read_text().split("\n")
    assert "good --now" in ran_as
    assert "evil --now" not in ran_as


@THREAD
@TRIES
def test_arguments_that_change_while_they_are_judged_reach_no_program(
    make_shells: Make, tmp_path: Path, compiled: None, process: bool, tries: int
) -> None:
    shells = make_shells("full-access", process=process)
    program, racer = _program(shells.home, "prog", tmp_path), shells.home / "racer"
    (tmp_path / "racer.c").write_text(RACE_ARGUMENTS)
    _compile(tmp_path / "racer.c", racer)
    mark = shells.workspace / "mark"
    shells.env |= {"PATH": f"{shells.home}:{shells.env['PATH']}", "MARK": str(mark)}
    ran = shells.run(f"{racer} {program} {tries}", _spec(shells, "prog evil"), timeout=600)
    assert ran.code == 0, ran.err
    ran_as = set(mark.read_text().split("\n"))
    assert "prog good" in ran_as
    assert "prog evil" not in ran_as


@pytest.fixture
def touching(make_shells: Make, tmp_path: Path) -> Generator[Callable[[str], list[str]]]:
    """Give a function that runs a text while `one` and `other` are exchanged; it returns the starts of `evil --now`."""
    shells = make_shells("full-access")
    for name in ("good", "evil"):
        _program(shells.home, name, tmp_path)
    mark = shells.workspace / "mark"
    mark.touch()
    shells.env |= {"PATH": f"{shells.home}:{shells.env['PATH']}", "MARK": str(mark)}

    def run(text: str) -> list[str]:
        ran = shells.run(text, _spec(shells, "evil --now"), timeout=600)
        assert ran.code == 0, ran.err
        return [line for line in mark.read_text().split("\n") if line.startswith("evil --now")]

    for name in ("one", "other"):
        (shells.workspace / name).write_text(f"#!{shells.home}/evil {'--now' if name == 'other' else '--later'}\n")
        (shells.workspace / name).chmod(0o755)
    with flipped(shells.workspace / "one", shells.workspace / "other", 0.0002):
        yield run


@TRIES
def test_a_script_whose_first_line_is_exchanged_gives_no_argument_that_is_denied(
    compiled: None, touching: Callable[[str], list[str]], tries: int
) -> None:
    assert touching(f"for i in $(seq {tries}); do ./one x; done 2>/dev/null; :") == []


@TRIES
def test_a_program_that_is_rewritten_in_its_place_is_not_another_one(
    compiled: None, touching: Callable[[str], list[str]], tries: int
) -> None:
    text = f"""
        cp $(command -v good) same
        {sys.executable} -I -c '{REWRITE}' same $(command -v good) $(command -v evil) &
        for i in $(seq {tries}); do ./same --now; done 2>/dev/null
        kill $!; :
    """
    assert touching(text) == []


@TRIES
def test_a_loader_opens_no_other_program_than_the_one_that_was_judged(
    compiled: None, touching: Callable[[str], list[str]], tries: int
) -> None:
    text = f"""
        rm -rf one other; ln -s $(command -v good) one; ln -s $(command -v evil) other
        for i in $(seq {tries}); do /lib64/ld-linux-x86-64.so.2 ./one --now; done 2>/dev/null; :
    """
    assert touching(text) == []


@THREAD
def test_scripts_loaders_and_failed_starts_work_as_before(make_shells: Make, process: bool) -> None:
    shells = make_shells("full-access", process=process)
    script = """
        printf '#!/bin/sh\\necho script "$@"\\n' > s && chmod +x s && ./s a 'b c'
        printf '#!/usr/bin/env -S sh -e\\necho env "$@"\\n' > e && chmod +x e && ./e x
        printf 'echo plain\\n' > p && chmod +x p && ./p
        /lib64/ld-linux-x86-64.so.2 /bin/echo loaded
        printf 'garbage\\0' > g && chmod +x g; ./g; echo "garbage $?"
        python3 -c 'import subprocess; print(subprocess.run(["/bin/echo", "from python"], capture_output=True).stdout)'
        (exec -a other /bin/echo renamed) | cat
        sh -c 'kill -STOP $$; echo went on' &
        while ! grep -q 'T (stopped)' /proc/$!/status; do :; done
        kill -CONT $!; wait
        xargs -n1 echo <<< 'one two'
    """
    ran = shells.run(script, _spec(shells, "evil --now"))
    assert ran.out.splitlines() == [
        "script a b c", "env x", "plain", "loaded", "garbage 126", "b'from python\\n'", "renamed", "went on",
        "one", "two",
    ], ran.err  # fmt: skip
