"""Commands that wait for their shell: each one that never runs is `cancelled` in the record and in listings."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.shell_errors import ShellBusy, ShellEnded, ShellLimit
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until


async def _queued(rig: ShellRig, **how: Any) -> "asyncio.Task[dict[str, Any]]":
    """Let one command wait behind another that runs."""
    shell = rig.shells.registry.shells[rig.shell_id]
    earlier = set(shell.queued)  # the one that runs may not have left the queue yet
    request = asyncio.create_task(rig.run("touch never", wait_idle_s=60, **how))
    await until(lambda: shell.queued.keys() - earlier)
    return request


async def _ends(rig: ShellRig) -> dict[str, tuple[Any, Any, Any]]:
    return {
        str(entry.facts["command_id"]).rpartition("#")[2]: (
            entry.facts["command"],
            entry.facts["state"],
            entry.facts["exit_code"],
        )
        for entry in await rig.entries(Kind.COMMAND_FINISHED)
    }


async def _hold(rig: ShellRig) -> "asyncio.Task[dict[str, Any]]":
    request = asyncio.create_task(rig.run("until [ -e go ]; do sleep 0.02; done"))
    await until(lambda: rig.shells.registry.shells[rig.shell_id].running)
    return request


@pytest.mark.parametrize("how", [{}, {"background": True}])
async def test_a_queued_command_that_is_cancelled_is_in_the_record(tmp_path: Path, how: dict[str, bool]) -> None:
    async with shell_rig(tmp_path) as rig:
        held = await _hold(rig)
        waiting = await _queued(rig, **how)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        shell = rig.shells.registry.shells[rig.shell_id]
        cancelled = shell.commands[f"{rig.shell_id}#2"]
        await asyncio.wait_for(cancelled.over.wait(), 5)
        assert (await _ends(rig))["2"] == ("touch never", "cancelled", 130)
        [listed] = (await rig.shells.list_shells({}, CLIENT))["shells"]
        assert (listed["last_command"]["command_id"], listed["last_command"]["state"]) == (
            cancelled.command_id,
            "cancelled",
        )
        assert listed["running"] == [f"{rig.shell_id}#1"]
        page = await rig.read(cancelled.command_id)
        assert (page["state"], page["text"], page["eof"]) == ("cancelled", "", True)
        (rig.place / "go").touch()
        assert (await held)["state"] == "finished"
        assert await rig.out("ls") == "go", "the next command has its turn and the cancelled one never ran"


async def test_a_command_that_waited_in_vain_is_in_the_record(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        held = await _hold(rig)
        with pytest.raises(ShellBusy):
            await rig.run("touch never")
        with pytest.raises(ShellBusy):
            await rig.run("touch never", wait_idle_s=1)
        (rig.place / "go").touch()
        await held
        ends = await _ends(rig)
        assert "2" not in ends, "a command that may not wait is answered and no more"
        assert ends["3"][1] == "cancelled"


async def test_a_command_whose_shell_is_closed_while_it_waits_is_in_the_record(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        held = await _hold(rig)
        waiting = await _queued(rig)
        await rig.close()
        with pytest.raises(ShellEnded):
            await waiting
        assert (await held)["state"] == "cancelled"
        await asyncio.wait_for(rig.shells.registry.shells[rig.shell_id].released.wait(), 5)
        assert {number: end[1] for number, end in (await _ends(rig)).items()} == {"1": "cancelled", "2": "cancelled"}


async def test_a_command_cancelled_while_a_person_is_asked_is_in_the_record(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings='[policy]\nask = ["touch"]\n') as rig:
        wait_for_ever = asyncio.Event()

        async def confirm(_question: str) -> bool | None:
            await wait_for_ever.wait()
            return None

        arguments = {"shell_id": rig.shell_id, "command": "touch never"}
        request = asyncio.create_task(rig.shells.commands.run_command(arguments, CLIENT, confirm=confirm))
        await until(rig.shells.approvals.pending)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await asyncio.wait_for(rig.shells.registry.shells[rig.shell_id].commands[f"{rig.shell_id}#1"].over.wait(), 5)
        assert (await _ends(rig))["1"][1] == "cancelled"


async def test_the_record_of_a_cancelled_queued_command_survives_the_server(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        await _hold(rig)
        waiting = await _queued(rig)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        command_id, shell_id = f"{rig.shell_id}#2", rig.shell_id
    async with shell_rig(tmp_path, shell=False) as rig:
        assert (await rig.read(command_id))["state"] == "cancelled"
        [listed] = (await rig.shells.list_shells({"include_ended": True}, CLIENT))["shells"]
        assert listed["shell_id"] == shell_id
        assert listed["last_command"]["state"] == "cancelled"


async def test_an_idle_shell_of_a_client_that_left_gives_way_at_the_limit(tmp_path: Path) -> None:
    async with shell_rig(tmp_path, settings="[policy.limits]\nshells = 3\n", shell=False) as rig:
        gone = replace(CLIENT, client_id="gone")
        place = {"cwd": str(rig.place)}
        idle, busy = [(await rig.shells.open_shell(place, gone))["shell_id"] for _ in range(2)]
        own = (await rig.open())["shell_id"]
        rig.shells.connected = lambda: {"gone"}
        with pytest.raises(ShellLimit):
            await rig.open()
        rig.shells.connected = lambda: {CLIENT.client_id or ""}
        run = {"shell_id": busy, "command": "sleep 60", "background": True}
        await rig.shells.commands.run_command(run, gone)
        opened = (await rig.open())["shell_id"]
        assert rig.shells.registry.live_ids() == [busy, own, opened]
        assert rig.shells.registry.shells[idle].ended_reason == "idle"
        with pytest.raises(ShellLimit):
            await rig.open()
