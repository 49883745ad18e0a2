"""Settings, environment and arguments that lead to a container of the tests."""

import json
from typing import Any

from tests.shell.docker.engine import Engine


def settings_for(*containers: str) -> str:
    """Return settings of an operator who permits some containers."""
    return f"[policy]\ncontainers = {json.dumps(containers)}\n"


def environ_of(engine: Engine) -> dict[str, str]:
    """Return what of the environment leads a client to the engine."""
    return {name: engine.environ[name] for name in ("PATH", "DOCKER_HOST", "DOCKER_CONFIG")}


def where(container: str, **more: Any) -> dict[str, Any]:
    """Return the arguments of a shell in a container."""
    return {"transport": "docker", "container": container, "cwd": "/", **more}
