"""Files are copied to and from ssh shells whole or not at all, within the operator's bounds, and recorded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.shell_errors import PolicyDenied, SandboxNotAllowed, TransferFailed, WorkspaceInvalid
from tests.shell.remote import copying
from tests.shell.remote.copying import PERSON, get, put
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import SshServer
from tests.shell.rig import ShellRig, shell_rig

KINDS = pytest.mark.parametrize("kind", ["bash", "sh"])


@pytest.fixture
async def rig(tmp_path: Path, server: SshServer) -> AsyncIterator[ShellRig]:
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server)) as rig:
        yield rig


@pytest.mark.parametrize("check", [copying.check_round_trip, copying.check_replacing, copying.check_faults])
@KINDS
async def test_files_are_copied_over_ssh(tmp_path: Path, server: SshServer, check: copying.Check, kind: str) -> None:
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, shell=kind)) as rig:
        await check(rig, rig.place, f"{tmp_path}/there")


async def test_a_cancelled_copy_changes_nothing(rig: ShellRig, tmp_path: Path) -> None:
    await copying.check_cancelling(rig, rig.place, f"{tmp_path}/there")


async def test_a_copy_runs_beside_a_busy_shell(rig: ShellRig, tmp_path: Path) -> None:
    begun = await rig.run(f"cd {tmp_path}; sleep 60", timeout_s=1, on_timeout="keep_running")
    (tmp_path / "f").write_text("text")
    await put(rig, tmp_path / "f", f"{tmp_path}/g")
    assert (tmp_path / "g").read_text() == "text"
    await rig.send(begun["command_id"], signal="interrupt")


async def test_a_copy_that_the_lists_forbid_is_refused_and_recorded(tmp_path: Path, server: SshServer) -> None:
    settings = settings_for(server, deny_patterns=["/etc/"])
    async with shell_rig(tmp_path, settings=settings, **where(server)) as rig:
        (rig.place / "f").write_text("text")
        with pytest.raises(PolicyDenied):
            await put(rig, rig.place / "f", "/etc/f")
        with pytest.raises(PolicyDenied):
            await get(rig, "/etc/hostname", rig.place / "out")
        refused = [entry.facts["state"] for entry in await rig.entries(Kind.COMMAND_FINISHED)]
        assert refused == ["refused", "refused"]


async def test_a_bounded_operator_has_files_written_to_workspaces_alone(tmp_path: Path, server: SshServer) -> None:
    inside, there = tmp_path / "place", tmp_path / "there"
    there.mkdir()
    (there / "out").symlink_to("..")
    extra = tmp_path / "extra"
    extra.mkdir()
    bounds = {"sandbox_max": "workspace-write", "workspaces": [str(inside)], "sandbox_write": [str(extra)]}
    settings = settings_for(server, **bounds)
    async with shell_rig(tmp_path, settings=settings, **where(server, workspace=str(there))) as rig:
        (inside / "f").write_text("text")
        (inside / "link").symlink_to(tmp_path)
        (tmp_path / "secret").write_text("outside")
        (inside / "leads-out").symlink_to(tmp_path / "secret")
        await put(rig, inside / "f", f"{there}/f")
        for remote in (f"{tmp_path}/g", f"{there}/../g", f"{there}/out/g", f"{there}/out"):
            with pytest.raises(TransferFailed, match="outside the shell's workspace"):
                await put(rig, inside / "f", remote)
        for local in (tmp_path / "secret", inside / "leads-out", inside / "link" / "secret", inside / ".." / "secret"):
            with pytest.raises(WorkspaceInvalid):
                await put(rig, local, f"{there}/secret")
        for local in (tmp_path / "got", inside / "link" / "got", inside / "link"):
            with pytest.raises(WorkspaceInvalid):
                await get(rig, f"{there}/f", local)
        await get(rig, f"{there}/f", inside / "got")
        await get(rig, f"{there}/f", extra / "got")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["extra", "home", "place", "secret", "there"]


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
async def test_a_read_only_policy_and_a_shell_without_workspace_take_no_file(
    tmp_path: Path, server: SshServer, mode: str
) -> None:
    settings = settings_for(server, sandbox_max=mode, workspaces=["*"])
    async with shell_rig(tmp_path, settings=settings, **where(server)) as rig:
        (rig.place / "f").write_text("text")
        with pytest.raises(SandboxNotAllowed):
            await put(rig, rig.place / "f", f"{tmp_path}/g")
        if mode == "read-only":
            with pytest.raises(SandboxNotAllowed):
                await get(rig, f"{rig.place}/f", rig.place / "g")


async def test_shiftlogs_own_data_is_neither_sent_nor_replaced(rig: ShellRig) -> None:
    with pytest.raises(WorkspaceInvalid):
        await put(rig, rig.home / "shiftlog.db", "/tmp/never")
    with pytest.raises(WorkspaceInvalid):
        await get(rig, "/etc/hostname", rig.home / "config.toml")


async def test_a_put_into_a_workspace_can_be_undone(tmp_path: Path, server: SshServer) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "f").write_text("old")
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, workspace=str(there))) as rig:
        (rig.place / "f").write_text("new")
        sent = await put(rig, rig.place / "f", f"{there}/f")
        assert sent["checkpoint_id"]
        await rig.app.workspaces.restore_checkpoint({"shell_id": rig.shell_id}, PERSON)
        assert (there / "f").read_text() == "old"


async def test_a_local_shell_is_told_to_use_cp(tmp_path: Path) -> None:
    async with shell_rig(tmp_path) as rig:
        with pytest.raises(InvalidParameter, match="shell on this machine"):
            await put(rig, tmp_path / "f", "f")
