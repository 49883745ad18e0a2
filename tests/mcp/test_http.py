"""Streamable HTTP on a real port: who is let in, and that both revisions work there as they do over lines."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from shiftlog.mcp.http import http_app
from shiftlog.mcp.server import build_server
from shiftlog.model.caller import Caller
from tests.mcp.samples import sample_registry
from tests.mcp.wire import ENVELOPE, REVISIONS, sdk_client, transcript

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("revision", REVISIONS)

SERVER = build_server(sample_registry())
TOKEN = "correct-horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ASKING = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def caller_of(connection: HTTPConnection) -> Caller:
    return Caller(face="http", client_id=connection.headers.get("x-client", "client-1"), pid=4711)


def app(**options: Any) -> Starlette:
    return http_app(SERVER, token=TOKEN, caller_for=caller_of, **options)


@asynccontextmanager
async def listening(application: Starlette) -> AsyncGenerator[str]:
    """Serve an application on a free loopback port and yield its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(application, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True


@asynccontextmanager
async def http_client(url: str, revision: str, headers: dict[str, str] | None = None) -> AsyncGenerator[Client]:
    mode = "legacy" if revision == "2025-11-25" else revision
    async with (
        httpx2.AsyncClient(headers={**BEARER, **(headers or {})}, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


def modern_call(arguments: str) -> tuple[str, dict[str, str]]:
    params = f'{{"name":"checked","arguments":{arguments},"_meta":{json.dumps(ENVELOPE)}}}'
    body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "checked"}
    return body, {**BEARER, **ASKING, **headers}


HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "peer", "version": "1"},
        },
    }
)


CALL = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"checked","arguments":%s}}'


@both
async def test_http_gives_the_same_results_as_lines(revision: str):
    async with listening(app()) as address, http_client(address + "/mcp", revision) as client:
        over_http = await transcript(client)
    async with sdk_client(SERVER, revision) as client:
        assert over_http == await transcript(client)


@both
async def test_the_second_path_serves_the_same(revision: str):
    async with listening(app()) as address, http_client(address + "/mcp-transport", revision) as client:
        assert (await client.call_tool("echo", {})).structured_content == {"given": {}}


@both
async def test_the_caller_is_made_from_the_headers_of_each_request(revision: str):
    async with listening(app()) as address:
        for name in ("first", "second"):
            async with http_client(address + "/mcp", revision, {"X-Client": name}) as client:
                seen = (await client.call_tool("whoami", {})).structured_content
                assert (seen["face"], seen["client_id"], seen["same"]) == ("http", name, True)
                assert seen["call_id"] is not None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer wrong")],
        [("Authorization", TOKEN)],
        [("Authorization", f"Basic {TOKEN}")],
        [("Authorization", f"Bearer {TOKEN}x")],
        [("Authorization", "Bearer")],
        [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")],
        [("Authorization", b"Bearer \xff\xfe")],
    ],
)
async def test_without_the_token_nothing_is_served(headers: list[tuple[str, Any]]):
    async with listening(app()) as address, httpx.AsyncClient(base_url=address) as client:
        for method, path in (("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp-transport")):
            answer = await client.request(method, path, headers=headers, content=HELLO)
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "unauthorized"
            assert answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({"Host": "evil.example"}, "Host"),
        ({"Host": "127.0.0.1.evil.example"}, "Host"),
        ({"Host": "localhost.evil.example:80"}, "Host"),
        ({"Host": "localhost@evil.example"}, "Host"),
        ({"Host": "10.0.0.1"}, "Host"),
        ({"Host": ""}, "Host"),
        ({"Origin": "http://evil.example"}, "Origin"),
        ({"Origin": "https://localhost.evil.example"}, "Origin"),
        ({"Origin": "null"}, "Origin"),
        ({"Origin": "file://localhost"}, "Origin"),
        ({"Origin": "http://localhost@evil.example"}, "Origin"),
    ],
)
async def test_a_foreign_host_or_origin_is_refused_even_with_the_token(headers: dict[str, str], names: str):
    async with listening(app()) as address, httpx.AsyncClient(base_url=address) as client:
        for proof in ({}, BEARER):
            answer = await client.post("/mcp", headers={**ASKING, **proof, **headers}, content=HELLO)
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == "unauthorized"
            assert names in answer.json()["error"]["message"]
        assert (await client.get("/nowhere", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8080", "Origin": "http://localhost:3000"},
        {"Host": "[::1]:9", "Origin": "https://127.0.0.1"},
        {"Authorization": f"bearer  {TOKEN}"},
    ],
)
async def test_this_machine_is_let_in_under_all_its_names(headers: dict[str, str]):
    async with listening(app()) as address, httpx.AsyncClient(base_url=address) as client:
        answer = await client.post("/mcp", headers={**ASKING, **BEARER, **headers}, content=HELLO)
        assert answer.status_code == 200
        assert '"name":"shiftlog"' in answer.text


