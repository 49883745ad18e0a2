"""The real daemon, but answers to `tools/call` are lost on the way: what it did is in the journal alone."""

import json
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from shiftlog.app.app import open_app
from shiftlog.daemon import main
from shiftlog.daemon.app_services import AppServices
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.services import ServeMcp
from shiftlog.model.caller import Caller


class MuteLines(LineStream):
    async def send(self, item: bytes) -> None:
        if "content" not in json.loads(item).get("result", {}):
            await super().send(item)


class MuteServices(AppServices):
    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        serve = await super().open_mcp(options)

        async def serve_mute(lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
            await serve(MuteLines(lines), caller, draining)

        return serve_mute


@asynccontextmanager
async def open_mute(home: str, connected: Callable[[], Collection[str]]) -> AsyncGenerator[MuteServices]:
    async with open_app(Path(home), connected=connected) as app:
        yield MuteServices(app)


if __name__ == "__main__":
    sys.exit(main(open_services=open_mute))
