"""A full disk: outputs leave room on it, commands are recorded all the same, and gc makes room."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest

from shiftlog.control.checkpoints import gc
from shiftlog.journal.shells.reserve import DiskReserve
from shiftlog.model.entry import Kind
from shiftlog.model.shell_errors import JournalUnavailable
from shiftlog.shell.outputs.disk_room import DiskRoom
from tests.daemon.disks import fill, needs_root, small_disk
from tests.shell.rig import CLIENT, ShellRig, shell_rig, until

pytestmark = needs_root


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """Yield a folder on a small disk of its own."""
    with small_disk(tmp_path / "disk", 48) as home:
        yield home.parent


def _free(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


async def test_a_noisy_command_leaves_room_on_the_disk_and_is_recorded(disk: Path) -> None:
    async with shell_rig(disk) as rig:
        noisy = await rig.run("yes 0123456789012345678901234567890123456789 | head -c 60000000")
        assert (noisy["state"], noisy["recorded"]) == ("finished", True)
        assert noisy["output"]["stdout"]["bytes"] == 60_000_000
        assert noisy["output"]["stdout"]["spool_full"]
        assert _free(disk) > 4 << 20
        after = await rig.run("echo after")
        assert (after["stdout"], after["recorded"]) == ("after", True)
        ends = [entry.facts["state"] for entry in await rig.entries(Kind.COMMAND_FINISHED)]
        assert ends == ["finished", "finished"]


async def test_commands_are_recorded_on_a_disk_that_a_program_has_filled(disk: Path) -> None:
    async with shell_rig(disk) as rig:
        filled = await rig.run("yes 0123456789 >filler; rm -f nothing")
        assert filled["recorded"], "its end is recorded although no byte was free"
        cleared = await rig.run("rm filler; echo cleared")
        assert (cleared["stdout"], cleared["recorded"]) == ("cleared", True)
        assert (await rig.run("echo on"))["recorded"]
        assert (rig.home / "reserve").exists(), "it is made again once there is room"
        assert len(await rig.entries(Kind.COMMAND_FINISHED)) == 3


async def test_without_any_room_a_command_is_refused_and_the_shell_lives(disk: Path) -> None:
    async with shell_rig(disk) as rig:
        rig.app.shell_log.reserve.release()
        filler = fill(disk)
        with pytest.raises(JournalUnavailable):
            await _run_often(rig)
        filler.unlink()
        assert (await rig.run("echo on"))["recorded"]


async def test_gc_works_on_a_full_disk_and_removes_the_oldest_outputs(disk: Path) -> None:
    async with shell_rig(disk) as rig:
        for _ in range(8):
            await rig.run("yes 0123456789 | head -c 2000000")
        kept = rig.shells.outputs.kept_bytes
        fill(disk)
        gone = await _gc(rig)
        assert gone["outputs_removed"] > 0
        assert gone["output_bytes"] < kept
        assert _free(disk) >= 4 << 20
        newest = f"{rig.shell_id}#8"
        assert (await rig.read(newest))["text"].startswith("0123456789\n")
        assert (await rig.run("echo on"))["recorded"]


@pytest.mark.parametrize("text", ["hi", "long" * 4_000])
async def test_what_a_command_wrote_while_the_disk_was_full_is_kept_once_there_is_room(disk: Path, text: str) -> None:
    async with shell_rig(disk) as rig:
        await rig.run("echo before")
        running = await rig.run(f"sleep 0.5; echo {text}; until [ -e go ]; do sleep 0.05; done", background=True)
        command_id = str(running["command_id"])
        filler = fill(disk)
        await until(lambda: rig.shells.outputs.reopen(command_id).stdout.spool.size > len(text))
        rig.shells.outputs.flush()  # as happens once a second: nothing can be written
        os.close(os.open(rig.place / "go", os.O_CREAT))
        assert (await rig.read(command_id, wait_s=30, wait_for="end"))["text"] == f"{text}\n"
        assert (await rig.run("true"))["recorded"]  # and so is the end of the command before it
        filler.unlink()
        rig.shells.outputs.flush()
        assert await _broken(rig) == []
    async with shell_rig(disk, shell=False) as again:
        assert (await again.read(command_id))["text"] == f"{text}\n"
        assert await _broken(again) == []


async def _broken(rig: ShellRig) -> list[str]:
    found = [each async for each in rig.app.maintenance.verify(await rig.app.maintenance.session_ids())]
    return [str(each.note) for each in found if not each.ok]


async def _run_often(rig: ShellRig) -> None:
    for _ in range(2000):
        await rig.run("echo " + "word " * 2000)


async def _gc(rig: ShellRig) -> dict[str, int]:
    found = await gc(rig.app, {}, CLIENT)
    return cast("dict[str, int]", found)


async def test_an_index_is_shortened_in_its_place_if_the_disk_has_no_room(disk: Path) -> None:
    async with shell_rig(disk) as rig:
        for _ in range(300):
            await rig.run("echo " + "x" * 200)
        rig.app.shell_log.reserve.release()
        fill(disk)
        assert rig.shells.forget([f"{rig.shell_id}#{number}" for number in range(1, 200)]) == 199
        assert (await rig.read(f"{rig.shell_id}#250"))["text"].startswith("xxx")


def test_room_is_granted_only_above_the_reserve(disk: Path) -> None:
    room = DiskRoom(disk)
    assert room.take(1000) == 1000
    fill(disk, leave_bytes=7 << 20)
    assert DiskRoom(disk).take(8 << 20) <= 1 << 20
    fill(disk)
    assert DiskRoom(disk).take(1) == 0


def test_a_folder_in_the_place_of_the_reserve_is_left_alone(disk: Path) -> None:
    (disk / "reserve").mkdir()
    reserve = DiskReserve(disk / "reserve")
    reserve.hold()
    assert not reserve.release()


def test_the_reserve_is_given_back_once_and_made_again_only_with_room(disk: Path) -> None:
    reserve = DiskReserve(disk / "reserve")
    reserve.hold()
    before = _free(disk)
    assert reserve.release()
    assert _free(disk) - before >= 2 << 20
    assert not reserve.release()
    filler = fill(disk)
    reserve.hold()
    assert not (disk / "reserve").exists()
    filler.unlink()
    reserve.hold()
    assert (disk / "reserve").exists()
