"""Tools, resources and prompts that the public conformance suite asks for, declared in our registry.

What needs questions to the client in the manner of 2026-07-28 stands in `rounds`; methods outside the registry
(completion, subscriptions, logging level) are added in `server`.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from shiftlog.mcp.calls import current_call
from shiftlog.mcp.registry import Answer, Content, Prompt, PromptArgument, Registry, Resource, Tool
from shiftlog.model.caller import Caller
from shiftlog.params.fields import Record, Schema, Text

TOOLSET = "conformance"
PAUSE_S = 0.05
BUS = InMemorySubscriptionBus()

# The smallest PNG (one red pixel) and the smallest WAV (one silent sample).
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
WAV = base64.b64encode(
    b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0\x80>\0\0\x02\0\x10\0data\x02\0\0\0\0\0"
).decode()

Body = Callable[[dict[str, Any]], Awaitable[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped(Record):
    """A record whose schema may be one that fields cannot express."""

    shape: Schema | None = None

    def type_schema(self) -> Schema:
        return Record.type_schema(self) if self.shape is None else self.shape


def tool(name: str, description: str, body: Body, *needs: str, schema: Schema | None = None) -> Tool:
    """Declare a tool; `needs` are its required texts."""

    async def run(caller: Caller, arguments: dict[str, Any]) -> Answer:
        return await body(arguments)

    return Tool(
        name=name,
        toolset=TOOLSET,
        title=name,
        description=description,
        params=Shaped(fields={need: Text(required=True, lines=True, description=need) for need in needs}, shape=schema),
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        run=run,
        validates=schema is None,
    )


def says(text: str) -> types.CallToolResult:
    """Answer with one text."""
    return types.CallToolResult(content=[types.TextContent(text=text)])


def always(result: types.CallToolResult) -> Body:
    """Answer every call alike."""

    async def body(arguments: dict[str, Any]) -> Answer:
        return result

    return body


IMAGE = types.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    """Return a resource that travels inside a message."""
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(resource=contents)


async def log(message: str) -> None:
    """Send a log message on the stream of the current request."""
    context = current_call().context
    await context.session.send_log_message(  # pyright: ignore[reportDeprecated]
        "info", message, related_request_id=context.request_id
    )


async def with_logging(arguments: dict[str, Any]) -> Answer:
    await log("Tool execution started")
    await anyio.sleep(PAUSE_S)
    await log("Tool processing data")
    await anyio.sleep(PAUSE_S)
    await log("Tool execution completed")
    return says("Three messages were logged.")


async def with_progress(arguments: dict[str, Any]) -> Answer:
    # The suite wants three reports within a tenth of a second, so our own limit is passed by.
    session = current_call().context.session
    for done in (0, 50, 100):
        await session.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return says("Progress was reported.")


async def reconnection(arguments: dict[str, Any]) -> Answer:
    context = current_call().context
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await anyio.sleep(4 * PAUSE_S)
    return says("The stream was closed once and resumed.")


async def error_handling(arguments: dict[str, Any]) -> Answer:
    raise RuntimeError("This tool fails on purpose")


async def missing_capability(arguments: dict[str, Any]) -> Answer:
    capabilities = current_call().context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs the client's sampling",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return says("The client offers sampling.")


async def sampling(arguments: dict[str, Any]) -> Answer:
    context = current_call().context
    question = types.SamplingMessage(role="user", content=types.TextContent(text=arguments["prompt"]))
    result = await context.session.create_message(  # pyright: ignore[reportDeprecated]
        [question], max_tokens=100, related_request_id=context.request_id
    )
    text = result.content.text if isinstance(result.content, types.TextContent) else "no text"
    return says(f"LLM response: {text}")


async def elicited(message: str, properties: dict[str, Any], *required: str) -> Answer:
    """Ask the client's user during the call, as revisions before 2026-07-28 do."""
    context = current_call().context
    schema = {"type": "object", "properties": properties, "required": list(required)}
    result = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return says(f"User response: action={result.action}, content={json.dumps(result.content)}")


async def elicitation(arguments: dict[str, Any]) -> Answer:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await elicited(arguments["message"], properties, "username", "email")


async def elicitation_defaults(arguments: dict[str, Any]) -> Answer:
    return await elicited(
        "Check these values",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
    )


