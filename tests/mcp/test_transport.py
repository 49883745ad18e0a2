"""Lines in, lines out: nothing a client sends ends the connection or stays without an answer."""

import itertools
import json
import sys
import tracemalloc
from collections import Counter
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from shiftlog.mcp import transport
from shiftlog.mcp.admission import Admission, RunningRequests
from shiftlog.mcp.lines import InvalidMessage, LineSplitter, Overlong, find_id, parse_line
from shiftlog.mcp.registry import Reply
from shiftlog.mcp.server import build_server
from shiftlog.model.caller import Caller
from shiftlog.model.limits import MCP_REQUESTS
from tests.mcp.samples import Gate, sample_registry, tool
from tests.mcp.wire import REVISIONS, Peer, connected

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("revision", REVISIONS)

SERVER = build_server(sample_registry())


async def still_serves(peer: Peer) -> bool:
    return (await peer.call("echo", {"text": "here"}))["result"]["isError"] is False


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "Expecting property name"),
        (b"hello", "Expecting value"),
        (b'{"jsonrpc":"2.0","id":1', "Expecting ',' delimiter"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', "Extra data"),
        (b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"n":NaN}}', "NaN is not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"n":-Infinity}}', "-Infinity is not JSON"),
        (b'{"n":' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b'{"text":"\xff"}', "not UTF-8 at byte 9"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"\x00\x01\x02", "Expecting value"),
    ],
)
async def test_what_is_no_json_is_answered_and_the_connection_goes_on(line: bytes, says: str):
    async with connected(SERVER) as peer:
        await peer.write(line + b"\n")
        answer = await peer.receive()
        # Around a number that JSON does not have the message is whole, so its id is known.
        assert answer["id"] == (1 if says.endswith("is not JSON") else None)
        assert answer["error"]["code"] == types.PARSE_ERROR
        assert says in answer["error"]["message"]
        assert await still_serves(peer)


@pytest.mark.parametrize(
    ("message", "code", "request_id", "says"),
    [
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], types.INVALID_REQUEST, None, "batches"),
        ([], types.INVALID_REQUEST, None, "batches"),
        (7, types.INVALID_REQUEST, None, "object"),
        ("ping", types.INVALID_REQUEST, None, "object"),
        (None, types.INVALID_REQUEST, None, "object"),
        ({}, types.INVALID_REQUEST, None, "'jsonrpc'"),
        ({"id": 3, "method": "ping"}, types.INVALID_REQUEST, 3, "'jsonrpc'"),
        ({"jsonrpc": "1.0", "id": "a", "method": "ping"}, types.INVALID_REQUEST, "a", "'jsonrpc'"),
        ({"jsonrpc": "2.0", "id": 4, "method": 5}, types.INVALID_REQUEST, 4, "'method'"),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, types.INVALID_REQUEST, None, "'id'"),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, types.INVALID_REQUEST, None, "'id'"),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, types.INVALID_REQUEST, None, "'id'"),
        ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, types.INVALID_REQUEST, None, "'id'"),
        ({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [1]}, types.INVALID_PARAMS, 5, "'params'"),
        (
            {"jsonrpc": "2.0", "method": "notifications/x", "params": 1},
            types.INVALID_PARAMS,
            None,
            "'params'",
        ),
        ({"jsonrpc": "2.0", "id": 6}, types.INVALID_REQUEST, None, "response"),
        ({"jsonrpc": "2.0", "id": 6, "result": 1}, types.INVALID_REQUEST, None, "response"),
        ({"jsonrpc": "2.0", "id": 6, "error": "no"}, types.INVALID_REQUEST, None, "response"),
    ],
)
async def test_json_that_is_no_message_is_answered_under_its_id(
    message: object, code: int, request_id: object, says: str
):
    async with connected(SERVER) as peer:
        await peer.send(message)
        answer = await peer.receive()
        assert (answer["id"], answer["error"]["code"]) == (request_id, code)
        assert says in answer["error"]["message"]
        assert await still_serves(peer)


