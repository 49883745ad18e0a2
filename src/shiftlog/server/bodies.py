"""Reading the body of a request within a limit."""

from starlette.requests import Request


class BodyTooLarge(Exception):
    """A body over the limit."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body; raise BodyTooLarge before more than the limit is in memory."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise BodyTooLarge
    return bytes(body)
