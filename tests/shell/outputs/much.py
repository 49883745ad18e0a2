"""Much output of a shell anywhere: all of it is counted, the end shown, and the server stays as small as it was."""

import asyncio
import os
from pathlib import Path

from tests.shell.rig import ShellRig

RSS_BYTES = 64 << 20


async def check_much(rig: ShellRig, size: int) -> None:
    """Check case 22 with so many bytes in the rig's shell."""
    await rig.run("seq 1 1000")
    before = most = resident_bytes()
    tail = {"keep": {"mode": "tail", "n": 2}}
    running = asyncio.ensure_future(rig.run(f"yes | head -c {size}", budget=tail, timeout_s=600))
    while not running.done():
        await asyncio.wait([running], timeout=0.05)
        most = max(most, resident_bytes())
    result = await running
    assert result["stdout"] == f"... {size // 2 - 2} lines elided ...\ny\ny"
    assert result["budget"]["stdout"] == {"mode": "tail", "lines_total": size // 2, "lines_kept": 2}
    assert result["output"]["stdout"]["bytes"] == size
    assert most - before <= RSS_BYTES
    assert await rig.out("echo on") == "on"


def resident_bytes() -> int:
    """Return how much memory this process has."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
