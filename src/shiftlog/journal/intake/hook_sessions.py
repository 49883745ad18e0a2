"""Find the session of a hook event by the vendor's id or by its process, or open one."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from shiftlog.facts.hook import HookFact
from shiftlog.journal.clients import PROCESS, VENDOR_ID, clients_above
from shiftlog.journal.clock import Clock
from shiftlog.journal.encoding import salt_from
from shiftlog.journal.intake.family import WHOLE_SESSION
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import IntakePen
from shiftlog.journal.intake.sessions import UNTITLED, minted_id
from shiftlog.journal.sessions import workspace_of
from shiftlog.journal.vendor_names import known_session, session_name
from shiftlog.model.agents import CLAUDE
from shiftlog.model.entry import Kind
from shiftlog.model.ids import free_id
from shiftlog.model.moves import RunStatus, SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import parse
from shiftlog.store.protocol import Filter, Page, Writer
from shiftlog.store.sources import Origin

SAME_START = timedelta(seconds=120)
LOOKED_AT = 50
SUBAGENT = "subagent"
CLEARED = "clear"

Body = dict[str, Any]


class HookSessions:
    """The sessions that one event may belong to."""

    def __init__(
        self,
        writer: Writer,
        fact: HookFact,
        origins: Origins,
        *,
        backend_of: Callable[[str], str | None],
        host: str,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._fact = fact
        self._origins = origins
        self._backend_of = backend_of
        self._host = host
        self._clock = clock

    # Finding

    def open_pen(self) -> IntakePen | None:
        """Return the session of the event, if there is one that may still be written."""
        return self._pen_of(known_session(self._writer, self._fact.agent, *self._named()))

    def child_pen(self) -> IntakePen | None:
        """Return the session of the subagent that the event speaks of."""
        name = self._child_name()
        return None if name is None else self._pen_of(known_session(self._writer, self._fact.agent, *name))

    def _named(self) -> tuple[str, str | None]:
        # Events from inside a subagent carry its id; those about one are the parent's.
        if self._fact.agent_id is not None and self._fact.name not in ("SubagentStart", "SubagentStop"):
            return self._child_name() or (self._fact.vendor_id, None)
        return self._fact.vendor_id, None

    def _child_name(self) -> tuple[str, str | None] | None:
        fact = self._fact
        if fact.agent_id is None:
            return None
        return (fact.vendor_id, fact.agent_id) if fact.agent == CLAUDE else (fact.agent_id, None)

    def _pen_of(self, session_id: str | None) -> IntakePen | None:
        session = self._writer.session(session_id) if session_id else None
        if session is None or session.state is SessionState.SEALED:
            return None
        return IntakePen(self._writer, session.id, session, self._clock)

    # Beginning

    def begin(self) -> IntakePen | None:
        """Return the session that a start belongs to, open and with the run of its process; None for a sealed one."""
        session_id = known_session(self._writer, self._fact.agent, self._fact.vendor_id) or self._joined()
        if session_id is None:
            return self._opened()
        pen = self._pen_of(session_id)
        if pen is None:
            return None
        if pen.session.state in (SessionState.SUSPENDED, SessionState.CLOSED):
            self._write(pen, Kind.SESSION_RESUMED, {"via": "hook", "state_before": str(pen.session.state)})
        if pen.session.state is SessionState.OPEN:
            if pen.session.run is None:
                self._note_joined(pen, VENDOR_ID)  # a call of the client's, or an import, was first
            self._run(pen)
        return pen

    def woken(self) -> IntakePen | None:
        """Return the session of an agent at work, opened or resumed if needed; None for a closed one."""
        if known_session(self._writer, self._fact.agent, *self._named()) is None:
            return self.begin() if self._fact.agent_id is None else self.begin_child()
        pen = self.open_pen()
        if pen is None or not pen.session.is_live:
            return None
        if pen.session.state is SessionState.SUSPENDED:
            self._write(pen, Kind.SESSION_RESUMED, {"via": "hook"})
        return pen

    def begin_child(self) -> IntakePen | None:
        """Return the session of the subagent that starts, linked to the turn of its parent that is open."""
        name = self._child_name()
        parent = self._pen_of(known_session(self._writer, self._fact.agent, self._fact.vendor_id)) or self.begin()
        if name is None or parent is None:
            return parent
        parent.commit(self._writer)
        known = self._pen_of(known_session(self._writer, self._fact.agent, *name))
        if known is not None:
            return known
        fact = self._fact
        turn = parent.turn(parent.session.current_turn or "")
        body: Body = {
            "agent": fact.agent,
            "title": fact.agent_type or UNTITLED,
            "started": fact.at,
            "vendor_session_id": name[1] or name[0],
            "cwd": fact.cwd,
            "workspace": parent.session.workspace,
            "subagent": {"kind": SUBAGENT, "name": fact.agent_type or SUBAGENT},
            "parent": {"session": parent.id, "turn": turn.request_id if turn and not turn.is_terminal else None},
        }
        body["parent"] = {key: value for key, value in body["parent"].items() if value}
        pen = self._new(*name)
        self._write(pen, Kind.SESSION_OPENED, {key: value for key, value in body.items() if value})
        self._origins.put(session_name(*name), Origin(session_id=pen.id))
        return pen

    def _opened(self) -> IntakePen:
        fact = self._fact
        body: Body = {
            "agent": fact.agent,
            "title": UNTITLED,
            "started": fact.at,
            "vendor_session_id": fact.vendor_id,
            "transcript_path": fact.transcript_path,
            "model": fact.model,
            "cwd": fact.cwd,
            "workspace": workspace_of(fact.cwd) if fact.cwd else None,
            "predecessor": self._predecessor(),
            "parent_session_id": self._outer(),
            "run": {**self._run_facts(), "alias": self._writer.next_alias()} if fact.pid else None,
        }
        pen = self._new(fact.vendor_id, None)
        self._write(pen, Kind.SESSION_OPENED, {key: value for key, value in body.items() if value})
        # Not marked as live: it has no title yet, so its transcript may name it.
        self._origins.put(session_name(fact.vendor_id, None), Origin(session_id=pen.id))
        # Under this name the transcripts of its subagents will ask for their parent.
        link = {"session": pen.id, "turn": None, "call": None, "rank": WHOLE_SESSION}
        self._origins.keep(f"link:parent:{fact.vendor_id}", pen.id, link)
        return pen

    def _predecessor(self) -> Body | None:
        """Return the session that this process had before it began a fresh one."""
        fact = self._fact
        if fact.source != CLEARED or fact.pid is None:
            return None
        where = Filter(agent=fact.agent, with_run=True, without_subagents=True)
        for row in self._writer.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True):
            session, run = row.session, row.session.run
            if run is not None and (run.pid, run.pid_started) == (fact.pid, fact.pid_started):
                return {"session_id": session.id, "seq": session.head_seq, "head_hash": session.head_hash}
        return None

    def _outer(self) -> str | None:
        """Return the session of the client in which this one was started, by an agent or a script of it."""
        above = clients_above(self._writer, self._fact.processes[1:], self._host)
        return above[0].id if above else None

    def _note_joined(self, pen: IntakePen, by: str) -> None:
        who = {"face": "hook", "host": self._host, "pid": self._fact.pid, "pid_started": self._fact.pid_started}
        body = {"by": by, "via": "hook", **who}
        self._write(pen, Kind.CLIENT_JOINED, {name: value for name, value in body.items() if value})

    def _new(self, vendor_id: str, agent_id: str | None) -> IntakePen:
        minted = minted_id(self._fact.agent, self._fact.at, vendor_id, agent_id)
        session_id = free_id(minted, lambda name: self._writer.session(name) is not None)
        return IntakePen(self._writer, session_id, None, self._clock)

    def _run(self, pen: IntakePen) -> None:
        """Give the session the run of this process, unless it has it."""
        fact, run = self._fact, pen.session.run
        if fact.pid is None:
            return
        if run is None:
            self._write(pen, Kind.RUN_UPDATED, {**self._run_facts(), "alias": self._writer.next_alias()})
            return
        same = (run.pid, run.pid_started, run.status) == (fact.pid, fact.pid_started, RunStatus.RUNNING)
        if not same and run.returncode is None:
            again = {"pid": fact.pid, "pid_started": fact.pid_started, "host": self._host}
            self._write(pen, Kind.RUN_UPDATED, {**again, "status": str(RunStatus.RUNNING)})

    def _run_facts(self) -> Body:
        fact = self._fact
        facts: Body = {
            "backend": self._backend_of(fact.agent),
            "session_type": "interactive_desktop",
            "model": fact.model,
            "cwd": fact.cwd,
            "pid": fact.pid,
            "pid_started": fact.pid_started,
            "host": self._host,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _joined(self) -> str | None:
        """Return the session of a run that was recorded without a vendor id: same process, directory and start."""
        fact = self._fact
        if fact.pid is None or fact.cwd is None:
            return None
        where = Filter(agent=fact.agent, states=frozenset({"open", "suspended"}), with_run=True)
        for row in self._writer.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True):
            if self._is_same_process(row.session):
                pen = IntakePen(self._writer, row.session.id, row.session, self._clock)
                body = {"vendor_session_id": fact.vendor_id, "transcript_path": fact.transcript_path}
                self._note_joined(pen, PROCESS)
                self._write(pen, Kind.SESSION_UPDATED, {key: value for key, value in body.items() if value})
                pen.commit(self._writer)
                # A client opened it, and its title stays.
                self._origins.put(
                    session_name(fact.vendor_id, None), Origin(session_id=row.session.id, doc={"live": True})
                )
                return row.session.id
        return None

    def _is_same_process(self, session: Session) -> bool:
        fact, run = self._fact, session.run
        if run is None or session.vendor_session_id is not None or run.pid != fact.pid:
            return False
        is_here = fact.cwd in (run.cwd, session.cwd)
        return is_here and abs(run.started - parse(fact.at)) <= SAME_START

    def _write(self, pen: IntakePen, kind: Kind, body: Body) -> None:
        salt = salt_from("hook", self._fact.id, str(kind), str(pen.next_seq))
        pen.write(kind, body, at=self._fact.at, salt=salt)