async def test_added_routes_need_no_token_but_our_host():
    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("a page")

    application = app(routes=[Route("/page", page)])
    async with listening(application) as address, httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("/page")).text == "a page"
        assert (await client.get("/page", headers={"Host": "evil.example"})).status_code == 403


def test_an_empty_token_is_refused():
    with pytest.raises(ValueError, match="empty token"):
        http_app(SERVER, token="")


@both
async def test_an_argument_of_ten_megabytes_reaches_the_check_of_its_tool(revision: str):
    async with listening(app()) as address, http_client(address + "/mcp", revision) as client:
        result = await client.call_tool("checked", {"text": "x" * 10_000_000})
        assert result.structured_content["error"]["details"]["parameter"] == "text"


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("[]", types.INVALID_REQUEST, "Invalid request: batches are not served; send one message at a time"),
        (CALL % '{"text":"a\\ud800"}', types.INVALID_PARAMS, "Parameter 'text' is invalid: valid Unicode is expected"),
        (
            CALL % ('{"text":' + "[" * 300 + "]" * 300 + "}"),
            types.INVALID_PARAMS,
            "Parameter 'text' is invalid: at most",
        ),
        (CALL % '{"text":NaN}', types.PARSE_ERROR, "Parse error: NaN is not JSON"),
        (
            '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"hunter2hunter2"}',
            types.INVALID_PARAMS,
            "Invalid params",
        ),
        ("hunter2hunter2", types.PARSE_ERROR, "Parse error: "),
    ],
)
async def test_a_body_that_is_no_message_is_refused_with_the_words_for_lines_and_without_its_own(
    body: str, code: int, says: str
):
    async with listening(app()) as address, httpx.AsyncClient(base_url=address) as client:
        hello = await client.post("/mcp", headers={**BEARER, **ASKING}, content=HELLO)
        known = {**BEARER, **ASKING, "Mcp-Session-Id": hello.headers["mcp-session-id"]}
        answer = await client.post("/mcp", headers=known, content=body)
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert error["code"] == code
        assert error["message"].startswith(says)
        assert "hunter2" not in answer.text
        assert answer.json()["id"] == (7 if '"id":7' in body else None)
        ping = '{"jsonrpc":"2.0","id":8,"method":"ping"}'
        assert '"result":{}' in (await client.post("/mcp", headers=known, content=ping)).text


async def test_bad_bodies_are_refused_and_the_server_goes_on():
    body, headers = modern_call('{"text":"a\\ud800"}')
    nested, _ = modern_call('{"text":' + "[" * 50_000 + "]" * 50_000 + "}")
    async with listening(app()) as address, httpx.AsyncClient(base_url=address) as client:
        for content, code in ((b"{", types.PARSE_ERROR), (nested, types.PARSE_ERROR), (b"[]", types.INVALID_REQUEST)):
            for proof in (headers, {**BEARER, **ASKING}):
                answer = await client.post("/mcp", headers=proof, content=content)
                assert answer.status_code == 400
                if proof is headers:
                    assert answer.json()["error"]["code"] == code
        surrogate = (await client.post("/mcp", headers=headers, content=body)).json()["result"]
        assert surrogate["structuredContent"]["error"]["details"]["parameter"] == "text"
        good, _ = modern_call('{"text":"a"}')
        assert (await client.post("/mcp", headers=headers, content=good)).json()["result"]["isError"] is False
