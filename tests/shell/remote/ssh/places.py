"""Settings and arguments that lead to a server of the tests."""

import json
from typing import Any

from tests.shell.remote.ssh.server import USER, SshServer


def settings_for(server: SshServer, **more: object) -> str:
    """Return settings of an operator whose key directory the server knows; `more` are keys of the policy."""
    policy: dict[str, object] = {"key_dir": str(server.key_dir), "ssh_agent": False, **more}
    return "[policy]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in policy.items())


def where(server: SshServer, **more: Any) -> dict[str, Any]:
    """Return the arguments of a shell on the server."""
    return {"transport": "ssh", "host": "127.0.0.1", "port": server.port, "user": USER, "cwd": "/", **more}
