"""The keys that a login offers: one that the caller names inside the operator's key directory, or those found in turn.

Whether a named path lies outside, is missing, is no file or holds no key is one and the same answer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftlog.model.shell_errors import SshKeyNotPermitted

if TYPE_CHECKING:
    from asyncssh import SSHAgentClient, SSHKey, SSHKeyPair

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
MOST_KEYS = 6
_MOST_BYTES = 1 << 20


def named_key(key_path: str, key_dir: Path) -> SSHKey:
    """Return the key at a path inside the key directory; raises `SshKeyNotPermitted`, always in the same words."""
    try:
        folder = key_dir.resolve(strict=True)
        path = (folder / Path(key_path).expanduser()).resolve(strict=True)
        if path.is_relative_to(folder):
            return _read_key(path)
    except (OSError, RuntimeError, ValueError):
        pass
    raise SshKeyNotPermitted("key_path not permitted")


async def offered_keys(
    agent_path: str | None, identity_files: Sequence[str], key_dir: Path
) -> tuple[list[SSHKeyPair | SSHKey], SSHAgentClient | None]:
    """Return the keys to try in turn: the agent's, those an alias names, the usual ones; close the agent after use."""
    import asyncssh

    keys: list[SSHKeyPair | SSHKey] = []
    agent: SSHAgentClient | None = None
    if agent_path:
        try:
            agent = await asyncssh.connect_agent(agent_path)
            keys += await agent.get_keys()
        except (OSError, ValueError, asyncssh.Error):
            agent = None
    places = [key_dir / Path(one.replace("%d", "~")).expanduser() for one in identity_files]
    for path in dict.fromkeys([*places, *(key_dir / name for name in DEFAULT_KEYS)]):
        try:
            keys.append(_read_key(path))
        except (OSError, ValueError):
            continue
    return keys[:MOST_KEYS], agent


def _read_key(path: Path) -> SSHKey:
    """Read a private key; raises `OSError` or `ValueError`."""
    import asyncssh

    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:  # noqa: PTH123 - the descriptor that was checked is the one that is read
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("not a file")
        return asyncssh.import_private_key(file.read(_MOST_BYTES))
