"""A real OpenSSH server on a loopback port, with keys and accounts of its own making."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from shiftlog.shell.ssh_settings import SshSettings

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
USER = pwd.getpwuid(os.getuid()).pw_name
START_S = 10.0


@dataclass(slots=True, kw_only=True)
class SshServer:
    """One sshd; `key_dir` is an operator's key directory that is let in."""

    folder: Path
    key_dir: Path
    port: int
    host_key: asyncssh.SSHKey
    process: subprocess.Popen[bytes] | None = None
    options: tuple[str, ...] = ()
    settings: SshSettings = field(init=False)

    def __post_init__(self) -> None:
        self.settings = SshSettings(key_dir=self.key_dir)

    @property
    def fingerprint(self) -> str:
        return self.host_key.get_fingerprint()

    @property
    def host_line(self) -> str:
        """The server's key as known_hosts has it."""
        public = self.host_key.export_public_key().decode().split()
        return f"[127.0.0.1]:{self.port} {public[0]} {public[1]}\n"

    def know(self, text: str | None = None) -> None:
        """Make the operator's known_hosts say this; by default that the server is known."""
        (self.key_dir / "known_hosts").write_text(self.host_line if text is None else text, encoding="utf-8")

    def connections(self) -> list[int]:
        """Return the processes of the server that serve one connection each."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8")
        return [int(pid) for pid in children.split()]

    def cut(self) -> None:
        """Cut every connection at once, as a network would: nobody says goodbye."""
        for pid in self.connections():
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(START_S)


def start_server(folder: Path, *options: str) -> SshServer:
    """Start a server that lets this user in with the key `id_ed25519` of the key directory."""
    assert SSHD is not None
    key_dir = folder / "keys"
    key_dir.mkdir(parents=True, mode=0o700)
    host_key, user_key = _new_key(folder / "host_key"), _new_key(key_dir / "id_ed25519")
    (folder / "authorized").write_bytes(user_key.export_public_key())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = (
        f"ListenAddress 127.0.0.1:{port}",
        f"HostKey {folder}/host_key",
        f"AuthorizedKeysFile {folder}/authorized",
        f"PidFile {folder}/pid",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PrintMotd no",
        "AllowTcpForwarding yes",
        "MaxSessions 10",
        *options,
    )
    (folder / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    process = subprocess.Popen(
        [SSHD, "-D", "-E", str(folder / "log"), "-f", str(folder / "config")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((folder / "log").read_text(encoding="utf-8")) from None
            time.sleep(0.02)
    server = SshServer(folder=folder, key_dir=key_dir, port=port, host_key=host_key, process=process)
    server.know()
    return server


def _new_key(path: Path) -> asyncssh.SSHKey:
    key = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    return key
