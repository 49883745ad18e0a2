"""Two task patterns of the daemon: a block that an event ends, and a job that repeats."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

log = logging.getLogger(__name__)


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


async def repeat(every_s: float, job: Callable[[], Awaitable[object]]) -> None:
    """Run a job again and again; a failure is logged and does not end the repetition."""
    while True:
        await anyio.sleep(every_s)
        try:
            await job()
        except Exception:
            log.exception("A periodic job failed; it is tried again in %.0f s", every_s)
