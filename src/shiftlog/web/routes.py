"""The addresses of the page, and the access check before them.

Every page answers JSON at the same address, by `Accept` or with `.json` at its end. Only the entrance and the static
files are open without cookie or token.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from shiftlog.app.app import App
from shiftlog.model.errors import InvalidParameter, Unauthorized, UnknownTool
from shiftlog.model.limits import PAGE_COOKIE_S
from shiftlog.web.acting import act
from shiftlog.web.answers import FORBIDDEN, HEADERS, NOT_FOUND, PageView, answering, json_response, refusal, wants_json
from shiftlog.web.door import Door, is_foreign
from shiftlog.web.live import Live
from shiftlog.web.openapi import description
from shiftlog.web.present.addresses import address
from shiftlog.web.present.templates import HERE, render, style_version
from shiftlog.web.views import details, projects, session
from shiftlog.web.views.export import download
from shiftlog.web.views.files import file_page
from shiftlog.web.views.finding import find_page
from shiftlog.web.views.images import image_file
from shiftlog.web.views.now import now_page
from shiftlog.web.views.outline import outline_page
from shiftlog.web.views.palette import palette_page
from shiftlog.web.views.rail import read_rail
from shiftlog.web.views.replay import replay_page
from shiftlog.web.views.sessions import sessions_page
from shiftlog.web.views.undoing import undo_page
from shiftlog.web.views.usage import usage_file, usage_page

OPEN = "/open"
STATIC = "/static/"
HINT = "Run `shiftlog open` in a terminal: it makes a fresh link"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


_View = Callable[[App, Request], Awaitable[PageView | Response]]


def page_routes(app: App, door: Door, live: Live) -> list[BaseRoute]:
    """Return the routes of the page, to be served behind the host check."""
    own = [
        Route(OPEN, partial(_enter, door)),
        Route("/act/{act}", answering(partial(act, app, door)), methods=["POST"]),
    ]
    pages = Starlette(routes=[*own, *_routes(app, door, live)], exception_handlers=_HANDLERS)
    return [Mount("/", app=Gate(pages, door))]


def pages_to_look_at(app: App, live: Live) -> ASGIApp:
    """Return the pages without acts and without a check of access, for a server that has checked it."""
    return Starlette(routes=_routes(app, None, live), exception_handlers=_HANDLERS)


def _routes(app: App, door: Door | None, live: Live) -> list[BaseRoute]:
    one = "/sessions/{session_id}"
    pages: list[tuple[str, _View]] = [
        ("/sessions", sessions_page),
        (f"{one}/outline", outline_page),
        (f"{one}/find", find_page),
        (f"{one}/replay", replay_page),
        (f"{one}/turns/{{request_id}}", session.turn_page),
        (f"{one}/turns/{{request_id}}/undo", undo_page),
        (f"{one}/entries", session.entries_page),
        (f"{one}/entries/{{seq}}", session.entry_page),
        (f"{one}/checkpoints/{{seq}}", details.checkpoint_page),
        (f"{one}/handover", details.handover_page),
        (f"{one}/trust", details.trust_page),
        ("/now", now_page),
        ("/usage", usage_page),
        ("/palette", palette_page),
        ("/projects", projects.projects_page),
        ("/projects/{project:path}", projects.project_page),
        ("/files", file_page),
        ("/decisions", projects.decisions_page),
        ("/outputs/{command_id}", details.output_page),
        (one, session.session_page),
    ]
    files: list[tuple[str, _View]] = [
        (f"{one}/images/{{seq}}/{{number}}", image_file),
        (f"{one}/handover.md", details.handover_file),
        (f"{one}/receipts/{{seq}}.json", details.receipt_file),
        (f"{one}/export.{{form}}", download),
        ("/usage.csv", usage_file),
    ]
    return [
        Route("/openapi.json", _describe),
        Route(STATIC + "{name:path}", _static),
        # Browsers ask here for the icon of an answer that is no page, as of an image.
        Route("/favicon.ico", _icon),
        Route("/", answering(partial(_framed, sessions_page, app, door))),
        Route("/events", answering(live.sessions)),
        Route(f"{one}/events", answering(live.session)),
        *(Route(path, answering(partial(look, app))) for path, look in files),
        *(
            Route(path + ending, answering(partial(_framed, look, app, door)))
            for path, look in pages
            for ending in (".json", "")
        ),
    ]


async def _framed(look: _View, app: App, door: Door | None, request: Request) -> PageView | Response:
    """Put the list of sessions beside a page that a person asks for, and the token of acts into its forms."""
    view = await look(app, request)
    if isinstance(view, Response) or wants_json(request):
        return view
    extra = {**view.extra, "csrf": door.acting_token(request.headers) if door is not None else None}
    if "part" not in request.query_params and "rail" not in extra:
        named: Mapping[str, Any] = view.data.get("session") or view.extra.get("session") or {}
        extra["rail"] = await read_rail(app, QueryParams(), named.get("session_id"))
    return replace(view, extra=extra)


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
    # No page is painted before its style is there, so a browser shall not ask for it again.
    is_for_good = name == "style.css" and request.query_params.get("v") == style_version()
    kept = "private, max-age=31536000, immutable" if is_for_good else "private, max-age=60"
    headers = {**HEADERS, "Cache-Control": kept}
    return Response(path.read_bytes(), 200, headers, _TYPES[path.suffix])


async def _icon(request: Request) -> Response:
    return RedirectResponse(STATIC + "icon.svg", 308, HEADERS)


async def _missing(request: Request, error: Exception) -> Response:
    path = request.url.path
    if len(path) > 1 and path.endswith("/"):
        return RedirectResponse("/" + path.strip("/"), 308, HEADERS)
    return refusal(request, UnknownTool("There is no such page", hint="Begin with the list of sessions"), NOT_FOUND)


async def _unsuited(request: Request, error: Exception) -> Response:
    acts = request.url.path.startswith("/act/")
    hint = "Use the forms of the page" if acts else "Ask with GET"
    response = refusal(request, InvalidParameter("The page does not answer that here", hint=hint), 405)
    response.headers["Allow"] = "POST" if acts else "GET, HEAD"
    return response


_Handler = Callable[[Request, Exception], Awaitable[Response]]
_HANDLERS: dict[Any, _Handler] = {404: _missing, 405: _unsuited}
