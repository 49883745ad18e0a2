"""The floor: bash at the end of a pipe and a marker after each command. It keeps nothing and survives nothing."""

import asyncio
import subprocess

from loop import serve

MARKER = b"\x01done\n"


class PipedShells:
    """One bash a shell, on asyncio's own streams."""

    def __init__(self) -> None:
        self._shells: dict[int, asyncio.subprocess.Process] = {}

    async def open(self, number: int) -> None:
        self._shells[number] = await asyncio.create_subprocess_exec(
            "bash", "--norc", "--noprofile", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await self.run(number, "true")

    async def run(self, number: int, command: str) -> str:
        shell = self._shells[number]
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(command.encode() + b"\nprintf '\\001done\\n'\n")
        text = b""
        while not text.endswith(MARKER):
            text = text[-100:] + await shell.stdout.read(1 << 16)
            if shell.stdout.at_eof():
                raise EOFError("bash ended")
        return text.removesuffix(MARKER).decode()

    async def close(self) -> None:
        for shell in self._shells.values():
            assert shell.stdin is not None
            shell.stdin.close()
        await asyncio.gather(*(shell.wait() for shell in self._shells.values()))


serve(PipedShells())
