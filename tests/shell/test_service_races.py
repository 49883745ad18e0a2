"""A program exchanges a workspace with a link to outside while shells and checkpoints open it."""

from pathlib import Path

import pytest

from shiftlog.model.errors import ShiftlogError
from shiftlog.shell.sandbox.detect import detect
from tests.races import FEW_TRIES, TRIES, exchanging
from tests.shell.rig import CLIENT, shell_rig

needs_kernel = pytest.mark.skipif(not detect().any_kernel, reason="this kernel can confine no shell")


@pytest.mark.long
@needs_kernel
@pytest.mark.parametrize("tries", [FEW_TRIES, pytest.param(TRIES, marks=pytest.mark.guard)])
async def test_a_shell_never_writes_where_a_flipping_workspace_points(tmp_path: Path, tries: int) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "sub").mkdir(parents=True)
    outside.mkdir()
    (place / "other").symlink_to(outside)
    settings = f"[policy]\nsandbox_max = 'workspace-write'\nworkspaces = ['{place}']\n"
    async with shell_rig(tmp_path, settings=settings, shell=False) as rig:
        for number in range(tries):
            try:
                with exchanging(place / "sub", place / "other"):
                    opened = await rig.shells.open_shell({"workspace": str(place / "sub")}, CLIENT)
                rig.shell_id = opened["shell_id"]
                await rig.run(f"echo x > file{number}; echo x > {outside}/file{number}")
                await rig.app.workspaces.create_checkpoint({"shell_id": rig.shell_id}, CLIENT)
            except ShiftlogError:
                continue
            finally:
                if rig.shell_id:
                    await rig.close()
                    rig.shell_id = ""
            assert list(outside.iterdir()) == []
