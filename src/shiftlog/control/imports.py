"""Questions about other agents' transcripts: importing them, and writing a session as one."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import asdict

from shiftlog.app.app import App
from shiftlog.control.conversation import ancestry_of, dialog_of, provider_of
from shiftlog.control.questions import Params, Question
from shiftlog.ingest.importing.ports import ImportOptions, ImportProgress, StopSign
from shiftlog.ingest.restoring.transcript import VENDORS, Ancestry, TurnDialog
from shiftlog.ingest.restoring.writing import restore
from shiftlog.journal.journal import find_session
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.limits import IMPORT_PROGRESS_S
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader

MOST_JOBS = 64

_running: dict[str, StopSign] = {}


async def stop_import(app: App, params: Params, caller: Caller) -> object:
    """Ask the import with this token to end after its batch, if it runs."""
    sign = _running.get(str(params.get("token")))
    if sign is not None:
        sign.set()
    return {"stopping": sign is not None}


def _options(params: Params, caller: Caller) -> ImportOptions:
    """Return the options of a request; only the operator may import from outside the caller's directories."""
    allowed = None if caller.operator else [path for path in (caller.workspace, caller.cwd) if path]
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


async def import_transcripts(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Yield `progress` items and, at the end or for each change while watching, a `report`."""
    options = _options(params, caller)
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
    latest: list[ImportProgress] = []

    async def tell(progress: ImportProgress) -> None:
        latest[:] = [progress]

    running = asyncio.create_task(app.imports.run(options, tell, stop))
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=IMPORT_PROGRESS_S)
            if latest and not running.done():
                yield {"progress": asdict(latest.pop())}
        yield {"report": (await running).shown(max_files)}
    finally:
        # The client may be gone; a running import ends after its batch.
        stop.set()
        await asyncio.wait({running})


async def restore_transcript(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Yield the lines of a session's transcript in its vendor's format, then where it belongs and what is missing."""
    name, vendor = str(params["session_id"]), next((one for one in VENDORS if one == params.get("as")), None)
    if vendor is None:
        says = "a vendor whose transcripts can be written"
        raise InvalidParameter.invalid("as", says, params.get("as"), allowed=list(VENDORS))

    def work(reader: Reader) -> tuple[Session, list[TurnDialog], str | None, Ancestry]:
        session = find_session(reader, name)
        return session, dialog_of(reader, session), provider_of(reader, session), ancestry_of(reader, session)

    session, dialog, provider, ancestry = await app.store.read(work)
    restored = restore(session, dialog, vendor, model_provider=provider, ancestry=ancestry)
    for record in restored.records:
        yield {"line": json.dumps(record, ensure_ascii=False)}
    yield {"about": restored.about()}


QUESTIONS: dict[str, Question] = {
    "import": import_transcripts,
    "import_stop": stop_import,
    "restore": restore_transcript,
}
