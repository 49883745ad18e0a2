"""A server that opens a remote shell, lets it be busy in every way, says so and waits to be killed.

Run as a program with a folder, settings, the arguments of the shell and an environment; not a test by itself.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.shell.rig import shell_rig


async def _serve(folder: Path, settings: str, opening: dict[str, Any], environ: dict[str, str]) -> None:
    async with shell_rig(folder, settings=settings, environ=environ, **opening) as rig:
        await rig.run("sleep 1001 &")
        await rig.run("sleep 1002", background=True)
        await rig.run("cat", background=True, stdin="open")
        await rig.run("sleep 1003", background=True, pty=True)
        await rig.run("trap '' HUP; sh -c 'trap \"\" HUP TERM; sleep 1004'", timeout_s=1, on_timeout="keep_running")
        sys.stdout.write("busy\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])))
