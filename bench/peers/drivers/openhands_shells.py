"""Shells of openhands-tools: its terminal tool, with the backend named on the command line (tmux or subprocess)."""

import asyncio
import sys
import tempfile

from loop import serve
from openhands.tools.terminal import TerminalAction, TerminalExecutor

TIMEOUT_S = 120


class OpenHandsShells:
    """One executor a shell."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._executors: dict[int, TerminalExecutor] = {}

    async def open(self, number: int) -> None:
        self._executors[number] = await asyncio.to_thread(self._open)

    def _open(self) -> TerminalExecutor:
        return TerminalExecutor(working_dir=tempfile.gettempdir(), terminal_type=self._backend)

    async def run(self, number: int, command: str) -> str:
        action = TerminalAction(command=command, timeout=TIMEOUT_S)
        return (await asyncio.to_thread(self._executors[number], action)).text

    async def close(self) -> None:
        for executor in self._executors.values():
            await asyncio.to_thread(executor.close)


serve(OpenHandsShells(sys.argv[1]))
