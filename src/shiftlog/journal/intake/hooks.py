"""The journal's side of hooks: an event of an agent becomes entries, with the spool's cursor, in one transaction.

Facts that an event shares with the session's transcript are kept under the same names, so either may come first and
each is written once. Reading the spool and the transcripts happens elsewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from shiftlog.facts.hook import HookFact
from shiftlog.journal.activity import is_activity, moment
from shiftlog.journal.clients import asked_name
from shiftlog.journal.clock import Clock
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.encoding import salt_from
from shiftlog.journal.hooked.stops import Stop, Stops, read_stops, write_stops
from shiftlog.journal.intake.batch import BatchWork
from shiftlog.journal.intake.hook_sessions import HookSessions
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import IntakePen
from shiftlog.journal.intake.prompts import begun_by_agent, brought_by_import, keep_prompt, turn_now
from shiftlog.journal.intake.sessions import UNTITLED, add_redactions, stamp_of
from shiftlog.journal.intake.turns import end_turn, update_turn
from shiftlog.journal.seen_files import SeenFiles, write_seen
from shiftlog.model.agents import AGENTS
from shiftlog.model.entry import Kind
from shiftlog.model.ids import free_id, slug
from shiftlog.model.moves import RunStatus, SessionState, TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import parse, precise
from shiftlog.store.protocol import Answer, Reader, Store, Writer
from shiftlog.store.sources import NO_FILE, Origin, Source

SCOPE = "hook"
LAST_EVENTS = "hooks:last"
HOOK = "hook"
ENDED = "session_ended"
SUBAGENT_ENDED = "subagent_ended"
INTERRUPTED = "interrupted"

# By the name of an event: the way to its session, and the function that writes it.
Handler = tuple[Callable[[], IntakePen | None], Callable[[IntakePen], None] | None]
_events = msgspec.msgpack.Decoder(dict[str, dict[str, str]]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The outcome of an event; `repeated` is one that was taken before."""

    session_id: str | None
    repeated: bool = False


class HookIntake:
    """Takes events of hooks into the journal."""

    def __init__(self, store: Store, clock: Clock, backend_of: Callable[[str], str | None], host: str) -> None:
        self._store = store
        self._clock = clock
        self._backend_of = backend_of
        self._host = host

    async def take(self, fact: HookFact, cursor: Source | None = None) -> Taken:
        """Write an event and how far its spool file has been read, all of it or nothing."""
        return await self._store.write(lambda writer: self._take(writer, fact, cursor))

    async def move(self, cursor: Source) -> None:
        """Keep how far a spool file has been read, after a line that was no event."""
        await self._store.write(lambda writer: writer.put_source(cursor))

    async def cursor(self, path: str) -> Source | None:
        """Return how far a spool file has been read."""
        return await self._store.read(lambda reader: reader.source(path))

    async def forget(self, path: str) -> None:
        """Forget a spool file that is gone."""
        await self._store.write(lambda writer: writer.forget_source(path))

    async def stops(self) -> Stops:
        """Return the turns that wait for their transcripts to say how they ended, by session."""
        return await self._store.read(read_stops)

    async def end_stopped(self, session_id: str, stop: Stop) -> None:
        """End a stopped turn with the response of its hook, unless the turn has gone on since."""
        await self._store.write(lambda writer: self._end_stopped(writer, session_id, stop))

    async def note(self, session_id: str, request_id: str | None, facts: dict[str, Any]) -> None:
        """Note something about a turn that no event of the agent reports."""
        body = {"hook": "checkpoint", **facts}
        await self._store.write(
            lambda writer: self._write_with(
                writer, session_id, lambda pen: pen.write(Kind.IMPORT_NOTED, body, request_id)
            )
        )

    async def add_seen(self, session_id: str, request_id: str, seen: SeenFiles) -> None:
        """Add files that checkpoints show as changed to a turn; a terminal turn gets an amendment."""

        def work(writer: Writer) -> None:
            self._write_with(writer, session_id, lambda pen: write_seen(pen, request_id, seen))

        await self._store.write(work)

    def _write_with(self, writer: Writer, session_id: str, work: Callable[[IntakePen], object]) -> None:
        session = writer.session(session_id)
        if session is None or session.state is SessionState.SEALED:
            return
        pen = IntakePen(writer, session_id, session, self._clock)
        work(pen)
        pen.commit(writer)

    # One event

    def _take(self, writer: Writer, fact: HookFact, cursor: Source | None) -> Taken:
        repeated = writer.answer(SCOPE, fact.id) is not None
        session_id = None
        if not repeated:
            origins = Origins(writer, fact.agent)
            sessions = HookSessions(
                writer, fact, origins, backend_of=self._backend_of, host=self._host, clock=self._clock
            )
            session_id = _EventWork(writer, fact, origins, sessions, self._clock).run()
            kept = Answer(request_hash="", answer={"session_id": session_id}, at=self._clock.now())
            writer.put_answer(SCOPE, fact.id, kept)
            _note_event(writer, fact)
        if cursor is not None:
            writer.put_source(cursor)
        return Taken(session_id=session_id, repeated=repeated)

    def _end_stopped(self, writer: Writer, session_id: str, stop: Stop) -> None:
        stops = read_stops(writer)
        if stops.pop(session_id, None) is None:
            return
        session = writer.session(session_id)
        if session is not None and session.state is not SessionState.SEALED:
            pen = IntakePen(writer, session_id, session, self._clock)
            end_stopped(writer, pen, stop)
            pen.commit(writer)
            save_capsule(writer, pen, stop.at)
            pen.commit(writer)
        write_stops(writer, stops)


