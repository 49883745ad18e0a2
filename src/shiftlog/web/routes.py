"""The addresses of the page, and the access check before them.

Every page answers JSON at the same address, by `Accept` or with `.json` at its end. Only the entrance and the static
files are open without cookie or token.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shiftlog.app.app import App
from shiftlog.model.errors import InvalidParameter, Unauthorized, UnknownTool
from shiftlog.model.limits import PAGE_COOKIE_S
from shiftlog.web.answers import FORBIDDEN, HEADERS, NOT_FOUND, PageView, answering, json_response, refusal
from shiftlog.web.door import Door, is_foreign
from shiftlog.web.live import Live
from shiftlog.web.openapi import description
from shiftlog.web.present.templates import HERE, address, render
from shiftlog.web.views import details, session
from shiftlog.web.views.export import download
from shiftlog.web.views.sessions import sessions_page
from shiftlog.web.views.usage import usage_file, usage_page

OPEN = "/open"
STATIC = "/static/"
HINT = "Run `shiftlog open` in a terminal: it makes a fresh link"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


_View = Callable[[App, Request], Awaitable[PageView | Response]]


def page_routes(app: App, door: Door, live: Live) -> list[BaseRoute]:
    """Return the routes of the page, to be served behind the host check."""
    return [Mount("/", app=Gate(Starlette(routes=_routes(app, door, live), exception_handlers=_HANDLERS), door))]


def _routes(app: App, door: Door, live: Live) -> list[BaseRoute]:
    one = "/sessions/{session_id}"
    pages: list[tuple[str, _View]] = [
        ("/sessions", sessions_page),
        (f"{one}/turns/{{request_id}}", session.turn_page),
        (f"{one}/entries", session.entries_page),
        (f"{one}/entries/{{seq}}", session.entry_page),
        (f"{one}/checkpoints/{{seq}}", details.checkpoint_page),
        (f"{one}/handover", details.handover_page),
        (f"{one}/trust", details.trust_page),
        ("/usage", usage_page),
        ("/outputs/{command_id}", details.output_page),
        (one, session.session_page),
    ]
    files: list[tuple[str, _View]] = [
        ("/", sessions_page),
        (f"{one}/handover.md", details.handover_file),
        (f"{one}/receipts/{{seq}}.json", details.receipt_file),
        (f"{one}/export.{{form}}", download),
        ("/usage.csv", usage_file),
    ]
    return [
        Route(OPEN, partial(_enter, door)),
        Route("/openapi.json", _describe),
        Route(STATIC + "{name:path}", _static),
        Route("/events", answering(live.sessions)),
        Route(f"{one}/events", answering(live.session)),
        *(Route(path, answering(partial(look, app))) for path, look in files),
        *(Route(path + ending, answering(partial(look, app))) for path, look in pages for ending in (".json", "")),
    ]


class Gate:
    """Lets through requests that carry the cookie or the token and come from no other page."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        await (self._refusal(request) or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if is_foreign(request.headers):
            return refusal(request, Unauthorized("Another page asks", hint="Open the page itself"), FORBIDDEN)
        path = request.url.path
        if path == OPEN or path.startswith(STATIC) or self._door.admits(request.headers):
            return None
        return refusal(request, Unauthorized("This page is for the person at this machine", hint=HINT))


async def _enter(door: Door, request: Request) -> Response:
    """Exchange the code of a link for the cookie; a HEAD request does not use the code up."""
    if request.method == "HEAD":
        return HTMLResponse("", 200, HEADERS)
    cookie = door.exchange(request.query_params.get("code", ""))
    if cookie is None:
        return refusal(request, Unauthorized("This link was used before, or is older than a minute", hint=HINT))
    # A page and no redirect: a browser that came from elsewhere would not send a strict cookie along with that.
    session = request.query_params.get("session")
    begin = address("sessions", session) if session else "/"
    response = HTMLResponse(render("enter.html", {"here": "", "begin": begin}), 200, HEADERS)
    response.set_cookie(door.cookie_name, cookie, max_age=PAGE_COOKIE_S, path="/", httponly=True, samesite="strict")
    return response


async def _describe(request: Request) -> Response:
    return json_response(description())


async def _static(request: Request) -> Response:
    """Answer with one of our own static files."""
    name = str(request.path_params["name"])
    if "/" in name or "\\" in name or name.startswith("."):
        return refusal(request, Unauthorized("Only the page's own files are served here"), FORBIDDEN)
    path = HERE / "static" / name
    if path.suffix not in _TYPES or not path.is_file():
        return refusal(request, UnknownTool("There is no such file", hint="The page links its own files"), NOT_FOUND)
    headers = {**HEADERS, "Cache-Control": "private, max-age=60"}
    return Response(path.read_bytes(), 200, headers, _TYPES[path.suffix])


async def _missing(request: Request, error: Exception) -> Response:
    path = request.url.path
    if len(path) > 1 and path.endswith("/"):
        return RedirectResponse("/" + path.strip("/"), 308, HEADERS)
    return refusal(request, UnknownTool("There is no such page", hint="Begin with the list of sessions"), NOT_FOUND)


async def _unsuited(request: Request, error: Exception) -> Response:
    response = refusal(request, InvalidParameter("The page is only for reading", hint="Ask with GET"), 405)
    response.headers["Allow"] = "GET, HEAD"
    return response


_Handler = Callable[[Request, Exception], Awaitable[Response]]
_HANDLERS: dict[Any, _Handler] = {404: _missing, 405: _unsuited}
