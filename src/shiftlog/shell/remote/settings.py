"""The operator's settings for ssh and docker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ANY = (("*",),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """The operator's settings for hosts, keys and passwords. Every list in `hosts` must permit a host."""

    key_dir: Path = field(default_factory=lambda: Path.home() / ".ssh")
    known_hosts: Path | None = None
    hosts: tuple[tuple[str, ...], ...] = ANY
    accept_new_host_keys: bool = False
    require_known_hosts: bool = True
    trusting_dialect: bool = False  # clients of execkit expect that a pin suffices for an unknown host
    password_auth: bool = True
    agent_path: str | None = None
    connect_s: float = 15.0
    keepalive_s: float = 15.0
    keepalives: int = 3

    @property
    def known_hosts_file(self) -> Path:
        """The file of known host keys; by default in the key directory."""
        return self.known_hosts or self.key_dir / "known_hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """The operator's settings for containers. Every list must permit a container."""

    containers: tuple[tuple[str, ...], ...] = ANY
