"""The local engine inside sandboxes: the same shell, with state, background copies and terminals, in every mode."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from anyio.abc import TaskGroup

from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.engine.shell import EngineShell
from shiftlog.shell.ports import CommandSpec, OutputSink, ShellSpec, Stream, Terminal
from shiftlog.shell.sandbox.sandbox import Launch, SandboxSpec
from shiftlog.shell.sandbox.starts import ProgramStart
from tests.shell.sandbox.conftest import Shells, needs_broker, needs_confinement

pytestmark = [needs_broker(), needs_confinement(), pytest.mark.anyio]
Make = Callable[..., Shells]
MODES = pytest.mark.parametrize(
    ("mode", "bwrap"),
    [
        ("full-access", False),
        ("read-only", False),
        ("read-only", True),
        ("workspace-write", False),
        ("workspace-write", True),
    ],
)


class Collected(OutputSink):
    """Keeps the output of one command."""

    def __init__(self) -> None:
        self.text: dict[Stream, str] = {"stdout": "", "stderr": ""}

    def write(self, stream: Stream, data: bytes) -> None:
        self.text[stream] += data.decode()

    def close(self, stream: Stream) -> None:
        pass


async def _open(shells: Shells, spec: SandboxSpec, tasks: TaskGroup) -> tuple[EngineShell, Launch, list[ProgramStart]]:
    starts: list[ProgramStart] = []
    launch = shells.sandbox.prepare(spec, starts.append)
    assert launch is not None
    target = LocalTarget(environment=shells.env, launcher=launch)
    return await target.open(ShellSpec(cwd=str(shells.workspace)), tasks), launch, starts


async def _run(shell: EngineShell, text: str, **more: object) -> tuple[int | None, str]:
    sink = Collected()
    command = await shell.start(CommandSpec(text=text, **more), sink)  # pyright: ignore[reportArgumentType]
    end = await asyncio.wait_for(asyncio.shield(command.ended), 20)
    return end.exit_code, sink.text["stdout"]


@MODES
async def test_a_sandboxed_shell_keeps_its_state_between_commands(
    make_shells: Make, tasks: TaskGroup, mode: str, *, bwrap: bool
) -> None:
    shells = make_shells(mode, bwrap=bwrap, process=True)
    shell, launch, starts = await _open(shells, replace(shells.base, require_kernel=True), tasks)
    try:
        assert await _run(shell, "cd /; A=1; f() { echo $A; }") == (0, "")
        assert await _run(shell, "f; pwd; /bin/echo x") == (0, "1\n/\nx\n")
        launch.drain()
        assert [start.path for start in starts] == ["/bin/echo"]
        assert (await _run(shell, "for i in 1 2; do /bin/echo $i; done", background=True))[0] == 0
        assert shell.pid == launch.shell_pid
    finally:
        await shell.close()


@MODES
async def test_a_command_can_have_a_terminal_in_every_mode(
    make_shells: Make, tasks: TaskGroup, mode: str, *, bwrap: bool
) -> None:
    shells = make_shells(mode, bwrap=bwrap)
    shell, _, _ = await _open(shells, replace(shells.base, require_kernel=True), tasks)
    try:
        code, text = await _run(shell, "test -t 1 && tty && echo yes > /dev/tty", terminal=Terminal())
        assert code == 0
        assert "/dev/pts/" in text
        assert "yes" in text
    finally:
        await shell.close()


async def test_an_allow_list_leaves_the_engine_its_terminal_helper(make_shells: Make, tasks: TaskGroup) -> None:
    shells = make_shells()
    shell, launch, starts = await _open(shells, shells.allowing("cat"), tasks)
    try:
        code, text = await _run(
            shell, "test -t 1 && echo a | cat; bash -c 'echo b'; python3 -c 'print(3)'", terminal=Terminal()
        )
        assert code == 126
        assert "a" in text
        launch.drain()
        assert [(start.program, start.verdict) for start in starts] == [
            ("cat", "allowed"),
            ("bash", "denied"),
            ("python3", "denied"),
        ]
    finally:
        await shell.close()


async def test_a_denied_program_is_refused_and_the_shell_lives_on(make_shells: Make, tasks: TaskGroup) -> None:
    shells = make_shells(process=False)
    shell, _, _ = await _open(shells, shells.denying("ls"), tasks)
    try:
        assert (await _run(shell, "x=ls; $x /"))[0] == 126
        assert await _run(shell, "echo on") == (0, "on\n")
    finally:
        await shell.close()


async def test_closing_a_sandboxed_shell_ends_its_tree_and_removes_its_places(
    make_shells: Make, tasks: TaskGroup
) -> None:
    shells = make_shells("workspace-write", bwrap=True)
    shell, launch, _ = await _open(shells, shells.base, tasks)
    runtime = launch.runtime_dir
    assert runtime is not None
    await _run(shell, "setsid sleep 300 & nohup sleep 301 >/dev/null 2>&1 &")
    assert await shell.close() >= 2
    assert not runtime.exists()


async def test_starts_come_home_on_the_event_loop_without_being_asked_for(make_shells: Make, tasks: TaskGroup) -> None:
    shells = make_shells(process=True)
    starts: list[ProgramStart] = []
    all_there = asyncio.Event()

    def take(start: ProgramStart) -> None:
        starts.append(start)
        if len(starts) == 20:
            all_there.set()

    launch = shells.sandbox.prepare(replace(shells.base, require_kernel=True), take)
    shell = await LocalTarget(environment=shells.env, launcher=launch).open(ShellSpec(cwd=str(shells.workspace)), tasks)
    try:
        await _run(shell, "for i in {1..20}; do /bin/true; done")
        await asyncio.wait_for(all_there.wait(), 10)
    finally:
        await shell.close()