@both
async def test_a_late_or_unasked_response_is_passed_over(revision: str):
    async with connected(SERVER, revision) as peer:
        await peer.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        await peer.send({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "no"}})
        assert await still_serves(peer)


async def test_blank_lines_and_carriage_returns_are_no_messages():
    async with connected(SERVER) as peer:
        await peer.write(b"\n\r\n   \n" + json.dumps(peer.request("ping")).encode() + b"\r\n")
        assert (await peer.receive())["result"] == {}


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"%s"}', 7),
        (b'{"jsonrpc":"2.0", "method": "tools/call", "id":"a-7","params":"%s"}', "a-7"),
        (b'{"method":"tools/call","params":"%s","jsonrpc":"2.0","id":8}', 8),
        (b'{"method":"tools/call","params":"%s","id":8,"jsonrpc":"2.0"}', 8),
        (b'{"params":{"id":9,"text":"%s"},"method":"m"}', None),
        (b'{"params":{"text":"%s","id":9}}', None),
        (b"%s", None),
    ],
)
async def test_a_line_over_the_limit_is_refused_under_its_id_and_the_rest_of_it_skipped(
    line: bytes, request_id: object
):
    async with connected(SERVER, max_line_bytes=100_000) as peer:
        await peer.write(line.replace(b"%s", b"x" * 1_000_000) + b"\n")
        answer = await peer.receive()
        assert (answer["id"], answer["error"]["code"]) == (request_id, types.INVALID_REQUEST)
        assert "at most 100000 bytes" in answer["error"]["message"]
        assert await still_serves(peer)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_nesting_that_cannot_be_parsed_is_named_under_its_id(revision: str):
    async with connected(SERVER, revision) as peer:
        deep = b"[" * 100_000 + b"]" * 100_000
        await peer.write(b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"x":' + deep + b"}}\n")
        answer = await peer.receive()
        assert (answer["id"], answer["error"]["code"]) == (12, types.INVALID_REQUEST)
        assert "nested too deeply" in answer["error"]["message"]
        assert await still_serves(peer)


@both
async def test_an_argument_of_ten_megabytes_reaches_the_check_of_its_tool(revision: str):
    async with connected(SERVER, revision) as peer:
        result = (await peer.call("checked", {"text": "x" * 10_000_000}))["result"]
        assert result["structuredContent"]["error"]["details"]["parameter"] == "text"
        assert "at most 1048576 characters" in result["structuredContent"]["error"]["message"]
        assert len(json.dumps(result)) < 2000
        assert await still_serves(peer)


async def test_large_results_of_concurrent_requests_arrive_as_whole_lines():
    async with connected(SERVER) as peer:
        asked: set[int] = set()
        for n in range(20):
            request = peer.request("tools/call", {"name": "echo", "arguments": {"text": str(n) * 200_000}})
            asked.add(request["id"])
            await peer.send(request)
        answered = [await peer.receive() for _ in range(20)]
        assert {answer["id"] for answer in answered} == asked


async def test_a_line_that_is_being_written_when_the_connection_ends_is_written_to_its_end():
    drain = anyio.Event()
    async with connected(SERVER, drain=drain, finish_s=0.01) as peer:
        request = peer.request("tools/call", {"name": "echo", "arguments": {"text": "x" * 5_000_000}})
        await peer.send(request)
        # The first bytes have come, so the rest of the line waits for us to read.
        with anyio.fail_after(20):
            first = await peer.stream.receive(10)
            drain.set()
            assert await peer.at_end_of(first) == [request["id"]]


async def test_a_client_that_stops_reading_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "MCP_STALL_S", 0.05)
    async with connected(SERVER, finish_s=0.05) as peer:
        await peer.send(peer.request("tools/call", {"name": "echo", "arguments": {"text": "x" * 5_000_000}}))
        ended = False
        with anyio.fail_after(10):
            while not ended:
                try:
                    await peer.send(peer.request("ping"))
                except anyio.BrokenResourceError:
                    ended = True


