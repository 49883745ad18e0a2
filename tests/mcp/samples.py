"""A small registry for tests of the MCP floor: each tool shows one behaviour."""

from dataclasses import asdict
from typing import Any

import anyio
import mcp_types as types

from shiftlog.mcp.calls import current_call, report_progress
from shiftlog.mcp.registry import (
    Content,
    Prompt,
    PromptArgument,
    Registry,
    Reply,
    Resource,
    Run,
    Tool,
)
from shiftlog.model.caller import Caller
from shiftlog.model.errors import SessionNotFound, ShiftlogError, StorageError
from shiftlog.params.fields import Integer, ListOf, Record, Text

SECRET = "secret-value"

WORDS = Record(fields={"text": Text(lines=True), "count": Integer(minimum=1, maximum=9), "tags": ListOf(item=Text())})


def tool(name: str, run: Run, toolset: str = "journal", *, read_only: bool = True, **more: Any) -> Tool:
    return Tool(
        name=name,
        toolset=toolset,
        title=name.title(),
        description=f"Show what {name} does",
        params=WORDS,
        read_only=read_only,
        destructive=not read_only,
        idempotent=read_only,
        open_world=False,
        run=run,
        **more,
    )


async def echo(caller: Caller, arguments: dict[str, Any]) -> Reply:
    return Reply(data={"given": arguments}, extra_texts=("Grüße, “world”",) if arguments else ())


async def whoami(caller: Caller, arguments: dict[str, Any]) -> Reply:
    return Reply(data={**asdict(caller), "same": current_call().caller == caller})


async def refuse(caller: Caller, arguments: dict[str, Any]) -> Reply:
    raise SessionNotFound("Session not found: Codex-x", details={"session_id": "Codex-x"})


async def crash(caller: Caller, arguments: dict[str, Any]) -> Reply:
    try:
        raise KeyError(arguments["text"])
    except KeyError as error:
        raise RuntimeError(f"cannot use {arguments['text']}") from error


def as_flags(error: ShiftlogError) -> dict[str, Any]:
    return {"ok": False, "code": error.code}


def as_words(error: ShiftlogError) -> str:
    return f"sorry: {error.message}"


async def items(caller: Caller, arguments: dict[str, Any]) -> Reply:
    return Reply(data=[1, {"two": 3}])


async def picture(caller: Caller, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.ImageContent(data="aGk=", mime_type="image/png")])


async def count_up(caller: Caller, arguments: dict[str, Any]) -> Reply:
    for done in range(50):
        await report_progress(done, 50, "counting")
    return Reply(data={"done": 50})


class Gate:
    """A tool that stays in flight until it is told to go on, and remembers how it ended."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.go_on = anyio.Event()
        self.cancelled = anyio.Event()

    async def run(self, caller: Caller, arguments: dict[str, Any]) -> Reply:
        self.entered.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return Reply(data={"went": "on"})


async def read_thing(caller: Caller, variables: dict[str, str]) -> Content:
    if variables["id"] == "none":
        raise SessionNotFound("Session not found: none")
    if variables["id"] == "down":
        raise StorageError("Storage error")
    if variables["id"] == "bug":
        raise RuntimeError(SECRET)
    return {"id": variables["id"], "caller": caller.client_id}


async def read_notes(caller: Caller, variables: dict[str, str]) -> Content:
    return "plain <notes>" if not variables else f"notes from {variables.get('offset', 'the start')}"


async def read_blob(caller: Caller, variables: dict[str, str]) -> Content:
    return b"\x00\x01"


async def greeting(caller: Caller, arguments: dict[str, str]) -> str:
    if arguments["name"] == "bug":
        raise RuntimeError(SECRET)
    return f"Greet {arguments['name']} from {caller.client_id}"


def resource(uri: str, name: str, mime_type: str, read: Any, toolset: str = "journal") -> Resource:
    return Resource(uri=uri, toolset=toolset, name=name, title=name, description=name, mime_type=mime_type, read=read)


def sample_registry(*more: Tool) -> Registry:
    return Registry(
        tools=(
            tool("echo", echo, aliases=("parrot",)),
            tool("checked", echo, validates=True),
            tool("whoami", whoami),
            tool("refuse", refuse, read_only=False),
            tool("crash", crash),
            tool("items", items),
            tool("picture", picture),
            tool("count_up", count_up),
            tool("hidden", echo, listed=False),
            tool("own_shape", refuse, render_error=as_flags),
            tool("plain_words", refuse, render_error=as_words),
            tool("run_it", echo, "shell", read_only=False),
            tool("import_it", echo, "ingest", read_only=False),
            tool("nexo_log", echo, "nexo", read_only=False),
            tool("session_exec", echo, "execkit", read_only=False),
            *more,
        ),
        resources=(
            resource("shiftlog://notes", "notes", "text/plain", read_notes),
            resource("shiftlog://blob", "blob", "application/octet-stream", read_blob),
            resource("shiftlog://things/{id}", "thing", "application/json", read_thing),
            resource("shiftlog://pages/{id}{?offset,limit}", "page", "text/plain", read_notes, "shell"),
        ),
        prompts=(
            Prompt(
                name="greeting",
                toolset="journal",
                title="Greeting",
                description="Greet someone",
                render=greeting,
                arguments=(
                    PromptArgument(name="name", description="who", required=True),
                    PromptArgument(name="mood", description="how"),
                ),
            ),
        ),
    )
