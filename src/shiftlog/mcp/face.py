"""What one selection shows and answers: lists, tool calls, resources and prompts, in the shape of the wire.

The edge of the MCP face is here: an error of ours takes its documented shape, and of an unforeseen one
nothing leaves but a reference to the log. The protocol around it is the SDK's, joined in `server`.
"""

import base64
import json
import logging
import secrets
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, cast

import mcp_types as types
import msgspec
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shiftlog.dialects.delx.refusals import refusal
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.mcp.calls import CALLER, Call, Context, enter_call, level_set
from shiftlog.mcp.registry import Content, Prompt, Registry, Reply, Resource, Tool
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InternalError, InvalidParameter, ShiftlogError, UnknownTool, trouble
from shiftlog.model.nouns import changed
from shiftlog.text.nearest import suggestion
from shiftlog.text.printable import excerpt

MAX_DEPTH = 100
# Revision 2025-11-25 has a code of its own for this; 2026-07-28 uses the code of bad parameters.
RESOURCE_NOT_FOUND_2025 = -32002

# What an error is for JSON-RPC where no tool result can carry it: resources, prompts, malformed calls.
PROTOCOL_CODES: dict[str, int] = {
    "agent_not_entitled": types.INVALID_PARAMS,
    "approval_declined": types.INVALID_PARAMS,
    "approval_required": types.INVALID_PARAMS,
    "budget_exceeded": types.INVALID_PARAMS,
    "budget_invalid": types.INVALID_PARAMS,
    "checkpoint_not_found": types.INVALID_PARAMS,
    "checkpoint_too_large": types.INVALID_PARAMS,
    "command_not_found": types.INVALID_PARAMS,
    "command_not_running": types.INVALID_PARAMS,
    "command_timeout": types.INTERNAL_ERROR,
    "command_too_large": types.INVALID_PARAMS,
    "container_not_allowed": types.INVALID_PARAMS,
    "container_not_running": types.INVALID_PARAMS,
    "cursor_invalid": types.INVALID_PARAMS,
    "docker_unavailable": types.INTERNAL_ERROR,
    "fingerprint_mismatch": types.INVALID_PARAMS,
    "git_missing": types.INTERNAL_ERROR,
    "host_key_mismatch": types.INVALID_PARAMS,
    "host_key_unknown": types.INVALID_PARAMS,
    "host_not_allowed": types.INVALID_PARAMS,
    "idempotency_conflict": types.INVALID_PARAMS,
    "internal_error": types.INTERNAL_ERROR,
    "invalid_config": types.INTERNAL_ERROR,
    "invalid_parameter": types.INVALID_PARAMS,
    "invalid_request_id": types.INVALID_PARAMS,
    "invalid_session_id": types.INVALID_PARAMS,
    "journal_tampered": types.INTERNAL_ERROR,
    "journal_unavailable": types.INTERNAL_ERROR,
    "lease_lost": types.INVALID_PARAMS,
    "no_resumable_session": types.INVALID_PARAMS,
    "nothing_to_restore": types.INVALID_PARAMS,
    "open_failed": types.INTERNAL_ERROR,
    "output_expired": types.INVALID_PARAMS,
    "policy_denied": types.INVALID_PARAMS,
    "policy_undecidable": types.INVALID_PARAMS,
    "recovery_token_expired": types.INVALID_PARAMS,
    "recovery_token_invalid": types.INVALID_PARAMS,
    "recovery_token_mismatch": types.INVALID_PARAMS,
    "recovery_token_required": types.INVALID_PARAMS,
    "recovery_token_used": types.INVALID_PARAMS,
    "restore_incomplete": types.INTERNAL_ERROR,
    "sandbox_not_allowed": types.INVALID_PARAMS,
    "sandbox_unavailable": types.INTERNAL_ERROR,
    "session_already_closed": types.INVALID_PARAMS,
    "session_already_exists": types.INVALID_PARAMS,
    "session_closed": types.INVALID_PARAMS,
    "session_held": types.INVALID_PARAMS,
    "session_not_found": types.INVALID_PARAMS,
    "session_sealed": types.INVALID_PARAMS,
    "session_succeeded": types.INVALID_PARAMS,
    "shell_busy": types.INVALID_PARAMS,
    "shell_ended": types.INVALID_PARAMS,
    "shell_limit": types.INVALID_PARAMS,
    "shell_lost": types.INTERNAL_ERROR,
    "shell_not_found": types.INVALID_PARAMS,
    "ssh_auth_failed": types.INVALID_PARAMS,
    "ssh_connect_failed": types.INTERNAL_ERROR,
    "ssh_key_not_permitted": types.INVALID_PARAMS,
    "stdin_closed": types.INVALID_PARAMS,
    "storage_error": types.INTERNAL_ERROR,
    "transcript_not_found": types.INVALID_PARAMS,
    "transcript_unreadable": types.INTERNAL_ERROR,
    "transport_not_allowed": types.INVALID_PARAMS,
    "turn_already_exists": types.INVALID_PARAMS,
    "turn_immutable": types.INVALID_PARAMS,
    "turn_not_found": types.INVALID_PARAMS,
    "unauthorized": types.INVALID_PARAMS,
    "unknown_tool": types.INVALID_PARAMS,
    "workspace_invalid": types.INVALID_PARAMS,
    "workspace_required": types.INVALID_PARAMS,
}

