"""`import_transcripts`, the one tool of the optional toolset `ingest`: its description, parameters and run."""

import asyncio
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.ingest.importing.ports import ImportOptions, ImportProgress, StopSign
from shiftlog.journal.sessions import absolute
from shiftlog.mcp.calls import report_progress
from shiftlog.mcp.registry import Reply, Tool
from shiftlog.mcp.tools.adapters import native
from shiftlog.mcp.tools.outputs import FLAG, NUMBER, OBJECTS, OPEN_OBJECT, TEXT, TEXT_OR_NULL, record
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import Boolean, Integer, ListOf, Record, Text

FILES_LISTED = 50

DESCRIPTION = """\
Import the transcripts of other agents' sessions (Claude Code, Codex, Gemini CLI, Copilot CLI, OpenCode, Cursor) into \
the journal. Use it when past sessions are missing from query_history; a session that you record yourself needs none.
Reads the agents' own folders, or the given paths under them, the operator's roots or this workspace. Masks secrets, \
stores each fact once: repeating it changes nothing, a grown file costs its growth. Never opens, closes or wakes a \
session. Files that fail are listed in errors; the rest is stored.
Errors: invalid_parameter, transcript_not_found, storage_error."""

PARAMS = Record(
    fields={
        "paths": ListOf(item=Text(max_chars=4096), max_items=100, description="Files or folders; default: the known."),
        "agents": ListOf(item=Text(max_chars=64), max_items=10, description="Only these: claude, codex, gemini, …"),
        "since": Text(max_chars=64, description="Only files changed since: 7d, 12h, a date or a time."),
        "dry_run": Boolean(description="Read and count, store nothing."),
        "full": Boolean(description="Read every file whole, changed or not."),
        "max_files_listed": Integer(minimum=0, maximum=10_000, description="Files to list; default 50."),
    }
)

OUTPUT = record(
    {
        "ok": FLAG,
        "dry_run": FLAG,
        "duration_s": {"type": "number"},
        "bytes_read": NUMBER,
        "mb_per_s": {"type": "number"},
        "totals": OPEN_OBJECT,
        "by_agent": OPEN_OBJECT,
        "unknown": OPEN_OBJECT,
        "redactions": OPEN_OBJECT,
        "skipped": OPEN_OBJECT,
        "files": OBJECTS,
        "files_left_off": NUMBER,
        "errors": {"type": "array", "items": record({"path": TEXT, "code": TEXT, "message": TEXT})},
        "warnings": OBJECTS,
        "next": TEXT_OR_NULL,
    }
)


def ingest_tools(app: App) -> tuple[Tool, ...]:
    """Return the tools of the toolset over an app."""

    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        given = PARAMS.read(arguments)
        paths: list[str] = given.get("paths") or []
        if not all(path.strip() for path in paths):
            raise InvalidParameter.missing("paths")
        here = Path(caller.cwd or caller.workspace or "/")
        options = ImportOptions(
            paths=[str(here / (absolute(path, caller) or "")) for path in paths],
            agents=given.get("agents") or (),
            since=given.get("since") or None,
            dry_run=bool(given.get("dry_run")),
            full=bool(given.get("full")),
            allowed=[place for place in (caller.workspace, caller.cwd) if place],
        )

        async def show_progress(progress: ImportProgress) -> None:
            said = f"{progress.files_done} of {progress.files} files"
            await report_progress(progress.bytes_done, progress.bytes, said)

        stop = StopSign()
        running = asyncio.create_task(app.imports.run(options, show_progress, stop))
        try:
            report = await asyncio.shield(running)
        except asyncio.CancelledError:
            # The import ends after the running batch.
            stop.set()
            await asyncio.wait({running})
            raise
        listed = given.get("max_files_listed")
        return Reply(data=app.redactor.value(report.shown(FILES_LISTED if listed is None else listed))[0])

    return (
        native("ingest", "import_transcripts", "Import transcripts", DESCRIPTION, PARAMS, OUTPUT, run, idempotent=True),
    )
