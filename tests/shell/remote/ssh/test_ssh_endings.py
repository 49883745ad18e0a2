"""How shells over ssh end when nobody says goodbye, what stays on the host then, and output without end."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from anyio.abc import TaskGroup

from shiftlog.shell.engine.protocol import draw_token
from shiftlog.shell.ports import ShellSpec
from shiftlog.shell.remote.ssh.targets import SshTargets
from tests.shell.engine.probe import PATIENCE_S, finish, start
from tests.shell.outputs.much import check_much
from tests.shell.remote.left import MARK, kill_busy_server, marked, stop_marked, until_gone
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import USER, SshServer, start_server
from tests.shell.rig import shell_rig, until

KEEPALIVE_S, KEEPALIVES = 0.2, 3


@pytest.mark.long
async def test_a_killed_server_leaves_nothing_running_on_the_host(tmp_path: Path, server: SshServer) -> None:
    mark = draw_token()
    try:
        kill_busy_server(tmp_path, settings_for(server), where(server, env={MARK: mark}), {})
        await until_gone(mark)
        await until(lambda: not server.connections() and not server.private_places())
    finally:
        stop_marked(mark)


async def test_a_cut_connection_leaves_nothing_running_on_the_host(tmp_path: Path, server: SshServer) -> None:
    mark = draw_token()
    try:
        opening = where(server, env={MARK: mark})
        async with shell_rig(tmp_path, settings=settings_for(server), **opening) as rig:
            await rig.run("sleep 1001 & sleep 1002", timeout_s=1, on_timeout="keep_running")
            assert len(marked(mark)) >= 3
            server.cut()
            await until_gone(mark)
        await until(lambda: not server.private_places())
    finally:
        stop_marked(mark)


async def test_a_silent_connection_is_lost_when_the_last_question_stays_unanswered(
    tmp_path: Path, tasks: TaskGroup
) -> None:
    """Keep-alive: the command's fate is unknown then, and nobody connects again."""
    server = start_server(tmp_path / "sshd")
    try:
        settings = replace(server.settings, keepalive_s=KEEPALIVE_S, keepalives=KEEPALIVES)
        values = {"host": "127.0.0.1", "port": server.port, "user": USER}
        shell = await SshTargets(settings).find(values).open(ShellSpec(cwd="/"), tasks)
        command, sink = await start(shell, "echo p; sleep 30")
        await sink.until(b"p\n")
        before = server.connections()
        server.stall()
        silent_since = time.monotonic()
        end = await finish(command)
        assert KEEPALIVE_S * (KEEPALIVES - 1) < time.monotonic() - silent_since < PATIENCE_S / 2
        assert (end.lost, end.exit_code, sink.out) == (True, None, b"p\n")
        await shell.close()
        assert shell.ended.result().lost
        assert server.connections() == before
    finally:
        server.cut()
        server.stop()


async def test_the_end_of_much_output_over_ssh_leaves_memory_as_it_was(tmp_path: Path, server: SshServer) -> None:
    """Case 22 over ssh."""
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server)) as rig:
        await check_much(rig, 96 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_the_end_of_a_gigabyte_over_ssh_leaves_memory_as_it_was(tmp_path: Path, server: SshServer) -> None:
    """Case 22 over ssh."""
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server)) as rig:
        await check_much(rig, 1 << 30)