# What the operator added or silenced is the services' to know; here only the shapes that are always masked.
_REDACTOR = Redactor()
# The tools whose masks name the rule that found the secret, not its kind.
_NAMES_RULES = frozenset(("shell", "workspace", "execkit"))

_Contents = types.TextResourceContents | types.BlobResourceContents

log = logging.getLogger(__name__)


class Face:
    """What one selection offers, with everything that does not change between requests made once."""

    def __init__(self, chosen: Registry, whole: Registry) -> None:
        self.chosen = chosen
        self._tools = {name: tool for tool in chosen.tools for name in (tool.name, *tool.aliases)}
        self._known = frozenset(name for tool in whole.tools for name in (tool.name, *tool.aliases))
        self._schemas = {tool.name: tool.schema() for tool in chosen.tools}
        listed = [tool.as_listed() for tool in chosen.tools if tool.listed]
        self._tool_list = types.ListToolsResult(tools=listed)
        self._prompts = {prompt.name: prompt for prompt in chosen.prompts}
        self._resources = {item.uri: item for item in chosen.resources if not item.is_template}
        self._templates = [(UriTemplate.parse(i.uri), i) for i in chosen.resources if i.is_template]

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema that `Mcp-Param-*` headers are checked against."""
        return self._schemas.get(name)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _refuse_cursor(params)
        return self._tool_list

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        result = await self.answer(ctx, params.name, params.arguments)
        # The SDK fills this in for its own results only; for the older revision it takes it out again.
        return {"resultType": "complete", **result} if isinstance(result, dict) else result

    async def answer(self, ctx: Context, name: str, arguments: dict[str, Any] | None) -> HandlerResult:
        """Run a tool and return its result in the shape of the wire, or as the SDK's result that it gave."""
        tool = self._tools.get(name)
        if tool is None:
            self._refuse_tool(name)
        caller = _begin(ctx)
        try:
            given = arguments or {}
            refuse_depth(given)
            answer = await tool.run(caller, tool.params.read(given) if tool.validates else given)
            return _reply(answer) if isinstance(answer, Reply) else answer
        except ShiftlogError as error:
            return _failure(tool, error)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of this face: nothing of the error may leave
            return _failure(tool, defect(f"tool {tool.name}", error))

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Note from which level on the client wants log messages."""
        level_set(params.level)
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
        # Clients of Delx call more tools than there are here; what they are told has the shape that they read.
        raise MCPError(PROTOCOL_CODES[error.code], error.message, refusal(shown, error))

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _refuse_cursor(params)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=item.uri,
                    name=item.name,
                    title=item.title,
                    description=item.description,
                    mime_type=item.mime_type,
                )
                for item in self._resources.values()
            ]
        )

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _refuse_cursor(params)
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=item.uri,
                    name=item.name,
                    title=item.title,
                    description=item.description,
                    mime_type=item.mime_type,
                )
                for _, item in self._templates
            ]
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        found = self._find_resource(params.uri)
        if found is None:
            raise _not_found(ctx, params.uri)
        resource, variables = found
        with _edge(f"resource {resource.name}", partial(_resource_error, ctx, params.uri)):
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
        return types.ListPromptsResult(prompts=[_listed_prompt(prompt) for prompt in self.chosen.prompts])

    async def render_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        prompt = self._prompts.get(params.name)
        if prompt is None:
            shown = repeated(params.name)
            near = suggestion(shown, self._prompts)
            says = f"; did you mean '{near}'?" if near else ""
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {shown}{says}")
        with _edge(f"prompt {prompt.name}", protocol_error):
            given = _prompt_arguments(prompt, params.arguments or {})
            answer = await prompt.render(_begin(ctx), given)
        if not isinstance(answer, str):
            return answer
        message = types.PromptMessage(role="user", content=types.TextContent(text=answer))
        return types.GetPromptResult(description=prompt.description, messages=[message])


def _begin(ctx: Context) -> Caller:
    """Make the call of a request the current one and return its caller, named by the request's id."""
    name = str(ctx.request_id)
    # An id that cannot be kept as it is would name another call.
    caller = changed(CALLER.get(), call_id=name if excerpt(name) == name else None)
    enter_call(Call(caller=caller, context=ctx))
    return caller


