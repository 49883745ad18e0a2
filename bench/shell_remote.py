"""What the engine adds to a transport's own round trip: `true` over ssh and in a container, beside a bare marker loop.

`python -m bench.shell_remote` starts an sshd on a loopback port, and a Docker Engine where it may.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import create_task_group

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from shiftlog.shell.ports import Target
    from shiftlog.shell.remote.ports import RemoteHost

ROUNDS = 500


async def _median_ms(once: Callable[[], Awaitable[object]]) -> float:
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await once()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


async def _compare(name: str, host: "RemoteHost", target: "Target", tasks: "TaskGroup") -> None:
    from shiftlog.shell.ports import ShellSpec
    from shiftlog.shell.remote.carrier import TokenReader
    from tests.shell.engine.probe import run

    heard = TokenReader()
    wire = await host.open_wire(heard)

    async def bare() -> None:
        wire.write(b"true; echo MARK $?\n")
        await heard.until(b"MARK 0\n")

    floor = await _median_ms(bare)
    wire.write_eof()
    shell = await target.open(ShellSpec(), tasks)
    ours = await _median_ms(lambda: run(shell, "true"))
    await shell.close()
    await host.close()
    print(f"{name:8} round trip {floor:6.3f} ms   true {ours:6.3f} ms   added {ours - floor:6.3f} ms")


async def _ssh(folder: Path) -> None:
    from shiftlog.shell.remote.ssh.connect import Login, connect
    from shiftlog.shell.remote.ssh.hosts import resolve
    from shiftlog.shell.remote.ssh.targets import SshTargets
    from shiftlog.shell.remote.ssh.wire import SshHost
    from tests.shell.remote.ssh.server import USER, start_server

    server = start_server(folder)
    try:
        values = {"host": "127.0.0.1", "port": server.port, "user": USER}
        hops = resolve(values, server.settings)

        async def again() -> object:
            return await connect(hops, Login(), server.settings)

        host = SshHost(await connect(hops, Login(), server.settings), again)  # type: ignore[arg-type]
        async with create_task_group() as tasks:
            await _compare("ssh", host, SshTargets(server.settings).find(values), tasks)
    finally:
        server.stop()


async def _docker(folder: Path) -> None:
    from shiftlog.shell.remote.docker.targets import DockerTargets
    from shiftlog.shell.remote.docker.wire import DockerClient, DockerHost
    from shiftlog.shell.remote.settings import DockerSettings
    from tests.shell.remote.docker.engine import MISSING, start_engine

    if MISSING is not None:
        print(f"docker   skipped: {MISSING}")
        return
    engine = start_engine(folder)
    try:
        engine.run("bench")
        client = DockerClient(program="docker", env=engine.environ)
        container = await client.find("bench")
        assert container is not None
        target = DockerTargets(DockerSettings(), engine.environ).find({"container": "bench"})
        async with create_task_group() as tasks:
            await _compare("docker", DockerHost(client, container, tasks), target, tasks)
    finally:
        engine.stop()


def main() -> None:
    """Measure both transports."""
    os.environ.setdefault("SHIFTLOG_TEST_DOCKER", "1")
    for measure in (_ssh, _docker):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
