"""The SDK server of each selection of tools, for both protocol revisions.

The SDK speaks the protocol, `face` answers, and this module joins them and checks requests first.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, cast

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from shiftlog import __version__
from shiftlog.mcp.calls import Context
from shiftlog.mcp.errors import protocol_error, repeated
from shiftlog.mcp.face import Face
from shiftlog.mcp.registry import Registry, Selection
from shiftlog.model.errors import InvalidParameter

# Clients of execkit ask for log messages about commands.
LOGGING_DIALECTS = frozenset({"execkit"})

# A call with other keys asks for more than running a tool.
_CALL_KEYS = frozenset({"name", "arguments", "_meta"})

_LISTS_KEPT = CacheHint(ttl_ms=300_000)
_LEAD = (
    "Shiftlog records what agents do, secrets masked, so that it can be read, verified and continued.",
    (
        "Use it for work that should survive you: tasks of several steps, changes that a person may want to check or "
        "undo, hand-overs to the next shift or another agent. Skip it for a question that you answer at once."
    ),
)
# One line per step of the work, shown if the tool at its beginning is served.
_ADVICE = (
    (
        "open_session",
        (
            "Start: resume_session continues your last work; open_session begins new work. Give both the same "
            "agent_id, your stable name."
        ),
    ),
    ("begin_turn", "Per request: begin_turn, then update_turn while you work, then finish_turn."),
    ("query_history", "Look up: query_history finds what this and other agents did, decided and spent."),
    (
        "run_command",
        (
            "Commands: open_shell with the project as workspace, then run_command; read_output shows more of a long "
            "output. They are recorded by themselves."
        ),
    ),
    (
        "restore_checkpoint",
        "Undo: diff_checkpoint shows what changed, restore_checkpoint goes back by step, command or turn.",
    ),
    ("import_transcripts", "Import: import_transcripts brings sessions of other agents into the journal."),
    ("close_session", "End: close_session, with what the next shift must know in its capsule."),
    (
        "nexo_session_log_create",
        "Launchers of agents: nexo_session_log_create before the child starts, nexo_session_log_close after it ended.",
    ),
    (
        "sessionlog_open",
        (
            "Session log: sessionlog_open, then per request sessionlog_begin_turn, sessionlog_dialog and "
            "sessionlog_complete_turn or sessionlog_fail_turn."
        ),
    ),
    (
        "session_create",
        "Commands: session_create once, then session_exec; session_restore undoes, session_destroy ends.",
    ),
)

# One tool of each toolset whose answers are short unless `detail` asks for more.
_SHORT_ANSWERS = frozenset({"open_session", "open_shell", "restore_checkpoint"})

# Errors that descriptions do not repeat, because they mean the same everywhere.
COMMON_CODES = (
    "invalid_parameter",
    "invalid_session_id",
    "invalid_request_id",
    "storage_error",
    "internal_error",
)


class Servers:
    """The SDK servers of one registry, one for each selection that clients asked for."""

    def __init__(self, registry: Registry) -> None:
        self._built = lru_cache(maxsize=64)(partial(build_server, registry))

    def serving(self, selection: Selection) -> Server[Any]:
        """Return the server of a selection; raise InvalidParameter for names that do not exist."""
        return self._built(selection)


def build_server(registry: Registry, selection: Selection | None = None) -> Server[Any]:
    """Build the SDK server of one selection."""
    face = Face(registry.select(selection or Selection()), registry)
    some_resources, some_prompts = bool(face.chosen.resources), bool(face.chosen.prompts)
    server: Server[Any] = Server(
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
    # Replaces the SDK's OpenTelemetry spans, which nothing collects.
    server.middleware[:] = [partial(_answer, face)]
    return server


def _instructions(chosen: Registry) -> str:
    names = {tool.name for tool in chosen.tools}
    advice = [sentence for name, sentence in _ADVICE if name in names]
    ids = "Pass the ids that results gave you."
    if "open_session" in names:
        ids += " run_id, a short number, stands for session_id everywhere."
    if not names.isdisjoint(_SHORT_ANSWERS):
        ids += " Answers leave out what is null, default or just sent;"
        ids += ' detail: "full", where a tool has it, brings the rest.'
    errors = (
        "Errors of session_* tools are plain text; each tool lists its own."
        if "session_create" in names
        else "Errors: details.next_call, where present, is a call that helps. Any tool may also answer "
        f"{', '.join(COMMON_CODES)}."
    )
    return "\n".join([*_LEAD, *advice, ids, errors])


async def _answer(face: Face, ctx: Context, call_next: CallNext) -> HandlerResult:
    """Answer an ordinary tool call; leave every other request to the SDK.

    The SDK would check both sides of a call field by field. Here the request is checked by its parts, the arguments by
    the tool's own parameters, and the result is made in one place.
    """
    if not _is_ordinary_call(ctx):
        return await _check(ctx, call_next)
    params = cast("Mapping[str, Any]", ctx.params)
    result = await face.run_tool(ctx, params["name"], params["arguments"])
    if not isinstance(result, dict):
        return _checked(ctx, result.model_dump(by_alias=True, mode="json", exclude_none=True))
    result.pop("resultType", None)  # a word of the newer revision
    return result


def _checked(ctx: Context, result: dict[str, Any]) -> HandlerResult:
    """Return a result in the SDK's own words as it is sent; refuse one that the client cannot read."""
    try:
        return methods.serialize_server_result(ctx.method, ctx.protocol_version, result)
    except ValidationError:
        raise MCPError(types.INTERNAL_ERROR, "Handler returned an invalid result") from None


def _is_ordinary_call(ctx: Context) -> bool:
    """Return True for a well-formed `tools/call` on a connection of the older revision, after `initialize`."""
    params = ctx.params or {}
    return (
        ctx.method == "tools/call"
        and params.keys() <= _CALL_KEYS
        and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS
        and ctx.session.client_params is not None
        and isinstance(params.get("name"), str)
        and isinstance(params.get("arguments"), dict)
        and ("_meta" not in params or ctx.meta is not None)
    )


async def _check(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Check a request before the SDK does, and name the parameter when the SDK refuses one."""
    arguments: object = (ctx.params or {}).get("arguments")
    if ctx.method == "tools/call" and arguments is not None and not isinstance(arguments, dict):
        raise protocol_error(InvalidParameter.invalid("arguments", "an object is expected"))
    try:
        return await call_next(ctx)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = repeated(".".join(str(part) for part in first["loc"] if part != "params")) or "params"
        if first["type"] == "missing":
            raise protocol_error(InvalidParameter.missing(path)) from None
        raise protocol_error(InvalidParameter.invalid(path, first["msg"].lower())) from None
