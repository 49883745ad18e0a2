"""An app that also has hooks: events are spooled as the hook program would, then drained."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from shiftlog.app.hooks import Hooks
from tests.ingest.import_app import NOW, Claude, ImportApp
from tests.journal.harness import open_harness

SESSION = "5e551000-0000-4000-8000-00000000000a"
THREAD = "019f5500-0000-7000-8000-00000000000b"
PID = 999_999_999


@dataclass(slots=True, kw_only=True)
class HookApp:
    """An app, its hook spool, and the time at which the next event comes."""

    app: ImportApp
    home: Path
    at: datetime
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def hooks(self) -> Hooks:
        return self.app.harness.app.hooks

    def line(self, event: str, *, agent: str = "ClaudeCode", later_s: float = 1, **fields: Any) -> dict[str, Any]:
        self.at += timedelta(seconds=later_s)
        given = {"hook_event_name": event, "session_id": SESSION, "cwd": "/srv/app", **fields}
        return {
            "v": 1,
            "id": f"{next(self.numbers):032x}",
            "at": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "agent": agent,
            "event": {name: value for name, value in given.items() if value is not None},
            "pid": 1,
            "ppid": PID,
            "ppid_started": 1,
        }

    def spool(self, event: str, *, file: str = "hooks-20261101.jsonl", **fields: Any) -> dict[str, Any]:
        """Append an event to the spool."""
        line = self.line(event, **fields)
        self.append(file, json.dumps(line) + "\n")
        return line

    def append(self, file: str, text: str) -> Path:
        folder = self.home / "spool"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / file).open("a", encoding="utf-8") as spool:
            spool.write(text)
        return folder / file

    async def drain(self) -> int:
        return await self.hooks.drain()

    def later(self, **span: float) -> None:
        """Move the clock to a while after the last event."""
        self.app.harness.set_time(self.at + timedelta(**span))

    def files(self) -> list[str]:
        """Name the files of the spool that wait."""
        return sorted(path.name for path in (self.home / "spool").glob("*.jsonl"))


@asynccontextmanager
async def open_hook_app(
    folder: Path, *, at: datetime = NOW, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[HookApp]:
    """Open an app with hooks in a folder."""
    async with open_harness(folder / "home", now=at, environ=environ) as harness:
        transcripts = folder / "transcripts"
        transcripts.mkdir(exist_ok=True)
        yield HookApp(app=ImportApp(harness=harness, folder=transcripts), home=harness.home, at=at)


def transcript(hooked: HookApp, *, ended: bool = False) -> Path:
    """Write the transcript of one turn of Claude Code."""
    claude = Claude(session=SESSION, started=NOW + timedelta(seconds=1)).prompt("Fix the upload").says("It is fixed")
    return hooked.app.write(f"projects/app/{SESSION}.jsonl", (claude.ends() if ended else claude).records)
