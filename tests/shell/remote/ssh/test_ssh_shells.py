"""Shells over ssh through the service: contract cases 49 to 51, keys, pins, aliases, jumps, lost connections."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.model.shell_errors import (
    FingerprintMismatch,
    HostKeyMismatch,
    HostKeyUnknown,
    HostNotAllowed,
    PolicyDenied,
    PolicyUndecidable,
    ShellEnded,
    ShellLost,
    SshAuthFailed,
    SshConnectFailed,
    SshKeyNotPermitted,
)
from tests.shell.remote.background import check_background
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import USER, SshServer
from tests.shell.rig import ShellRig, shell_rig, until


@pytest.fixture
async def rig(tmp_path: Path, server: SshServer) -> AsyncIterator[ShellRig]:
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server)) as rig:
        yield rig


async def test_a_shell_over_ssh_keeps_its_state_and_names_its_target(rig: ShellRig, server: SshServer) -> None:
    assert rig.shell_id.endswith(f"_ssh_{USER}@127.0.0.1:{server.port}")
    listed = (await rig.shells.list_shells({}, _caller()))["shells"][0]
    assert (listed["transport"], listed["target"]) == ("ssh", f"{USER}@127.0.0.1:{server.port}")
    await rig.run("cd /tmp; export A=1; f(){ echo $A; }")
    result = await rig.run("f; pwd; echo err >&2; false")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["cwd"]) == ("1\n/tmp", "err", 1, "/tmp")


async def test_a_command_over_ssh_that_takes_too_long_is_ended_and_the_shell_lives(rig: ShellRig) -> None:
    await rig.run("A=7")
    result = await rig.run("echo p; sleep 60", timeout_s=1)
    assert (result["state"], result["exit_code"], result["stdout"]) == ("timed_out", 124, "p")
    assert await rig.out("echo $A") == "7"


async def test_input_reaches_a_command_over_ssh(rig: ShellRig) -> None:
    begun = await rig.run("cat", background=True, stdin="open")
    await rig.send(begun["command_id"], text="hi\n", eof=True)
    page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
    assert (page["text"], page["exit_code"]) == ("hi\n", 0)


async def test_a_definition_that_never_took_place_over_ssh_permits_no_program(
    tmp_path: Path, server: SshServer
) -> None:
    rules = where(server, allow=["echo", "sleep"])
    async with shell_rig(tmp_path, settings=settings_for(server), **rules) as rig:
        begun = await rig.run("ls() { echo; }", background=True)
        await rig.read(begun["command_id"], wait_s=10, wait_for="end")
        await rig.run("sleep 20; ls() { echo; }", timeout_s=1)
        await rig.run("readonly x=1; x=2; ls() { echo; }")
        with pytest.raises(PolicyDenied):
            await rig.run("ls")
        await rig.run("A=1; ls() { echo mine; }")
        assert await rig.out("ls") == "mine"


@pytest.mark.parametrize("named", [{"host": "a..b"}, {"host": "a\0b"}, {"user": "a\0b"}])
async def test_a_name_that_no_host_or_user_can_have_is_a_failed_connection(
    tmp_path: Path, server: SshServer, named: dict[str, str]
) -> None:
    async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
        with pytest.raises(SshConnectFailed, match="not valid"):
            await rig.open(**where(server, **named))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BASH_ENV", "ENV"])
async def test_where_text_alone_is_judged_no_variable_may_change_what_an_allow_list_means(
    tmp_path: Path, server: SshServer, name: str
) -> None:
    async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
        with pytest.raises(PolicyUndecidable, match=f"assigning {name} cannot be decided"):
            await rig.open(**where(server, allow=["git"], env={name: "/tmp/elsewhere"}))
        await rig.open(**where(server, allow=["git"], env={"A": "1"}))


async def test_a_control_character_typed_at_once_reaches_the_program_over_ssh_too(rig: ShellRig) -> None:
    for _ in range(8):
        begun = await rig.run("sleep 60", pty=True, background=True)
        await rig.send(begun["command_id"], text="\x03")
        page = await rig.read(begun["command_id"], wait_s=10, wait_for="end")
        assert (page["state"], page["exit_code"], page["text"]) == ("finished", 130, "^C")


async def test_input_is_typed_on_a_terminal_over_ssh_and_then_ended(rig: ShellRig) -> None:
    result = await rig.run("tr a-z A-Z; echo; echo over", input="half a line", pty=True, timeout_s=10)
    assert (result["state"], result["stdout"].splitlines()[-1]) == ("finished", "over")
    assert "HALF A LINE" in result["stdout"]


async def test_case_51_lists_hold_over_ssh_by_the_text_alone(tmp_path: Path, server: SshServer) -> None:
    """Case 51, first part."""
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, deny=["ls"])) as rig:
        with pytest.raises(ShiftlogError) as refused:
            await rig.run("ls")
        assert refused.value.code == "policy_denied"
        result = await rig.run("echo ok")
        assert result["enforcement"] == "syntax"
        assert result["enforcement_note"]


async def test_case_51_a_cut_connection_leaves_the_command_unknown_and_the_shell_lost(
    rig: ShellRig, server: SshServer
) -> None:
    """Case 51, second part."""
    begun = await rig.run("echo p; sleep 30", timeout_s=1, on_timeout="keep_running")
    assert (await rig.run("echo 'open"))["state"] == "syntax_error"
    server.cut()
    await until(lambda: not rig.shells.registry.live_ids())
    page = await rig.read(begun["command_id"], wait_s=5, wait_for="end")
    assert (page["state"], page["exit_code"], page["text"]) == ("unknown", None, "p\n")
    with pytest.raises(ShellLost) as lost:
        await rig.run("true")
    assert (lost.value.details["command_id"], lost.value.details["fate"]) == (begun["command_id"], "unknown")


async def test_case_49_a_host_outside_the_list_is_refused_without_contact(tmp_path: Path, server: SshServer) -> None:
    """Case 49: the name does not resolve, so a look-up would have failed in other words."""
    async with shell_rig(tmp_path, settings=settings_for(server, hosts=["build-*"]), shell=False) as rig:
        with pytest.raises(HostNotAllowed) as refused:
            await rig.open(**where(server, host="nowhere.invalid"))
    assert refused.value.details == {"kind": "host", "value": "nowhere.invalid"}


async def test_case_49_an_unknown_key_is_refused_and_never_shown(tmp_path: Path, server: SshServer) -> None:
    """Case 49: with a pin too, while the operator requires known hosts."""
    server.know("")
    async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
        for pin in (None, server.fingerprint, "SHA256:" + "A" * 43):
            with pytest.raises(HostKeyUnknown) as refused:
                await rig.open(**where(server, fingerprint=pin))
            assert server.fingerprint.removeprefix("SHA256:") not in repr((refused.value, refused.value.details))
            assert refused.value.details == {"host": "127.0.0.1"}


async def test_case_50_three_bad_keys_get_one_identical_answer(tmp_path: Path, server: SshServer) -> None:
    """Case 50."""
    outside = tmp_path / "outside"
    outside.write_bytes((server.key_dir / "id_ed25519").read_bytes())
    (server.key_dir / "folder").mkdir(exist_ok=True)
    link = server.key_dir / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    answers: set[str] = set()
    async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
        for path in (str(outside), "missing", str(server.key_dir / "folder"), "link", "../keys/../../outside"):
            with pytest.raises(SshKeyNotPermitted) as refused:
                await rig.open(**where(server, key_path=path))
            answers.add(repr((refused.value.message, refused.value.details, refused.value.hint)))
        await rig.open(**where(server, key_path="id_ed25519"))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("known", "pinned", "required", "error"),
    [
        ("right", "right", True, None),
        ("right", "wrong", True, FingerprintMismatch),
        ("none", "right", False, None),
        ("none", "wrong", False, FingerprintMismatch),
        ("other", "right", False, HostKeyMismatch),
        ("other", None, True, HostKeyMismatch),
        ("revoked", "right", False, HostKeyMismatch),
        ("print", None, True, None),
        ("hashed", None, True, None),
    ],
)
async def test_a_host_key_is_judged_by_the_operator_first_and_the_pin_second(
    tmp_path: Path, server: SshServer, known: str, pinned: str | None, required: bool, error: type[ShiftlogError] | None
) -> None:
    name, kind, key = server.host_line.split()
    lines = {
        "right": server.host_line,
        "none": "",
        "other": f"{name} {kind} AAAAC3NzaC1lZDI1NTE5AAAAI{'B' * 43}\n",
        "revoked": f"@revoked {name} {kind} {key}\n",
        "print": f"{name} {server.fingerprint}\n",
        "hashed": f"{_hashed(name)} {kind} {key}\n",
    }
    server.know(lines[known])
    pin = {"right": server.fingerprint, "wrong": "SHA256:" + "A" * 43}.get(pinned or "")
    settings = settings_for(server, require_known_hosts=required)
    async with shell_rig(tmp_path, settings=settings, shell=False) as rig:
        if error is None:
            assert (await rig.open(**where(server, fingerprint=pin)))["state"] == "idle"
        else:
            with pytest.raises(error):
                await rig.open(**where(server, fingerprint=pin))
    assert (server.key_dir / "known_hosts").read_text(encoding="utf-8") == lines[known]


async def test_a_new_key_is_recorded_where_the_operator_accepts_them(tmp_path: Path, server: SshServer) -> None:
    server.know("")
    async with shell_rig(tmp_path, settings=settings_for(server, accept_new_host_keys=True), **where(server)):
        pass
    assert (server.key_dir / "known_hosts").read_text(encoding="utf-8") == server.host_line


async def test_an_alias_gives_host_user_port_and_a_way_through_jump_hosts(tmp_path: Path, server: SshServer) -> None:
    (server.key_dir / "config").write_text(
        f"Include more\nMatch all\n  Port 1\nHost inner\n  HostName 127.0.0.1\n  User={USER}\n  Port {server.port}\n"
        "  ProxyJump outer\nHost runs\n  User x\n  ProxyCommand nc %h %p\n",
        encoding="utf-8",
    )
    (server.key_dir / "more").write_text(
        f"Host outer\n  HostName 127.0.0.1\n  User {USER}\n  Port {server.port}\n", encoding="utf-8"
    )
    try:
        settings = settings_for(server, hosts=["inner", f"*@127.0.0.1:{server.port}"])
        async with shell_rig(tmp_path, settings=settings, transport="ssh", host="inner", cwd="/tmp") as rig:
            assert await rig.out("pwd") == "/tmp"
            assert len(server.connections()) >= 2
            with pytest.raises(HostNotAllowed):
                await rig.open(transport="ssh", host="elsewhere", user="x")
        async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
            with pytest.raises(SshConnectFailed, match="ProxyCommand"):
                await rig.open(transport="ssh", host="runs")
    finally:
        (server.key_dir / "config").unlink()


async def test_a_login_that_is_refused_says_what_was_tried_and_no_secret(tmp_path: Path, server: SshServer) -> None:
    async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
        with pytest.raises(SshAuthFailed) as refused:
            await rig.open(**where(server, password="correct horse 9"))
        assert "correct horse" not in repr((refused.value, refused.value.details))
        with pytest.raises(InvalidParameter):
            await rig.open(**where(server, user=None))
        with pytest.raises(SshConnectFailed):
            await rig.open(**where(server, port=1, key_path="id_ed25519", fingerprint=server.fingerprint))


async def test_nothing_is_left_behind_on_the_host(tmp_path: Path, server: SshServer) -> None:
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, env={"TMPDIR": "/tmp"})) as rig:
        pid = int(await rig.out("echo $$"))
        await rig.run("sleep 300 &")
        await rig.close()
        await until(lambda: not Path(f"/proc/{pid}").exists())
    await until(lambda: not server.connections())
    assert server.private_places() == []


def _hashed(name: str) -> str:
    import base64
    import hmac

    salt = b"0123456789abcdef0123"
    digest = base64.b64encode(hmac.digest(salt, name.encode(), "sha1")).decode()
    return f"|1|{base64.b64encode(salt).decode()}|{digest}"


def _caller() -> Any:
    from tests.shell.rig import CLIENT

    return CLIENT


async def test_a_workspace_on_the_host_has_checkpoints_there(tmp_path: Path, server: SshServer) -> None:
    place = tmp_path / "remote"
    place.mkdir()
    (place / "a.txt").write_text("good\n")
    more = {"workspace": str(place), "cwd": str(place)}
    async with shell_rig(tmp_path, settings=settings_for(server), **where(server, **more)) as rig:
        [first] = (await rig.app.workspaces.list_checkpoints({"shell_id": rig.shell_id}, _caller()))["checkpoints"]
        bad = await rig.run("echo BAD > a.txt; echo n > n.txt")
        assert bad["checkpoint_id"] == first["checkpoint_id"]
        asked = {"shell_id": rig.shell_id, "clean": True}
        back = await rig.app.workspaces.restore_checkpoint(asked, _caller())
        assert back["files_changed"] == 2
        assert (place / "a.txt").read_text() == "good\n"
        assert not (place / "n.txt").exists()
        local = list((rig.home / "checkpoints").rglob("HEAD")) if (rig.home / "checkpoints").exists() else []
        assert local == []


async def test_a_command_in_the_background_over_ssh_that_ends_meanwhile_writes_into_no_other(rig: ShellRig) -> None:
    await check_background(rig)


async def test_a_shell_over_ssh_that_may_open_no_more_files_is_ended(rig: ShellRig) -> None:
    await rig.run("ulimit -n 5")
    with pytest.raises(ShellEnded, match="too few files"):
        await rig.run("echo hi")


async def test_a_terminal_over_ssh_has_its_size_from_the_start(rig: ShellRig) -> None:
    assert (await rig.run("stty size", pty=True, cols=77, rows=33))["stdout"].strip() == "33 77"
