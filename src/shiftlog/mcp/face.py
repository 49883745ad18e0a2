"""The handlers of one selection: lists, tool calls, resources and prompts, in the shape of the protocol.

`server` joins them to the SDK; `errors` shapes what they refuse.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn, cast

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from shiftlog.config.tool_names import TOOLSETS
from shiftlog.dialects.delx.refusals import refusal
from shiftlog.mcp.calls import CALL, CALLER, Call, Context, set_level, with_meta
from shiftlog.mcp.errors import defect, edge, mask, protocol_error, repeated, resource_error, resource_not_found
from shiftlog.mcp.registry import Content, Prompt, Registry, Reply, Resource, Tool
from shiftlog.mcp.remedies import add_next_call
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, ShiftlogError, UnknownTool
from shiftlog.model.nouns import changed
from shiftlog.text.nearest import suggestion, unknown_and_nearest
from shiftlog.text.printable import excerpt

MAX_DEPTH = 100

# The tools whose masks name the rule that found the secret, not its kind.
_NAMES_RULES = frozenset(("shell", "workspace", "execkit"))

ToolResult = dict[str, Any] | types.CallToolResult | types.InputRequiredResult
_Contents = types.TextResourceContents | types.BlobResourceContents


class Face:
    """The handlers of one selection; lists and schemas are made once."""

    def __init__(self, chosen: Registry, whole: Registry) -> None:
        self.chosen = chosen
        self._tools = {name: tool for tool in chosen.tools for name in (tool.name, *tool.aliases)}
        self._known = frozenset(name for tool in whole.tools for name in (tool.name, *tool.aliases))
        self._schemas = {tool.name: tool.params.type_schema() for tool in chosen.tools}
        listed = [tool.as_listed() for tool in chosen.tools if tool.listed]
        self._tool_list = types.ListToolsResult(tools=listed)
        self._prompts = {prompt.name: prompt for prompt in chosen.prompts}
        self._resources = {item.uri: item for item in chosen.resources if "{" not in item.uri}
        self._templates = [(UriTemplate.parse(item.uri), item) for item in chosen.resources if "{" in item.uri]

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema that `Mcp-Param-*` headers are checked against."""
        return self._schemas.get(name)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _refuse_cursor(params)
        return self._tool_list

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> ToolResult:
        """Run the tool of a request that the SDK has checked."""
        return await self.run_tool(ctx, params.name, params.arguments or {})

    async def run_tool(self, ctx: Context, name: str, given: dict[str, Any]) -> ToolResult:
        """Run a tool; its errors are results too."""
        tool = self._tools.get(name)
        if tool is None:
            self._refuse_tool(name)
        caller = _begin(ctx)
        try:
            refuse_depth(given)
            answer = await tool.run(caller, tool.params.read(given) if tool.validates else given)
        except ShiftlogError as error:
            if tool.toolset in TOOLSETS:
                add_next_call(error, tool.name, given)
            return _failure(tool, error)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of this face: nothing of the error may leave
            return _failure(tool, defect(f"tool {tool.name}", error))
        return _reply(answer) if isinstance(answer, Reply) else answer

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Set the lowest level of log messages that the client wants."""
        set_level(params.level)
        return types.EmptyResult()

    def _refuse_tool(self, name: str) -> NoReturn:
        shown = repeated(name)
        details: dict[str, object] = {"tool": shown}
        hint = None
        if name in self._known:
            hint = "This server was started without it: see --toolsets, --tools, --read-only and --dialect"
        elif near := suggestion(shown, self._tools):
            details["nearest"] = near
        error = UnknownTool(f"Unknown tool: {shown}", details=details, hint=hint)
        # Clients of Delx call more tools than this server has; they get the error shape that they read.
        raise MCPError(types.INVALID_PARAMS, error.message, refusal(shown, error))

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _refuse_cursor(params)
        listed = [types.Resource(uri=item.uri, **item.about()) for item in self._resources.values()]
        return types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _refuse_cursor(params)
        listed = [types.ResourceTemplate(uri_template=item.uri, **item.about()) for _, item in self._templates]
        return types.ListResourceTemplatesResult(resource_templates=listed)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        found = self._find_resource(params.uri)
        if found is None:
            raise resource_not_found(ctx, params.uri)
        resource, variables = found
        with edge(f"resource {resource.name}", partial(resource_error, ctx, params.uri)):
            content = await resource.read(_begin(ctx), variables)
        return types.ReadResourceResult(contents=[_contents(params.uri, resource.mime_type, content)])

    def _find_resource(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        fixed = self._resources.get(uri)
        if fixed is not None:
            return fixed, {}
        for template, resource in self._templates:
            variables = template.match(uri)
            if variables is not None:
                return resource, {name: value for name, value in variables.items() if isinstance(value, str)}
        return None

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        _refuse_cursor(params)
        listed = [
            types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=[types.PromptArgument(**asdict(argument)) for argument in prompt.arguments],
            )
            for prompt in self.chosen.prompts
        ]
        return types.ListPromptsResult(prompts=listed)

    async def render_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            shown = repeated(params.name)
            near = suggestion(shown, self._prompts)
            says = f"; did you mean '{near}'?" if near else ""
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {shown}{says}")
        with edge(f"prompt {prompt.name}", protocol_error):
            given = _prompt_arguments(prompt, params.arguments or {})
            answer = await prompt.render(_begin(ctx), given)
        if not isinstance(answer, str):
            return answer
        message = types.PromptMessage(role="user", content=types.TextContent(text=answer))
        return types.GetPromptResult(description=prompt.description, messages=[message])


def _begin(ctx: Context) -> Caller:
    """Make the request the current call and return its caller, with the request's id as call id."""
    name = str(ctx.request_id)
    # A shortened id could name another call.
    caller = CALLER.get()
    caller = changed(caller, call_id=name if excerpt(name) == name else None, signs=with_meta(caller.signs, ctx.meta))
    CALL.set(Call(caller=caller, context=ctx))
    return caller


