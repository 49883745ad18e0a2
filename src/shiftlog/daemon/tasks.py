"""A task pattern of the daemon: a block that an event ends."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def until(event: anyio.Event) -> AsyncGenerator[None]:
    """Cancel the block when the event is set; the code after the block goes on."""
    async with anyio.create_task_group() as tasks:

        async def cut() -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(cut)
        yield
        tasks.cancel_scope.cancel()