class _EventWork:
    """The writing of one event."""

    def __init__(self, writer: Writer, fact: HookFact, origins: Origins, sessions: HookSessions, clock: Clock) -> None:
        self._writer = writer
        self._fact = fact
        self._sessions = sessions
        self._origins = origins
        self._clock = clock

    def run(self) -> str | None:
        """Write the event; return its session."""
        if not self._fact.vendor_id:
            return None
        find, write = self._handlers().get(self._fact.name, (self._sessions.open_pen, self._unknown))
        pen = find()
        if pen is None:
            return None
        if write is not None:
            write(pen)
        pen.commit(self._writer)
        self._origins.flush()
        if self._fact.masked:
            add_redactions(self._writer, pen.id, self._fact.masked)
        return pen.id

    def _handlers(self) -> dict[str, Handler]:
        sessions = self._sessions
        return {
            "SessionStart": (sessions.begin, None),
            "UserPromptSubmit": (sessions.woken, self._prompt),
            "PreToolUse": (sessions.woken, self._asked if self._fact.is_own_call else self._went_ahead),
            "PostToolUse": (sessions.woken, self._call),
            "PostToolUseFailure": (sessions.woken, self._call),
            "SubagentStart": (sessions.begin_child, None),
            "SubagentStop": (sessions.child_pen, self._subagent_stop),
            "PreCompact": (sessions.open_pen, self._save_capsule),
            "PostCompact": (sessions.open_pen, self._compacted),
            "Stop": (sessions.open_pen, self._stop),
            "StopFailure": (sessions.open_pen, self._stop_failed),
            "SessionEnd": (sessions.open_pen, self._end),
        }

    def _write(self, pen: IntakePen, kind: Kind, body: dict[str, Any], turn: str | None = None) -> None:
        salt = salt_from("hook", self._fact.id, str(kind), str(pen.next_seq))
        facts = {name: value for name, value in body.items() if value is not None}
        pen.write(kind, facts, turn, at=self._fact.at, salt=salt)

    # Turns

    def _prompt(self, pen: IntakePen) -> None:
        fact = self._fact
        if fact.prompt is None:
            return
        if fact.turn_name is not None and (begun := self._origins.origin(fact.turn_name)) is not None:
            self._ask(pen, turn_now(pen, begun))
            return
        if fact.turn_name is None and fact.prompt_name is not None:
            session, name = pen.session, fact.prompt_name
            brought = brought_by_import(self._writer, self._origins, session, name, fact.prompt, fact.at)
            if brought is not None:
                keep_prompt(self._origins, pen.id, fact.prompt_name, brought.request_id, taken=True)
                return
        agents = begun_by_agent(self._writer, pen.session, fact.at)
        if agents is not None:
            self._keep(pen, agents.request_id)
            return
        self._end_previous(pen)
        request_id = free_id(f"req-{stamp_of(fact.at)}-{slug(fact.vendor_turn_id or fact.id, 'turn')}", pen.has_turn)
        body = {"query_title": fact.prompt_title, "query_text": fact.prompt, "model": fact.model, "opened_by": HOOK}
        names = {"vendor_turn_id": fact.vendor_turn_id, "prompt_id": fact.prompt_id}
        self._write(pen, Kind.TURN_BEGUN, body | names, request_id)
        self._keep(pen, request_id)
        if fact.context:
            adds = {"context_list": list(fact.context)}
            update_turn(pen, request_id, fact.at, {"adds": adds}, live=False)
        if pen.session.title == UNTITLED and fact.prompt_title:
            self._write(pen, Kind.SESSION_UPDATED, {"title": fact.prompt_title})

    def _ask(self, pen: IntakePen, turn: Turn | None) -> None:
        """Add the prompt to a turn that a transcript began without one."""
        if turn is not None and not turn.is_terminal and not turn.query_text:
            sets = {"query_title": self._fact.prompt_title, "query_text": self._fact.prompt}
            update_turn(pen, turn.request_id, self._fact.at, {"sets": sets}, live=False)

    def _keep(self, pen: IntakePen, request_id: str) -> None:
        """Remember the turn of the prompt under the name that its transcript will use."""
        if self._fact.turn_name is not None:
            origin = Origin(session_id=pen.id, turn=request_id, doc={"live": True})
            self._origins.put(self._fact.turn_name, origin)
        elif self._fact.prompt_name is not None:
            keep_prompt(self._origins, pen.id, self._fact.prompt_name, request_id, taken=False)

    def _end_previous(self, pen: IntakePen) -> None:
        """End the turn before: as it stopped, or as superseded if no transcript will ever report its end."""
        self._end_waiting(pen)
        previous = pen.turn(pen.session.current_turn or "")
        if previous is not None and not previous.is_terminal and not self._fact.transcript_path:
            self._supersede(pen, previous)

    def _end_waiting(self, pen: IntakePen) -> None:
        """End the turn that waits for its transcript since it stopped."""
        stops = read_stops(self._writer)
        stop = stops.pop(pen.id, None)
        if stop is not None:
            end_stopped(self._writer, pen, stop, is_last=not self._fact.transcript_path)
            write_stops(self._writer, stops)

    def _supersede(self, pen: IntakePen, turn: Turn) -> None:
        note = "superseded: No answer before the next prompt"
        outcome = {"status": "failed", "failure_note": note, "error_code": "superseded"}
        end_turn(pen, turn.request_id, self._fact.at, outcome, live=True)

    def _end_unanswered(self, pen: IntakePen) -> None:
        """End the turns of prompts that never reached the model (another hook refused them): a later turn has ended."""
        if not pen.session.turns_open:
            return
        turns = pen.turns()
        latest = max((turn.begun_at for turn in turns if turn.is_terminal), default=None)
        for turn in turns:
            is_empty = not (turn.is_terminal or turn.dialog_items or turn.actions or turn.response)
            if is_empty and latest is not None and turn.begun_at < latest and self._began_by_hook(pen, turn):
                self._supersede(pen, turn)

    def _began_by_hook(self, pen: IntakePen, turn: Turn) -> bool:
        (begun,) = self._writer.entries(pen.id, after=turn.begun_seq - 1, limit=1)
        return begun.facts.get("opened_by") == HOOK

    def _stop(self, pen: IntakePen) -> None:
        self._end_unanswered(pen)
        turn = self._open_turn(pen)
        if turn is None:
            self._save_capsule(pen)
            return
        agent = AGENTS.get(self._fact.agent)
        is_final = agent is not None and not agent.stop_tells_answer
        self._await_transcript(pen, turn, transcript=self._fact.transcript_path, is_final=is_final)

    def _await_transcript(self, pen: IntakePen, turn: Turn, *, transcript: str | None, is_final: bool) -> None:
        """Let a turn that stopped end with the hook's response, unless its transcript soon tells more."""
        stop = Stop(
            agent=self._fact.agent,
            at=self._fact.at,
            turn=turn.request_id,
            response=self._fact.response or "",
            transcript=transcript,
            is_final=is_final,
        )
        write_stops(self._writer, {**read_stops(self._writer), pen.id: stop})

    def _stop_failed(self, pen: IntakePen) -> None:
        turn = self._open_turn(pen)
        if turn is not None:
            note = self._fact.error or "The agent stopped with an error"
            code = INTERRUPTED if self._fact.reason == INTERRUPTED else "api_error"
            outcome = {"status": "failed", "failure_note": note, "error_code": code}
            end_turn(pen, turn.request_id, self._fact.at, outcome, live=True)

    def _open_turn(self, pen: IntakePen) -> Turn | None:
        """Return the turn that is open and began before the event."""
        turn = pen.turn(pen.session.current_turn or "")
        if turn is None or turn.is_terminal:
            open_ones = [each for each in pen.turns() if not each.is_terminal] if pen.session.turns_open else []
            turn = max(open_ones, key=lambda each: each.begun_at, default=None)
        return turn if turn is not None and turn.begun_at <= parse(self._fact.at) else None

    def _asked(self, pen: IntakePen) -> None:
        """Remember the agent (main or subagent) and the prompt of a call: the call itself names neither."""
        fact = self._fact
        if fact.call_id is not None:
            asked = {"prompt_id": fact.prompt_id} if fact.prompt_id else None
            self._origins.put(asked_name(fact.call_id), Origin(session_id=pen.id, doc=asked))

    def _call(self, pen: IntakePen) -> None:
        batch = self._fact.calls
        if batch is None:
            return
        turn = self._open_turn(pen)
        pen.commit(self._writer)
        self._origins.flush()
        items = [msgspec.structs.replace(item, turn=turn.request_id if turn else None) for item in batch.items]
        placed = msgspec.structs.replace(batch, items=items)
        source = replace(NO_FILE, path=f"hook:{self._fact.id}", agent=self._fact.agent)
        BatchWork(self._writer, placed, source, self._clock).run()

    def _went_ahead(self, pen: IntakePen) -> None:
        """Note a call that may change files and that did not wait for a checkpoint: the daemon gave no answer."""
        turn = self._open_turn(pen)
        body = {"hook": "checkpoint", "checkpoint": "late", "tool_use_id": self._fact.call_id}
        self._write(pen, Kind.IMPORT_NOTED, body, turn.request_id if turn else None)

    # Sessions

    def _subagent_stop(self, child: IntakePen) -> None:
        turn = self._open_turn(child)
        if turn is not None:
            self._await_transcript(child, turn, transcript=None, is_final=True)
        if child.session.state is SessionState.OPEN:
            self._write(child, Kind.SESSION_SUSPENDED, {"cause": SUBAGENT_ENDED})

    def _compacted(self, pen: IntakePen) -> None:
        self._write(pen, Kind.IMPORT_NOTED, {"hook": self._fact.name, "trigger": self._fact.trigger})

    def _end(self, pen: IntakePen) -> None:
        self._end_waiting(pen)
        self._end_unanswered(pen)
        self._end_run(pen)
        if pen.session.state is SessionState.OPEN:
            self._save_capsule(pen)
            self._write(pen, Kind.SESSION_SUSPENDED, {"cause": ENDED, "reason": self._fact.reason})
            self._writer.end_lease(pen.id)

    def _end_run(self, pen: IntakePen) -> None:
        run = pen.session.run
        if run is None or run.status is not RunStatus.RUNNING or run.pid not in (None, self._fact.pid):
            return
        ended = parse(self._fact.at)
        duration = max(int((ended - run.started).total_seconds() * 1000), 0)
        facts = {"status": str(RunStatus.OK), "ended": precise(ended), "duration_ms": duration}
        self._write(pen, Kind.RUN_UPDATED, {**facts, "derived": ["duration_ms"]})

    def _unknown(self, pen: IntakePen) -> None:
        self._write(pen, Kind.IMPORT_NOTED, {"unknown": f"hook/{self._fact.name}"[:200], "raw": self._fact.raw})

    def _save_capsule(self, pen: IntakePen) -> None:
        pen.commit(self._writer)
        save_capsule(self._writer, pen, self._fact.at)


