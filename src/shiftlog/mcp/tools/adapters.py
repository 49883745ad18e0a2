"""Adapters that make native tools of service methods: plain answers, session handles of the transport, Delx's prose."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shiftlog.dialects.delx.profiles import Presented
from shiftlog.dialects.delx.requests import unreserved
from shiftlog.journal.journal import resolve_session_id
from shiftlog.mcp.registry import Reply, Run, Tool
from shiftlog.mcp.tools.short_answers import with_lease_note
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.params.fields import Record, Schema
from shiftlog.store.protocol import Reader, Store

Service = Callable[[Mapping[str, Any], Caller], Awaitable[dict[str, Any]]]
Reading = Callable[[Mapping[str, Any], Caller, list[dict[str, Any]]], Awaitable[dict[str, Any]]]


def presented(service: Callable[[Mapping[str, Any], Caller], Awaitable[Presented]]) -> Run:
    """Return a tool that shows an answer and, on request, its prose."""

    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        shown, prose = await service(arguments, caller)
        return Reply(
            data={**shown, "data": with_lease_note(shown["data"])}, extra_texts=() if prose is None else (prose,)
        )

    return run


def through(service: Service) -> Run:
    """Return a tool that passes the service's answer on unchanged."""

    async def run(caller: Caller, arguments: dict[str, Any]) -> Reply:
        return Reply(data=await service(arguments, caller))

    return run


def with_handle(store: Store, run: Run) -> Run:
    """Return a tool that takes a missing `session_id` from the transport.

    Only HTTP names one, by header or query. An argument wins over it, with a warning where it names another session.
    """

    async def filled(caller: Caller, arguments: dict[str, Any]) -> Any:
        handled, warnings = await _handled(store, caller, arguments)
        reply = await run(caller, handled)
        if not warnings or not isinstance(reply, Reply) or isinstance(reply.data, list):
            return reply
        data = {**reply.data, "warnings": [*reply.data.get("warnings", []), *warnings]}
        return Reply(data=data, extra_texts=reply.extra_texts)

    return filled


def reading_with_handle(store: Store, service: Reading) -> Run:
    """Return a tool like `with_handle` over a service that places the warning in its answer itself."""

    async def filled(caller: Caller, arguments: dict[str, Any]) -> Reply:
        handled, warnings = await _handled(store, caller, arguments)
        return Reply(data=await service(handled, caller, warnings))

    return filled


async def _handled(
    store: Store, caller: Caller, arguments: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the arguments with their session, and a warning if the transport names another one."""
    handle, given = caller.session_handle, arguments.get("session_id")
    if not handle:
        return arguments, []
    if given is None or (isinstance(given, str) and not given.strip()):
        return {**arguments, "session_id": handle}, []
    if await store.read(lambda reader: _is_same(reader, str(given), handle)):
        return arguments, []
    return arguments, [{"code": "session_id_mismatch", "message": "session_id counts, not the header or query"}]


def _is_same(reader: Reader, one: str, other: str) -> bool:
    """Return True if two names belong to the same session."""
    try:
        return one == other or resolve_session_id(reader, one) == resolve_session_id(reader, other)
    except ShiftlogError:  # the handle names no session, or several
        return False


def without_reserved(params: Record, run: Run) -> Run:
    """Return a tool that drops the arguments that Delx clients send without effect, and checks the rest."""

    async def dropped(caller: Caller, arguments: dict[str, Any]) -> Any:
        return await run(caller, params.read(unreserved(arguments)))

    return dropped


def native(
    toolset: str, name: str, title: str, description: str, params: Record, output: Schema, run: Run, **more: Any
) -> Tool:
    """Declare a native tool."""
    return Tool(
        name=name, toolset=toolset, title=title, description=description, params=params, output=output, run=run, **more
    )
