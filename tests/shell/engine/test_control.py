"""Time and control: stopping, signals, input, copies, closing; the contract's cases that the engine decides."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio.abc import TaskGroup

from shiftlog.model.shell_errors import CommandNotRunning, OpenFailed, ShellEnded, StdinClosed
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.engine.reaper import process_table
from shiftlog.shell.engine.shell import EngineShell
from shiftlog.shell.ports import CommandSpec, ShellSpec, Signal, Terminal
from tests.shell.engine.probe import PATIENCE_S, Remembered, finish, run, start


@pytest.fixture
async def shell(tmp_path: Path, tasks: TaskGroup) -> AsyncIterator[EngineShell]:
    shell = await LocalTarget().open(ShellSpec(cwd=str(tmp_path)), tasks)
    try:
        yield shell
    finally:
        await shell.close()


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(5):
        while any(pid in (table := process_table()) and not table[pid].zombie for pid in pids):  # noqa: ASYNC110 - the kernel sends no word
            await asyncio.sleep(0.01)


async def test_a_stopped_command_leaves_the_shell_and_its_state(shell: EngineShell) -> None:
    """Case 8."""
    await run(shell, "A=7")
    command, sink = await start(shell, "echo p; sleep 60; echo no")
    await sink.until(b"p\n")
    began = time.monotonic()
    end = await command.stop()
    assert time.monotonic() - began < 30
    assert (end.exit_code, end.signal, end.shell_ended, sink.out) == (130, "interrupt", None, b"p\n")
    assert (await run(shell, "echo $A"))[1].out == b"7\n"


async def test_a_shell_that_does_not_get_to_its_words_is_waited_for(shell: EngineShell) -> None:
    pid = shell.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    command, sink = await start(shell, "echo late")
    await asyncio.sleep(4.5)  # longer than a shell that owes a report may sleep
    os.kill(pid, signal.SIGCONT)
    await finish(command)
    assert sink.out == b"late\n"


async def test_a_command_that_ignores_interrupts_is_terminated(shell: EngineShell) -> None:
    """Case 9."""
    await run(shell, "A=7")
    command, sink = await start(shell, "bash -c \"trap '' INT; echo p; sleep 60\"; echo no")
    await sink.until(b"p\n")
    began = time.monotonic()
    end = await command.stop()
    assert time.monotonic() - began < 30
    assert (end.signal, end.shell_ended, sink.out) == ("terminate", None, b"p\n")
    assert (await run(shell, "echo $A"))[1].out == b"7\n"


@pytest.mark.parametrize(
    ("trap", "work", "said"),
    [
        ("trap '' INT", "sleep 60", b""),
        ("trap '' INT", "while :; do :; done", b""),
        ("trap 'echo trapped' INT", "sleep 60", b"trapped\n"),
        ("trap 'echo trapped' INT", "while :; do :; done", b"trapped\n"),
    ],
)
async def test_a_stopped_command_does_not_go_on_where_the_shell_itself_traps_or_ignores_interrupts(
    shell: EngineShell, trap: str, work: str, said: bytes
) -> None:
    await run(shell, f"A=7; {trap}")
    command, sink = await start(shell, f"echo p; {work}; echo no")
    await sink.until(b"p\n")
    end = await command.stop()
    assert (end.shell_ended, sink.out) == (None, b"p\n" + said)
    assert (await run(shell, "echo $A"))[1].out == b"7\n"


async def test_a_command_that_ignores_everything_is_killed(shell: EngineShell) -> None:
    ignore = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 3, 15)]"
    text = f'python3 -c "{ignore}; print(chr(112), flush=True); time.sleep(60)"; echo no'
    command, sink = await start(shell, text)
    await sink.until(b"p\n")
    began = time.monotonic()
    end = await command.stop()
    assert time.monotonic() - began < 30
    assert (end.signal, end.shell_ended, sink.out) == ("kill", None, b"p\n")
    assert (await run(shell, "echo ok"))[1].out == b"ok\n"


@pytest.mark.parametrize(
    "text",
    [
        "while :; do :; done",
        "f() { while :; do :; done; }; f",
        "for ((;;)); do ((n++)); done",
        "eval 'while :; do :; done'",
        "while read -r x; do :; done < <(yes)",
        "while :; do true | true; done",
        "while :; do (:); done",
        "x=$(while :; do :; done)",
        "{ while :; do :; done; } | cat",
        "wait -n $(sleep 60)",
        "coproc sleep 60; read -u ${COPROC[0]}",
        "until false; do sleep 0.01; done",
    ],
)
async def test_work_inside_the_shell_is_interrupted_and_its_state_kept(shell: EngineShell, text: str) -> None:
    """Case 10."""
    await run(shell, "A=7; g() { echo g$A; }")
    command, sink = await start(shell, f"B=8; echo p\n{text}\necho no")
    await sink.until(b"p\n")
    end = await command.stop()
    assert end.shell_ended is None
    assert sink.out == b"p\n"
    assert (await run(shell, "g; echo $B"))[1].out == b"g7\n8\n"


async def test_what_follows_a_stopped_command_does_not_run(shell: EngineShell, tmp_path: Path) -> None:
    """Case 11."""
    for text in ("sleep 60; touch done", "sleep 60\ntouch done", "sleep 60 || touch done", "(sleep 60); touch done"):
        command, _ = await start(shell, f"echo p; {text}")
        assert (await command.stop()).shell_ended is None
    assert (await run(shell, "ls"))[1].out == b""
    assert not (tmp_path / "done").exists()


async def test_stopping_again_and_again_never_loses_the_shell(shell: EngineShell) -> None:
    await run(shell, "A=7")
    for number in range(30):
        command, _ = await start(shell, "sleep 60" if number % 2 else ":; sleep 0.001; :")
        if number % 3:
            await asyncio.sleep(0.001 * (number % 7))
        assert (await command.stop()).shell_ended is None
    assert (await run(shell, "echo $A"))[1].out == b"7\n"


async def test_a_shell_that_ignores_signals_is_ended_as_unresponsive(shell: EngineShell) -> None:
    command, sink = await start(shell, "trap '' INT TERM HUP RTMAX-3; echo p; while :; do :; done")
    await sink.until(b"p\n")
    began = time.monotonic()
    end = await command.stop()
    assert time.monotonic() - began < 30
    assert (end.shell_ended, sink.out) == ("unresponsive", b"p\n")
    with pytest.raises(ShellEnded):
        await start(shell, "true")


async def test_closing_stops_what_runs(shell: EngineShell, tmp_path: Path) -> None:
    """Case 12."""
    command, sink = await start(shell, "sleep 5 & echo $!; wait; touch f")
    await sink.until(b"\n")
    assert await shell.close() >= 2
    end = await finish(command)
    assert (end.exit_code, end.shell_ended) == (None, "closed")
    await until_gone(int(sink.out))
    assert not (tmp_path / "f").exists()


async def test_closing_ends_children_that_left(shell: EngineShell) -> None:
    """Case 13."""
    text = """nohup sleep 999 >/dev/null 2>&1 & echo $!
    setsid sleep 998 & echo $!
    (setsid bash -c 'sleep 997 & echo $!; exec >&-; wait' &) ; sleep 996 & disown; echo $!
    python3 -c 'import os,time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print(os.getpid(), flush=True); os.close(1); time.sleep(995)'
    trap '' TERM HUP; sleep 994 & echo $!"""
    command, sink = await start(shell, text)
    await finish(command)
    async with asyncio.timeout(PATIENCE_S):
        while sink.out.count(b"\n") < 6:
            sink.news.clear()
            await sink.news.wait()
    pids = [int(line) for line in sink.out.split()]
    began = time.monotonic()
    assert await shell.close() >= len(pids)
    assert time.monotonic() - began < 30
    await until_gone(*pids)
    assert sink.closed == {"stdout", "stderr"}


async def test_the_tree_ends_when_the_server_is_killed(tmp_path: Path) -> None:
    program = """
