"""The server that the conformance suite is run against: our registry and HTTP face with the suite's fixtures.

Run with `python -m tests.conformance.server`; it prints its address once it listens. For tests only: it answers
without a token, because the suite cannot send one.
"""

import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from starlette.types import ASGIApp, Receive, Scope, Send

from shiftlog.daemon.http_connections import LimitedProtocol
from shiftlog.mcp.calls import Context
from shiftlog.mcp.http import http_app
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import build_server
from tests.conformance.fixtures import BUS, FIXTURES, TOOLSET
from tests.conformance.rounds import ROUNDS

TOKEN = "only-for-the-conformance-suite"


def fixture_server() -> Server[Any]:
    """Build the server with the methods of the protocol that Shiftlog itself does not offer."""
    server = build_server(FIXTURES + ROUNDS, Selection(toolsets=(TOOLSET,)))
    security = RequestStateSecurity.ephemeral()
    server.middleware.insert(0, RequestStateBoundary(security, default_audience="conformance"))
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, accept)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, accept)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, accept)
    server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(BUS))
    return server


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Complete nothing."""
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def accept(ctx: Context, params: object) -> types.EmptyResult:
    """Agree without a consequence."""
    return types.EmptyResult()


class KeptEvents(EventStore):
    """Keeps the events of each stream, so that a client can come back for what it missed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Keep an event and return its number."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what came after an event of the same stream."""
        if not last_event_id.isdigit() or not 0 < int(last_event_id) <= len(self._events):
            return None
        at = int(last_event_id)
        stream = self._events[at - 1][0]
        for number, (stream_id, message) in enumerate(self._events[at:], at + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def with_token(app: ASGIApp) -> ASGIApp:
    """Add the token that the suite cannot send."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]
        await app(scope, receive, send)

    return serve


async def main() -> None:
    """Listen on a free loopback port until the process is stopped."""
    warnings.simplefilter("ignore")
    app = http_app(fixture_server(), token=TOKEN, event_store=KeptEvents(), retry_ms=100)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        config = uvicorn.Config(
            with_token(app), http=LimitedProtocol, log_level="warning", lifespan="on", timeout_graceful_shutdown=1
        )
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    anyio.run(main)
