"""A short run of what the conformance suite tries at length: the server with fixtures, by the SDK's own client."""

import re
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.conformance.server import fixture_server
from tests.mcp.wire import REVISIONS, connected, sdk_client

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")]
both = pytest.mark.parametrize("revision", REVISIONS)

HERE = Path(__file__).parent


async def answer_form(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada", "color": "red", "username": "ada", "ok": True})


async def answer_question(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Paris"), model="none")


async def answer_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[])


ANSWERS = {
    "elicitation_callback": answer_form,
    "sampling_callback": answer_question,
    "list_roots_callback": answer_roots,
}


def text_of(result: types.CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text


@both
async def test_every_kind_of_content_arrives(revision: str):
    async with sdk_client(fixture_server(), revision) as client:
        kinds = {
            name: [block.type for block in (await client.call_tool(name, {})).content]
            for name in (
                "test_simple_text",
                "test_image_content",
                "test_audio_content",
                "test_embedded_resource",
                "test_multiple_content_types",
            )
        }
        image = await client.get_prompt("test_prompt_with_image")
    assert list(kinds.values()) == [["text"], ["image"], ["audio"], ["resource"], ["text", "image", "resource"]]
    assert [message.content.type for message in image.messages] == ["image", "text"]


async def test_a_tool_may_ask_the_client_during_the_call_in_the_older_revision():
    async with sdk_client(fixture_server(), "2025-11-25", **ANSWERS) as client:
        assert text_of(await client.call_tool("test_sampling", {"prompt": "capital?"})) == "LLM response: Paris"
        asked = await client.call_tool("test_elicitation", {"message": "who?"})
        assert text_of(asked).startswith('User response: action=accept, content={"name": "Ada"')


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("elicitation", "Hello, Ada!"),
        ("sampling", "The model says: Paris"),
        ("list_roots", "0 roots"),
        ("request_state", "state-ok"),
        ("multiple_inputs", "All three came."),
        ("multi_round", "Ada likes red."),
    ],
)
async def test_a_tool_may_ask_the_client_between_rounds_in_the_newer_revision(tool: str, says: str):
    async with sdk_client(fixture_server(), "2026-07-28", **ANSWERS) as client:
        assert text_of(await client.call_tool(f"test_input_required_result_{tool}", {})) == says


async def test_a_state_that_was_tampered_with_is_refused():
    async with connected(fixture_server(), "2026-07-28") as peer:
        first = (await peer.call("test_input_required_result_tampered_state", {}))["result"]
        assert first["resultType"] == "input_required"
        again = await peer.call(
            "test_input_required_result_tampered_state", {}, requestState=first["requestState"] + "x", inputResponses={}
        )
        assert again["error"]["code"] == types.INVALID_PARAMS


@both
async def test_a_tool_may_refuse_with_an_error_of_the_protocol(revision: str):
    async with sdk_client(fixture_server(), revision) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("test_missing_capability", {})
    assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


@both
async def test_questions_in_the_manner_of_another_revision_are_a_defect_of_the_tool(
    revision: str, caplog: pytest.LogCaptureFixture
):
    name = "test_input_required_result_elicitation" if revision == "2025-11-25" else "test_elicitation"
    async with connected(fixture_server(), revision) as peer:
        answer = await peer.call(name, {"message": "who?"} if name == "test_elicitation" else {})
        assert answer["error"]["code"] in (types.INTERNAL_ERROR, types.INVALID_REQUEST)
        assert "result" in await peer.call("test_simple_text")


def test_every_expected_failure_is_explained():
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    for baseline in HERE.glob("*.yml"):
        assert f"`{baseline.name}`" in readme
        for entry in re.findall(r"^  - (\S+)$", baseline.read_text(encoding="utf-8"), re.M):
            assert f"`{entry.rpartition(':')[2]}`" in readme