import asyncio, sys
import anyio
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.ports import CommandSpec, OutputSink, ShellSpec
class Sink(OutputSink):
    def write(self, stream, data): print(data.decode(), end='', flush=True)
    def close(self, stream): pass
async def main():
    tasks = await anyio.create_task_group().__aenter__()
    shell = await LocalTarget().open(ShellSpec(), tasks)
    text = 'echo $$; nohup sleep 999 >/dev/null & echo $!; setsid sleep 998 & echo $!; echo end'
    await (await shell.start(CommandSpec(text=text), Sink())).ended
    await asyncio.sleep(60)
asyncio.run(main())
"""
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=tmp_path)  # noqa: ASYNC220
    assert server.stdout is not None
    try:
        lines = [await asyncio.to_thread(server.stdout.readline) for _ in range(4)]
        assert lines[-1] == b"end\n"
        server.send_signal(signal.SIGKILL)
        await until_gone(*(int(line) for line in lines[:-1]))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


async def test_background_commands_leave_the_shell_idle(shell: EngineShell) -> None:
    """Case 14."""
    command, sink = await start(shell, "for i in 1 2 3; do echo $i; sleep .2; done", background=True)
    assert not command.ended.done()
    assert (await run(shell, "echo meanwhile"))[1].out == b"meanwhile\n"
    end = await finish(command)
    await sink.until_closed()
    assert (end.exit_code, sink.out) == (0, b"1\n2\n3\n")


async def test_many_background_commands_end_with_their_own_status(shell: EngineShell) -> None:
    started = [await start(shell, f"echo {n}; exit {n}", background=True) for n in range(16)]
    ends = [await finish(command) for command, _ in started]
    assert [end.exit_code for end in ends] == list(range(16))
    assert [sink.out for _, sink in started] == [f"{n}\n".encode() for n in range(16)]


async def test_open_input_is_written_and_ended(shell: EngineShell) -> None:
    """Case 16."""
    command, sink = await start(shell, "cat", background=True, stdin_open=True)
    await command.send(b"hi\n")
    await sink.until(b"hi\n")
    await command.send_eof()
    assert (await finish(command)).exit_code == 0
    with pytest.raises(CommandNotRunning):
        await command.send(b"more")


async def test_a_foreground_command_takes_input_too(shell: EngineShell) -> None:
    command, sink = await start(shell, "read a; echo got $a; cat", stdin_open=True)
    await command.send(b"one\n")
    await sink.until(b"got one\n")
    await command.send(b"two\n")
    await command.send_eof()
    assert (await finish(command)).exit_code == 0
    assert sink.out == b"got one\ntwo\n"


async def test_end_of_input_at_once_is_not_lost(shell: EngineShell) -> None:
    for background in (False, True):
        command, sink = await start(shell, "cat", background=background, stdin_open=True)
        await command.send_eof()
        assert (await finish(command)).exit_code == 0
        assert sink.out == b""


async def test_closed_input_says_so(shell: EngineShell) -> None:
    command, _ = await start(shell, "sleep 60")
    with pytest.raises(StdinClosed):
        await command.send(b"x")
    await command.stop()


async def test_interrupting_a_background_command(shell: EngineShell) -> None:
    """Case 17."""
    command, _ = await start(shell, "sleep 60", background=True)
    began = time.monotonic()
    await command.signal("interrupt")
    end = await finish(command)
    assert time.monotonic() - began < 30
    assert (end.exit_code, end.signal) == (130, "interrupt")
    with pytest.raises(CommandNotRunning):
        await command.signal("interrupt")
    assert (await run(shell, "echo idle"))[1].out == b"idle\n"


@pytest.mark.parametrize(
    ("name", "code"), [("interrupt", 130), ("terminate", 143), ("kill", 137), ("hangup", 129), ("usr1", 138)]
)
async def test_signals_reach_the_processes_of_a_foreground_command(shell: EngineShell, name: Signal, code: int) -> None:
    command, sink = await start(shell, "sh -c 'echo p; exec sleep 60'")
    await sink.until(b"p\n")
    async with asyncio.timeout(PATIENCE_S):
        while not command.ended.done():
            await command.signal(name)
            await asyncio.wait([command.ended], timeout=0.05)
    assert command.ended.result().exit_code == code
    assert (await run(shell, "echo ok"))[1].out == b"ok\n"


async def test_a_program_that_handles_an_interrupt_goes_on(shell: EngineShell) -> None:
    program = "trap 'echo caught; exit 5' INT; echo p; while :; do sleep .05; done"
    command, sink = await start(shell, f'bash -c "{program}"; echo next $?')
    await sink.until(b"p\n")
    await command.signal("interrupt")
    assert (await finish(command)).exit_code == 0
    assert sink.out == b"p\ncaught\nnext 5\n"


async def test_stop_and_continue(shell: EngineShell) -> None:
    command, sink = await start(shell, "sh -c 'echo $$; read x; echo woke $x'", stdin_open=True)
    await sink.until(b"\n")
    pid = int(sink.out)
    await command.signal("stop")
    async with asyncio.timeout(PATIENCE_S):
        while b"State:\tT" not in Path(f"/proc/{pid}/status").read_bytes():  # noqa: ASYNC110 - the kernel sends no word
            await asyncio.sleep(0.01)
    await command.signal("continue")
    await command.send(b"up\n")
    await sink.until(b"woke up\n")
    assert (await finish(command)).exit_code == 0


async def test_a_signal_spares_background_commands_and_older_children(shell: EngineShell) -> None:
    await run(shell, "sleep 61 & echo $!")
    background, _ = await start(shell, "sleep 62", background=True)
    await asyncio.sleep(0.05)  # the process table counts in hundredths of a second
    command, sink = await start(shell, "echo p; sleep 63")
    await sink.until(b"p\n")
    await command.stop()
    assert (await run(shell, "jobs -r | wc -l"))[1].out == b"1\n"
    assert not background.ended.done()


async def test_left_over_children_keep_their_own_stream(shell: EngineShell) -> None:
    """Case 33."""
    gate = Path(shell.cwd) / "gate"
    os.mkfifo(gate)
    end, first = await run(shell, "{ read x < gate; echo late; } &")
    assert end.streams_open == {"stdout", "stderr"}
    end, second = await run(shell, "echo clean")
    assert (end.streams_open, second.out, second.err) == (frozenset(), b"clean\n", b"")
    assert (await run(shell, "echo go > gate; echo went"))[1].out == b"went\n"
    await first.until_closed()
    assert first.out == b"late\n"


async def test_output_arrives_while_the_command_runs(shell: EngineShell) -> None:
    command, sink = await start(shell, "echo first; read x; echo second", stdin_open=True)
    await sink.until(b"first\n")
    assert not command.ended.done()
    await command.send_eof()
    await finish(command)
    assert sink.out == b"first\nsecond\n"


async def test_a_terminal_takes_keys(shell: EngineShell) -> None:
    """Case 18."""
    command, sink = await start(shell, "stty size; read x; echo got $x; cat", terminal=Terminal(cols=70, rows=20))
    await sink.until(b"20 70")
    await command.send(b"word\n")
    await sink.until(b"got word")
    await command.send_eof()
    assert (await finish(command)).exit_code == 0
    assert sink.closed == {"stdout", "stderr"}


async def test_a_terminal_is_the_controlling_one(shell: EngineShell) -> None:
    command, sink = await start(shell, "echo p; sleep 60; echo no", terminal=Terminal())
    await sink.until(b"p\r\n")
    await command.send(b"\x03")
    assert (await finish(command)).exit_code == 130
    assert b"no" not in sink.out


async def test_cancelling_the_caller_does_not_hurt_the_shell(shell: EngineShell) -> None:
    task = asyncio.ensure_future(run(shell, "sleep 0.1; A=4"))
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await run(shell, "echo after"))[1].out == b"after\n" or shell.ended.done() is False


async def test_opening_in_a_missing_directory_fails_with_its_name(tmp_path: Path, tasks: TaskGroup) -> None:
    with pytest.raises(OpenFailed, match="missing"):
        await LocalTarget().open(ShellSpec(cwd=str(tmp_path / "missing")), tasks)


async def test_profiles_run_only_on_login_and_their_words_are_kept_apart(tmp_path: Path, tasks: TaskGroup) -> None:
    (tmp_path / ".bash_profile").write_text("echo welcome; export FROM_PROFILE=1\n")
    env = {"HOME": str(tmp_path)}
    for login, said, value in ((False, b"", b"[]\n"), (True, b"welcome\n", b"[1]\n")):
        shell = await LocalTarget().open(ShellSpec(cwd="/", env=env, login=login), tasks)
        try:
            assert shell.startup_output.endswith(said)
            assert (await run(shell, "echo [$FROM_PROFILE]"))[1].out == value
        finally:
            await shell.close()


async def test_a_profile_that_never_ends_fails_the_opening(tmp_path: Path, tasks: TaskGroup) -> None:
    (tmp_path / ".bash_profile").write_text("sleep 60\n")
    with pytest.raises(OpenFailed, match="not ready"):
        await LocalTarget().open(ShellSpec(cwd="/", env={"HOME": str(tmp_path)}, login=True, ready_s=1), tasks)


async def test_a_venv_can_be_entered_and_left(shell: EngineShell, tmp_path: Path) -> None:
    """Case 3."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)  # noqa: ASYNC221
    assert (await run(shell, ". v/bin/activate"))[1].out == b""
    assert (await run(shell, "echo hi"))[1].out == b"hi\n"
    assert (await run(shell, "deactivate; echo hi"))[1].out == b"hi\n"


async def test_losing_the_private_directory_ends_the_shell_plainly(tmp_path: Path, tasks: TaskGroup) -> None:
    shell = await LocalTarget(runtime_dir=tmp_path).open(ShellSpec(cwd="/"), tasks)
    try:
        await run(shell, "echo one")
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ShellEnded):  # noqa: PT012 - which of them notices is open
                for _ in range(3):
                    command = await shell.start(CommandSpec(text=f"rm -rf {tmp_path}/*; sleep 0 &"), Remembered())
                    await asyncio.wait([command.ended])
    finally:
        await shell.close()


async def test_what_a_link_in_place_of_the_private_directory_leads_to_is_kept(tmp_path: Path, tasks: TaskGroup) -> None:
    precious = tmp_path / "precious" / "file"
    precious.parent.mkdir()
    precious.touch()
    runtime = tmp_path / "run"
    runtime.mkdir()
    shell = await LocalTarget(runtime_dir=runtime).open(ShellSpec(cwd="/"), tasks)
    (private,) = runtime.iterdir()
    private.rename(tmp_path / "moved")
    private.symlink_to(precious.parent)
    await shell.close()
    assert precious.exists()
