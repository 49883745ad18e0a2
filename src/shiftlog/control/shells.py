"""Questions about shells: list and end them, run a command in one, watch and replay them.

Streams are made of events; ending the stream of `exec` ends its command. The policy decides what may run, and
the journal records it.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import anyio

from shiftlog.app.app import App
from shiftlog.control.feed import Feed, Following, Item
from shiftlog.control.naming import LAST
from shiftlog.control.newer import newer_page
from shiftlog.control.questions import Params, Question
from shiftlog.guard.secrets.redactor import learnable_values
from shiftlog.journal.history.items import session_facts
from shiftlog.journal.journal import find_session
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import ShellNotFound
from shiftlog.model.times import precise
from shiftlog.shell.outputs.command_output import CommandOutput
from shiftlog.shell.ports import CallCancelled
from shiftlog.shell.requests import NATIVE
from shiftlog.shell.state import Command, Shell
from shiftlog.text.printable import one_line

LOOK_S = 0.05
TITLE_CHARS = 80
TAIL_LINES = 40
ENTRIES_AT_ONCE = 200
PERSON = "person"
ANY_KIND = ("command", "prompt")
REPLAYED = (
    Kind.TURN_BEGUN,
    Kind.SHELL_OPENED,
    Kind.COMMAND_STARTED,
    Kind.COMMAND_INPUT,
    Kind.COMMAND_ASKED,
    Kind.COMMAND_DECIDED,
    Kind.COMMAND_FINISHED,
    Kind.CHECKPOINT_RESTORED,
    Kind.SHELL_ENDED,
)


async def list_shells(app: App, params: Params, caller: Caller) -> object:
    """List shells, newest first; `from` leaves out those that were opened before."""
    asked = {name: value for name, value in params.items() if name != "from"}
    return newer_page(await app.shells.list_shells(asked, caller), "shells", params, "created_at", app.clock.now())


async def close_shell(app: App, params: Params, caller: Caller) -> object:
    """End a shell and everything it started."""
    shell_id = named_shell(app, str(params["shell_id"]), live=False)
    return await app.shells.close_shell({"shell_id": shell_id, "reason": "closed by the operator"}, caller)


def named_shell(app: App, name: str, *, live: bool = True) -> str:
    """Return the id of a shell by its id, the beginning of it, or `last`; other names are returned as they are."""
    shells = app.shells.registry.shells
    if name == LAST:
        alive = app.shells.registry.live_ids()
        if not alive:
            raise ShellNotFound("no shell lives", details={"shell_id": name})
        return alive[-1]
    if name in shells:
        return name
    fitting = [
        shell_id for shell_id in (app.shells.registry.live_ids() if live else shells) if shell_id.startswith(name)
    ]
    if len(fitting) > 1:
        raise ShellNotFound(f"'{name}' begins the ids of {len(fitting)} shells", details={"matches": fitting})
    return fitting[0] if fitting else name


async def send_input(app: App, params: Params, caller: Caller) -> object:
    """Send input to a running command."""
    return await app.shells.commands.send_input(params, replace(caller, client_name=PERSON))


# Running


async def run_once(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Run one command in an open shell or in a new one; yield its output as it comes, then the result."""
    person = replace(caller, client_name=PERSON)
    name, opened, feed = params.get("shell_id"), None, Feed()
    if not name:
        opened = await app.shells.open_shell(params.get("open") or {}, person, title=_title(app, params))
    try:
        if opened:
            yield {"event": "shell", **opened}
        shell_id = opened["shell_id"] if opened else named_shell(app, str(name))
        run = _run(app, {"shell_id": shell_id, **params["run"]}, person, feed)
        async with aclosing(feed.items(run)) as items:
            async for item in items:
                yield item
    finally:
        if opened:
            with anyio.CancelScope(shield=True):
                await app.shells.close_shell({"shell_id": opened["shell_id"]}, person)


