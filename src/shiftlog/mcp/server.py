"""How the MCP face is put together: one SDK server for each selection, for both protocol revisions.

The SDK speaks the protocol and `face` gives the answers; here is what joins them, with a short way for the
one request that must be quick.
"""

from collections.abc import Awaitable, Mapping
from functools import lru_cache, partial
from typing import Any, cast

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_connection
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from shiftlog import __version__
from shiftlog.mcp.calls import Context
from shiftlog.mcp.face import Face, defect, protocol_error, repeated
from shiftlog.mcp.registry import Registry, Selection
from shiftlog.mcp.transport import Reading
from shiftlog.model.errors import InvalidParameter

# Its clients ask for log messages about what was run.
LOGGING_DIALECTS = frozenset({"execkit"})

_LISTS_KEPT = CacheHint(ttl_ms=300_000)
_QUICK_PARAMS = frozenset({"name", "arguments", "_meta"})
_QUICK_META = frozenset(
    {
        types.PROTOCOL_VERSION_META_KEY,
        types.CLIENT_CAPABILITIES_META_KEY,
        types.CLIENT_INFO_META_KEY,
        "progressToken",
    }
)
_PROTOCOL_LABELS = frozenset({"mcp", "modelcontextprotocol"})
_ADVICE = (
    ("open_session", "Call open_session when you start work, or resume_session to go on with earlier work."),
    ("begin_turn", "For each request call begin_turn, update_turn while you work, finish_turn at its end."),
    ("query_history", "query_history searches what this and other agents did before."),
    ("run_command", "Commands run in a shell from open_shell; read_output shows more of a long output."),
    ("close_session", "Call close_session at the end of the work; it returns a signed receipt."),
)


# Errors that descriptions do not repeat, because they mean the same everywhere.
COMMON_CODES = (
    "invalid_parameter",
    "invalid_session_id",
    "invalid_request_id",
    "idempotency_conflict",
    "storage_error",
    "internal_error",
)


class Servers:
    """The SDK servers of one registry, one for each selection that clients asked for."""

    def __init__(self, registry: Registry, *, telemetry: bool = False) -> None:
        self._registry = registry
        self._telemetry = telemetry
        self._built = lru_cache(maxsize=64)(self._build)

    def serving(self, selection: Selection) -> Server[Any]:
        """Return the server of a selection; raise InvalidParameter for names that do not exist."""
        return self._built(selection)

    def _build(self, selection: Selection) -> Server[Any]:
        return build_server(self._registry, selection, telemetry=self._telemetry)


def build_server(registry: Registry, selection: Selection | None = None, *, telemetry: bool = False) -> Server[Any]:
    """Build the SDK server of one selection; `telemetry` keeps the SDK's OpenTelemetry spans."""
    face = Face(registry.select(selection or Selection()), registry)
    some_resources, some_prompts = bool(face.chosen.resources), bool(face.chosen.prompts)
    server = _Server(
        "shiftlog",
        version=__version__,
        title="Shiftlog",
        description="The session layer for AI agents: journal, guarded shell, hand-over",
        instructions=_instructions(face.chosen),
        cache_hints={"tools/list": _LISTS_KEPT, "prompts/list": _LISTS_KEPT, "server/discover": _LISTS_KEPT},
        get_tool_input_schema=face.input_schema,
        on_list_tools=face.list_tools,
        on_list_resources=face.list_resources if some_resources else None,
        on_list_resource_templates=face.list_templates if some_resources else None,
        on_read_resource=face.read_resource if some_resources else None,
        on_list_prompts=face.list_prompts if some_prompts else None,
        on_get_prompt=face.render_prompt if some_prompts else None,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, face.call_tool)
    if any(tool.toolset in LOGGING_DIALECTS for tool in face.chosen.tools):
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, face.set_level)
    if not telemetry:
        # A span nobody collects costs a quarter of a call.
        server.middleware.clear()
    server.quick_calls = _QuickCalls(server, face)
    server.middleware.append(server.quick_calls)
    return server


class _Server(Server[Any]):
    """The SDK's server, without its relay for clients that begin with a handshake.

    To see of which revision a client is, the SDK hands all messages of a connection from one task to another, which is
    a sixth of what a quick call costs here. Our streams can be looked into instead.
    """

    quick_calls: "_QuickCalls"

    async def run(
        self,
        read_stream: Any,
        write_stream: Any,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
    ) -> None:
        if not isinstance(read_stream, Reading) or not await read_stream.begins_with("initialize"):
            await super().run(read_stream, write_stream, initialization_options, raise_exceptions)
            return
        dispatcher = JSONRPCDispatcher(
            read_stream,
            write_stream,
            raise_handler_exceptions=raise_exceptions,
            # A client that does not wait for the answer to its handshake finds it done all the same.
            inline_methods=frozenset({"initialize"}),
        )
        connection = Connection.for_loop(dispatcher)
        if self.middleware == [self.quick_calls]:  # whatever else is there wants to see every call
            read_stream.at_once = partial(self.quick_calls.at_once, connection)
        async with self.lifespan(self) as state:
            await serve_connection(
                self, dispatcher, connection=connection, lifespan_state=state, init_options=initialization_options
            )