async def test_what_was_asked_before_the_input_ended_is_still_answered():
    gate = Gate()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server) as peer:
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        last = peer.request("ping")
        await peer.write(json.dumps(last).encode())
        await peer.stream.send_eof()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        assert (await peer.receive())["id"] == last["id"]
        gate.go_on.set()
        assert (await peer.receive())["id"] == slow["id"]
        assert await peer.at_end()


async def test_what_does_not_finish_in_time_is_cancelled_and_told_so():
    gate = Gate()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, finish_s=0.05) as peer:
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        await gate.entered.wait()
        await peer.stream.send_eof()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        answer = await peer.receive()
        assert (answer["id"], answer["error"]["message"]) == (slow["id"], "Connection closed")
        assert gate.cancelled.is_set()
        assert await peer.at_end()


async def test_a_client_that_vanishes_ends_its_requests():
    gate = Gate()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, finish_s=0.05) as peer:
        await peer.send(peer.request("tools/call", {"name": "wait", "arguments": {}}))
        await gate.entered.wait()
        await peer.stream.aclose()
        with anyio.fail_after(10):
            await gate.cancelled.wait()


async def test_requests_of_a_client_that_vanished_are_not_begun_any_more():
    gate, begun = Gate(), Counter[str]()

    async def count(caller: Caller, arguments: dict[str, Any]) -> Reply:
        begun["count"] += 1
        return Reply(data={})

    server = build_server(sample_registry(tool("wait", gate.run), tool("count", count)))
    async with connected(server, finish_s=0.05) as peer:
        await peer.send(peer.request("tools/call", {"name": "wait", "arguments": {}}))
        await gate.entered.wait()
        calls = [peer.request("tools/call", {"name": "count", "arguments": {}}) for _ in range(1_000)]
        await peer.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        await peer.stream.aclose()
    assert begun["count"] < 2 * MCP_REQUESTS


def test_small_requests_that_wait_are_bounded_in_number():
    admission, numbers = Admission(RunningRequests()), itertools.count()
    while not admission.is_full:
        admission.hold(types.JSONRPCRequest(jsonrpc="2.0", id=next(numbers), method="ping"), 40)
    assert admission.drop_held() < 2_000


@both
async def test_draining_finishes_what_is_in_flight_and_reads_nothing_more(revision: str):
    gate, drain = Gate(), anyio.Event()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, revision, drain=drain) as peer:
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        await gate.entered.wait()
        drain.set()
        await anyio.wait_all_tasks_blocked()
        await peer.send(peer.request("tools/call", {"name": "echo", "arguments": {}}))
        gate.go_on.set()
        assert (await peer.receive())["id"] == slow["id"]
        with pytest.raises((anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError)):
            await peer.receive()


async def test_draining_an_idle_connection_ends_it_at_once():
    drain = anyio.Event()
    async with connected(SERVER, drain=drain) as peer:
        assert await still_serves(peer)
        drain.set()
        assert await peer.at_end()


async def test_a_cancelled_request_does_not_hold_up_a_drain():
    gate, drain = Gate(), anyio.Event()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, drain=drain, finish_s=3600) as peer:
        request = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(request)
        await gate.entered.wait()
        gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}}
        await peer.send(gone)
        await gate.cancelled.wait()
        drain.set()
        assert await peer.at_end()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "1.0", 2]),
        "id": st.integers() | st.text() | JSON,
        "method": st.sampled_from(["tools/call", "tools/list", "ping", "resources/read", "prompts/get"]) | JSON,
        "params": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["echo", "checked", "refuse", "greeting"]) | JSON,
                "arguments": JSON,
                "uri": st.just("shiftlog://notes") | JSON,
                "_meta": JSON,
            },
        )
        | JSON,
        "result": JSON,
        "error": JSON,
    },
)
LINES = MESSAGES.map(lambda m: json.dumps(m).encode()) | JSON.map(lambda v: json.dumps(v).encode()) | st.binary()


