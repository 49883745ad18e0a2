"""Acts from the page: each is a POST with the token of the browser that came by a link, done by the control questions.

A person acts here, so every act is recorded as a person's. What destroys something is asked for on a page of its own
first, which shows what would change.
"""

import hmac
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shiftlog.app.app import App
from shiftlog.journal.journal import find_session
from shiftlog.model.errors import InvalidParameter, Unauthorized
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, PageView, json_response, wants_json
from shiftlog.web.asking import ask
from shiftlog.web.door import Door
from shiftlog.web.views.timeline import find_turn
from shiftlog.web.views.undoing import workspace_of

BODY_BYTES = 64 << 10
NO_ACTING = "Run shiftlog open in a terminal: the page that it opens may act"

Given = Mapping[str, str]


async def act(app: App, door: Door, request: Request) -> PageView | Response:
    """Do what a form asks for, then show the page that the form names, or what came of it."""
    given = await _form(request)
    token = door.acting_token(request.headers)
    if token is None:
        raise Unauthorized("This browser may only look", hint=NO_ACTING)
    if not hmac.compare_digest(given.get("csrf", "").encode("utf-8", "replace"), token.encode()):
        raise Unauthorized("The form is not of this page", hint="Open the page anew and try again")
    name = request.path_params["act"]
    if name not in _ACTS:
        raise InvalidParameter.invalid("act", "one of " + ", ".join(_ACTS), name, allowed=list(_ACTS))
    done = await _ACTS[name](app, given)
    if wants_json(request):
        return json_response(done)
    shown = done.get("token") or done.get("recovery_token")
    if shown:
        agent = shlex.quote(done["offered_to"]) if done.get("offered_to") else "AGENT"
        data = {"heading": "Offered", "token": shown, "agent": agent, "done": done, "back": _back(given)}
        return PageView(data=data, template="offered.html", extra={"here": "?"})
    return RedirectResponse(_back(given), 303, HEADERS)


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            raise InvalidParameter("The form is too long", details={"max_bytes": BODY_BYTES})
    pairs = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100)
    # No file name holds a NUL, but one may hold a line break.
    return {name: "\0".join(values) for name, values in pairs.items()}


def _back(given: Given) -> str:
    """Return the page to show next: one of our own."""
    back = given.get("back", "")
    return back if back.startswith("/") and not back.startswith(("//", "/\\")) and "\n" not in back else "/"


def _needed(given: Given, name: str) -> str:
    if not given.get(name, "").strip():
        raise InvalidParameter.missing(name)
    return given[name].strip()


async def _asked(app: App, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    done = await ask(app, method, params)
    refused: Mapping[str, Any] | None = done.get("refusal")
    if refused:
        raise InvalidParameter(str(refused.get("message") or refused.get("error") or "Refused"))
    return done


async def _approve(app: App, given: Given) -> dict[str, Any]:
    granted = _needed(given, "granted") == "yes"
    return await _asked(app, "approve", {"approval_id": _needed(given, "approval_id"), "granted": granted})


async def _annotate(app: App, given: Given) -> dict[str, Any]:
    params: dict[str, Any] = {"session_id": _needed(given, "session_id")}
    params |= {name: given[name] for name in ("title", "note") if given.get(name, "").strip()}
    if tags := [tag.strip() for tag in given.get("add_tags", "").split(",") if tag.strip()]:
        params["add_tags"] = tags
    if given.get("remove_tags"):
        params["remove_tags"] = [given["remove_tags"]]
    return await _asked(app, "annotate", params)


async def _rewind(app: App, given: Given) -> dict[str, Any]:
    """Take files back to where a turn found them: all, or those that the form names."""
    session, request_id = _needed(given, "session_id"), _needed(given, "request_id")
    paths = [path for path in given.get("paths", "").split("\0") if path]
    if given.get("only_paths") and not paths:
        raise InvalidParameter("No file is chosen", hint="Choose the files to take back")

    def work(reader: Reader) -> str | None:
        found = find_session(reader, session)
        return workspace_of(reader, found, find_turn(reader, found, request_id))

    params: dict[str, Any] = {"workspace": await app.store.read(work), "request_id": request_id, "clean": True}
    return await _asked(app, "rewind", params | ({"paths": paths} if paths else {}))


async def _close(app: App, given: Given) -> dict[str, Any]:
    session = await _session(app, given)
    # The person was asked whether to close it, so a client that holds it does not stand in the way.
    arguments = {"session_id": session.id, "on_held": "take_over"}
    return await _asked(app, "continuity", {"tool": "close_session", "arguments": arguments})


async def _offer(app: App, given: Given) -> dict[str, Any]:
    session = await _session(app, given)
    params = {
        "session_id": session.id,
        "on_held": "take_over",
        "agent_id": given.get("agent_id") or None,
        "reason": given.get("reason") or None,
    }
    return await _asked(app, "offer", {name: value for name, value in params.items() if value})


async def _erase(app: App, given: Given) -> dict[str, Any]:
    session = await _session(app, given)
    seq = _needed(given, "seq")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 10):
        raise InvalidParameter.invalid("seq", "the number of an entry", seq)
    if given.get("sure") != "yes":
        raise InvalidParameter("Erasing cannot be undone", hint="Tick that you are sure, and send the form again")
    params = {"session_id": session.id, "entries": [int(seq)], "reason": _needed(given, "reason")}
    return await _asked(app, "erase", params)


async def _session(app: App, given: Given) -> Session:
    name = _needed(given, "session_id")
    return await app.store.read(lambda reader: find_session(reader, name))


_ACTS = {
    "approve": _approve,
    "annotate": _annotate,
    "rewind": _rewind,
    "close": _close,
    "offer": _offer,
    "erase": _erase,
}
