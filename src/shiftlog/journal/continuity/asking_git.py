"""Ask git about a workspace without running anything that the workspace configures: no hooks, filters or monitors."""

import os
from collections.abc import Sequence
from subprocess import DEVNULL

import anyio

from shiftlog.guard import foreign_git


async def ask_git(workspace: str, *commands: Sequence[str]) -> list[str | None]:
    """Run git commands at the same time and return what each printed, None for one that failed."""
    printed: list[str | None] = [None] * len(commands)
    settings = foreign_git.environment(workspace)

    async def run(n: int, command: Sequence[str]) -> None:
        try:
            done = await anyio.run_process(
                [*foreign_git.COMMAND, *command],
                stdin=DEVNULL,
                stderr=DEVNULL,
                check=False,
                cwd=workspace,
                env=settings,
            )
        except OSError:  # no git on this machine, or the folder went away
            return
        if done.returncode == 0:
            # A name of any bytes must still lead to its file.
            printed[n] = os.fsdecode(done.stdout)

    async with anyio.create_task_group() as tasks:
        for n, command in enumerate(commands):
            tasks.start_soon(run, n, command)
    return printed
