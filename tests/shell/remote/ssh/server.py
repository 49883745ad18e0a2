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
import pytest

from shiftlog.shell.remote.settings import SshSettings

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
USER = pwd.getpwuid(os.getuid()).pw_name
START_S = 10.0
_RULES = {"auth": "pam_unix.so", "account": "pam_permit.so", "session": "pam_permit.so"}


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

    def private_places(self) -> list[Path]:
        """Return the private directories of shells that are, or were, on the server."""
        return list((self.folder / "tmp").glob(".shiftlog-*"))

    def stall(self) -> None:
        """Let every connection fall silent without ending it, as a network that drops everything would."""
        for pid in self.connections():
            os.kill(pid, signal.SIGSTOP)

    def cut(self) -> None:
        """Cut every connection at once, as a network would: nobody says goodbye."""
        for pid in self.connections():
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(START_S)


def start_server(
    folder: Path,
    *options: str,
    password: str | None = None,
    authority: asyncssh.SSHKey | None = None,
    busybox: str | None = None,
) -> SshServer:
    """Start a server that lets this user in with the key `id_ed25519` of the key directory.

    With a password this user has that one there, and nowhere else; only root can have it so. An authority signs a
    certificate of the host. With the path of a BusyBox
    that one is `sh` there. The user's home and place for temporary files are empty ones: whoever runs the tests may
    have rc files that are slow, or print.
    """
    if SSHD is None:
        pytest.skip("sshd is not installed (openssh-server)")
    key_dir = folder / "keys"
    key_dir.mkdir(parents=True, mode=0o700)
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    host_key, user_key = _new_key(folder / "host_key"), _new_key(key_dir / "id_ed25519")
    if authority is not None:
        certificate = authority.generate_host_certificate(host_key, "host", principals=["127.0.0.1"])
        (folder / "host_key-cert.pub").write_bytes(certificate.export_certificate())
        options += (f"HostCertificate {folder}/host_key-cert.pub",)
    (folder / "authorized").write_bytes(user_key.export_public_key())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = (
        *options,  # of several values for one setting the first counts
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
        f"SetEnv HOME={folder}/home TMPDIR={folder}/tmp",
    )
    (folder / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    before = () if password is None else _with_password(folder, password)
    if busybox is not None:
        before = (
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'mount --bind "{busybox}" "$(readlink -f /bin/sh)" && exec "$@"',
            "sh",
        )
    process = subprocess.Popen(
        [*before, SSHD, "-D", "-E", str(folder / "log"), "-f", str(folder / "config")],
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


def _with_password(folder: Path, password: str) -> tuple[str, ...]:
    """Return what starts a program that sees a shadow file and rules of PAM of our own in place of the machine's."""
    salted = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=password.encode(), capture_output=True, check=True
    ).stdout.decode()
    shadow, rules = folder / "shadow", folder / "rules"
    shadow.write_text(f"{USER}:{salted.strip()}:19000:0:99999:7:::\n", encoding="utf-8")
    shadow.chmod(0o600)
    rules.write_text("".join(f"{kind} required {_RULES[kind]}\n" for kind in _RULES), encoding="utf-8")
    mounts = f'mount --bind "{shadow}" /etc/shadow && mount --bind "{rules}" /etc/pam.d/sshd'
    return ("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh")


def _new_key(path: Path) -> asyncssh.SSHKey:
    key = asyncssh.generate_private_key("ssh-ed25519")  # pyright: ignore[reportUnknownMemberType]
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    return key
