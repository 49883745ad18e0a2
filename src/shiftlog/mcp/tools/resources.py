"""Resources and prompts: sessions, turns, capsules and outputs to read, a hand-over and a catch-up to paste."""

from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from typing import Any

from shiftlog.app.app import App
from shiftlog.journal.clients import sessions_around
from shiftlog.journal.continuity.capsule.brief import brief
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.history.digest import digest_markdown
from shiftlog.journal.history.items import (
    TURN_KINDS,
    more,
    obligation,
    session_facts,
    turn_contents,
    turn_facts,
    turn_item,
)
from shiftlog.journal.history.requests import parse_bound, project_name
from shiftlog.journal.journal import find_session
from shiftlog.journal.runs.service import Runs
from shiftlog.mcp.registry import Prompt, PromptArgument, Resource
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, TurnNotFound
from shiftlog.store.protocol import Filter, Reader

JSON = "application/json"
CATCH_UP_DAYS = 1
TURNS_SHOWN = 200
MAX_OUTPUT_CHARS = 1_000_000
STDERR_MARK = "\n--- stderr ---\n"


def resources(app: App) -> tuple[Resource, ...]:
    """Return the resource templates over an app."""

    async def session(caller: Caller, names: dict[str, str]) -> dict[str, Any]:
        now = app.clock.now()
        return await app.store.read(lambda reader: _session(reader, app.runs, names["id"], now))

    async def turn(caller: Caller, names: dict[str, str]) -> dict[str, Any]:
        return await app.store.read(lambda reader: _turn(reader, names["id"], names["request_id"]))

    async def capsule(caller: Caller, names: dict[str, str]) -> dict[str, Any]:
        now = app.clock.now()
        return await app.store.read(lambda reader: capsule_of(reader, find_session(reader, names["id"]), now))

    async def output(caller: Caller, names: dict[str, str]) -> str:
        offset, limit = (_count(names, name) for name in ("offset", "limit"))
        parts: list[str] = []
        for stream in ("stdout", "stderr"):
            request = {"command_id": names["id"], "stream": stream, "max_chars": MAX_OUTPUT_CHARS}
            page = await app.shells.commands.read_output({**request, "from_line": (offset or 0) + 1}, caller)
            lines = list(StringIO(page["text"], newline="\n"))
            wanted = lines[:limit]
            is_cut = len(wanted) == len(lines) and (limit is None or len(lines) < limit)
            parts.append("".join(wanted) + (_way_on(page, stream) if is_cut else ""))
        return STDERR_MARK.join(parts) if all(parts) else "".join(parts)

    of_session = partial(Resource, toolset="journal", mime_type=JSON)
    return (
        of_session(
            uri="shiftlog://sessions/{id}",
            name="session",
            title="Session",
            description="A session: its facts, run, lineage and turns with counts.",
            read=session,
        ),
        of_session(
            uri="shiftlog://sessions/{id}/turns/{request_id}",
            name="turn",
            title="Turn",
            description="A turn whole: request, response, lists, dialog and actions.",
            read=turn,
        ),
        of_session(
            uri="shiftlog://sessions/{id}/capsule",
            name="capsule",
            title="Capsule",
            description="The hand-over packet of a session, built from its journal as it stands.",
            read=capsule,
        ),
        Resource(
            uri="shiftlog://commands/{id}/output{?offset,limit}",
            toolset="shell",
            name="output",
            title="Output of a command",
            description="What a command wrote, stdout before stderr; offset and limit count lines of each.",
            mime_type="text/plain",
            read=output,
        ),
    )


def _way_on(page: dict[str, Any], stream: str) -> str:
    """Return the line that says how to read on after an incomplete page, else an empty text."""
    last = page["from_line"] - 1 + page["lines"]
    text: str = page["text"]
    if page["next_cursor"] is None or (last >= page["lines_total"] and len(text) < MAX_OUTPUT_CHARS):
        return ""
    end = "" if text.endswith("\n") else "\n"
    return f"{end}--- {stream} goes on: offset={last}, or read_output with cursor {page['next_cursor']} ---\n"


def _count(names: dict[str, str], name: str) -> int | None:
    text = names.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise InvalidParameter.invalid(name, "a whole number of at least 0", text)
    return int(text)


def _session(reader: Reader, runs: Runs, name: str, now: datetime) -> dict[str, Any]:
    """Return a session with its first turns and, if it has more, the call that pages through them."""
    session = find_session(reader, name)
    turns = reader.turns(session.id, limit=TURNS_SHOWN + 1)
    return {
        **session_facts(session, runs, reader),
        **obligation(session, now),
        "turns": [turn_item(session, turn) for turn in turns[:TURNS_SHOWN]],
        **({"truncated": True, "more": more(session.id)} if len(turns) > TURNS_SHOWN else {}),
    }


def _turn(reader: Reader, name: str, request_id: str) -> dict[str, Any]:
    session = find_session(reader, name)
    turn = reader.turn(session.id, request_id)
    if turn is None:
        details = {"session_id": session.id, "request_id": request_id}
        raise TurnNotFound(f"Turn not found: {request_id}", details=details)
    entries = reader.entries(
        session.id,
        after=turn.begun_seq,
        until=turn.last_seq,
        turn=request_id,
        kinds=TURN_KINDS,
    )
    return {"session_id": session.id, **turn_facts(turn), "contents": turn_contents(turn, entries)}


def prompts(app: App) -> tuple[Prompt, ...]:
    """Return the prompts over an app."""

    async def handover(caller: Caller, arguments: dict[str, str]) -> str:
        agent_id, cwd = arguments.get("agent_id"), arguments.get("cwd")
        now, holders = app.clock.now(), app.journal.holders

        def work(reader: Reader) -> str:
            own = holders.sessions_of(reader, caller, now) | sessions_around(reader, caller)
            return brief(reader, caller, now, agent_id=agent_id, cwd=cwd, own=own)

        return await app.store.read(work)

    async def catch_up(caller: Caller, arguments: dict[str, str]) -> str:
        now = app.clock.now()
        since = arguments.get("since")
        start = parse_bound(since, "since", is_end=False) if since else now - timedelta(days=CATCH_UP_DAYS)
        where = Filter(project=project_name(arguments.get("project")), from_=start)
        return await app.store.read(lambda reader: digest_markdown(reader, where, start, app.runs))

    return (
        Prompt(
            name="handover",
            toolset="journal",
            title="Hand-over",
            description="The capsule of the last session of an agent or directory, as Markdown.",
            arguments=(
                PromptArgument(name="agent_id", description="Stable agent name; default: any agent."),
                PromptArgument(name="cwd", description="Directory of the work; default: the client's."),
            ),
            render=handover,
        ),
        Prompt(
            name="catch-up",
            toolset="journal",
            title="Catch up",
            description="What agents did lately, from the journal alone, as Markdown.",
            arguments=(
                PromptArgument(name="project", description="Workspace name or path; default: all."),
                PromptArgument(name="since", description="ISO date or time; default: the last day."),
            ),
            render=catch_up,
        ),
    )