@given(lines=st.lists(LINES, min_size=1, max_size=10), revision=st.sampled_from(REVISIONS))
def test_whatever_is_sent_the_server_keeps_serving(lines: list[bytes], revision: str):
    async def session() -> None:
        async with connected(SERVER, revision) as peer:
            # The first request decides the revision of the connection, so it is a good one.
            assert await still_serves(peer)
            for line in lines:
                await peer.write(line.replace(b"\n", b" ") + b"\n")
            probe = {**peer.request("tools/call", {"name": "echo", "arguments": {}}), "id": "the-probe"}
            await peer.send(probe)
            while (answer := await peer.receive()).get("id") != "the-probe":
                assert answer["jsonrpc"] == "2.0"
            assert answer["result"]["structuredContent"] == {"given": {}}

    anyio.run(session)


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    cuts=st.lists(st.integers(1, 20), max_size=30),
)
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], cuts: list[int]):
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    cutter = LineSplitter(10_000)
    seen: list[bytes | Overlong] = []
    for size in [*cuts, len(data)]:
        seen += cutter.feed(data[:size])
        data = data[size:]
    assert seen == lines
    assert list(cutter.rest()) == [b"rest"]


def test_an_overlong_line_is_not_kept_in_memory():
    cutter = LineSplitter(1_000_000)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(800):
            assert list(cutter.feed(chunk)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
    overlong, line = cutter.feed(b"the end\nnext\n")
    assert isinstance(overlong, Overlong)
    assert overlong.tail.endswith(b"xthe end")
    assert line == b"next"


@given(params=JSON, request_id=st.integers(-(10**15), 10**15) | st.text(st.characters(codec="ascii"), min_size=1))
def test_the_id_found_in_unparsed_text_is_never_another_one(params: Any, request_id: str | int):
    message = {"jsonrpc": "2.0", "method": "m", "params": {"p": params, "id": 1}}
    for order in (
        {"id": request_id, **message},
        {**message, "id": request_id},
        {"params": message["params"], "id": request_id, "method": "m"},
        message,
    ):
        text = json.dumps(order).encode()
        assert find_id(text[:1024], text[-512:]) in (order.get("id"), None)


def test_an_id_where_clients_write_it_is_found():
    assert find_id(b'{"jsonrpc":"2.0","id":3,"method":"m","params":{', b"") == 3
    assert find_id(b"", b'}},"jsonrpc":"2.0","id":"x"}') == "x"


def test_a_request_keeps_its_lone_surrogates():
    message = parse_line(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\ud800"}}')
    assert isinstance(message, types.JSONRPCRequest)
    assert message.params == {"a": "\ud800"}
    with pytest.raises(InvalidMessage):
        parse_line(b'"\\ud800"')


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_client_works_with_a_real_process_over_standard_streams(mode: Any):
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.mcp.stdio_server"])
    async with Client(command, mode=mode) as client:
        assert "chatter" in [item.name for item in (await client.list_tools()).tools]
        long = "ü" * 300_000
        result = await client.call_tool("echo", {"text": long})
        assert result.structured_content == {"given": {"text": long}}
        assert (await client.call_tool("chatter", {})).structured_content == {"child_read": 0}
        assert (await client.call_tool("echo", {})).structured_content == {"given": {}}


@pytest.mark.parametrize("end", [b"\n", b""])
async def test_a_file_as_standard_input_is_answered_to_its_end(end: bytes, tmp_path: Any):
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    source = tmp_path / "requests.jsonl"
    source.write_bytes(b"\n".join([ping % 1, b"nonsense", ping % 2]) + end)
    with source.open("rb") as stdin:
        done = await anyio.run_process([sys.executable, "-m", "tests.mcp.stdio_server"], stdin=stdin)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] or 0 for answer in answers) == [0, 1, 2]
