"""Access to a team's server: every request carries an API key, or the cookie that the page got for one.

Only the health checks, the form to sign in and the page's own static files need none. A request that a page of another
site sent is refused, with or without a key.
"""

from collections.abc import Mapping
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shiftlog.app.api_keys import ApiKeys
from shiftlog.mcp.http import refusal
from shiftlog.model.errors import Unauthorized
from shiftlog.model.limits import HTTP_BODY_S, PAGE_COOKIE_S
from shiftlog.model.team import ApiKey, KeyScope
from shiftlog.server.bodies import BodyTooLarge, read_body
from shiftlog.web.answers import HEADERS
from shiftlog.web.door import is_foreign
from shiftlog.web.present.templates import render
from shiftlog.web.routes import STATIC

HEALTH, READY, METRICS, SIGN_IN, SIGN_OUT = "/healthz", "/readyz", "/metrics", "/sign-in", "/sign-out"
OPEN_PATHS = frozenset({HEALTH, READY, SIGN_IN, SIGN_OUT})
COOKIE = "shiftlog_team"
FORM_BYTES = 4096
KEY_HINT = "Send 'Authorization: Bearer <key>'; the operator makes keys with shiftlog keys create"
_KEY = "shiftlog.api_key"


def key_of(scope: Scope) -> ApiKey:
    """Return the key of a request that has passed the gate."""
    return scope[_KEY]


def lacks(scope: KeyScope) -> Unauthorized:
    """Return the error for a key without a scope."""
    return Unauthorized(f"This key lacks the scope {scope}", hint="Ask the operator for another key")


class AccessGate:
    """Lets through requests with a valid key that has the scope they need."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), str(scope["path"])
        if is_foreign(headers):
            refused = refusal(403, Unauthorized("A page of another site asks", hint="Open the page itself"))
            await refused(scope, receive, send)
            return
        if path not in OPEN_PATHS and not path.startswith(STATIC):
            key = await self._key(headers)
            if key is None:
                await _unknown(scope, headers)(scope, receive, send)
                return
            needed = KeyScope.METRICS if path == METRICS else KeyScope.READ
            if not key.allows(needed):
                await refusal(403, lacks(needed))(scope, receive, send)
                return
            scope[_KEY] = key
        await self._app(scope, receive, send)

    async def _key(self, headers: Headers) -> ApiKey | None:
        given = headers.getlist("authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            if len(given) != 1 or scheme.casefold() != "bearer":
                return None
            return await self._keys.check(token.strip())
        for line in headers.getlist("cookie"):
            key = await self._keys.check_cookie(cookie_parser(line).get(COOKIE, ""))
            if key is not None:
                return key
        return None


def _unknown(scope: Scope, headers: Headers) -> Response:
    """Return the refusal of a request without a valid key; a person gets the form to sign in."""
    if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
        return RedirectResponse(SIGN_IN, 303, HEADERS)
    return refusal(401, Unauthorized("A valid API key is required", hint=KEY_HINT), {"WWW-Authenticate": "Bearer"})


async def sign_in(keys: ApiKeys, request: Request) -> Response:
    """Show the form, or exchange the key in it for a cookie."""
    if request.method != "POST":
        return _form()
    try:
        with anyio.fail_after(HTTP_BODY_S):  # of the whole body: any client may send it
            body = await read_body(request, FORM_BYTES)
    except BodyTooLarge:
        return _form("That is no API key", 413)
    except TimeoutError:
        return _form("The key took too long", 408)
    given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10).get("key", [""])[-1]
    key = await keys.check(given.strip())
    if key is None or not key.allows(KeyScope.READ):
        return _form("This key is not valid here", 401)
    response = RedirectResponse("/", 303, HEADERS)
    _set_cookie(response, request.headers, keys.cookie_for(key), PAGE_COOKIE_S)
    return response


async def sign_out(request: Request) -> Response:
    """Remove the cookie of this browser."""
    response = RedirectResponse(SIGN_IN, 303, HEADERS)
    _set_cookie(response, request.headers, "", 0)
    return response


def _set_cookie(response: Response, headers: Mapping[str, str], value: str, lasts_s: int) -> None:
    # The reverse proxy that has the certificate says so.
    secure = headers.get("x-forwarded-proto", "").casefold() == "https"
    response.set_cookie(COOKIE, value, max_age=lasts_s, path="/", httponly=True, samesite="strict", secure=secure)


def _form(problem: str | None = None, status: int = 200) -> Response:
    return HTMLResponse(render("sign_in.html", {"here": "", "problem": problem}), status, HEADERS)
