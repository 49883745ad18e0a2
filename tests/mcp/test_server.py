"""What the MCP face answers over real lines, to a raw peer and to the SDK's own client, in both revisions."""

import json
import logging
from typing import Any

import anyio
import mcp_types as types
import pytest

from shiftlog import __version__
from shiftlog.mcp.calls import Call, current_call, report_progress
from shiftlog.mcp.face import MAX_DEPTH
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import Servers, build_server
from tests.mcp.samples import Gate, sample_registry, tool
from tests.mcp.wire import CALLER, REVISIONS, connected, sdk_client, transcript

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("revision", REVISIONS)

SERVER = build_server(sample_registry())


def failure(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a failed tool call, having checked that both blocks tell the same."""
    result = answer["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]["error"]


async def test_the_same_calls_give_the_same_results_in_both_revisions():
    said: list[list[Any]] = []
    for revision in REVISIONS:
        async with sdk_client(SERVER, revision) as client:
            said.append(await transcript(client))
    old, new = said
    for before, now in zip(old, new, strict=True):
        assert before == now
    assert len(old) == 15


async def test_the_server_says_who_it_is_and_how_to_work_with_it():
    async with sdk_client(SERVER) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("shiftlog", __version__)
        assert str(client.instructions).startswith("Shiftlog records what agents do")
    async with connected(SERVER, "2026-07-28") as peer:
        found = (await peer.ask("server/discover"))["result"]
        assert found["_meta"][types.SERVER_INFO_META_KEY]["name"] == "shiftlog"
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["instructions"].startswith("Shiftlog records what agents do")


def test_instructions_speak_only_of_tools_that_are_served():
    whole = sample_registry(tool("open_session", Gate().run), tool("run_command", Gate().run, "shell"))
    assert "open_shell" in str(build_server(whole).instructions)
    assert "open_session" in str(build_server(whole, Selection(toolsets=("journal",))).instructions)
    assert "open_shell" not in str(build_server(whole, Selection(toolsets=("journal",))).instructions)
    assert 'detail: "full"' in str(build_server(whole).instructions)


async def test_a_tool_is_listed_with_schemas_and_four_annotations():
    async with sdk_client(SERVER) as client:
        listed = {item.name: item for item in (await client.list_tools()).tools}
    shown = listed["refuse"].model_dump(by_alias=True, exclude_none=True)
    assert shown["inputSchema"]["additionalProperties"] is False
    assert set(shown["inputSchema"]["properties"]) == {"text", "count", "tags"}
    assert shown["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": False,
    }


@both
async def test_unlisted_tools_and_aliases_can_be_called_but_are_not_listed(revision: str):
    async with sdk_client(SERVER, revision) as client:
        listed = [item.name for item in (await client.list_tools()).tools]
        assert not {"parrot", "hidden"} & set(listed)
        for name in ("parrot", "hidden"):
            assert (await client.call_tool(name, {})).structured_content == {"given": {}}


@both
async def test_a_result_is_structured_and_the_same_json_compact_as_first_text(revision: str):
    async with connected(SERVER, revision) as peer:
        result = (await peer.call("echo", {"text": "Grüße"}))["result"]
    assert result["structuredContent"] == {"given": {"text": "Grüße"}}
    texts = [block["text"] for block in result["content"]]
    assert texts == ['{"given":{"text":"Grüße"}}', "Grüße, “world”"]
    assert result["isError"] is False
    assert result.get("resultType") == ("complete" if revision == "2026-07-28" else None)


@both
async def test_a_list_is_answered_as_text_alone(revision: str):
    async with connected(SERVER, revision) as peer:
        result = (await peer.call("items", {}))["result"]
    assert result["content"] == [{"type": "text", "text": '[1,{"two":3}]'}]
    assert "structuredContent" not in result


@both
async def test_our_errors_carry_five_keys_in_both_blocks(revision: str):
    async with connected(SERVER, revision) as peer:
        assert failure(await peer.call("refuse", {})) == {
            "code": "session_not_found",
            "message": "Session not found: Codex-x",
            "details": {"session_id": "Codex-x", "next_call": {"name": "query_history", "arguments": {}}},
            "hint": "Call open_session first",
            "retryable": False,
        }


async def test_a_dialect_shapes_its_errors_as_it_likes():
    async with connected(SERVER) as peer:
        shaped = (await peer.call("own_shape", {}))["result"]
        assert shaped["structuredContent"] == {"ok": False, "code": "session_not_found"}
        assert shaped["isError"] is True
        words = (await peer.call("plain_words", {}))["result"]
        text = {"type": "text", "text": "sorry: Session not found: Codex-x"}
        assert words == {"content": [text], "isError": True}


@both
async def test_an_unforeseen_error_leaks_no_value_to_client_or_log(revision: str, caplog: pytest.LogCaptureFixture):
    async with connected(SERVER, revision) as peer:
        answer = await peer.call("crash", {"text": "hunter2-secret"})
        error = failure(answer)
        assert (error["code"], error["message"]) == ("internal_error", "Internal error")
        reading = await peer.ask("resources/read", {"uri": "shiftlog://things/bug"})
        asking = await peer.ask("prompts/get", {"name": "greeting", "arguments": {"name": "bug"}})
    assert reading["error"]["code"] == asking["error"]["code"] == types.INTERNAL_ERROR
    told = json.dumps([answer, reading, asking]) + caplog.text
    assert "hunter2" not in told
    assert "secret-value" not in told
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 3
    assert error["details"]["ref"] in logged[0].getMessage()
    assert "builtins.RuntimeError" in logged[0].getMessage()
    assert "in crash" in logged[0].getMessage()


@both
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_nearest(revision: str):
    async with connected(SERVER, revision) as peer:
        error = (await peer.call("ekho", {}))["error"]
        assert error["code"] == types.INVALID_PARAMS
        assert error["message"] == "Unknown tool: ekho"
        assert error["data"]["code"] == "unknown_tool"
        assert error["data"]["hint"] == "See tools/list"
        assert error["data"]["details"] == {"tool": "ekho", "nearest": "echo"}
        odd = (await peer.call("\ud800" * 500, {}))["error"]
        assert odd["message"] == "Unknown tool: " + "?" * 200


async def test_a_tool_that_was_not_selected_is_unknown_and_the_hint_says_why():
    async with connected(SERVER) as peer:
        error = (await peer.call("nexo_log", {}))["error"]
    assert error["data"]["code"] == "unknown_tool"
    assert "--dialect" in error["data"]["hint"]


@both
@pytest.mark.parametrize("arguments", [[], [1], "text", 7, True])
async def test_arguments_that_are_no_object_are_refused_by_name(revision: str, arguments: object):
    async with connected(SERVER, revision) as peer:
        error = (await peer.call("echo", arguments))["error"]
    assert error["code"] == types.INVALID_PARAMS
    assert error["message"] == "Parameter 'arguments' is invalid: an object is expected"
    assert error["data"]["details"]["parameter"] == "arguments"


@both
async def test_arguments_nested_too_deeply_are_refused_by_name(revision: str):
    nest: object = "x"
    for level in range(MAX_DEPTH):
        nest = [nest] if level % 2 else {"n": nest}
    async with connected(SERVER, revision) as peer:
        assert "isError" in (await peer.call("echo", {"text": "a", "tags": nest}))["result"]
        error = failure(await peer.call("echo", {"text": "a", "tags": [nest]}))
    assert error["code"] == "invalid_parameter"
    assert error["message"] == "Parameter 'tags' is invalid: at most 100 levels of nesting"


@both
async def test_a_lone_surrogate_reaches_the_check_that_names_the_argument(revision: str):
    async with connected(SERVER, revision) as peer:
        error = failure(await peer.call("checked", {"text": "a\ud800b"}))
        assert error["details"]["parameter"] == "text"
        assert "surrogates" in error["message"]
        error = failure(await peer.call("checked", {"te\udfffxt": "a"}))
        assert error["details"]["parameter"] == "te?xt"
        assert error["details"]["problem"] == "unknown"
        echoed = (await peer.call("echo", {"text": "a\ud800b"}))["result"]
        assert echoed["structuredContent"]["given"]["text"] == "a\ud800b"


@both
async def test_a_tool_that_asks_for_it_gets_checked_arguments(revision: str):
    async with connected(SERVER, revision) as peer:
        result = (await peer.call("checked", {"count": "7", "tags": "one"}))["result"]
        assert result["structuredContent"] == {"given": {"count": 7, "tags": ["one"]}}
        assert failure(await peer.call("checked", {"count": 99}))["details"]["parameter"] == "count"
        assert (await peer.call("echo", {"count": 99}))["result"]["isError"] is False


@both
async def test_the_caller_of_the_connection_and_the_id_of_the_request_reach_the_tool(revision: str):
    async with connected(SERVER, revision) as peer:
        for request_id in (41, "req-42", "ü"):
            request = peer.request("tools/call", {"name": "whoami", "arguments": {}})
            await peer.send({**request, "id": request_id})
            answer = await peer.receive()
            assert answer["id"] == request_id
            seen = answer["result"]["structuredContent"]
            assert (seen["client_id"], seen["pid"]) == (CALLER.client_id, CALLER.pid)
            assert seen["call_id"] == str(request_id)
            assert seen["same"] is True


@both
@pytest.mark.parametrize("request_id", ["x" * 201, "\ud800"])
async def test_an_id_that_cannot_be_kept_names_no_call(revision: str, request_id: str):
    async with connected(SERVER, revision) as peer:
        request = peer.request("tools/call", {"name": "whoami", "arguments": {}})
        await peer.send({**request, "id": request_id})
        answer = await peer.receive()
    assert answer["id"] == request_id
    assert answer["result"]["structuredContent"]["call_id"] is None


@both
async def test_further_parameters_of_a_request_do_not_change_its_result(revision: str):
    async with connected(SERVER, revision) as peer:
        for name, arguments in (("echo", {"text": "a"}), ("refuse", {}), ("picture", {}), ("items", {})):
            quick = await peer.call(name, arguments)
            long = await peer.call(name, arguments, _meta={"com.example/note": 1})
            assert quick["result"] == long["result"]
        bad = await peer.call("echo", {}, _meta={"progressToken": [1]})
        assert bad["error"]["code"] == types.INVALID_PARAMS


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "echo"}, None),
        ({"name": "echo", "arguments": None}, None),
        ({"name": "echo", "arguments": {}, "more": 1}, None),
        ({"name": "parrot", "arguments": {"text": "an alias"}}, None),
        ({"name": 7, "arguments": {}}, -32602),
        ({"arguments": {}}, -32602),
        ({}, -32602),
        ({"name": "echo", "_meta": None}, None),
        ({"name": "echo", "_meta": []}, -32602),
        ({"name": "echo", "_meta": {"progressToken": 1}}, None),
        ({"name": "echo", "_meta": {"progressToken": True}}, None),
        ({"name": "echo", "_meta": {"progressToken": None}}, -32602),
        ({"name": "echo", "_meta": {"progressToken": {}}}, -32602),
        ({"name": "echo", "_meta": {"claudecode/toolUseId": "1", "com.example/x": {"deep": [1]}}}, None),
        ({"name": "echo", "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}}}, None),
        ({"name": "echo", "_meta": {"traceparent": "00-0-0-00"}}, None),
    ],
)
async def test_every_form_of_a_call_is_served_or_refused(params: dict[str, Any], code: int | None):
    async with connected(SERVER) as peer:
        answer = await peer.ask("tools/call", params)
        assert answer.get("error", {}).get("code") == code
        assert (await peer.call("echo", {}))["result"]["isError"] is False


async def test_a_modern_request_with_a_malformed_envelope_is_refused():
    async with connected(SERVER, "2026-07-28") as peer:
        for key in (types.CLIENT_CAPABILITIES_META_KEY, types.CLIENT_INFO_META_KEY):
            answer = await peer.call("echo", {}, _meta={key: 5})
            assert answer["error"]["code"] == types.INVALID_PARAMS


async def test_a_modern_request_on_a_connection_that_began_with_a_handshake_is_refused():
    async with connected(SERVER, "2025-11-25") as peer:
        peer.modern = True
        for answer in (await peer.call("echo", {"text": "a"}), await peer.ask("tools/list", {})):
            assert answer["error"]["code"] == types.INVALID_REQUEST
        peer.modern = False
        assert (await peer.call("echo", {"text": "a"}))["result"]["isError"] is False


async def test_a_handshake_on_a_modern_connection_is_refused():
    async with connected(SERVER, "2026-07-28") as peer:
        assert (await peer.call("echo", {"text": "a"}))["result"]["isError"] is False
        peer.modern = False
        assert "error" in await peer.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})


@both
async def test_a_notification_before_the_first_request_changes_nothing(revision: str):
    async with connected(SERVER, revision, greets=False) as peer:
        await peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await peer.greet()
        assert (await peer.call("echo", {"text": "a"}))["result"]["isError"] is False


async def test_a_call_before_the_handshake_is_refused():
    async with connected(SERVER, "2026-07-28") as peer:
        peer.modern = False
        assert "error" in await peer.call("echo", {})


@both
@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        ("tools/call", {}, "Parameter 'name' cannot be null or empty"),
        ("tools/call", {"name": 7}, "Parameter 'name' is invalid: input should be a valid string"),
        ("tools/call", {"name": "echo", "_meta": 1}, "Parameter '_meta' is invalid"),
        ("tools/list", {"cursor": []}, "Parameter 'cursor' is invalid"),
        ("resources/read", {}, "Parameter 'uri' cannot be null or empty"),
        ("prompts/get", {"name": "greeting", "arguments": {"name": 7}}, "Parameter 'arguments.name' is invalid"),
    ],
)
async def test_parameters_that_the_protocol_forbids_are_named(
    revision: str, method: str, params: dict[str, Any], says: str
):
    async with connected(SERVER, revision) as peer:
        request = peer.request(method, {key: value for key, value in params.items() if key != "_meta"})
        request["params"] |= params
        await peer.send(request)
        error = (await peer.receive())["error"]
        assert error["code"] == types.INVALID_PARAMS
        if revision == "2025-11-25" or "_meta" not in params:
            assert error["message"].startswith(says)
            assert error["data"]["code"] == "invalid_parameter"


@both
async def test_a_list_has_one_page_so_every_cursor_is_refused(revision: str):
    async with connected(SERVER, revision) as peer:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            error = (await peer.ask(method, {"cursor": "x"}))["error"]
            assert error["code"] == types.INVALID_PARAMS
            assert "cursor" in error["message"]


@both
async def test_progress_reaches_the_client_at_most_once_a_second(revision: str):
    seen: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with sdk_client(SERVER, revision) as client:
        result = await client.call_tool("count_up", {}, progress_callback=told)
    assert result.structured_content == {"done": 50}
    assert seen == [(0.0, 50.0, "counting")]


async def test_progress_is_told_again_once_a_second_has_passed():
    clock = iter([0.0, 0.5, 1.0, 1.9, 2.1])
    told: list[float] = []

    class Session:
        async def report_progress(self, done: float, total: float | None, message: str | None) -> None:
            told.append(done)

    class Context:
        session = Session()

    context: Any = Context()
    call = Call(caller=CALLER, context=context, clock=lambda: next(clock))
    for done in range(5):
        await call.progress(done)
    assert told == [0, 2, 4]


async def test_outside_a_call_progress_is_told_to_nobody():
    await report_progress(1)
    with pytest.raises(LookupError):
        current_call()


@both
async def test_cancelling_a_request_cancels_its_tool_and_is_not_answered(revision: str):
    gate = Gate()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, revision) as peer:
        request = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(request)
        await gate.entered.wait()
        gone = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}}
        await peer.send(gone)
        with anyio.fail_after(5):
            await gate.cancelled.wait()
        assert (await peer.call("echo", {}))["result"]["isError"] is False


@both
async def test_requests_of_one_connection_run_at_the_same_time(revision: str):
    gate = Gate()
    server = build_server(sample_registry(tool("wait", gate.run)))
    async with connected(server, revision) as peer:
        slow = peer.request("tools/call", {"name": "wait", "arguments": {}})
        await peer.send(slow)
        await gate.entered.wait()
        assert "result" in await peer.call("echo", {})
        gate.go_on.set()
        assert (await peer.receive())["id"] == slow["id"]


@both
async def test_resources_are_read_by_uri_and_by_template(revision: str):
    async with connected(SERVER, revision) as peer:

        async def read(uri: str) -> dict[str, Any]:
            return (await peer.ask("resources/read", {"uri": uri}))["result"]["contents"][0]

        notes = {"uri": "shiftlog://notes", "mimeType": "text/plain", "text": "plain <notes>"}
        assert await read("shiftlog://notes") == notes
        assert (await read("shiftlog://blob"))["blob"] == "AAE="
        thing = await read("shiftlog://things/Codex%231")
        assert json.loads(thing["text"]) == {"id": "Codex#1", "caller": "client-1"}
        assert thing["mimeType"] == "application/json"
        assert (await read("shiftlog://pages/9"))["text"] == "notes from the start"
        assert (await read("shiftlog://pages/9?limit=2&offset=40"))["text"] == "notes from 40"


@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_resource_that_does_not_exist_has_the_code_of_its_revision(revision: str, code: int):
    async with connected(SERVER, revision) as peer:
        for uri in ("shiftlog://nothing", "shiftlog://things/a/b", "shiftlog://things/none"):
            error = (await peer.ask("resources/read", {"uri": uri}))["error"]
            assert (error["code"], error["message"]) == (code, "Resource not found")
            assert error["data"]["uri"] == uri
        assert error["data"]["code"] == "session_not_found"
        down = (await peer.ask("resources/read", {"uri": "shiftlog://things/down"}))["error"]
        assert (down["code"], down["data"]["retryable"]) == (types.INTERNAL_ERROR, True)


@both
async def test_a_prompt_is_filled_and_wrong_arguments_are_refused_by_name(revision: str):
    async with connected(SERVER, revision) as peer:

        async def ask(**params: object) -> dict[str, Any]:
            return await peer.ask("prompts/get", params)

        filled = (await ask(name="greeting", arguments={"name": "Ada", "mood": "warm"}))["result"]
        text = {"type": "text", "text": "Greet Ada from client-1"}
        assert filled["messages"] == [{"role": "user", "content": text}]
        assert "'name'" in (await ask(name="greeting", arguments={"mood": "warm"}))["error"]["message"]
        unknown = (await ask(name="greeting", arguments={"name": "Ada", "mod": "x"}))["error"]
        assert unknown["code"] == types.INVALID_PARAMS
        assert unknown["data"]["details"]["nearest"] == "mood"
        lost = (await ask(name="greetings"))["error"]
        assert lost["message"] == "Unknown prompt: greetings; did you mean 'greeting'?"


async def test_what_is_not_offered_is_not_claimed():
    server = build_server(sample_registry(), Selection(dialects=("nexo",), toolsets=("workspace",)))
    async with sdk_client(server) as client:
        assert [item.name for item in (await client.list_tools()).tools] == ["nexo_log"]
        assert client.server_capabilities is not None
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is None


def test_one_server_is_built_for_each_selection():
    servers = Servers(sample_registry())
    assert servers.serving(Selection()) is servers.serving(Selection())
    assert servers.serving(Selection()) is not servers.serving(Selection(read_only=True))
