"""What engine tests share: a sink that remembers, and a way to run one command to its end."""

import asyncio
from dataclasses import dataclass, field

from shiftlog.shell.ports import CommandEnd, CommandSpec, LiveShell, OutputSink, RunningCommand, Stream, Terminal

PATIENCE_S = 20.0


@dataclass(slots=True)
class Remembered(OutputSink):
    """Keeps everything that a command wrote."""

    data: dict[Stream, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    closed: set[Stream] = field(default_factory=set[Stream])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, stream: Stream, data: bytes) -> None:
        assert stream not in self.closed
        self.data[stream] += data
        self.news.set()

    def close(self, stream: Stream) -> None:
        assert stream not in self.closed
        self.closed.add(stream)
        self.news.set()

    @property
    def out(self) -> bytes:
        return bytes(self.data["stdout"])

    @property
    def err(self) -> bytes:
        return bytes(self.data["stderr"])

    async def until(self, piece: bytes) -> None:
        """Wait until the output holds this."""
        async with asyncio.timeout(PATIENCE_S):
            while piece not in self.data["stdout"]:
                self.news.clear()
                await self.news.wait()

    async def until_closed(self) -> None:
        """Wait until both outputs are closed."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.closed) < 2:
                self.news.clear()
                await self.news.wait()


async def finish(command: RunningCommand) -> CommandEnd:
    """Wait for a command's end."""
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.shield(command.ended)


async def run(
    shell: LiveShell,
    text: str,
    *,
    data: bytes | None = None,
    background: bool = False,
    terminal: Terminal | None = None,
) -> tuple[CommandEnd, Remembered]:
    """Run one command to its end."""
    sink = Remembered()
    spec = CommandSpec(text=text, input=data, background=background, terminal=terminal)
    return await finish(await shell.start(spec, sink)), sink


async def start(
    shell: LiveShell,
    text: str,
    *,
    background: bool = False,
    stdin_open: bool = False,
    terminal: Terminal | None = None,
) -> tuple[RunningCommand, Remembered]:
    """Start one command."""
    sink = Remembered()
    spec = CommandSpec(text=text, background=background, stdin_open=stdin_open, terminal=terminal)
    return await shell.start(spec, sink), sink
