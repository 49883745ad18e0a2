"""Live updates: server-sent events for an open page, numbered by the entries of the journal.

A stream of a session names each entry by its seq, so that a browser that comes back goes on where it was, without
loss and without doubles. Output of running commands is named by its cursors. Streams end when the server stops.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shiftlog.app.app import App
from shiftlog.journal.runs.service import Runs, cost_of_turn
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import PAGE_HEARTBEAT_S, PAGE_POLL_S
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import precise
from shiftlog.shell.ports import Stream
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, encoded
from shiftlog.web.present.templates import render
from shiftlog.web.views.rail import mark_of, newest_heads
from shiftlog.web.views.session import number, read_session, session_head, turn_block
from shiftlog.web.views.steps import is_in_head, steps_of
from shiftlog.web.views.timeline import counts

ENTRIES_AT_ONCE = 200
OUTPUT_CHARS = 20_000
OUTPUT_LINES = 400
REPEATS_WITHIN = 50
STREAMS_MOST = 64
STILL_HERE = b": still here\n\n"
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_STATES = frozenset({Kind.SESSION_SUSPENDED, Kind.SESSION_RESUMED, Kind.SESSION_CLOSED})

Item = dict[str, Any]


class News(Protocol):
    """The source of news that tells streams when to look."""

    @property
    def look_every_s(self) -> float:
        """Return the seconds after which a stream looks in any case."""
        ...

    def watched(self, session_id: str | None) -> AbstractContextManager[asyncio.Event]:
        """Return an event that is set when a session, or any session, may have changed."""
        ...


class NoNews:
    """Streams look at fixed times: reading the embedded store costs little."""

    look_every_s = PAGE_POLL_S

    @contextmanager
    def watched(self, session_id: str | None) -> Generator[asyncio.Event]:
        """Return an event that is never set."""
        yield asyncio.Event()


@dataclass(slots=True, kw_only=True)
class Live:
    """The streams that are open."""

    app: App
    news: News = field(default_factory=NoNews)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    @property
    def streams(self) -> int:
        """Return how many streams are open."""
        return self._open

    def stop(self) -> None:
        """End every stream; browsers come back by themselves."""
        self._stopping.set()

    async def sessions(self, request: Request) -> Response:
        """Stream an event whenever a session changed, so that lists can be read again.

        A client that names the mark it saw last (`Last-Event-ID` or `since`) gets an event at once if that is outdated.
        """
        # Read before the answer begins, so that no later change is missed.
        heads = await self.app.store.read(newest_heads)
        seen = request.headers.get("last-event-id") or request.query_params.get("since") or mark_of(heads)
        return self._streamed(request, self._sessions({} if seen != mark_of(heads) else heads))

    async def session(self, request: Request) -> Response:
        """Stream each new entry of a session and the output of its running commands.

        A client that names the mark of a list (`since`) is also told when that list changes.
        """
        session = await read_session(self.app, request, lambda _, session: session)
        came_back = request.headers.get("last-event-id", "")
        after = int(came_back) if came_back.isascii() and came_back.isdigit() and len(came_back) < 10 else None
        if after is None:
            after = number(request.query_params, "after", session.head_seq)
        seen = request.query_params.get("since")
        return self._streamed(request, self._session(session.id, min(after, session.head_seq), seen))

    def _streamed(self, request: Request, events: AsyncGenerator[bytes]) -> Response:
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(None, 200, headers, "text/event-stream")
        if self._open >= STREAMS_MOST:
            return Response("Too many streams are open", 503, {**headers, "Retry-After": "10"}, "text/plain")
        return StreamingResponse(self._counted(events), 200, headers, "text/event-stream")

    async def _counted(self, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        self._open += 1
        try:
            yield b"retry: 1000\n\n"
            async for event in events:
                yield event
        finally:
            self._open -= 1
            await events.aclose()

    async def _pause(self, news: asyncio.Event) -> bool:
        """Wait until it is time to look again; return False once the server stops."""
        ends = [asyncio.ensure_future(event.wait()) for event in (self._stopping, news)]
        try:
            await asyncio.wait(ends, timeout=self.news.look_every_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        return not self._stopping.is_set()

    async def _sessions(self, heads: dict[str, int]) -> AsyncGenerator[bytes]:
        said_at = time.monotonic()
        with self.news.watched(None) as news:
            while True:
                news.clear()  # before the look, so that what changes meanwhile is looked at again
                now = await self.app.store.read(newest_heads)
                changed = [name for name, seq in now.items() if heads.get(name) != seq]
                heads = now
                if changed:
                    yield event("sessions", {"changed": changed, "mark": mark_of(now)}, mark_of(now))
                    said_at = time.monotonic()
                elif time.monotonic() - said_at >= PAGE_HEARTBEAT_S:
                    yield STILL_HERE
                    said_at = time.monotonic()
                if not await self._pause(news):
                    return

    async def _session(self, session_id: str, after: int, seen: str | None) -> AsyncGenerator[bytes]:
        outputs = _Outputs(self.app, session_id)
        said_at = time.monotonic()
        with self.news.watched(None if seen is not None else session_id) as news:
            while True:
                news.clear()
                # For a page with the list beside it; its mark is no seq, so these events have no id.
                if seen is not None and (mark := mark_of(await self.app.store.read(newest_heads))) != seen:
                    seen = mark
                    yield event("sessions", {"mark": mark})
                # Read before the entries, so that a command's start comes before its output.
                running = outputs.running()
                entries = await self.app.store.read(
                    lambda reader, after=after: self._entries(reader, session_id, after)
                )
                sent = False
                for seq, item in entries:
                    yield event("entry", item, seq)
                    after, sent = seq, True
                for item in outputs.news(running):
                    yield event("output", item)
                    sent = True
                if not sent and time.monotonic() - said_at >= PAGE_HEARTBEAT_S:
                    yield STILL_HERE
                    sent = True
                said_at = time.monotonic() if sent else said_at
                if len(entries) < ENTRIES_AT_ONCE and not await self._pause(news):
                    return

    def _entries(self, reader: Reader, session_id: str, after: int) -> list[tuple[int, Item]]:
        """Return the entries after one; the last of them carries the current head of the page."""
        head = reader.head(session_id)
        session = reader.session(session_id) if head is not None and head[0] > after else None
        if head is None or session is None:
            return []
        entries = reader.entries(session_id, after=after, until=head[0], limit=ENTRIES_AT_ONCE)
        facts = session_head(self.app, reader, session) if entries else {}
        news = [(entry.seq, _entry_item(self.app.runs, reader, session, entry, facts)) for entry in entries]
        if news:
            news[-1][1]["head"] = render("_session_head.html", {"session": facts, "tab": "timeline"})
        return news


def event(name: str, data: Item, mark: int | str | None = None) -> bytes:
    """Return one event as the wire has it; JSON has no line ends, so the data is one line."""
    head = f"id: {mark}\n" if mark is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + encoded(data) + b"\n\n"


def _entry_item(runs: Runs, reader: Reader, session: Session, entry: Entry, head: Item) -> Item:
    """Return the event data of a new entry: its step, and the head of its turn if that changed.

    An open turn shows whether its session is still worked in.
    """
    item: Item = {"seq": entry.seq, "kind": str(entry.kind), "request_id": entry.turn, "state": str(session.state)}
    turn = reader.turn(session.id, entry.turn) if entry.turn else None
    if entry.kind.startswith("turn.") and turn is not None:
        item["turn"] = _turn_html(runs, reader, session, turn, head, is_new=entry.kind is Kind.TURN_BEGUN)
        if turn.is_terminal:
            item["repeats"] = _repeats(reader, session, turn)
    elif entry.kind in _STATES and session.current_turn:
        unfinished = reader.turn(session.id, session.current_turn)
        if unfinished is not None and not unfinished.is_terminal:
            item["unfinished"] = {unfinished.request_id: _turn_html(runs, reader, session, unfinished, head)}
    if turn is not None:
        item["steps"] = turn.dialog_items + turn.actions
    if turn is None or counts(turn, entry):
        steps = steps_of([entry], turn=turn)
        item["html"] = render("_steps.html", {"steps": steps, "session_id": session.id})
        item["command_id"] = next((step["command_id"] for step in steps if step.get("command_id")), None)
        item["call_id"] = entry.facts.get("call_id")
    return {**item, "at": precise(entry.at)}


def _repeats(reader: Reader, session: Session, turn: Turn) -> list[int]:
    """Return the last dialog items of a turn that its head shows since it ended."""
    after = max(turn.begun_seq, turn.last_seq - REPEATS_WITHIN)
    last = reader.entries(session.id, after=after, until=turn.last_seq, turn=turn.request_id, kinds=(Kind.DIALOG,))
    return [entry.seq for entry in last if is_in_head(turn, entry)]


def _turn_html(runs: Runs, reader: Reader, session: Session, turn: Turn, head: Item, *, is_new: bool = False) -> str:
    """Return a turn as its page shows it; a page that may only look leaves the link to an undo out."""
    template = "_turn.html" if is_new else "_turn_head.html"
    block = turn_block(session, turn, [], cost_of_turn(turn, runs.responses_of(session, turn, reader)), opened=True)
    return render(template, {"block": block, "session_id": session.id, "session": head, "may_undo": head["can_undo"]})


class _Outputs:
    """New output of a session's running commands, poll by poll."""

    def __init__(self, app: App, session_id: str) -> None:
        self._app = app
        self._session_id = session_id
        self._cursors: dict[tuple[str, Stream], str | None] = {}

    def running(self) -> list[str]:
        """Name the commands that run now."""
        if not self._app.live_shells():
            return []
        shells = [shell for shell in self._app.shells.registry.shells.values() if shell.session_id == self._session_id]
        return [command.command_id for shell in shells for command in shell.running]

    def news(self, running: Iterable[str]) -> list[Item]:
        """Return the new pieces; a `cursor_before` of null says that the piece replaces what was shown."""
        pieces = [self._piece(command_id, name) for command_id in running for name in _STREAMS]
        return [piece for piece in pieces if piece is not None]

    def _piece(self, command_id: str, name: Stream) -> Item | None:
        key = (command_id, name)
        try:
            output = self._app.shells.outputs.reopen(command_id)
            if key in self._cursors:
                page = output.page(name, cursor=self._cursors[key], max_chars=OUTPUT_CHARS)
            else:
                # A late-comer gets the end of a long output; the whole of it is a link away.
                lines = output.stream(name).spool.lines_total
                first = lines - OUTPUT_LINES if lines > OUTPUT_LINES else None
                page = output.page(name, from_line=first, max_chars=OUTPUT_CHARS)
        except ShiftlogError:
            return None
        if not page.text or page.next_cursor is None:
            return None
        before, self._cursors[key] = self._cursors.get(key), page.next_cursor
        html = render("_output.html", {"text": page.text})
        return {
            "command_id": command_id,
            "stream": name,
            "html": html,
            "cursor_before": before,
            "cursor": page.next_cursor,
        }
