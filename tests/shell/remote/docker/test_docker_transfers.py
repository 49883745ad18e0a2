"""Files are copied to and from shells in containers whole or not at all, and recorded."""

from pathlib import Path

import pytest

from tests.shell.remote import copying
from tests.shell.remote.docker.engine import Engine
from tests.shell.remote.docker.places import environ_of, where
from tests.shell.rig import shell_rig

CHECKS = [copying.check_round_trip, copying.check_replacing, copying.check_faults, copying.check_cancelling]


@pytest.mark.parametrize("check", CHECKS)
async def test_files_are_copied_in_containers(
    tmp_path: Path, engine: Engine, container: str, check: copying.Check
) -> None:
    async with shell_rig(tmp_path, environ=environ_of(engine), **where(container)) as rig:
        remote = "/tmp/copied"
        await rig.run(f"rm -rf {remote}")
        await check(rig, rig.place, remote)
