"""The engine of remote shells where neither sshd nor a container engine is: a client that starts `sh` right here."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.programs import only_in
from tests.shell.remote.background import check_background
from tests.shell.rig import ShellRig, shell_rig

#: Answers the two questions that are put to a container engine's client.
CLIENT = """#!/bin/sh
case $1 in
inspect) echo "$(printf '%064d' 7) true false 2026-01-01T00:00:00Z /box" ;;
exec) while [ "$1" != sh ]; do shift; done; exec "$@" ;;
esac
"""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ShellRig]:
    client = tmp_path / "bin" / "docker"
    client.parent.mkdir()
    client.write_text(CLIENT)
    client.chmod(0o755)
    environ = {"PATH": only_in(client.parent), "TMPDIR": str(tmp_path)}
    async with shell_rig(tmp_path, environ=environ, transport="docker", container="box") as rig:
        yield rig


async def test_a_command_in_the_background_that_ends_meanwhile_writes_into_no_other(rig: ShellRig) -> None:
    await check_background(rig)
