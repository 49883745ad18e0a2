"""The containers in which shells may open: resolves the given name and checks that the container is permitted."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup

from shiftlog.guard.own_programs import search_path
from shiftlog.model.shell_errors import ContainerNotAllowed, ContainerNotRunning, DockerUnavailable
from shiftlog.shell.remote.docker.wire import Container, DockerClient, DockerHost
from shiftlog.shell.remote.settings import DockerSettings
from shiftlog.shell.remote.shell import RemoteTarget, label_part

if TYPE_CHECKING:
    from shiftlog.shell.sandbox.launch import Launch

PROGRAMS = ("docker", "podman")


class DockerTargets:
    """The containers that the operator permits."""

    def __init__(self, settings: DockerSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    async def check(self, values: Mapping[str, Any]) -> None:
        """Reject what is not permitted; the name is resolved first, so that no prefix or alias passes for another."""
        await self._resolve(values["container"])

    def find(self, values: Mapping[str, Any], launcher: Launch | None = None) -> RemoteTarget:
        given: str = values["container"]

        async def host(tasks: TaskGroup) -> DockerHost:
            client, container = await self._resolve(given)
            return DockerHost(client, container, tasks)

        return RemoteTarget(host, label=f"docker_{label_part(given)}", shown=given)

    async def _resolve(self, given: str) -> tuple[DockerClient, Container]:
        if not given[:1].isalnum():
            raise self._unknown(given)
        client = self._client()
        try:
            container = await client.find(given)
        except (OSError, TimeoutError):
            raise DockerUnavailable("docker is not available") from None
        if container is None:
            raise self._unknown(given)
        if not all(_permitted(patterns, container) for patterns in self._settings.containers):
            raise _not_allowed(given)
        if not container.running:
            raise _not_running(given)
        return client, container

    def _client(self) -> DockerClient:
        path = search_path(self._environ)
        for name in PROGRAMS:
            program = shutil.which(name, path=path)
            if program is not None:
                return DockerClient(program=program, env={**self._environ, "PATH": path})
        raise DockerUnavailable("docker is not available")

    def _unknown(self, given: str) -> Exception:
        """Return the same error for an unknown name as for one that is not permitted, unless all are."""
        every = all("*" in patterns for patterns in self._settings.containers)
        return _not_running(given) if every else _not_allowed(given)


def _permitted(patterns: tuple[str, ...], container: Container) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in (container.name, container.id))


def _not_allowed(given: str) -> ContainerNotAllowed:
    return ContainerNotAllowed(
        f"container '{given}' is not permitted by the operator", details={"kind": "container", "value": given}
    )


def _not_running(given: str) -> ContainerNotRunning:
    return ContainerNotRunning(f"container '{given}' not found or not running", details={"container": given})