async def elicitation_enums(arguments: dict[str, Any]) -> Answer:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    return await elicited(
        "Choose",
        {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )


async def tool_change(arguments: dict[str, Any]) -> Answer:
    await BUS.publish(ToolsListChanged())
    return says("A change of the tools was announced.")


async def prompt_change(arguments: dict[str, Any]) -> Answer:
    await BUS.publish(PromptsListChanged())
    return says("A change of the prompts was announced.")


HEADER_SCHEMA: Schema = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
# Every keyword that the suite looks for after tools/list.
WIDE_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

MIXED = types.CallToolResult(
    content=[
        types.TextContent(text="Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]
)
EMBEDDED = types.CallToolResult(
    content=[embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
)
AUDIO = types.CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])

TOOLS = (
    tool("test_simple_text", "Answer with text", always(says("This is a simple text response for testing."))),
    tool("test_image_content", "Answer with an image", always(types.CallToolResult(content=[IMAGE]))),
    tool("test_audio_content", "Answer with sound", always(AUDIO)),
    tool("test_embedded_resource", "Answer with a resource", always(EMBEDDED)),
    tool("test_multiple_content_types", "Answer with text, image and resource", always(MIXED)),
    tool("test_tool_with_logging", "Log three messages", with_logging),
    tool("test_logging_tool", "Log three messages", with_logging),
    tool("test_tool_with_progress", "Report progress three times", with_progress),
    tool("test_error_handling", "Fail on purpose", error_handling),
    tool("test_missing_capability", "Need a capability of the client", missing_capability),
    tool("test_sampling", "Ask the client's model", sampling, "prompt"),
    tool("test_elicitation", "Ask the client's user", elicitation, "message"),
    tool("test_elicitation_sep1034_defaults", "Ask with default values", elicitation_defaults),
    tool("test_elicitation_sep1330_enums", "Ask with choices", elicitation_enums),
    tool("test_reconnection", "Close the stream before the answer", reconnection),
    tool("test_trigger_tool_change", "Announce a change of the tools", tool_change),
    tool("test_trigger_prompt_change", "Announce a change of the prompts", prompt_change),
    tool("test_x_mcp_header", "Take a value that a header repeats", always(says("seen")), schema=HEADER_SCHEMA),
    tool("json_schema_2020_12_tool", "Show a wide schema", always(says("seen")), schema=WIDE_SCHEMA),
)


def resource(uri: str, mime_type: str, content: Callable[[dict[str, str]], Content]) -> Resource:
    """Declare a resource whose content depends on its variables alone."""

    async def read(caller: Caller, variables: dict[str, str]) -> Content:
        return content(variables)

    name = uri.removeprefix("test://").partition("/")[0]
    return Resource(
        uri=uri, toolset=TOOLSET, name=name, title=name, description=f"The {name}", mime_type=mime_type, read=read
    )


def numbered(variables: dict[str, str]) -> Content:
    number = variables["id"]
    return {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}


RESOURCES = (
    resource("test://static-text", "text/plain", lambda _: "This is the content of the static text resource."),
    resource("test://static-binary", "image/png", lambda _: base64.b64decode(PNG)),
    resource("test://watched-resource", "text/plain", lambda _: "Watched resource content"),
    resource("test://template/{id}/data", "application/json", numbered),
)


def messages(*contents: types.ContentBlock) -> types.GetPromptResult:
    """Return a prompt of the user's messages."""
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in contents])


async def simple(caller: Caller, arguments: dict[str, str]) -> str:
    return "This is a simple prompt for testing."


async def with_arguments(caller: Caller, arguments: dict[str, str]) -> str:
    return f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"


async def with_resource(caller: Caller, arguments: dict[str, str]) -> types.GetPromptResult:
    return messages(
        embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing."),
        types.TextContent(text="Please process the embedded resource above."),
    )


async def with_image(caller: Caller, arguments: dict[str, str]) -> types.GetPromptResult:
    return messages(IMAGE, types.TextContent(text="Please analyze the image above."))


def prompt(name: str, render: Any, *needs: str) -> Prompt:
    """Declare a prompt; `needs` are its required arguments."""
    return Prompt(
        name=name,
        toolset=TOOLSET,
        title=name,
        description=f"The prompt {name}",
        render=render,
        arguments=tuple(PromptArgument(name=need, description=need, required=True) for need in needs),
    )


PROMPTS = (
    prompt("test_simple_prompt", simple),
    prompt("test_prompt_with_arguments", with_arguments, "arg1", "arg2"),
    prompt("test_prompt_with_embedded_resource", with_resource, "resourceUri"),
    prompt("test_prompt_with_image", with_image),
)

FIXTURES = Registry(tools=TOOLS, resources=RESOURCES, prompts=PROMPTS)
