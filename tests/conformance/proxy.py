"""A way to the product for a suite that cannot send a token: passes every request on and adds it.

Run with `python -m tests.conformance.proxy URL TOKEN_FILE`; it prints its own address once it listens.
"""

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

METHODS = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]
# They belong to one connection, and each side of the proxy has its own.
HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding"}


def proxy(target: str, token: str) -> Starlette:
    """Build the application that passes requests on to `target`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            app.state.client = client
            yield

    async def forward(request: Request) -> StreamingResponse:
        client: httpx.AsyncClient = request.app.state.client
        headers = [(name, value.strip()) for name, value in request.headers.raw if name not in HOP_BY_HOP]
        headers.append((b"authorization", f"Bearer {token}".encode()))
        outgoing = client.build_request(request.method, target, headers=headers, content=await request.body())
        answer = await client.send(outgoing, stream=True)

        async def body() -> AsyncGenerator[bytes]:
            try:
                async for chunk in answer.aiter_raw():
                    yield chunk
            finally:
                await answer.aclose()

        response = StreamingResponse(body(), status_code=answer.status_code)
        response.raw_headers = [pair for pair in answer.headers.raw if pair[0].lower() not in HOP_BY_HOP]
        return response

    return Starlette(routes=[Route(urlsplit(target).path, forward, methods=METHODS)], lifespan=lifespan)


async def main(target: str, token_file: str) -> None:
    """Listen on a free loopback port until the process is stopped."""
    token = (await anyio.Path(token_file).read_text()).strip()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}{urlsplit(target).path}\n")
        sys.stdout.flush()
        config = uvicorn.Config(proxy(target, token), log_level="warning", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], str(Path(sys.argv[2]).resolve()))
