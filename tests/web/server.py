"""A served state directory: a real app behind the real listener in a thread of its own, and what tests do with both."""

import asyncio
import os
import re
import threading
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx

from shiftlog.app.app import App, open_app
from shiftlog.config.loading import HttpSection
from shiftlog.daemon.http import HttpFace, open_token
from shiftlog.model.caller import Caller

T = TypeVar("T")

READY_S = 30.0
CLIENT = Caller(client_id="client-one", face="mcp", holds_leases=True, client_name="claude-code")


@dataclass(slots=True, kw_only=True)
class PageServer:
    """One served state directory."""

    home: Path
    app: App
    face: HttpFace
    loop: asyncio.AbstractEventLoop
    draining: anyio.Event
    base: str = ""

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the app's own loop and return what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call one of the journal's or the shells' tools."""
        for room in (
            self.app.sessions,
            self.app.continuity,
            self.app.history,
            self.app.shells,
            self.app.shells.commands,
        ):
            if hasattr(room, name):
                return self.do(getattr(room, name)(arguments, CLIENT))
        raise LookupError(name)

    def link(self) -> str:
        """Return a link as `shiftlog open` gets it."""

        async def drawn() -> str | None:
            return self.face.open_page()

        url = self.do(drawn())
        assert url is not None
        return url

    @property
    def token(self) -> str:
        return open_token(self.home)

    def client(self, **headers: str) -> httpx.Client:
        """Return a client that carries the token."""
        given = {"Authorization": f"Bearer {self.token}", **headers}
        return httpx.Client(base_url=self.base, headers=given, timeout=30)

    def json(self, path: str, **query: Any) -> Any:
        """Read the JSON of an address that must be there."""
        with self.client(Accept="application/json") as client:
            answer = client.get(path, params=query or None)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def html(self, path: str, **query: Any) -> str:
        """Read a page that must be there."""
        with self.client() as client:
            answer = client.get(path, params=query or None)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text


@contextmanager
def serving(home: Path) -> Generator[PageServer]:
    """Serve the page of a state directory on a free port for the time of a with block."""
    home.mkdir(mode=0o700, exist_ok=True)
    servers: list[PageServer] = []
    ready = threading.Event()
    failures: list[BaseException] = []

    async def main() -> None:
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        async with open_app(home, {**environ, "SHIFTLOG_DURABILITY": "process"}) as app:
            settings = HttpSection(enabled=False, host="127.0.0.1", port=0)
            server = PageServer(
                home=home,
                app=app,
                face=HttpFace(None, app, settings),
                loop=asyncio.get_running_loop(),
                draining=anyio.Event(),
            )
            servers.append(server)

            async def announce() -> None:
                await server.face.ready.wait()
                server.base = (server.face.url or "").removesuffix("/mcp")
                ready.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(announce)
                await server.face.serve(server.draining)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it again
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=run, name="page")
    thread.start()
    try:
        assert ready.wait(READY_S), "the page did not come up"
        assert not failures, failures
        yield servers[0]
    finally:
        if servers:
            servers[0].loop.call_soon_threadsafe(servers[0].draining.set)
        thread.join(READY_S)
    assert not failures, failures
    assert not thread.is_alive(), "the page did not stop"


def token_of(client: httpx.Client, path: str = "/") -> str:
    """Return the token that a page gives to its forms."""
    found = re.search(r'data-csrf="([0-9a-f]{64})"', client.get(path).text)
    assert found is not None
    return found[1]
