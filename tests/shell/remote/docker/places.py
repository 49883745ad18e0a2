"""Settings, environment and arguments that lead to a container of the tests."""

import json
from pathlib import Path
from typing import Any

from tests.shell.remote.docker.engine import CLIENT, Engine


def settings_for(*containers: str) -> str:
    """Return settings of an operator who permits some containers."""
    return f"[policy]\ncontainers = {json.dumps(containers)}\n"


def environ_of(engine: Engine) -> dict[str, str]:
    """Return what of the environment leads a client to the engine."""
    names = ("PATH", "DOCKER_HOST", "DOCKER_CONFIG", "CONTAINERS_STORAGE_CONF", "CONTAINERS_CONF")
    return {name: engine.environ[name] for name in names if name in engine.environ}


def nobody(folder: Path) -> dict[str, str]:
    """Return what of the environment leads a client to no engine; Podman's is the program itself."""
    return {"DOCKER_HOST": f"unix://{folder}/nobody"} if CLIENT == "docker" else {"PATH": str(folder)}


def where(container: str, **more: Any) -> dict[str, Any]:
    """Return the arguments of a shell in a container."""
    return {"transport": "docker", "container": container, "cwd": "/", **more}
