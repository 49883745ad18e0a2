"""The running call as context variables: its caller, the SDK's request context and metadata, progress, log messages.

A transport sets `CALLER` once for its connection (HTTP: once for each request). Context variables follow the SDK into
the task of every request, so tools need not pass them on.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shiftlog.model.agents import CODEX
from shiftlog.model.caller import META, Caller, ClientSigns
from shiftlog.model.ids import is_call_id, is_vendor_id
from shiftlog.model.limits import PROGRESS_EVERY_S

Context = ServerRequestContext[Any, Any]

_UNKNOWN = Caller(face="mcp")
CALLER: ContextVar[Caller] = ContextVar("shiftlog_caller", default=_UNKNOWN)
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
_LEVEL: ContextVar[list[types.LoggingLevel | None]] = ContextVar("shiftlog_log_level")
_GONE: ContextVar[Callable[[], bool]] = ContextVar("shiftlog_client_gone", default=lambda: False)
CALL: ContextVar["Call"] = ContextVar("shiftlog_call")

# Metadata: Claude Code names the call, Codex the thread; a subagent has its own.
TOOL_CALLS = ("claudecode/toolUseId", "callId")
CODEX_THREAD = "threadId"
CODEX_TURN = "x-codex-turn-metadata"


@dataclass(slots=True, kw_only=True)
class Call:
    """One tool call, resource read or prompt while it runs."""

    caller: Caller
    context: Context
    clock: Callable[[], float] = time.monotonic
    _said_at: float = field(default=float("-inf"), init=False)

    async def log(self, level: types.LoggingLevel, data: object, logger: str) -> None:
        """Send a log message if the client asked for this level.

        A client of the older revision asks once for its connection, one of the newer with each request.
        """
        older = self.context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        wanted = _LEVEL.get([None])[0]
        if older and (wanted is None or _LEVELS.index(level) < _LEVELS.index(wanted)):
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # for clients that still ask for it
            send = self.context.session.send_log_message  # pyright: ignore[reportDeprecated]
            await send(level, data, logger, self.context.request_id)

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the client at most once a second; do nothing if it did not ask for it."""
        now = self.clock()
        if now - self._said_at < PROGRESS_EVERY_S:
            return
        self._said_at = now
        await self.context.session.report_progress(done, total, message)


def set_level(level: types.LoggingLevel) -> None:
    """Set the lowest level of log messages that the client of this connection wants."""
    _LEVEL.get([None])[0] = level


def client_is_gone() -> bool:
    """Return True if the connection of this task has ended; then a cancelled call was not cancelled by its client."""
    return _GONE.get()()


def enter_connection(is_gone: Callable[[], bool]) -> None:
    """Begin a connection without a log level; `is_gone` tells its calls that it has ended."""
    _GONE.set(is_gone)
    _LEVEL.set([None])


def client_name() -> str | None:
    """Return the name that the client of the current call gave itself."""
    call = CALL.get(None)
    params = call.context.session.client_params if call is not None else None
    return params.client_info.name if params is not None else None


async def confirm_with_client(question: str) -> bool | None:
    """Ask the person at the client a yes-or-no question; return None without an answer or a way to ask."""
    call = CALL.get(None)
    if call is None:
        return None
    session = call.context.session
    capabilities = session.client_capabilities
    if capabilities is None or capabilities.elicitation is None or not session.can_send_request:
        return None
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    answer = await session.elicit_form(question, schema, call.context.request_id)
    return {"accept": True, "decline": False}.get(answer.action)


def current_call() -> Call:
    """Return the call that this task serves; raise LookupError outside one."""
    return CALL.get()


async def report_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Report progress of the current call; do nothing where no call runs (CLI, library)."""
    call = CALL.get(None)
    if call is not None:
        await call.progress(done, total, message)


def with_meta(signs: ClientSigns, meta: Mapping[str, Any] | None) -> ClientSigns:
    """Add the signs in a call's metadata to a caller's: the client's session, and its id of the call."""
    if not meta:
        return signs
    call = next((found for name in TOOL_CALLS if (found := _call_id(meta.get(name))) is not None), None)
    turn: object = meta.get(CODEX_TURN)
    told: Mapping[str, Any] = cast("Mapping[str, Any]", turn) if isinstance(turn, Mapping) else {}
    of_turn = _vendor_id(told.get("thread_id"))
    # `threadId` alone may be any client's; with its turn beside it, it is Codex's.
    thread = (_vendor_id(meta.get(CODEX_THREAD)) or of_turn) if of_turn is not None else None
    if thread is not None:
        prompt = _call_id(told.get("turn_id"))
        return replace(signs, vendor_ids={CODEX: thread}, via=META, tool_call=call, prompt_id=prompt)
    return signs if call is None else replace(signs, tool_call=call)


def _vendor_id(value: object) -> str | None:
    return value if isinstance(value, str) and is_vendor_id(value) else None


def _call_id(value: object) -> str | None:
    return value if isinstance(value, str) and is_call_id(value) else None
