"""Ways to log in over ssh, all against real programs: passwords, an agent, host keys that an authority vouches for."""

import os
import re
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import pytest

from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import HostKeyMismatch, HostKeyUnknown, SshAuthFailed, SshConnectFailed
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import SshServer, start_server
from tests.shell.rig import shell_rig

PASSWORD = "Correct-horse-9"
WAYS = {
    "password": ("PasswordAuthentication yes", "PermitRootLogin yes"),
    "keyboard-interactive": ("UsePAM yes", "KbdInteractiveAuthentication yes", "PermitRootLogin yes"),
}


@contextmanager
def running(
    folder: Path, *options: str, password: str | None = None, authority: asyncssh.SSHKey | None = None
) -> Generator[SshServer]:
    """Run a server of its own for a test."""
    server = start_server(folder, *options, password=password, authority=authority)
    try:
        yield server
    finally:
        server.stop()


def needs_mounts() -> None:
    """Skip where no file of this machine can be replaced for one program alone."""
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("a shadow file of our own needs root and mount namespaces")


@pytest.mark.parametrize("way", WAYS)
async def test_a_password_lets_in_and_is_told_to_nobody(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    needs_mounts()
    with running(tmp_path / "sshd", *WAYS[way], password=PASSWORD) as server:
        settings = settings_for(server)
        async with shell_rig(tmp_path, settings=settings, **where(server, password=PASSWORD)) as rig:
            assert await rig.out("echo in") == "in"
            assert await rig.out(f"echo {PASSWORD}") == "[REDACTED:learned]"
            with pytest.raises(SshAuthFailed) as refused:
                await rig.open(**where(server, password="Wrong-horse-9"))
            assert refused.value.details == {"methods": [way]}
        _is_nowhere(PASSWORD, rig.home, caplog)
        settings = settings_for(server, password_auth=False)
        async with shell_rig(tmp_path, settings=settings, shell=False) as rig:
            with pytest.raises(SshAuthFailed) as refused:
                await rig.open(**where(server, password=PASSWORD))
            assert refused.value.details == {"methods": []}


async def test_with_a_password_no_key_is_offered(tmp_path: Path) -> None:
    needs_mounts()
    with running(tmp_path / "sshd", *WAYS["password"], password=PASSWORD) as server:
        async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
            with pytest.raises(SshAuthFailed):
                await rig.open(**where(server, password="Wrong-horse-9"))
            assert (await rig.open(**where(server)))["state"] == "idle"
        assert "publickey" not in (server.folder / "log").read_text(encoding="utf-8").partition("Accepted")[0]


async def test_an_agents_key_lets_in_unless_the_operator_says_no(tmp_path: Path) -> None:
    with running(tmp_path / "sshd") as server, agent(tmp_path, server.key_dir / "id_ed25519") as socket:
        key = server.key_dir / "id_ed25519"
        key.rename(tmp_path / "away")
        environ = {"SSH_AUTH_SOCK": socket}
        settings = settings_for(server, ssh_agent=True)
        async with shell_rig(tmp_path, settings=settings, environ=environ, **where(server)) as rig:
            assert await rig.out("echo in") == "in"
        async with shell_rig(tmp_path, settings=settings_for(server), environ=environ, shell=False) as rig:
            with pytest.raises(SshAuthFailed):
                await rig.open(**where(server))
        gone = {"SSH_AUTH_SOCK": str(tmp_path / "nobody")}
        (tmp_path / "away").rename(key)
        async with shell_rig(tmp_path, settings=settings, environ=gone, **where(server)) as rig:
            assert await rig.out("echo in") == "in"


@pytest.mark.parametrize(
    ("vouched", "revoked", "pinned", "error"),
    [
        ("[127.0.0.1]:*", None, False, None),
        ("[10.0.0.1]:*", None, False, HostKeyUnknown),
        ("[127.0.0.1]:*", "authority", False, HostKeyMismatch),
        ("[127.0.0.1]:*", "host", False, HostKeyMismatch),
        ("[127.0.0.1]:*", None, True, HostKeyUnknown),
    ],
    ids=["vouched", "for another host", "authority revoked", "key revoked", "a pin is about the key alone"],
)
async def test_an_authority_vouches_for_hosts_of_its_own_alone(
    tmp_path: Path, vouched: str, revoked: str | None, pinned: bool, error: type[ShiftlogError] | None
) -> None:
    authority = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
    with running(tmp_path / "sshd", authority=authority) as server:
        lines = f"@cert-authority {vouched} {_public(authority)}\n"
        if revoked is not None:
            lines += f"@revoked [127.0.0.1]:* {_public(authority if revoked == 'authority' else server.host_key)}\n"
        server.know(lines)
        pin = server.fingerprint if pinned else None
        async with shell_rig(tmp_path, settings=settings_for(server), shell=False) as rig:
            if error is None:
                assert (await rig.open(**where(server, fingerprint=pin)))["state"] == "idle"
            else:
                with pytest.raises(error):
                    await rig.open(**where(server, fingerprint=pin))
    assert (server.key_dir / "known_hosts").read_text(encoding="utf-8") == lines


@contextmanager
def agent(folder: Path, key: Path) -> Generator[str]:
    """Run an agent that has a key and give the place of its socket."""
    socket = folder / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert re.match(rb"SSH_AUTH_SOCK=", process.stdout.readline())
        try:
            adding = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
            subprocess.run(["ssh-add", "-q", str(key)], env=adding, check=True)
            yield str(socket)
        finally:
            process.terminate()


def _public(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def _is_nowhere(secret: str, home: Path, log: pytest.LogCaptureFixture) -> None:
    assert secret not in log.text
    for path in home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


async def test_a_host_that_does_not_answer_is_told_by_the_systems_own_reason(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets it, and it refuses
        port = taken.getsockname()[1]
        async with shell_rig(tmp_path, shell=False) as rig:
            with pytest.raises(SshConnectFailed) as failed:
                await rig.open(transport="ssh", host="127.0.0.1", user="nobody", port=port, cwd=None)
    assert str(failed.value) == f"cannot connect to 127.0.0.1:{port}: Connection refused"
