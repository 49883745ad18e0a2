"""Projections: sessions and turns as a pure function of the entries.

`apply` takes the session and turn before an entry and returns them after it. Writing and rebuilding both go
through it, so they cannot differ. An erased entry has no body; it then changes only what its kind alone says.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from shiftlog.journal.merge import normal_path
from shiftlog.model.canonical import canonical, sha256
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import STATE_AFTER_CLOSE, RunStatus, SessionState, Succession, TurnStatus
from shiftlog.model.nouns import Amendment, Closing, FileTouch, Run, Session, Turn, Usage

UNFINISHED = ("pending", "in_progress")
ERASED_TEXT = "[erased]"

# What happens to a session without anybody working in it.
_NOT_ACTIVITY = frozenset(
    {
        Kind.SESSION_SUSPENDED,
        Kind.CAPSULE_SAVED,
        Kind.ERASED,
        Kind.HANDOFF_ENDED,
        Kind.TOKEN_REISSUED,
    }
)

Pair = tuple[Session, Turn | None]
Change = Callable[[Session, Turn | None, Entry], Pair]


def apply(session: Session | None, turn: Turn | None, entry: Entry, session_id: str) -> Pair:
    """Return the session and the entry's turn as they stand after the entry."""
    if session is None:
        session = _opened(entry, session_id)
    change = _CHANGES.get(entry.kind)
    if change is not None:
        session, turn = change(session, turn, entry)
    active = session.last_activity if entry.kind in _NOT_ACTIVITY else max(session.last_activity, entry.at)
    session = replace(session, last_activity=active, head_seq=entry.seq, head_hash=entry.hash)
    if turn is not None and entry.turn == turn.request_id and entry.kind is not Kind.IMPORT_NOTED:
        turn = replace(turn, last_updated=max(turn.last_updated, entry.at), last_seq=entry.seq)
    return session, turn


def seal_of(turn: Turn, outcome: dict[str, Any]) -> str:
    """Return the hash that a terminal turn is sealed with; `items_hash` stands for its dialog and actions."""
    return sha256(canonical({"turn": msgspec.to_builtins(turn), "outcome": outcome}))


def _opened(entry: Entry, session_id: str) -> Session:
    facts: dict[str, Any] = entry.facts
    agent = session_id.split("-", 1)[0]
    agent_id = str(facts.get("agent_id") or agent)
    run = facts.get("run")
    predecessor = facts.get("predecessor")
    return Session(
        id=session_id,
        agent=agent,
        agent_id=agent_id,
        agent_key=agent_key(agent_id),
        title=str(facts.get("title", ERASED_TEXT)),
        state=SessionState(facts.get("state", "open")),
        started=_time(facts.get("started"), entry.at),
        last_activity=entry.at,
        model=facts.get("model"),
        workspace=facts.get("workspace"),
        cwd=facts.get("cwd"),
        tags=tuple(facts.get("tags", ())),
        exclusive=bool(facts.get("exclusive", False)),
        parent_session_id=facts.get("parent_session_id"),
        predecessor_session_id=predecessor["session_id"] if predecessor else None,
        vendor_session_id=facts.get("vendor_session_id"),
        transcript_path=facts.get("transcript_path"),
        run=_run_of(run, entry.at) if run else None,
    )


def _run_of(facts: dict[str, Any], at: datetime) -> Run:
    return msgspec.convert({"status": RunStatus.RUNNING, "started": at, **facts}, Run)


