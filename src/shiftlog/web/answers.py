"""Answers: one view as a page, as a part of one or as JSON, with the headers that every answer has; errors alike.

A view is data first: what the JSON twin shows is what the template gets.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shiftlog.model.errors import InternalError, ShiftlogError, trouble
from shiftlog.web.present.templates import render

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
    "Vary": "Accept",
}

log = logging.getLogger(__name__)

NOT_FOUND, BAD, FORBIDDEN, CONFLICT, FAILED = 404, 400, 403, 409, 500
# Every code that a service can answer with. The page only reads, so most of these never come.
STATUSES: dict[str, int] = {
    "agent_not_entitled": FORBIDDEN,
    "approval_declined": FORBIDDEN,
    "approval_required": FORBIDDEN,
    "budget_exceeded": FORBIDDEN,
    "budget_invalid": BAD,
    "checkpoint_not_found": NOT_FOUND,
    "checkpoint_too_large": CONFLICT,
    "command_not_found": NOT_FOUND,
    "command_not_running": CONFLICT,
    "command_timeout": 504,
    "command_too_large": BAD,
    "container_not_allowed": FORBIDDEN,
    "container_not_running": CONFLICT,
    "cursor_invalid": BAD,
    "docker_unavailable": 503,
    "fingerprint_mismatch": FORBIDDEN,
    "git_missing": 503,
    "host_key_mismatch": FORBIDDEN,
    "host_key_unknown": FORBIDDEN,
    "host_not_allowed": FORBIDDEN,
    "idempotency_conflict": CONFLICT,
    "internal_error": FAILED,
    "invalid_config": FAILED,
    "invalid_parameter": BAD,
    "invalid_request_id": BAD,
    "invalid_session_id": BAD,
    "journal_tampered": CONFLICT,
    "journal_unavailable": 503,
    "lease_lost": CONFLICT,
    "no_resumable_session": NOT_FOUND,
    "nothing_to_restore": NOT_FOUND,
    "open_failed": 502,
    "output_expired": 410,
    "policy_denied": FORBIDDEN,
    "policy_undecidable": FORBIDDEN,
    "recovery_token_expired": FORBIDDEN,
    "recovery_token_invalid": FORBIDDEN,
    "recovery_token_mismatch": FORBIDDEN,
    "recovery_token_required": FORBIDDEN,
    "recovery_token_used": FORBIDDEN,
    "restore_incomplete": CONFLICT,
    "sandbox_not_allowed": FORBIDDEN,
    "sandbox_unavailable": 503,
    "session_already_closed": CONFLICT,
    "session_already_exists": CONFLICT,
    "session_closed": CONFLICT,
    "session_held": CONFLICT,
    "session_not_found": NOT_FOUND,
    "session_sealed": CONFLICT,
    "session_succeeded": CONFLICT,
    "shell_busy": CONFLICT,
    "shell_ended": CONFLICT,
    "shell_limit": CONFLICT,
    "shell_lost": CONFLICT,
    "shell_not_found": NOT_FOUND,
    "ssh_auth_failed": FORBIDDEN,
    "ssh_connect_failed": 502,
    "ssh_key_not_permitted": FORBIDDEN,
    "stdin_closed": CONFLICT,
    "storage_error": 503,
    "transcript_not_found": NOT_FOUND,
    "transcript_unreadable": CONFLICT,
    "transport_not_allowed": FORBIDDEN,
    "turn_already_exists": CONFLICT,
    "turn_immutable": CONFLICT,
    "turn_not_found": NOT_FOUND,
    "unauthorized": 401,
    "unknown_tool": NOT_FOUND,
    "workspace_invalid": BAD,
    "workspace_required": BAD,
}
# What addresses of files end with.
FILES = (".md", ".csv", ".html", ".jsonl")
# Where the hint of an error speaks to an agent about its tools, a person reads this instead.
HINTS = {
    "session_not_found": "The list of sessions shows what is there",
    "invalid_session_id": "The list of sessions shows what is there",
    "turn_not_found": "The session's page shows its turns",
    "invalid_parameter": "Correct it in the address and try again",
    "output_expired": "The entry of the command keeps the beginning and the end of what it printed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Something to look at: its data, and how a page shows it; `part` is the template of the part that changes."""

    data: Mapping[str, Any]
    template: str
    part: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


Endpoint = Callable[[Request], Awaitable[Response]]
Looking = Callable[[Request], Awaitable[View | Response]]


def wants_json(request: Request) -> bool:
    """Tell whether JSON is asked for, by the path or by what the client accepts."""
    if request.url.path.endswith(".json"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _wants_file(request: Request) -> bool:
    """Tell whether a program asks for a file, which a page that says why there is none would only spoil."""
    return request.url.path.endswith(FILES) and "text/html" not in request.headers.get("accept", "")


def answering(look: Looking) -> Endpoint:
    """Make an endpoint of what looks something up; errors become answers here."""

    async def endpoint(request: Request) -> Response:
        try:
            found = await look(request)
            return found if isinstance(found, Response) else shown(request, found)
        except ShiftlogError as error:
            return refusal(request, error)
        except Exception as error:
            log.exception("The page failed to answer %s", request.url.path)
            failed = InternalError("The page failed to answer; the daemon's log says where")
            return refusal(request, trouble(error) or failed)

    return endpoint


def shown(request: Request, view: View) -> Response:
    """Answer with a view in the form that was asked for."""
    if wants_json(request):
        return json_response(view.data, view.status)
    is_part = view.part is not None and "part" in request.query_params
    template = view.part if is_part and view.part is not None else view.template
    html = render(template, {**view.data, **view.extra, "here": request.url.path, "query": dict(request.query_params)})
    return HTMLResponse(html, view.status, HEADERS)


def refusal(request: Request, error: ShiftlogError, status: int | None = None) -> Response:
    """Answer with an error."""
    code = STATUSES.get(error.code, FAILED) if status is None else status
    if wants_json(request) or _wants_file(request):
        return json_response({"error": error.as_dict()}, code)
    about = {"heading": error.message, "hint": _hint(error), "code": code, "here": ""}
    if error.details.get("parameter") == "q":
        about |= {"q": request.query_params.get("q", ""), "hint": "Correct it and search again"}
    html = render("message.html", about)
    return HTMLResponse(html, code, HEADERS)


def _hint(error: ShiftlogError) -> str | None:
    """Return what a person can do; that of a parameter or of a page may say it better than its kind."""
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
