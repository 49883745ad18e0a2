"""Imports as the control connection answers them: progress, then the report; while watching one for each change."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import Any

from shiftlog.app.app import App
from shiftlog.ingest.importing.run import Progress, StopSign
from shiftlog.ingest.importing.service import ImportOptions
from shiftlog.model.caller import Caller

PROGRESS_S = 0.2
MOST_JOBS = 64

_running: dict[str, StopSign] = {}


def stop_import(token: str) -> bool:
    """Ask the import with this token to end after its batch; tell whether there was one."""
    sign = _running.get(token)
    if sign is not None:
        sign.set()
    return sign is not None


def options_from(params: Mapping[str, Any], caller: Caller) -> ImportOptions:
    """Return the options of a request; one that is not the operator's may only read what agents may."""
    allowed = None if caller.operator else [place for place in (caller.workspace, caller.cwd) if place]
    return ImportOptions(
        paths=[str(path) for path in params.get("paths") or ()],
        agents=[str(name) for name in params.get("agents") or ()],
        since=params.get("since") or None,
        full=bool(params.get("full")),
        dry_run=bool(params.get("dry_run")),
        jobs=None if params.get("jobs") is None else min(int(params["jobs"]), MOST_JOBS),
        keep_images=bool(params.get("keep_images")),
        recursive=bool(params.get("recursive", True)),
        allowed=allowed,
        environ=params.get("environ") if caller.operator else None,
    )


async def import_answers(app: App, params: Mapping[str, Any], caller: Caller) -> AsyncGenerator[object]:
    """Yield `progress` items and, at the end or for each change while watching, a `report`."""
    options = options_from(params, caller)
    stop = StopSign()
    token = str(params.get("token") or "")
    if token:
        _running[token] = stop
    try:
        if params.get("watch"):
            async for report in app.imports.watch(options, stop):
                yield {"report": report.shown(params.get("max_files"), unchanged=False)}
            return
        async for item in _one(app, options, stop, params.get("max_files")):
            yield item
    finally:
        stop.set()
        _running.pop(token, None)


async def _one(app: App, options: ImportOptions, stop: StopSign, max_files: int | None) -> AsyncGenerator[object]:
    latest: list[Progress] = []

    async def tell(progress: Progress) -> None:
        latest[:] = [progress]

    running = asyncio.create_task(app.imports.run(options, tell, stop))
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=PROGRESS_S)
            if latest and not running.done():
                yield {"progress": asdict(latest.pop())}
        yield {"report": (await running).shown(max_files)}
    finally:
        # Whoever asked may be gone; what was begun ends with its batch.
        stop.set()
        await asyncio.wait({running})