def compact(data: object) -> str:
    """Return JSON text without spaces, characters as they are."""
    try:
        return msgspec.json.encode(data).decode()
    except UnicodeEncodeError:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _reply(reply: Reply) -> dict[str, Any]:
    content = [_text(compact(reply.data)), *map(_text, reply.extra_texts)]
    if isinstance(reply.data, dict):
        return {"content": content, "structuredContent": reply.data, "isError": False}
    return {"content": content, "isError": False}


def _masked(error: ShiftlogError, *, by_rule: bool = False) -> ShiftlogError:
    """Mask the secrets in what an error repeats; services do so too, but not everything passes through one."""
    error.message = _REDACTOR.text(error.message, by_rule=by_rule).text
    error.details = dict(_REDACTOR.value(error.details, by_rule=by_rule)[0])
    return error


def _failure(tool: Tool, error: ShiftlogError) -> dict[str, Any]:
    _masked(error, by_rule=tool.toolset in _NAMES_RULES)
    body = {"error": error.as_dict()} if tool.render_error is None else tool.render_error(error)
    if isinstance(body, str):
        return {"content": [_text(body)], "isError": True}
    return {"content": [_text(compact(body))], "structuredContent": body, "isError": True}


def protocol_error(error: ShiftlogError) -> MCPError:
    """Return an error as JSON-RPC shows it where no tool result can carry it."""
    return MCPError(PROTOCOL_CODES[error.code], error.message, error.as_dict())


def _not_found(ctx: Context, uri: str, found: Mapping[str, object] | None = None) -> MCPError:
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND_2025
    return MCPError(code, "Resource not found", {"uri": repeated(uri), **(found or {})})


def _resource_error(ctx: Context, uri: str, error: ShiftlogError) -> MCPError:
    lost = isinstance(error, LookupError)
    return _not_found(ctx, uri, error.as_dict()) if lost else protocol_error(error)


@contextmanager
def _edge(where: str, shape: Callable[[ShiftlogError], MCPError]) -> Generator[None]:
    """Turn whatever leaves the block into a JSON-RPC error."""
    try:
        yield
    except ShiftlogError as error:
        raise shape(_masked(error)) from None
    except MCPError:
        raise
    except Exception as error:  # noqa: BLE001 - the edge of this face: nothing of the error may leave
        raise shape(defect(where, error)) from None


def defect(where: str, error: BaseException) -> ShiftlogError:
    """Log where an unforeseen error arose, and return what the client may know: a reference to that line.

    What the machine is short of is told as that.

    Messages of exceptions can carry what the user typed, so neither the log nor the client sees them.
    """
    ref = secrets.token_hex(4)
    lines: list[str] = []
    at: BaseException | None = error
    while at is not None:
        lines += [*traceback.format_tb(at.__traceback__), f"{type(at).__module__}.{type(at).__qualname__}\n"]
        at = at.__cause__ or at.__context__
    log.error("internal error %s in %s\n%s", ref, where, "".join(lines))
    return trouble(error) or InternalError(
        "Internal error", details={"reason": f"logged by the server as {ref}", "ref": ref}
    )


def _refuse_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Parameter 'cursor' is invalid: this list has one page")


def refuse_depth(arguments: dict[str, Any]) -> None:
    """Refuse what is nested so deeply that code walking it could run out of stack."""
    for name, value in arguments.items():
        level = _nested([value])
        for _ in range(MAX_DEPTH):
            if not level:
                break
            level = _nested(item for each in level for item in each)
        else:
            raise InvalidParameter.invalid(repeated(name), f"at most {MAX_DEPTH} levels of nesting")


def _nested(items: Iterable[Any]) -> list[Iterable[Any]]:
    """Return what stands inside each item that has an inside."""
    return [
        cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item)
        for item in items
        if isinstance(item, dict | list)
    ]


def repeated(text: str) -> str:
    """Return what an error may repeat of a text that came from outside: printable, and its secrets masked."""
    return excerpt(_REDACTOR.text(text).text)


def _contents(uri: str, mime_type: str, content: Content) -> _Contents:
    if isinstance(content, bytes):
        blob = base64.b64encode(content).decode()
        return types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=blob)
    text = content if isinstance(content, str) else compact(content)
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)


def _listed_prompt(prompt: Prompt) -> types.Prompt:
    return types.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            types.PromptArgument(name=a.name, description=a.description, required=a.required) for a in prompt.arguments
        ],
    )


def _prompt_arguments(prompt: Prompt, given: dict[str, str]) -> dict[str, str]:
    known = {argument.name: argument for argument in prompt.arguments}
    for name in given:
        if name not in known:
            raise InvalidParameter.unknown(repeated(name), suggestion(name, known))
    for argument in known.values():
        if argument.required and not given.get(argument.name, "").strip():
            raise InvalidParameter.missing(argument.name)
    return given
