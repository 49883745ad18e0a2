"""Access to the page: a link with a single-use code, the cookie that it is exchanged for, or the token itself.

The cookie is signed with a key made from the state directory's token, so it outlives the daemon and ends with a new
token. A code lives for a minute in memory and opens once. The daemon checks the host before.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from shiftlog.model.limits import PAGE_CODE_S, PAGE_COOKIE_S

CODES_KEPT = 32
_PURPOSE = b"shiftlog-page-v1\n"


class Door:
    """The way in to the page of one state directory."""

    def __init__(
        self, token: str, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        if not token:
            raise ValueError("an empty token would let everyone in")
        self._token = token.encode()
        self._key = hashlib.sha256(_PURPOSE + self._token).digest()
        self._codes: dict[bytes, float] = {}
        self._clock = clock
        self._wall = wall
        # For acting: a key that no file holds, and the cookies that this process gave out itself.
        self._acting_key = secrets.token_bytes(32)
        self._given: set[bytes] = set()
        # Cookies know no ports: two state directories on one host must not overwrite each other's.
        self.cookie_name = f"shiftlog_{hashlib.sha256(self._key).hexdigest()[:8]}"

    def issue_code(self) -> str:
        """Draw a code that opens the page once within a minute."""
        now = self._clock()
        self._codes = {digest: until for digest, until in self._codes.items() if until > now}
        while len(self._codes) >= CODES_KEPT:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = now + PAGE_CODE_S
        return code

    def exchange(self, code: str) -> str | None:
        """Return the cookie for a code, which is spent by it; None for one that is unknown, used or too old."""
        until = self._codes.pop(_digest(code), None)
        if until is None or until <= self._clock():
            return None
        stamp = f"{int(self._wall()) + PAGE_COOKIE_S:x}.{secrets.token_urlsafe(12)}"
        cookie = f"{stamp}.{self._sign(stamp)}"
        self._given.add(_digest(cookie))
        return cookie

    def admits(self, headers: Headers) -> bool:
        """Return True if a request carries the cookie or the token."""
        given = headers.getlist("authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            same = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)
            return len(given) == 1 and scheme.casefold() == "bearer" and same
        return any(self._is_ours(cookie) for cookie in self._cookies(headers))

    def acting_token(self, headers: Headers) -> str | None:
        """Return the token that acts of this browser must carry; None if it may only look.

        Only a browser that came by a link of this daemon may act: a program that reads `http.token` can look at the
        page and could sign a cookie, but never came by a link.
        """
        cookie = next((cookie for cookie in self._cookies(headers) if self._is_ours(cookie)), None)
        if cookie is None or headers.get("authorization") or _digest(cookie) not in self._given:
            return None
        return hmac.new(self._acting_key, cookie.encode(), hashlib.sha256).hexdigest()

    def _cookies(self, headers: Headers) -> list[str]:
        return [cookie_parser(line).get(self.cookie_name, "") for line in headers.getlist("cookie")]

    def _is_ours(self, cookie: str) -> bool:
        stamp, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(stamp).encode()):
            return False
        return int(stamp.partition(".")[0], 16) > self._wall()

    def _sign(self, stamp: str) -> str:
        return hmac.new(self._key, stamp.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def is_foreign(headers: Headers) -> bool:
    """Return True if a page of another site, or of another port of this machine, sent the request."""
    host = headers.get("host", "")
    if any(origin.partition("://")[2].casefold() != host.casefold() for origin in headers.getlist("origin")):
        return True
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    return site not in ("same-origin", "none") and mode != "navigate"


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()
