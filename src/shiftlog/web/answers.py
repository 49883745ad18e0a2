"""HTTP responses of the page: a view or an error as HTML, as part of a page, or as JSON, with the common headers.

The JSON form of a view is the data that its template gets.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shiftlog.model.errors import Category, InternalError, ShiftlogError, trouble
from shiftlog.web.present.addresses import address
from shiftlog.web.present.templates import render

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Nothing goes to other sites; to our own the origin must, because without it a form counts as a foreign page's.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Vary": "Accept",
}

log = logging.getLogger(__name__)

NOT_FOUND, FORBIDDEN, UNKNOWN_CALLER = 404, 403, 401
STATUSES: dict[Category, int] = {
    Category.INVALID: 400,
    Category.NOT_FOUND: NOT_FOUND,
    Category.CONFLICT: 409,
    Category.FORBIDDEN: FORBIDDEN,
    Category.DENIED: FORBIDDEN,
    Category.FAILED: 409,
    Category.UNAVAILABLE: 503,
    Category.INTERNAL: 500,
}
# HTTP has a closer status for these than for the rest of their category.
STATUSES_BY_CODE = {
    "command_timeout": 504,
    "open_failed": 502,
    "output_expired": 410,
    "ssh_connect_failed": 502,
    "unauthorized": UNKNOWN_CALLER,
}
# Suffixes of addresses that are files.
FILES = (".md", ".csv", ".html", ".jsonl")
# What a person is told where the error speaks to programs.
HEADINGS = {
    "invalid_session_id": "There is no such session",
    "command_not_found": "There is no such command",
}
HINTS_OF_ACTS = {
    "invalid_parameter": "Go back, look at what is there now and try again",
    "turn_not_found": "The session's page shows its turns",
}
# For people, in place of hints that speak to an agent about its tools.
HINTS = {
    "session_not_found": "The list of sessions shows what is there",
    "invalid_session_id": "The list of sessions shows what is there",
    "turn_not_found": "The session's page shows its turns",
    "invalid_parameter": "Correct it in the address and try again",
    "command_not_found": "The session's page shows its commands",
    "output_expired": "The entry of the command keeps the beginning and the end of what it printed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """Data and the template that shows it; `part` is the template of the part that changes."""

    data: Mapping[str, Any]
    template: str
    part: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


Endpoint = Callable[[Request], Awaitable[Response]]
Lookup = Callable[[Request], Awaitable[PageView | Response]]


def wants_json(request: Request) -> bool:
    """Return True if the path or the Accept header asks for JSON."""
    if request.url.path.endswith(".json"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def answering(look: Lookup) -> Endpoint:
    """Return the endpoint of a lookup; its errors become answers."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await look(request)
            return found if isinstance(found, Response) else shown(request, found)
        except ShiftlogError as error:
            return refusal(request, error)
        except Exception as error:
            log.exception("A page failed to answer")  # its address may name a title
            failed = InternalError("The page failed to answer; the daemon's log says where")
            return refusal(request, trouble(error) or failed)

    return endpoint


def shown(request: Request, view: PageView) -> Response:
    """Answer with a view in the form that was asked for."""
    if wants_json(request):
        return json_response(view.data, view.status)
    template = view.part if view.part is not None and "part" in request.query_params else view.template
    html = render(template, {**view.data, **view.extra, "here": request.url.path})
    return HTMLResponse(html, view.status, HEADERS)


def status_of(error: ShiftlogError) -> int:
    """Return the HTTP status of an error."""
    return STATUSES_BY_CODE.get(error.code, STATUSES[error.category])


def refusal(request: Request, error: ShiftlogError, status: int | None = None) -> Response:
    """Answer with an error."""
    code = status or status_of(error)
    # A program that requests a file gets errors as JSON, not as a page.
    is_file = request.url.path.endswith(FILES) and "text/html" not in request.headers.get("accept", "")
    if is_file or wants_json(request):
        return json_response({"error": error.as_dict()}, code)
    heading = HEADINGS.get(error.code, error.message)
    if error.details.get("parameter") == "q":  # a person has typed it and knows no parameter
        heading = str(error.details.get("constraint") or heading)
    about = {
        "heading": heading[:1].upper() + heading[1:],
        "hint": _hint(error),
        "code": code,
        "here": "" if code == UNKNOWN_CALLER else "?",
    }
    about |= _way_back(request, error)
    if request.url.path.startswith("/act/") and code != UNKNOWN_CALLER:
        about["hint"] = HINTS_OF_ACTS.get(error.code, about["hint"])
    if error.details.get("parameter") == "q":
        about |= {"q": request.query_params.get("q", ""), "hint": "Correct it and search again"}
    return HTMLResponse(render("message.html", about), code, HEADERS)


def _way_back(request: Request, error: ShiftlogError) -> dict[str, str]:
    """Return a link to the session that an address without an answer belongs to."""
    name = request.path_params.get("session_id") or request.query_params.get("session")
    if not name or error.code in ("session_not_found", "invalid_session_id", "unauthorized"):
        return {}
    return {"back": address("sessions", name), "back_says": "Back to the session"}


def _hint(error: ShiftlogError) -> str | None:
    """Return a hint for a person; one given with the error itself counts before that of its class."""
    is_plain = error.hint in (type(error).hint, None) or error.code in ("session_not_found", "invalid_session_id")
    return HINTS.get(error.code, error.hint) if is_plain else error.hint


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON."""
    return Response(encoded(data), status, {**HEADERS, **(headers or {})}, "application/json")


def encoded(data: object) -> bytes:
    """Return JSON; a lone surrogate that a record may hold is replaced."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        import json

        return json.dumps(data, ensure_ascii=True, default=str).encode()