def _instructions(chosen: Registry) -> str:
    names = {tool.name for tool in chosen.tools}
    advice = [sentence for name, sentence in _ADVICE if name in names]
    lead = "Shiftlog records what agents do, so that it can be read, verified and continued."
    tail = "State is never bound to the connection: pass the ids that earlier results gave you."
    errors = f"Besides the errors that its description names any tool may answer {', '.join(COMMON_CODES)}."
    return " ".join([lead, *advice, tail, errors])


class _QuickCalls:
    """Middleware that answers an ordinary `tools/call` without the SDK's validation of our own results.

    The SDK trusts what a middleware returns, so a result that is known to be well-formed is not copied and
    checked three times more. Whatever is unusual in a request goes on to the SDK and its checks.
    """

    def __init__(self, server: Server[Any], face: Face) -> None:
        self._face = face
        self._stamp = {types.SERVER_INFO_META_KEY: server.server_info_stamp}

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        params = ctx.params
        _refuse_envelope(ctx)
        if ctx.method != "tools/call" or not params or ctx.session.client_params is None:
            return await _naming(call_next(ctx))
        arguments: object = params.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            raise protocol_error(InvalidParameter.invalid("arguments", "an object is expected"))
        name: object = params.get("name")
        if not isinstance(name, str) or not _is_usual(params, ctx.meta):
            return await _naming(call_next(ctx))
        result = await self._face.answer(ctx, name, cast("dict[str, Any] | None", arguments))
        return self._shaped(ctx.protocol_version, result)

    async def at_once(self, connection: Connection, request: types.JSONRPCRequest) -> dict[str, Any] | None:
        """Answer an ordinary call of a brief tool where it is read; None for what has to go the SDK's way."""
        params = request.params
        if request.method != "tools/call" or not params or connection.client_params is None:
            return None
        tool, arguments = self._face.brief_tool(params.get("name")), params.get("arguments")
        if tool is None or not isinstance(arguments, dict) or not _is_plain(params):
            return None
        try:
            result = await self._face.answer_briefly(request.id, tool, cast("dict[str, Any]", arguments))
            return {"result": self._shaped(connection.protocol_version, result)}
        except MCPError as error:
            return {"error": error.error.model_dump(by_alias=True, exclude_none=True)}

    def _shaped(self, version: str, result: HandlerResult) -> HandlerResult:
        if isinstance(result, BaseModel):
            result = _serialized(version, result)
        if version in MODERN_PROTOCOL_VERSIONS and isinstance(result, dict):
            result.setdefault("resultType", "complete")
            result["_meta"] = {**(result.get("_meta") or {}), **self._stamp}
        return result


def _refuse_envelope(ctx: Context) -> None:
    """Refuse a request of the newer revision on a connection that began with the older one's handshake."""
    if (
        ctx.meta
        and types.PROTOCOL_VERSION_META_KEY in ctx.meta
        and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
    ):
        says = (
            "This connection began with the initialize handshake; requests of revision 2026-07-28 need one of their own"
        )
        raise MCPError(types.INVALID_REQUEST, says)


async def _naming(work: Awaitable[HandlerResult]) -> HandlerResult:
    """Let the SDK serve a request, and name the parameter when it refuses one; by itself it only says no."""
    try:
        return await work
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = repeated(".".join(str(part) for part in first["loc"] if part != "params")) or "params"
        if first["type"] == "missing":
            raise protocol_error(InvalidParameter.missing(path)) from None
        raise protocol_error(InvalidParameter.invalid(path, first["msg"].lower())) from None


def _is_usual(params: Mapping[str, Any], meta: Mapping[str, Any] | None) -> bool:
    """Tell whether a request holds only what `_QuickCalls` understands; `meta` is None if malformed."""
    raw: object = params.get("_meta")
    if raw is not None:
        keys = cast("dict[str, Any]", raw)
        if meta is None or not all(key in _QUICK_META or _is_vendors(key) for key in keys):
            return False
    return _QUICK_PARAMS.issuperset(params)


def _is_plain(params: Mapping[str, Any]) -> bool:
    """Tell whether a request asks for nothing beside the call; a brief one has no progress to report."""
    raw: object = params.get("_meta")
    if raw is None:
        return _QUICK_PARAMS.issuperset(params)
    if not isinstance(raw, dict):
        return False
    meta = cast("dict[str, object]", raw)
    token = meta.get("progressToken", "")
    if not isinstance(token, str | int) or isinstance(token, bool):
        return False
    return _QUICK_PARAMS.issuperset(params) and all(key == "progressToken" or _is_vendors(key) for key in meta)


def _is_vendors(key: str) -> bool:
    """Tell whether a key of `_meta` is a client's own, as `claudecode/toolUseId`, and not one of the protocol's."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and _PROTOCOL_LABELS.isdisjoint(prefix.split("."))


def _serialized(version: str, result: BaseModel) -> dict[str, Any]:
    dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        return methods.serialize_server_result("tools/call", version, dumped)
    except ValidationError as error:
        raise protocol_error(defect("result of a tool", error)) from None
