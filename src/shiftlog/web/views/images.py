"""Images of prompts and results whose bytes an import kept, served from the page's own origin."""

import base64
import binascii
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, NOT_FOUND, refusal
from shiftlog.web.views.session import number, read_session

# What browsers draw and cannot run; SVG is a program.
TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# A browser that shows an image alone wraps it in a page with inline styles and asks for the site's icon.
POLICY = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; sandbox allow-same-origin"


async def image_file(app: App, request: Request) -> Response:
    """Answer with the bytes of an image that an entry kept."""
    seq, at = number(request.path_params, "seq", 0), number(request.path_params, "number", 0)

    def work(reader: Reader, session: Session) -> dict[str, Any] | None:
        found = reader.entries(session.id, after=seq - 1, until=seq) if 0 < seq <= session.head_seq else []
        images: list[dict[str, Any]] = (found[0].facts.get("images") or []) if found else []
        return images[at] if at < len(images) else None

    image = await read_session(app, request, work) or {}
    try:
        data = base64.b64decode(str(image.get("data") or ""), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or image.get("media_type") not in TYPES:
        return refusal(request, InvalidParameter.invalid("number", f"an image that entry {seq} kept", at), NOT_FOUND)
    headers = {
        **HEADERS,
        "Content-Security-Policy": POLICY,
        "Cache-Control": "private, max-age=600",
    }
    return Response(data, 200, headers, str(image["media_type"]))