def _title(app: App, params: Params) -> str:
    """Return the command as the title of its session, masked before it is cut: half a secret would not be found."""
    opening: dict[str, Any] = params.get("open") or {}
    env: object = opening.get("env")
    variables = cast("dict[str, object]", env) if isinstance(env, dict) else {}  # `open_shell` refuses other values
    learned = learnable_values(" ".join(f"{name}={value}" for name, value in variables.items()))
    redactor = app.redactor.learning(learned) if learned else app.redactor
    return one_line(redactor.text(str(params["run"].get("command", "")), by_rule=True).text, TITLE_CHARS)


async def _run(app: App, arguments: dict[str, Any], caller: Caller, feed: Feed) -> None:
    shells, shell_id = app.shells, arguments["shell_id"]
    following: list[Following] = []

    async def output_came(_total: int, _newest: str) -> None:
        # Called only while the command is in the foreground, so the output is its own.
        command_id = shells.commands.running_in(shell_id)
        if command_id is not None and not following:
            following.append(Following(feed, shells.outputs.reopen(command_id)))

    async def tell_began(command_id: str) -> None:
        await feed.put({"event": "began", "command_id": command_id})

    async def tell_question(_question: str) -> None:
        for approval in shells.approvals.pending():
            if (approval.shell_id, approval.text) == (shell_id, arguments["command"]):
                await feed.put({"event": "asked", **approval.as_listed()})

    feed.spawn(_tell_questions(app, shell_id, feed, ("prompt",)))
    try:
        result = await shells.commands.run_command(arguments, caller, output_came, NATIVE, tell_question, tell_began)
    except CallCancelled as cancelled:
        await shells.commands.cancel(cancelled.command_id)
        raise
    if not following and result["state"] not in ("syntax_error", "refused"):
        following.append(Following(feed, shells.outputs.reopen(result["command_id"])))
    for one in following:
        await one.finish()
    await feed.put({"event": "result", **result})


# Watching


