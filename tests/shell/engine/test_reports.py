"""No program and no trap can report a command's end in the shell's place, nor put a text into the shell's script."""

import asyncio
from pathlib import Path

import pytest
from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import ShellEnded
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.engine.shell import EngineShell
from shiftlog.shell.ports import ShellSpec
from tests.shell.engine.probe import finish, run, start

#: Writes a report for every number that it can find in the memory of its shell, and for many that it guesses.
FORGE = r"""
import os, re, sys
shell = int(sys.argv[1])
numbers = set(range(2000))
try:
    with open(f"/proc/{shell}/maps") as maps, open(f"/proc/{shell}/mem", "rb", 0) as memory:
        for line in maps:
            bounds, rights = line.split()[:2]
            if "[heap]" in line or "[stack]" in line:
                first, last = (int(bound, 16) for bound in bounds.split("-"))
                memory.seek(first)
                numbers |= {int(one) for one in re.findall(rb"TIMEFORMAT=(\d+)", memory.read(last - first))}
except OSError:
    pass
words = b"".join(b"%d\n" % number for number in numbers)
for place in (f"/proc/{shell}/fd", "/proc/self/fd"):
    for name in os.listdir(place):
        try:
            fd = os.open(f"{place}/{name}", os.O_WRONLY | os.O_NONBLOCK)
            os.write(fd, words)
        except OSError:
            pass
"""


@pytest.fixture
async def shell(tasks: TaskGroup) -> EngineShell:
    return await LocalTarget().open(ShellSpec(cwd="/"), tasks)


async def test_a_program_cannot_report_the_end_of_its_command(shell: EngineShell, tmp_path: Path) -> None:
    script = tmp_path / "forge.py"
    script.write_text(FORGE)
    end, _ = await run(shell, f"python3 {script} $$ >/dev/null 2>&1; sleep 0.2; (exit 5)")
    assert (end.exit_code, end.cwd) == (5, "/")
    left, _ = await start(shell, f"while :; do python3 {script} $$ >/dev/null 2>&1; done", background=True)
    for _ in range(5):
        end, _ = await run(shell, "sleep 0.1; (exit 6)")
        assert (end.exit_code, end.shell_ended) == (6, None)
    await left.stop()
    await shell.close()


@pytest.mark.parametrize("trap", ["DEBUG", "ERR", "RETURN", "CHLD"])
async def test_a_trap_that_reports_in_the_shells_place_is_not_believed(shell: EngineShell, trap: str) -> None:
    lie = "for n in {10..255}; do echo ${TIMEFORMAT/#[!0-9]*/0} >&$n; done 2>/dev/null; echo ${TIMEFORMAT-0} >&0"
    await run(shell, f"set -ET; trap '{{ {lie}; }} 2>/dev/null' {trap}")
    try:
        end, _ = await run(shell, "/bin/false")
        assert end.exit_code in (1, None)
    except ShellEnded:
        pass
    await shell.close()


async def test_a_debug_trap_sees_nothing_with_which_it_could_report(shell: EngineShell, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    await run(shell, f"shopt -s extdebug; trap 'declare -p >>{seen}; echo \"$BASH_COMMAND\" >>{seen}' DEBUG")
    numbers: list[int] = []
    for _ in range(3):
        command, _ = await start(shell, "true")
        numbers += [*shell.due._due]  # pyright: ignore[reportPrivateUsage]
        assert (await finish(command)).exit_code == 0
        known = seen.read_text()
        assert not [number for number in numbers[-1:] if str(number * 256) in known]
    await shell.close()


async def test_the_directory_is_the_kernels_whatever_the_shell_says(shell: EngineShell) -> None:
    end, _ = await run(shell, "cd /usr; PWD=/etc DIRSTACK=(/etc); cd() { :; }; pwd() { echo /etc; }")
    assert end.cwd == "/usr"
    await shell.close()


async def test_no_named_file_holds_the_text_that_the_shell_runs(shell: EngineShell, tmp_path: Path) -> None:
    directory = Path(shell.kept.directory)
    mark = tmp_path / "injected"
    inject = f"for f in {directory}/* /proc/$$/fd/*; do (echo 'touch {mark}' 1<>$f >&1 & sleep 0.01; kill $!); done"
    await run(shell, f"{inject} 2>/dev/null")
    await run(shell, "true")
    names = {path.name.rstrip("-0123456789") for path in directory.iterdir()}
    assert names <= {"stdout", "stderr"}
    await shell.close()
    assert not mark.exists()


async def test_a_copy_must_be_a_process_of_the_shell(shell: EngineShell) -> None:
    lie = '{ time for x in;do time;done; } 2>&"$((TIMEFORMAT=1,0))"'
    await run(shell, f"shopt -s extdebug; set -T; trap '( {lie} ) 2>/dev/null' DEBUG")
    try:
        command, _ = await asyncio.wait_for(start(shell, "exit 4", background=True), 10)
        assert command.root != 1
        assert (await finish(command)).exit_code in (4, None)
    except ShellEnded:
        pass
    await shell.close()


async def test_a_process_that_was_left_behind_is_never_taken_for_a_copy(shell: EngineShell) -> None:
    await copy_beside_a_liar(shell, 10)


@pytest.mark.guard
async def test_a_process_that_was_left_behind_is_not_taken_for_one_of_many_copies(shell: EngineShell) -> None:
    await copy_beside_a_liar(shell, 300)


async def copy_beside_a_liar(shell: EngineShell, rounds: int) -> None:
    """Run background commands while a process of an earlier command reports itself as their copy."""
    lie = "for n in {0..20}; do echo $BASHPID >&$n; done 2>/dev/null"
    await run(shell, f"(while :; do {lie}; done) >/dev/null 2>&1 &")
    for _ in range(rounds):
        try:
            command, _ = await asyncio.wait_for(start(shell, "exit 4", background=True), 30)
        except ShellEnded:  # on a busy machine the flood of reports may leave the shell no time to prove itself
            break
        assert (await finish(command)).exit_code == 4
    await shell.close()


@pytest.mark.parametrize("name", ["PROMPT_COMMAND", "PS0", "PS1", "PS2"])
async def test_no_variable_of_a_new_shell_is_run_as_text(tasks: TaskGroup, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "ran"
    value = f"touch {mark}" if name == "PROMPT_COMMAND" else f"$(touch {mark})"
    shell = await LocalTarget().open(ShellSpec(cwd="/", env={name: value, "OTHER": "stays"}), tasks)
    end, sink = await run(shell, "echo $OTHER")
    assert (end.exit_code, sink.out) == (0, b"stays\n")
    await shell.close()
    assert not mark.exists()
