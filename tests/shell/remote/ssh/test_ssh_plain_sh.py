"""Targets that have no bash: signals reach background commands in a plain sh, and nothing else."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import SshServer, start_server
from tests.shell.rig import ShellRig, shell_rig, until


@pytest.fixture(params=["the machine's own", "busybox"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_server: SshServer
) -> Iterator[SshServer]:
    if request.param != "busybox":
        shared_server.know()
        yield shared_server
        return
    busybox = shutil.which("busybox")
    if busybox is None or os.geteuid() != 0:
        pytest.skip("only root can put BusyBox in the place of sh")
    server = start_server(tmp_path_factory.mktemp("busybox"), busybox=busybox)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def rig(tmp_path: Path, server: SshServer) -> AsyncIterator[ShellRig]:
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, shell="sh")) as rig:
        assert rig.shells.registry.shells[rig.shell_id].live.kind == "sh"
        yield rig


@pytest.mark.parametrize("name", ["interrupt", "terminate", "kill", "hangup", "quit"])
async def test_a_signal_ends_a_background_command_of_a_plain_sh_alone(rig: ShellRig, name: str) -> None:
    await rig.run("A=7")
    other = (await rig.run("sleep 61; echo other", background=True))["command_id"]
    ended = (await rig.run("sleep 60; echo on", background=True))["command_id"]
    foreground = asyncio.create_task(rig.run("sleep 2; echo here"))
    await until(lambda: rig.shells.registry.shells[rig.shell_id].foreground)
    await rig.send(ended, signal=name)
    page = await rig.read(ended, wait_s=10, wait_for="end")
    assert page["state"] == "finished"
    assert page["exit_code"] != 0
    assert (await foreground)["stdout"] == "here", "the command in the shell itself goes on"
    assert (await rig.read(other))["state"] == "running", "so does the other one"
    assert await rig.out("echo $A") == "7", "and the shell lives"


async def test_a_background_command_of_a_plain_sh_can_be_stopped_and_continued(rig: ShellRig) -> None:
    begun = (await rig.run("sleep 1; echo on", background=True))["command_id"]
    await rig.send(begun, signal="stop")
    assert (await rig.read(begun, wait_s=2, wait_for="end"))["state"] == "running"
    await rig.send(begun, signal="continue")
    assert (await rig.read(begun, wait_s=10, wait_for="end"))["text"] == "on\n"


async def test_a_command_in_a_plain_sh_is_ended_beside_a_background_command(rig: ShellRig) -> None:
    other = (await rig.run("sleep 61", background=True))["command_id"]
    ended = await rig.run("sleep 60", timeout_s=1)
    assert (ended["state"], ended["shell_state"]) == ("timed_out", "idle")
    assert (await rig.read(other))["state"] == "running"
    assert await rig.out("echo on") == "on"


async def test_the_sh_is_the_one_that_was_asked_for(rig: ShellRig, request: pytest.FixtureRequest) -> None:
    expected = "busybox" in request.node.name
    assert ("BusyBox" in await rig.out("sh --help 2>&1; true")) == expected
