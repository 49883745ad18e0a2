"""Our engine alone: no guard, no journal, no budget, no MCP."""

import asyncio

from anyio import create_task_group
from loop import serve

from shiftlog.shell.engine.local import LocalTarget
from shiftlog.shell.ports import CommandSpec, LiveShell, OutputSink, ShellSpec, Stream


class Tail(OutputSink):
    """Takes output and keeps its end."""

    def __init__(self) -> None:
        self.kept = b""

    def write(self, stream: Stream, data: bytes) -> None:
        self.kept = (self.kept + data)[-100:]

    def close(self, stream: Stream) -> None:
        pass


class EngineShells:
    """Shells of the engine on this machine."""

    def __init__(self) -> None:
        self._shells: dict[int, LiveShell] = {}
        self._holders: list[asyncio.Task[None]] = []

    async def open(self, number: int) -> None:
        opened = asyncio.Event()
        self._holders.append(asyncio.create_task(self._hold(number, opened)))
        await opened.wait()

    async def _hold(self, number: int, opened: asyncio.Event) -> None:
        async with create_task_group() as tasks:
            shell = self._shells[number] = await LocalTarget().open(ShellSpec(cwd="/"), tasks)
            opened.set()
            await asyncio.wait([shell.ended])

    async def run(self, number: int, command: str) -> str:
        tail = Tail()
        started = await self._shells[number].start(CommandSpec(text=command), tail)
        await started.ended
        return tail.kept.decode()

    async def close(self) -> None:
        await asyncio.gather(*(shell.close() for shell in self._shells.values()))
        await asyncio.gather(*self._holders)


serve(EngineShells())
