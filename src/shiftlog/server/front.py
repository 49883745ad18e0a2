"""The outermost layer of a team's server: it names, counts, times and logs each request.

While the server drains, each answer also closes its connection, so that the client goes to another replica.
"""

import logging
import re
import time
import uuid

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftlog.daemon.http import bounded
from shiftlog.daemon.http_connections import is_late
from shiftlog.mcp.http import refusal
from shiftlog.model.errors import StorageError, TooManyConnections
from shiftlog.server.access import HEALTH, METRICS, READY
from shiftlog.server.logs import REQUEST_ID
from shiftlog.server.metrics import EVENTS, Metrics, route_of

REQUEST_ID_HEADER = "x-request-id"
# Asked every few seconds by machines; logged only at the level debug.
_QUIET = frozenset({HEALTH, READY, METRICS})
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
FAILED = 500
_TOO_MANY = refusal(
    503, TooManyConnections("The server has too many connections"), {"Retry-After": "1", "Connection": "close"}
)
_AWAY = refusal(503, StorageError("The database does not answer", hint="Send the request again"), {"Retry-After": "1"})

log = logging.getLogger(__name__)


class Front:
    """Wraps the application of a server."""

    def __init__(self, app: ASGIApp, metrics: Metrics, draining: anyio.Event) -> None:
        self._app = app
        self._metrics = metrics
        self._draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        request_id = given if _SAFE_ID.fullmatch(given) else uuid.uuid4().hex
        token = REQUEST_ID.set(request_id)
        begun_at, status, is_answered = time.monotonic(), FAILED, False

        async def noting(message: Message) -> None:
            nonlocal status, is_answered
            if message["type"] == "http.response.start":
                status, is_answered = message["status"], True
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID_HEADER] = request_id
                if self._draining.is_set():
                    headers["connection"] = "close"
            await send(message)

        # Orchestrators start a replica anew that does not answer its health check; being busy is no reason to.
        app = _TOO_MANY if is_late(scope) and scope["path"] not in _QUIET else self._app
        try:
            with self._metrics.running.track_inprogress():
                await app(scope, bounded(receive), noting)
        except StorageError:
            # The key, or the session of an MCP client, could not be looked up. The reason may name the database's host.
            if is_answered:
                raise
            await _AWAY(scope, receive, noting)
        finally:
            self._note(scope, status, time.monotonic() - begun_at)
            REQUEST_ID.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path, method = str(scope["path"]), str(scope["method"])
        route = route_of(path)
        shown = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self._metrics.requests.labels(route, shown, str(status)).inc()
        if route != EVENTS:
            self._metrics.request_seconds.labels(route).observe(seconds)
        key = scope.get("shiftlog.api_key")
        facts = {
            "route": route,
            "method": shown,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "key": key.id if key is not None else None,
        }
        log.log(logging.DEBUG if path in _QUIET else logging.INFO, "request", extra={"facts": facts})
