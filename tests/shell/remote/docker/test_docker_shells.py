"""Shells in containers through the service: permitted ones, state, input, and containers that stop or start anew."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import ContainerNotAllowed, ContainerNotRunning, DockerUnavailable, ShellLost
from shiftlog.shell.engine.protocol import draw_token
from tests.shell.outputs.much import check_much
from tests.shell.remote.background import check_background
from tests.shell.remote.docker.engine import Engine
from tests.shell.remote.docker.places import environ_of, nobody, settings_for, where
from tests.shell.remote.left import MARK, kill_busy_server, marked, stop_marked, until_gone
from tests.shell.rig import ShellRig, shell_rig, until


@pytest.fixture
async def rig(tmp_path: Path, engine: Engine, container: str) -> AsyncIterator[ShellRig]:
    async with shell_rig(tmp_path, environ=environ_of(engine), **where(container)) as rig:
        yield rig


async def test_a_shell_in_a_container_keeps_its_state_and_names_its_target(rig: ShellRig, container: str) -> None:
    assert rig.shell_id.endswith(f"_docker_{container}")
    await rig.run("cd /tmp; export A=1; f(){ echo $A; }")
    result = await rig.run("f; pwd; echo err >&2; false")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["cwd"]) == ("1\n/tmp", "err", 1, "/tmp")
    begun = await rig.run("cat", background=True, stdin="open")
    await rig.send(begun["command_id"], text="hi\n", eof=True)
    page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert (page["text"], page["exit_code"]) == ("hi\n", 0)


async def test_only_containers_of_the_operators_list_are_reached(
    tmp_path: Path, engine: Engine, container: str
) -> None:
    other = engine.run("other")
    ours = engine.docker("inspect", "--format", "{{.Id}}", container)
    try:
        settings = settings_for("sha?ed", "build-*")
        async with shell_rig(tmp_path, settings=settings, environ=environ_of(engine), shell=False) as rig:
            for name in (container, ours, ours[:12]):
                opened = await rig.open(**where(name))
                assert (opened["state"], opened["target"]) == ("idle", name)
            for name in ("other", other, other[:12], "nothing", "build-9"):
                with pytest.raises(ContainerNotAllowed) as refused:
                    await rig.open(**where(name))
                assert refused.value.details == {"kind": "container", "value": name}
        async with shell_rig(tmp_path, settings=settings_for(other), environ=environ_of(engine), shell=False) as rig:
            assert (await rig.open(**where("other")))["state"] == "idle"
            with pytest.raises(ContainerNotAllowed):
                await rig.open(**where(container))
    finally:
        engine.docker("rm", "-f", "other")


async def test_an_unknown_container_and_a_stopped_one_are_not_running(
    tmp_path: Path, engine: Engine, container: str
) -> None:
    engine.run("stopped")
    engine.docker("kill", "stopped")
    async with shell_rig(tmp_path, environ=environ_of(engine), shell=False) as rig:
        for name in ("nothing", "stopped"):
            with pytest.raises(ContainerNotRunning) as refused:
                await rig.open(**where(name))
            assert refused.value.details == {"container": name}
    nowhere = {**environ_of(engine), **nobody(tmp_path)}
    async with shell_rig(tmp_path, environ=nowhere, shell=False) as rig:
        with pytest.raises(DockerUnavailable):
            await rig.open(**where(container))


async def test_case_51_a_container_that_stops_leaves_the_command_unknown_and_the_shell_lost(
    tmp_path: Path, engine: Engine
) -> None:
    """Case 51, third part."""
    engine.run("stops")
    async with shell_rig(tmp_path, environ=environ_of(engine), **where("stops")) as rig:
        begun = await rig.run("echo p; sleep 30", timeout_s=1, on_timeout="keep_running")
        await asyncio.to_thread(engine.docker, "kill", "stops")
        page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
        assert (page["state"], page["exit_code"], page["text"]) == ("unknown", None, "p\n")
        with pytest.raises(ShellLost) as lost:
            await rig.run("true")
        assert lost.value.details["fate"] == "unknown"


async def test_case_51_a_container_that_starts_anew_has_lost_the_idle_shell(tmp_path: Path, engine: Engine) -> None:
    engine.run("anew")
    async with shell_rig(tmp_path, environ=environ_of(engine), **where("anew")) as rig:
        await rig.run("A=1")
        await asyncio.to_thread(engine.docker, "restart", "-t", "0", "anew")
        await until(lambda: not rig.shells.registry.live_ids())
        with pytest.raises(ShellLost):
            await rig.run("echo $A")
        await rig.open(**where("anew"))
        assert await rig.out("echo [$A]") == "[]"


@pytest.mark.parametrize("killed", [1, None], ids=["the shell's own", "all of them"])
async def test_a_killed_client_leaves_nothing_running_inside(
    tmp_path: Path, engine: Engine, container: str, killed: int | None
) -> None:
    mark = draw_token()
    opening = where(container, env={MARK: mark})
    try:
        async with shell_rig(tmp_path, environ=environ_of(engine), **opening) as rig:
            begun = await rig.run("sleep 1000 & echo p; sleep 1000", timeout_s=1, on_timeout="keep_running")
            assert len(marked(mark)) >= 3
            for pid in sorted(_clients())[:killed]:
                os.kill(pid, signal.SIGKILL)
            page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
            assert (page["state"], page["exit_code"]) == ("unknown", None)
            await until_gone(mark)
            with pytest.raises(ShellLost):
                await rig.run("true")
    finally:
        stop_marked(mark)


async def test_a_killed_server_leaves_nothing_running_in_the_container(
    tmp_path: Path, engine: Engine, container: str
) -> None:
    mark = draw_token()
    opening = where(container, env={MARK: mark})
    try:
        kill_busy_server(tmp_path, "", opening, environ_of(engine))
        await until_gone(mark)
        await until(lambda: not engine.docker("exec", container, "sh", "-c", "ls -d /tmp/.shiftlog-* || :"))
    finally:
        stop_marked(mark)


async def test_the_end_of_much_output_in_a_container_leaves_memory_as_it_was(rig: ShellRig) -> None:
    """Case 22 in a container."""
    await check_much(rig, 96 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_the_end_of_a_gigabyte_in_a_container_leaves_memory_as_it_was(rig: ShellRig) -> None:
    """Case 22 in a container."""
    await check_much(rig, 1 << 30)


def _clients() -> list[int]:
    """Return the clients by which this process has something run in a container."""
    pids = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    words = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in pids}
    return [pid for pid, line in words.items() if line[1:3] == [b"exec", b"-i"]]


async def test_a_control_character_typed_at_once_reaches_the_program_in_a_container_too(rig: ShellRig) -> None:
    for _ in range(5):
        begun = await rig.run("sleep 60", pty=True, background=True)
        await rig.send(begun["command_id"], text="\x03")
        page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
        assert (page["state"], page["exit_code"], page["text"]) == ("finished", 130, "^C")


async def test_a_command_in_a_containers_background_that_ends_meanwhile_writes_into_no_other(
    rig: ShellRig,
) -> None:
    await check_background(rig)


async def test_a_terminal_in_a_container_has_its_size_from_the_start(rig: ShellRig) -> None:
    for _ in range(3):
        result = await rig.run("stty size", pty=True, cols=77, rows=33)
        assert result["stdout"].strip() == "33 77"
