"""What the operator allows of ssh and docker, as this room needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ANY = (("*",),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """The operator's word on hosts, keys and passwords. Of several `hosts` lists each must permit a host."""

    key_dir: Path = field(default_factory=lambda: Path.home() / ".ssh")
    known_hosts: Path | None = None
    hosts: tuple[tuple[str, ...], ...] = ANY
    accept_new_host_keys: bool = False
    require_known_hosts: bool = True
    trusting_dialect: bool = False  # clients of execkit expect a pin to be enough for a host nobody knows
    password_auth: bool = True
    agent_path: str | None = None
    connect_s: float = 15.0
    keepalive_s: float = 15.0
    keepalives: int = 3

    @property
    def known_hosts_file(self) -> Path:
        """The file of known host keys: in the key directory unless it is named."""
        return self.known_hosts or self.key_dir / "known_hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """The operator's word on containers. Of several lists each must permit a container."""

    containers: tuple[tuple[str, ...], ...] = ANY
