"""Background work on imports: following transcripts as they grow, and ending unused import workers."""

import logging

import anyio

from shiftlog.app.app import App
from shiftlog.daemon.tasks import until
from shiftlog.link.import_workers import take_prestarted
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import IMPORT_WATCH_RETRY_S

# An import that the daemon was started for has begun by then.
IMPORT_WAIT_S = 3.0

log = logging.getLogger(__name__)


async def watch_transcripts(app: App, draining: anyio.Event) -> None:
    """Import transcripts as they grow, until the daemon drains; a failure is logged and tried again."""
    from shiftlog.ingest.importing.ports import ImportOptions, StopSign

    stop = StopSign()

    async def end() -> None:
        await draining.wait()
        stop.set()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(end)
        while not stop.is_set():
            try:
                async for report in app.imports.watch(ImportOptions(), stop):
                    for error in report.errors:
                        log.warning("import: %s", error["message"])
            except ShiftlogError as error:
                log.warning("import: %s", error.message)
                await stop.wait(IMPORT_WATCH_RETRY_S)


async def end_unused_workers(app: App, draining: anyio.Event) -> None:
    """End the prestarted workers of an import that never came."""
    async with until(draining):
        await anyio.sleep(IMPORT_WAIT_S)
    if not app.is_importing:
        take_prestarted(0)