async def watch(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Yield the events of one shell, or of all, from now on; `last` earlier commands come first."""
    feed = Feed()
    name = params.get("shell_id")
    shell_id = named_shell(app, str(name)) if name else None
    if shell_id is not None:
        await app.shells.registry.usable(shell_id)
    last = int(params.get("last", 1))
    feed.spawn(_tell_questions(app, shell_id, feed))
    async with aclosing(feed.items(_tell_shells(app, shell_id, last, feed))) as items:
        async for item in items:
            yield item


async def _tell_shells(app: App, shell_id: str | None, last: int, feed: Feed) -> None:
    if shell_id is not None:
        await _tell_shell(app.shells.registry.shells[shell_id], last, feed)
        return
    known: set[str] = set()
    for looks in itertools.count():
        for shell in list(app.shells.registry.shells.values()):
            if shell.shell_id not in known and (shell.is_live or looks):
                # Of a shell that opened meanwhile nothing is old, and it may be over already.
                feed.spawn(_tell_shell(shell, last if not looks else 1 << 30, feed))
            known.add(shell.shell_id)
        await asyncio.sleep(LOOK_S)


async def _tell_shell(shell: Shell, last: int, feed: Feed) -> None:
    await feed.put({"event": "shell", **shell.as_listed()})
    over = [command for command in shell.commands.values() if not command.is_running]
    shown = {command.command_id for command in over[: max(0, len(over) - last)]}
    while True:
        fresh = [command for command in shell.commands.values() if command.command_id not in shown]
        for command in fresh:
            shown.add(command.command_id)
            if command.background:
                feed.spawn(_tell_command(shell, command, feed))
            else:
                await _tell_command(shell, command, feed)
        if not fresh:
            if not shell.is_live:
                ended = {"state": shell.state, "reason": shell.ended_reason, "exit_code": shell.exit_code}
                await feed.put({"event": "ended", "shell_id": shell.shell_id, **ended})
                return
            await asyncio.sleep(LOOK_S)


async def _tell_command(shell: Shell, command: Command, feed: Feed) -> None:
    names = {"command_id": command.command_id, "shell_id": command.shell_id}
    at = precise(command.started_at) if command.started_at else None
    cwd = shell.mask(command.began_in)
    begun = {"command": command.text, "cwd": cwd, "background": command.background, "at": at}
    output = command.output
    streams = (output.stdout, output.stderr) if output is not None else ()
    lines = [max(1, stream.spool.lines_total - TAIL_LINES + 1) for stream in streams]
    await feed.put({"event": "command", **names, **begun, "skipped_lines": max(lines, default=1) - 1})
    if output is not None:
        following = Following(feed, output, lines)
        await command.over.wait()
        await following.finish()
    judgement = command.judgement
    # The fault of a text that does not parse is in its stderr.
    said = judgement.refusal.message if judgement.refusal else None
    ended = {"state": command.state, "exit_code": command.exit_code, "duration_ms": command.duration_ms}
    await feed.put({"event": "finished", **names, **ended, "message": said})


async def _tell_questions(app: App, shell_id: str | None, feed: Feed, kinds: Collection[str] = ANY_KIND) -> None:
    shown: set[str] = set()
    while True:
        for item in app.shells.open_questions():
            if item["approval_id"] not in shown and shell_id in (None, item["shell_id"]) and item["kind"] in kinds:
                shown.add(item["approval_id"])
                await feed.put({"event": "asked", **item})
        await asyncio.sleep(LOOK_S)


# Replaying


async def replay(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Yield the recorded events of a session's shells, each with its time."""
    name, most = str(params["session_id"]), int(params.get("max_chars", 0))
    session = await app.store.read(lambda reader: find_session(reader, name))
    facts = await app.store.read(lambda reader: session_facts(session, app.runs, reader))
    yield {"event": "session", **facts}
    after = 0
    while True:
        entries = await app.store.read(
            lambda reader, after=after: reader.entries(session.id, after=after, limit=ENTRIES_AT_ONCE, kinds=REPLAYED)
        )
        for entry in entries:
            if entry.kind is Kind.COMMAND_FINISHED:
                for item in _kept_output(app, entry, most):
                    yield item
            yield {"event": str(entry.kind), "at": precise(entry.at), **_replayed(entry)}
            after = entry.seq
        if len(entries) < ENTRIES_AT_ONCE:
            return


def _replayed(entry: Entry) -> Item:
    if entry.body is None:
        return {"erased": True}
    left_out = ("stdout", "stderr", "programs", "output")
    return {name: value for name, value in entry.facts.items() if name not in left_out}


def _kept_output(app: App, entry: Entry, most: int) -> Iterator[Item]:
    """Yield a command's kept output, whole or shortened in its middle; else the journal's excerpt of it."""
    facts, at = entry.facts, precise(entry.at)
    if entry.body is None or not facts.get("command_id"):
        return
    item = {"event": "output", "at": at, "command_id": facts["command_id"]}
    try:
        output = app.shells.outputs.reopen(str(facts["command_id"]))
        for stream in ("stdout", "stderr"):
            for text in _texts(output, stream, most):
                yield {**item, "stream": stream, "text": text, "quoted": False}
    except (ShiftlogError, OSError):
        for stream in ("stdout", "stderr"):
            if facts.get(stream):
                yield {**item, "stream": stream, "text": f"{facts[stream]}\n", "quoted": True}


def _texts(output: CommandOutput, stream: Any, most: int) -> Iterator[str]:
    if most:
        shown = output.show(None, most)
        text = shown.stdout if stream == "stdout" else shown.stderr
        if text:
            yield f"{text}\n" if output.stream(stream).spool.final_newline or shown.truncated else text
        return
    cursor: str | None = None
    while True:
        page = output.page(stream, cursor=cursor)
        if page.text:
            yield page.text
        cursor = page.next_cursor
        if page.eof or not page.text:
            return


QUESTIONS: dict[str, Question] = {
    "shells": list_shells,
    "close_shell": close_shell,
    "send_input": send_input,
    "exec": run_once,
    "watch": watch,
    "replay": replay,
}
