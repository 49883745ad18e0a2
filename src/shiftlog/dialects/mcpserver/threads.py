"""Subagents in an import: turns of another thread go to that thread's own session, which hangs on the one imported.

In the session log they are shown as turns of the parent all the same (`subagents`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from shiftlog.dialects.mcpserver import imports
from shiftlog.dialects.mcpserver.subagents import SubagentSession, turn_of_subagent
from shiftlog.journal.intake.family import pointer
from shiftlog.journal.journal import closed_error
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.ids import free_id, slug
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Session
from shiftlog.model.times import COMPACT, compact, precise
from shiftlog.store.protocol import Reader, Writer

Values = Mapping[str, Any]

MARK = "subagent"
PARENT = "parent:"
# A thread that a transcript brought whole is not stored again in parts.
FROM_TRANSCRIPT = "imported"


def by_thread(
    reader: Reader, values: Values, existing: Session | None
) -> tuple[dict[str, Any], dict[str, list[Values]]]:
    """Return an import with the turns of its own thread only, and those of other threads by the thread's id.

    A turn that came back as it was shown among the parent's belongs to the thread that has it.
    """
    own = values.get("agent_session_id") or (existing.vendor_session_id if existing else None)
    turns: list[Values] = []
    others: dict[str, list[Values]] = defaultdict(list)
    for turn in values.get("turns") or ():
        thread = turn.get("source_thread_id") or _thread_of(reader, existing, turn["request_id"])
        is_marked = f"-{MARK}-" in turn["request_id"] or MARK in (turn.get("tags") or ())
        if thread and (thread != own if own else is_marked):
            others[thread].append(turn)
        else:
            turns.append(turn)
    return {**values, "turns": turns}, others


def _thread_of(reader: Reader, session: Session | None, request_id: str) -> str | None:
    found = turn_of_subagent(reader, session, request_id) if session else None
    return found[0].session.vendor_session_id if found else None


class Threads:
    """The subagents of one session, as one import changes them."""

    def __init__(
        self, writer: Writer, new_pen: Callable[[Writer, str, Session | None], Pen], parent: Pen, tally: imports.Tally
    ) -> None:
        self._writer = writer
        self._new_pen = new_pen
        self._parent = parent
        self._tally = tally

    def store(self, thread: str, turns: Sequence[Values]) -> bool:
        """Store the new parts of a thread's turns; return True if there were any."""
        known = _session_of(self._writer, self._parent.session, thread)
        if known is not None and (known.hidden or known.state is SessionState.SEALED):
            raise closed_error(known)
        parent_turn = next((tag.removeprefix(PARENT) for turn in turns for tag in _parents(turn)), None)
        if known is None:
            minted = f"{self._parent.session.agent}-{compact(self._started(turns))}-{slug(thread, 'session')}"
            name = free_id(minted, lambda name: self._writer.session(name) is not None)
            pen = self._new_pen(self._writer, name, None)
            self._open(pen, thread, turns, parent_turn)
        else:
            pen = self._new_pen(self._writer, known.id, known)
            times = [imports.begun_at(turn, pen.now) for turn in turns]
            pen.as_of = max(known.last_activity, *times)
        tally = self._import(pen, turns)
        self._join(pen, parent_turn)
        self._tally.add(tally)
        if not pen.written:
            return False
        imports.note_import(pen, tally)
        return bool(pen.commit(self._writer))

    def _started(self, turns: Sequence[Values]) -> datetime:
        """Return the start of a subagent: the time in the ids of its turns, else the beginning of the first."""
        now = self._parent.now
        said = [turn["request_id"].split("-", 3) for turn in turns]
        stamps = [parts[1] for parts in said if len(parts) == 4 and parts[2] == MARK]
        if stamps:
            return min(datetime.strptime(min(stamps), COMPACT).replace(tzinfo=now.tzinfo), now)
        return min(imports.begun_at(turn, now) for turn in turns)

    def _open(self, pen: Pen, thread: str, turns: Sequence[Values], parent_turn: str | None) -> None:
        parent = self._parent.session
        first = min(turns, key=lambda turn: imports.begun_at(turn, pen.now))
        model = next((turn["model"] for turn in turns if turn.get("model")), None)
        facts: dict[str, Any] = {
            "agent": parent.agent,
            "agent_id": parent.agent_id,
            "workspace": parent.workspace,
            "cwd": parent.cwd,
            "title": first.get("query_title") or first["request_id"],
            "model": model,
            "vendor_session_id": thread,
            "subagent": {"kind": "thread_spawn", "name": _nickname(turns)},
            "parent": {"session": parent.id, **({"turn": parent_turn} if parent_turn else {})},
        }
        latest = max(imports.begun_at(turn, pen.now) for turn in turns)
        span = {"turns": turns, "started": precise(self._started(turns)), "last_updated": precise(latest)}
        imports.create_session(pen, span, facts)

    def _import(self, pen: Pen, turns: Sequence[Values]) -> imports.Tally:
        tally = imports.Tally()
        child = SubagentSession(session=pen.session)
        shown = {child.request_id(turn): turn.request_id for turn in self._writer.turns(pen.session.id)}
        whole = child.session.suspended_cause == FROM_TRANSCRIPT
        new: list[Values] = []
        for turn in turns:
            name = shown.get(turn["request_id"])
            if name is None:
                # The id as the subagent's own transcript has it, where the given one tells.
                given, own = turn["request_id"], turn["request_id"].removeprefix(child.prefix)
                name = given if own == given else f"req-{compact(imports.begun_at(turn, pen.now))}-{own}"
            if whole and pen.turn(name) is not None:
                tally.skipped += 1
                continue
            marks = {MARK, child.nickname, *_parents(turn)}
            tags = [tag for tag in turn.get("tags") or () if tag not in marks]
            new.append({**turn, "request_id": name, "tags": tags})
        imports.import_turns(pen, new, tally)
        return tally

    def _join(self, pen: Pen, parent_turn: str | None) -> None:
        """Link a subagent to the turn that started it, unless it has a link."""
        session, parent = pen.session, self._parent
        is_new = session.head_seq == pen.written
        if not is_new:
            if session.parent_turn or (session.parent_session_id and not parent_turn):
                return
            link = {"session": parent.session.id, **({"turn": parent_turn} if parent_turn else {})}
            pen.write(Kind.SESSION_UPDATED, {"parent": link})
        turn = parent.turn(parent_turn) if parent_turn else None
        if turn is None:
            return
        action = pointer(parent, SubagentSession(session=session).nickname, session.id, turn)
        if turn.is_terminal:
            body = {"source": imports.SOURCE, "seal": turn.seal, "fields": {"actions": [action]}}
            parent.write(Kind.IMPORT_NOTED, body, turn.request_id)
        else:
            parent.write(Kind.ACTION, action, turn.request_id)


def _session_of(reader: Reader, parent: Session, thread: str) -> Session | None:
    """Return the existing session of a thread."""
    for session_id in reader.session_ids_of_vendor(thread):
        session = reader.session(session_id)
        if session is not None and session.agent == parent.agent and session.id != parent.id:
            return session
    return None


def _parents(turn: Values) -> list[str]:
    return [tag for tag in turn.get("tags") or () if tag.startswith(PARENT)]


def _nickname(turns: Sequence[Values]) -> str | None:
    for turn in turns:
        tags = [tag for tag in turn.get("tags") or () if not tag.startswith(PARENT)]
        if tags[:1] == [MARK] and len(tags) > 1:
            return tags[1]
    return None
