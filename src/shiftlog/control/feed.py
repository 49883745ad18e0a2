"""Streams whose items come from several tasks, such as the growing outputs of commands."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from shiftlog.shell.outputs.command_output import CommandOutput, read_cursor
from shiftlog.shell.ports import Stream

Item = dict[str, Any]

WAITING_ITEMS = 32
PAGE_CHARS = 200_000
WAIT_S = 60.0


class Feed:
    """The items of one answer; `aclose` ends the tasks that put them."""

    def __init__(self) -> None:
        # Bounded, so that a slow reader slows the tasks down instead of filling memory.
        self._items: asyncio.Queue[Item] = asyncio.Queue(maxsize=WAITING_ITEMS)
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin a task that ends with the feed at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    async def put(self, item: Item) -> None:
        """Add an item, waiting for room."""
        await self._items.put(item)

    async def items(self, work: Coroutine[Any, Any, None]) -> AsyncGenerator[Item]:
        """Yield items until the work has ended and none is left, then close the feed; raise the work's error."""
        main = self.spawn(work)
        try:
            while True:
                while not self._items.empty():
                    yield self._items.get_nowait()
                if main.done():
                    main.result()
                    return
                getting = asyncio.ensure_future(self._items.get())
                try:
                    await asyncio.wait({getting, main}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not getting.done():
                        getting.cancel()
                if getting.done() and not getting.cancelled():
                    yield getting.result()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the tasks and wait for them, even if the question itself was cancelled."""
        with anyio.CancelScope(shield=True):
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(slots=True, kw_only=True)
class Follower:
    """Puts one stream of one command into a feed, each text once."""

    feed: Feed
    output: CommandOutput
    stream: Stream
    from_line: int | None = None
    _cursor: str | None = None
    _over: bool = False

    async def follow(self) -> None:
        """Put text as it comes, until the stream ends."""
        while not self._over:
            await self.output.wait(self.stream, cursor=self._cursor, from_line=self.from_line, timeout_s=WAIT_S)
            await self._take()

    async def drain(self) -> None:
        """Put the rest of the text that is there now; later output is ignored."""
        end = self.output.stream(self.stream).spool.size
        while not self._over and self._offset() < end and await self._take():
            pass

    def _offset(self) -> int:
        return read_cursor(self._cursor, self.output.command_id, self.stream) if self._cursor else 0

    async def _take(self) -> bool:
        page = self.output.page(self.stream, cursor=self._cursor, from_line=self.from_line, max_chars=PAGE_CHARS)
        if page.text:
            item = {"event": "output", "command_id": self.output.command_id, "stream": self.stream, "text": page.text}
            await self.feed.put(item)
        self._cursor, self.from_line, self._over = page.next_cursor, None, page.eof
        return bool(page.text)


class Following:
    """Both streams of a running command; `finish` ends them when the command is over."""

    def __init__(self, feed: Feed, output: CommandOutput, from_lines: Sequence[int | None] = (None, None)):
        self._followers = [
            Follower(feed=feed, output=output, stream="stdout", from_line=from_lines[0]),
            Follower(feed=feed, output=output, stream="stderr", from_line=from_lines[1]),
        ]
        self._tasks = [feed.spawn(follower.follow()) for follower in self._followers]

    async def finish(self) -> None:
        """Put the rest of both streams; do not wait for processes that the command left behind."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for follower in self._followers:
            await follower.drain()