def _session_updated(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    known = {
        name: facts[name]
        for name in (
            "title",
            "model",
            "vendor_session_id",
            "transcript_path",
            "hidden",
            "successor_session_id",
        )
        if name in facts
    }
    if "tags" in facts:
        known["tags"] = tuple(facts["tags"])
    if "state" in facts:
        known["state"] = SessionState(facts["state"])
    return replace(session, **known), turn


def _session_suspended(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    cause = str(entry.facts.get("cause", "idle"))
    run = session.run
    if run is not None and run.status is RunStatus.RUNNING and cause == "process_ended":
        run = replace(run, status=RunStatus.ORPHANED)
    return replace(session, state=SessionState.SUSPENDED, suspended_cause=cause, run=run), turn


def _session_resumed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    return replace(session, state=SessionState.OPEN, suspended_cause=None, closing=None), turn


def _session_closed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    policy = Succession(facts.get("policy", Succession.ALLOWED))
    deadline = facts.get("successor_deadline")
    closing = Closing(
        at=entry.at,
        reason=str(facts.get("reason", ERASED_TEXT)),
        reason_class=str(facts.get("reason_class", "other")),
        note=facts.get("note"),
        policy=policy,
        successor_deadline=datetime.fromisoformat(deadline) if deadline else None,
    )
    return replace(session, state=STATE_AFTER_CLOSE[policy], suspended_cause=None, closing=closing), turn


def _turn_begun(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    begun = Turn(
        request_id=entry.turn or "",
        ordinal=session.turns_total + 1,
        status=TurnStatus.IN_PROGRESS,
        begun_at=_time(facts.get("timestamp"), entry.at),
        last_updated=entry.at,
        query_title=str(facts.get("query_title", ERASED_TEXT)),
        query_text=str(facts.get("query_text", ERASED_TEXT)),
        begun_seq=entry.seq,
        last_seq=entry.seq,
        model=facts.get("model"),
        plan_file=str(facts.get("plan_file", "")),
        todo_id=str(facts.get("todo_id", "")),
        tags=tuple(facts.get("tags", ())),
        context_list=tuple(facts.get("context_list", ())),
    )
    return replace(session, turns_total=session.turns_total + 1, current_turn=entry.turn), begun


def _turn_updated(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    if turn is None:
        return session, turn
    facts: dict[str, Any] = entry.facts
    session, turn = _cleared(session, turn, facts.get("clear", ()), entry.seq)
    values: dict[str, Any] = dict(facts.get("set", {}))
    if "token_count" in values:
        counted = session.tokens_counted + values["token_count"] - turn.token_count
        session = replace(session, tokens_counted=counted)
    for name, items in facts.get("add", {}).items():
        values[name] = (*getattr(turn, name), *items)
    files = turn.files
    for path in facts.get("add", {}).get("files_modified", ()):
        files = _touched(files, path, "edit", entry.seq, session.workspace)
    return session, replace(turn, files=files, **values)


def _cleared(session: Session, turn: Turn, names: Any, seq: int) -> tuple[Session, Turn]:
    for name in names:
        if name == "dialog":
            session = replace(session, dialog_items=session.dialog_items - turn.dialog_items)
            turn = replace(turn, dialog_items=0, dialog_floor=seq)
        elif name == "actions":
            session = replace(
                session,
                actions_total=session.actions_total - turn.actions,
                actions_unfinished=session.actions_unfinished - turn.actions_unfinished,
            )
            files = {path: touch for path, touch in turn.files.items() if _is_listed(path, turn, session)}
            turn = replace(turn, actions=0, actions_unfinished=0, actions_floor=seq, files=files)
        else:
            empty: Any = "" if isinstance(getattr(turn, name), str) else ()
            turn = replace(turn, **{name: empty})
    return session, turn


def _is_listed(path: str, turn: Turn, session: Session) -> bool:
    return any(normal_path(listed, session.workspace) == path for listed in turn.files_modified)


def _dialog(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    if turn is None:
        return session, turn
    turn = replace(turn, dialog_items=turn.dialog_items + 1, items_hash=_rolled(turn.items_hash, entry.hash))
    return replace(session, dialog_items=session.dialog_items + 1), turn


def _action(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    if turn is None:
        return session, turn
    facts: dict[str, Any] = entry.facts
    unfinished = int(facts.get("status") in UNFINISHED)
    path = str(facts.get("file_path", ""))
    turn = replace(
        turn,
        actions=turn.actions + 1,
        actions_unfinished=turn.actions_unfinished + unfinished,
        last_order=max(turn.last_order, int(facts.get("order", 0))),
        items_hash=_rolled(turn.items_hash, entry.hash),
        files=_touched(turn.files, path, str(facts.get("type", "")), entry.seq, session.workspace),
    )
    session = replace(
        session,
        actions_total=session.actions_total + 1,
        actions_unfinished=session.actions_unfinished + unfinished,
    )
    return session, turn


def _usage(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = {name: value for name, value in entry.facts.items() if name != "test_clock"}
    used = msgspec.convert(facts, Usage)
    if turn is not None:
        turn = replace(turn, usage=used if turn.usage is None else turn.usage.plus(used))
    return replace(session, usage=used if session.usage is None else session.usage.plus(used)), turn


def _turn_completed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    session = replace(session, turns_completed=session.turns_completed + 1)
    return session, _ended(turn, entry, TurnStatus.COMPLETED)


def _turn_failed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    session = replace(session, turns_failed=session.turns_failed + 1)
    return session, _ended(turn, entry, TurnStatus.FAILED)


def _ended(turn: Turn | None, entry: Entry, status: TurnStatus) -> Turn | None:
    if turn is None:
        return None
    facts: dict[str, Any] = entry.facts
    return replace(
        turn,
        status=status,
        finished_at=entry.at,
        response=str(facts.get("response", turn.response)),
        failure_note=str(facts.get("failure_note", "")),
        error_code=str(facts.get("error_code", "")),
        seal=facts.get("seal"),
    )


def _run_updated(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    run = session.run
    if run is None:
        return session, turn
    facts: dict[str, Any] = {name: value for name, value in entry.facts.items() if name != "test_clock"}
    run = msgspec.convert({**msgspec.to_builtins(run), **facts}, Run)
    return replace(session, run=run), turn


def _lease_taken(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    # Counted, not read: the fence grows by one with every grant, also when the body was erased.
    return replace(session, fence=session.fence + 1), turn


def _import_noted(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    if turn is None or "fields" not in facts:
        return session, turn
    note = Amendment(at=entry.at, source=str(facts.get("source", "")), fields=facts["fields"], seq=entry.seq)
    return session, replace(turn, amendments=(*turn.amendments, note))


def _touched(
    files: dict[str, FileTouch], path: str, kind: str, seq: int, workspace: str | None
) -> dict[str, FileTouch]:
    path = normal_path(path, workspace)
    if not path:
        return files
    before = files.get(path)
    touch = FileTouch(changes=before.changes + 1 if before else 1, last_type=kind, seq=seq)
    return {**files, path: touch}


def _rolled(before: str, hash_of_entry: str) -> str:
    return hashlib.sha256((before + hash_of_entry).encode("ascii")).hexdigest()


def _time(text: object, fallback: datetime) -> datetime:
    return datetime.fromisoformat(text) if isinstance(text, str) else fallback


_CHANGES: dict[Kind, Change] = {
    Kind.SESSION_UPDATED: _session_updated,
    Kind.SESSION_SUSPENDED: _session_suspended,
    Kind.SESSION_RESUMED: _session_resumed,
    Kind.SESSION_CLOSED: _session_closed,
    Kind.TURN_BEGUN: _turn_begun,
    Kind.TURN_UPDATED: _turn_updated,
    Kind.DIALOG: _dialog,
    Kind.ACTION: _action,
    Kind.TURN_COMPLETED: _turn_completed,
    Kind.TURN_FAILED: _turn_failed,
    Kind.USAGE: _usage,
    Kind.RUN_UPDATED: _run_updated,
    Kind.LEASE_TAKEN: _lease_taken,
    Kind.IMPORT_NOTED: _import_noted,
}
