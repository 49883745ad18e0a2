"""Tasks of the service: every one belongs to a shell, ends with it, and ends in bounded time."""

import asyncio
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from anyio.abc import TaskGroup

from shiftlog.model.entry import Kind
from shiftlog.model.shell_errors import ShellLost
from shiftlog.shell import service
from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.engine.shell import EngineShell
from shiftlog.shell.ports import CallCancelled, EndedReason, LiveShell, ShellSpec
from tests.shell.rig import CLIENT, shell_rig, until


class Unending:
    """A target whose shells cannot be closed."""

    label, shown = "local", None

    async def check(self, values: Mapping[str, Any]) -> None:
        pass

    def find(self, values: Mapping[str, Any], launcher: object = None) -> "Unending":
        return self

    async def open(self, spec: ShellSpec, tasks: TaskGroup) -> LiveShell:
        self.shell = await LocalTarget().open(spec, tasks)
        return cast(LiveShell, UnendingShell(self.shell))


class UnendingShell:
    """A live shell whose end never comes."""

    def __init__(self, shell: EngineShell) -> None:
        self._shell = shell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, name)

    async def close(self, reason: EndedReason = "closed") -> int:
        await asyncio.Event().wait()
        return 0


async def test_closing_the_app_leaves_no_task_and_records_every_end(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with shell_rig(tmp_path) as rig:
        for _ in range(3):
            await rig.open()
            await rig.run("sleep 60", background=True, input="x" * 200_000)
        running = asyncio.create_task(rig.run("sleep 60"))
        await until(lambda: len(rig.shells.registry.shells[rig.shell_id].running) == 2)
        await rig.shells.aclose()
        ended = await rig.entries(Kind.COMMAND_FINISHED, Kind.SHELL_ENDED)
        assert (await running)["state"] == "cancelled"
    assert [entry.facts["state"] for entry in ended if entry.facts["shell_id"] == rig.shell_id][-1] == "ended"
    assert {entry.facts["state"] for entry in ended} == {"cancelled", "ended"}
    assert asyncio.all_tasks() == before


async def test_a_time_without_descriptors_does_not_end_the_task_that_all_shells_live_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "FLUSH_S", 0.01)
    monkeypatch.setattr(service, "SWEEP_TICKS", 1)
    async with shell_rig(tmp_path) as rig:
        await rig.open(sandbox="workspace-write", workspace=str(rig.place))
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            await until(lambda: "looking after the shells failed" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert await rig.out("echo again") == "again"
        await rig.open()


async def test_a_shell_that_cannot_be_closed_delays_the_end_of_the_app_only_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "SHELL_CLOSE_S", 0.1)
    stuck = Unending()
    before = asyncio.all_tasks()
    async with shell_rig(tmp_path, shell=False) as rig:
        rig.shells.opener.targets = {"local": stuck}
        await rig.open()
        began = time.monotonic()
    assert time.monotonic() - began < 30  # it would wait for ever
    assert asyncio.all_tasks() == before
    await stuck.shell.close()


async def test_a_fault_in_one_shell_ends_that_shell_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ArithmeticError("a fault of ours")

    async with shell_rig(tmp_path) as rig:
        broken = rig.shells.registry.shells[rig.shell_id]
        sound = (await rig.open())["shell_id"]
        running = asyncio.create_task(
            rig.shells.commands.run_command({"shell_id": broken.shell_id, "command": "sleep 60"}, CLIENT)
        )
        await until(lambda: broken.running)
        broken.tasks.start_soon(fail)
        assert (await asyncio.wait_for(running, 30))["state"] == "unknown"
        await asyncio.wait_for(broken.released.wait(), 30)
        with pytest.raises(ShellLost):
            await rig.shells.commands.run_command({"shell_id": broken.shell_id, "command": "true"}, CLIENT)
        assert broken.live.ended.done()
        assert rig.shells.registry.live_ids() == [sound]
        assert await rig.out("echo on") == "on"
    assert "a fault of ours" in caplog.text


async def test_a_second_cancellation_does_not_keep_a_command_from_being_stopped(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        shell = rig.shells.registry.shells[rig.shell_id]
        request = asyncio.create_task(rig.run("trap '' INT; sleep 60"))
        await until(lambda: shell.running)
        request.cancel()
        with pytest.raises(CallCancelled) as cancelled:
            await request
        stopping = asyncio.create_task(rig.shells.commands.cancel(cancelled.value.command_id))
        await asyncio.sleep(0)
        stopping.cancel()
        await until(lambda: shell.state == "idle" and not shell.running)
        assert shell.commands[cancelled.value.command_id].state == "cancelled"
