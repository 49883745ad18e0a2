"""Questions of `shiftlog put` and `get`: a stream of progress and the result; ending the stream ends the copy."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.feed import Feed
from shiftlog.control.questions import Params, Question
from shiftlog.control.shells import PERSON, named_shell
from shiftlog.model.caller import Caller
from shiftlog.shell.transfers import TransferCount

PROGRESS_S = 0.2


def put(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Copy a local file to the target of a shell."""
    local, remote = str(params["local"]), str(params["remote"])
    return _copy(
        lambda person, count: app.shells.transfers.put(
            named_shell(app, str(params["shell_id"])), local, remote, person, count
        ),
        caller,
    )


def get(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Copy a file of a shell's target to this machine."""
    local, remote = str(params["local"]), str(params["remote"])
    return _copy(
        lambda person, count: app.shells.transfers.get(
            named_shell(app, str(params["shell_id"])), remote, local, person, count
        ),
        caller,
    )


async def _copy(
    work: Callable[[Caller, TransferCount], Awaitable[dict[str, Any]]], caller: Caller
) -> AsyncGenerator[object]:
    feed, count = Feed(), TransferCount()

    async def run() -> None:
        result = await work(replace(caller, client_name=PERSON), count)
        await feed.put({"event": "result", **result})

    feed.spawn(_tell(count, feed))
    async with aclosing(feed.items(run())) as items:
        async for item in items:
            yield item


async def _tell(count: TransferCount, feed: Feed) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        if count.total is not None:
            await feed.put({"event": "progress", "bytes": count.done, "total": count.total})


QUESTIONS: dict[str, Question] = {"put": put, "get": get}
