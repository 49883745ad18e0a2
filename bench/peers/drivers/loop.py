"""What a driver says and hears: one JSON object a line. Standard library only, for it runs in a peer's environment.

A driver measures inside its own process, so that this talk is no part of a figure.
"""

import asyncio
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

SEQ = "seq 1 1000000"


class Shells(Protocol):
    """Shells by number, as the tool at hand has them."""

    async def open(self, number: int) -> None: ...

    async def run(self, number: int, command: str) -> str:
        """Run a command to its end and return what it printed."""
        ...

    async def close(self) -> None: ...


def serve(shells: Shells) -> None:
    """Answer on the real standard output, which libraries that print banners do not get to see."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(_serve(shells, answers))


async def _serve(shells: Shells, answers: Any) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(80))
    count = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked: dict[str, Any] = json.loads(line)
        try:
            answer, count = await _answer(shells, asked, count)
        except Exception as error:  # noqa: BLE001 - the edge: whatever a peer raises is its answer
            answer = {"failed": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    await shells.close()


async def _answer(shells: Shells, asked: dict[str, Any], count: int) -> tuple[dict[str, Any], int]:
    begun = time.perf_counter()
    if asked["do"] == "open":
        wanted = count + asked["count"]
        await asyncio.gather(*(shells.open(number) for number in range(count, wanted)))
        return {"seconds": time.perf_counter() - begun}, wanted
    if asked["do"] == "all":
        await asyncio.gather(*(shells.run(number, "true") for number in range(count)))
        return {"seconds": time.perf_counter() - begun}, count
    if asked["do"] == "seq":
        text = await shells.run(0, SEQ)
        return {"seconds": time.perf_counter() - begun, "text": text[-60:], "size": len(text)}, count
    spans: list[float] = []
    for _ in range(asked["times"]):
        start = time.perf_counter()
        await shells.run(0, "true")
        spans.append(time.perf_counter() - start)
    return {"spans": spans}, count