def end_stopped(reader: Reader, pen: IntakePen, stop: Stop, *, is_last: bool = False) -> None:
    """Complete the turn of a stop with its response, unless it has ended or has gone on since.

    Where the stop is the last word on it, as no transcript will tell more, what came since was no more than a notice.
    """
    turn = pen.turn(stop.turn)
    is_last = is_last or stop.is_final
    if turn is None or turn.is_terminal or (not is_last and _goes_on(reader, pen, turn, parse(stop.at))):
        return
    if not stop.response and not turn.response and not stop.is_final:
        return
    outcome = {"status": str(TurnStatus.COMPLETED), "response": stop.response}
    end_turn(pen, turn.request_id, stop.at, outcome, live=True)


def _goes_on(reader: Reader, pen: IntakePen, turn: Turn, since: datetime) -> bool:
    """Return True if a turn has activity since a time; the checkpoint at its stop is no activity."""
    if turn.last_updated <= since:
        return False
    entries = reader.entries(pen.id, turn=turn.request_id)
    return any(moment(entry) > since and is_activity(entry) for entry in entries)


def save_capsule(writer: Writer, pen: IntakePen, at: str) -> None:
    """Write the capsule of a session that is flushed, unless its newest entry is one."""
    session = pen.session
    if not session.turns_total or session.state is not SessionState.OPEN:
        return
    if writer.entries(pen.id, after=session.head_seq - 1, kinds=(Kind.CAPSULE_SAVED,)):
        return
    capsule = capsule_of(writer, session, parse(at))
    salt = salt_from("hook", pen.id, "capsule", str(pen.next_seq))
    pen.write(Kind.CAPSULE_SAVED, {"origin": capsule["origin"], "capsule": capsule}, at=at, salt=salt)


def last_events(reader: Reader) -> dict[str, dict[str, str]]:
    """Return the last event of each agent: its name and its time."""
    kept = reader.source_state(LAST_EVENTS)
    return _events(kept) if kept else {}


def _note_event(writer: Writer, fact: HookFact) -> None:
    known = last_events(writer)
    if known.get(fact.agent, {}).get("at", "") <= fact.at:
        events = {**known, fact.agent: {"name": fact.name, "at": fact.at}}
        writer.put_source(replace(NO_FILE, path=LAST_EVENTS, state=msgspec.msgpack.encode(events)))
