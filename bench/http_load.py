"""Clients that append to a team's server over HTTP, each with a session and a connection of its own."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

TEXT = "The parser fails on empty input; fixed in src/app.py and covered by a test"
ITEM = {"role": "model", "category": "reasoning", "content": TEXT}
TURN = {"query_title": "t", "query_text": TEXT}
# After so many calls a client ends its turn and begins another one.
CALLS_IN_A_TURN = 20


class Connection:
    """A kept connection that sends one request at a time; as little of HTTP as a load needs."""

    def __init__(self, base: str, key: str) -> None:
        where = urlsplit(base)
        self._host, self._port = where.hostname, where.port
        self._head = f"Host: {where.netloc}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool and return its answer; raise on any other answer than 200."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        body = json.dumps(arguments).encode()
        head = f"POST /tools/{tool} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(told.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        if not told.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{tool}: {told[:40]!r} {answer[:400]!r}")
        return json.loads(answer)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()


@dataclass(slots=True)
class Load:
    """What all clients share: where they send what for how long, and the time that each call took.

    `items` dialog items go with a call. A client stays at one replica, or goes to the next with each call (`wanders`).
    With a `rate`, all clients together make so many calls a second if they can; a late call counts from its moment.
    """

    bases: Sequence[str]
    key: str
    clients: int
    items: int
    wanders: bool
    span_s: float
    rate: float | None = None
    spans: list[float] = field(default_factory=list[float])

    async def run(self, opened: Callable[[], object]) -> None:
        """Open the sessions, say so, then let all clients write until the time is over."""
        clients = [Client(self, number) for number in range(self.clients)]
        for client in clients:
            await client.open()
        self.spans.clear()
        opened()
        end = time.perf_counter() + self.span_s
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.write(end))
        for client in clients:
            client.close()


class Client:
    """One client."""

    def __init__(self, load: Load, number: int) -> None:
        self._load = load
        self._places = [Connection(base, load.key) for base in load.bases]
        self._next = number
        self._session = ""
        self._due = 0.0

    async def open(self) -> None:
        """Open a session and begin a turn."""
        opened = await self._call("open_session", {"agent": "Bench", "title": "Throughput"})
        self._session = opened["session_id"]
        await self._call("begin_turn", {"session_id": self._session, **TURN})

    async def write(self, end: float) -> None:
        """Append until a moment."""
        load, calls, named = self._load, 0, {"session_id": self._session}
        every_s = load.clients / load.rate if load.rate else 0.0
        begun = time.perf_counter() + every_s * self._next / load.clients
        while time.perf_counter() < end:
            if every_s:
                self._due = begun + calls * every_s
                await asyncio.sleep(self._due - time.perf_counter())
            calls += 1
            if calls % CALLS_IN_A_TURN == 0:
                await self._call("finish_turn", {**named, "outcome": "completed", "response": TEXT})
                await self._call("begin_turn", {**named, **TURN})
            else:
                await self._call("update_turn", {**named, "dialog": [ITEM] * self._load.items})

    async def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        load = self._load
        place = self._places[self._next % len(self._places)]
        self._next += load.wanders
        start, self._due = self._due or time.perf_counter(), 0.0
        answer = await place.call(tool, arguments)
        load.spans.append(time.perf_counter() - start)
        return answer

    def close(self) -> None:
        """Close its connections."""
        for place in self._places:
            place.close()
