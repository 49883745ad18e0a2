"""Waiting for transcripts to change, with `watchfiles` if it is installed, else by polling twice a second."""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from shiftlog.ingest.files.discovery import SUFFIXES
from shiftlog.ingest.importing.ports import StopSign

POLL_S = 0.5
IDLE_S = 30.0

# A database in use grows in its write-ahead log.
_LOG = ".db-wal"
_WATCHED = (*SUFFIXES, _LOG)

Seen = dict[str, tuple[int, int]]


async def look(folders: Sequence[str]) -> Seen:
    """Return sizes and times of the transcripts under the folders."""
    seen: Seen = {}
    for folder in folders:
        await asyncio.to_thread(_look_into, folder, seen)
    return seen


async def changes(folders: Sequence[str], stop: StopSign, seen: Seen) -> AsyncGenerator[None]:
    """Yield after each change, and now and then so that quiet turns can end."""
    idle = 0.0
    while not stop.is_set():
        await _some_time(folders, stop)
        now = await look(folders)
        idle += POLL_S
        if now != seen or idle >= IDLE_S:
            seen, idle = now, 0.0
            yield None


async def _some_time(folders: Sequence[str], stop: StopSign) -> None:
    """Wait until something may have changed."""
    watch = _watcher()
    there = [folder for folder in folders if Path(folder).exists()]
    if watch is None or len(there) < len(folders):
        await stop.wait(POLL_S)
        return
    async for _ in watch(*there, stop_event=stop.event, rust_timeout=int(POLL_S * 1000), yield_on_timeout=True):
        return


def _watcher() -> Any:
    try:
        from watchfiles import awatch  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError:
        return None
    return awatch  # pyright: ignore[reportUnknownVariableType]


def _look_into(folder: str, seen: Seen) -> None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _look_into(entry.path, seen)
                elif entry.name.endswith(_WATCHED):
                    status = entry.stat()
                    seen[entry.path] = (status.st_size, status.st_mtime_ns)
    except NotADirectoryError:
        for name in (folder, f"{folder.removesuffix('.db')}{_LOG}"):
            with contextlib.suppress(OSError):
                status = Path(name).stat()
                seen[name] = (status.st_size, status.st_mtime_ns)
    except OSError:
        return