def compact(data: object) -> str:
    """Return JSON text without spaces, characters as they are."""
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _reply(reply: Reply) -> dict[str, Any]:
    texts = [compact(reply.data), *reply.extra_texts]
    return _result(texts, reply.data if isinstance(reply.data, dict) else None)


def _failure(tool: Tool, error: ShiftlogError) -> dict[str, Any]:
    mask(error, by_rule=tool.toolset in _NAMES_RULES)
    body = {"error": error.as_dict()} if tool.render_error is None else tool.render_error(error)
    if isinstance(body, str):
        return _result([body], None, failed=True)
    return _result([compact(body)], body, failed=True)


def _result(texts: Iterable[str], structured: dict[str, Any] | None, *, failed: bool = False) -> dict[str, Any]:
    # The SDK sets resultType on its own classes only, and removes it again for the older revision.
    result = {"resultType": "complete", "content": [{"type": "text", "text": text} for text in texts]}
    return result | ({} if structured is None else {"structuredContent": structured}) | {"isError": failed}


def _refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Parameter 'cursor' is invalid: this list has one page")


def refuse_depth(arguments: dict[str, Any]) -> None:
    """Refuse arguments that are nested so deeply that recursion over them could exhaust the stack."""
    if _is_deep(arguments.values()):
        name = next(name for name, value in arguments.items() if _is_deep([value]))
        raise InvalidParameter.invalid(repeated(name), f"at most {MAX_DEPTH} levels of nesting")


def _is_deep(values: Iterable[Any]) -> bool:
    level = _nested(values)
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = _nested(item for each in level for item in each)
    return True


def _nested(items: Iterable[Any]) -> list[Iterable[Any]]:
    """Return the contents of each object and list among the items."""
    return [
        cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item)
        for item in items
        if isinstance(item, dict | list)
    ]


def _contents(uri: str, mime_type: str, content: Content) -> _Contents:
    if isinstance(content, bytes):
        blob = base64.b64encode(content).decode()
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=blob)
    text = content if isinstance(content, str) else compact(content)
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)


def _prompt_arguments(prompt: Prompt, given: dict[str, str]) -> dict[str, str]:
    known = {argument.name: argument for argument in prompt.arguments}
    for name in given:
        if name not in known:
            shown, near, alike = unknown_and_nearest(repeated(name), known)
            raise InvalidParameter.unknown(shown, near, () if alike else known)
    for argument in known.values():
        if argument.required and not given.get(argument.name, "").strip():
            raise InvalidParameter.missing(argument.name)
    return given
