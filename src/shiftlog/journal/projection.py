"""Projections: sessions and turns as a pure function of the entries.

`apply` takes the session and turn before an entry and returns them after it. Every write and every rebuild goes
through it, so they cannot differ. Of an erased entry it sees only what the erasure kept (`erasing.py`).
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from shiftlog.journal.activity import is_activity, later, moment
from shiftlog.journal.encoding import spelled
from shiftlog.journal.merge import normal_path, with_seen
from shiftlog.model.canonical import sha256
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.ids import agent_key
from shiftlog.model.moves import STATE_AFTER_CLOSE, RunStatus, SessionState, Succession, TurnStatus
from shiftlog.model.nouns import Amendment, Closing, FileTouch, Offer, Run, Session, Turn, Usage, changed
from shiftlog.model.prices import billed_name

UNFINISHED = ("pending", "in_progress")
ERASED_TEXT = "[erased]"

# To be raised with each change of what `apply` makes of stored entries, or of the words by which `texts` finds them: a
# newer daemon then computes all sessions anew.
VERSION = 4

Pair = tuple[Session, Turn | None]
Change = Callable[[Session, Turn | None, Entry], Pair]


def apply(session: Session | None, turn: Turn | None, entry: Entry, session_id: str) -> Pair:
    """Return the session and the entry's turn as they stand after the entry."""
    if session is None:
        session = _opened(entry, session_id)
    change = _CHANGES.get(entry.kind)
    if change is not None:
        session, turn = change(session, turn, entry)
    at, facts = moment(entry), entry.facts
    of_session: dict[str, Any] = {"head_seq": entry.seq, "head_hash": entry.hash}
    if is_activity(entry):
        of_session["last_activity"] = later(session.last_activity, at, facts)
    if turn is not None and entry.turn == turn.request_id and entry.kind is not Kind.IMPORT_NOTED:
        of_turn: dict[str, Any] = {"last_updated": later(turn.last_updated, at, facts), "last_seq": entry.seq}
        if entry.kind is Kind.DIALOG:
            # Most entries are dialog items: counted here, each takes one copy of session and turn instead of two.
            of_session["dialog_items"] = session.dialog_items + 1
            of_turn["dialog_items"] = turn.dialog_items + 1
            of_turn["items_hash"] = rolled(turn.items_hash, entry.hash)
        turn = changed(turn, **of_turn)
    return changed(session, **of_session), turn


def seal_of(turn: Turn, outcome: dict[str, Any]) -> str:
    """Return the hash that a terminal turn is sealed with; `items_hash` stands for its dialog and actions."""
    return sha256(spelled({"turn": msgspec.to_builtins(turn), "outcome": outcome}))


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
        last_activity=moment(entry),
        model=facts.get("model"),
        workspace=facts.get("workspace"),
        cwd=facts.get("cwd"),
        tags=tuple(facts.get("tags", ())),
        exclusive=bool(facts.get("exclusive", False)),
        **_lineage(facts),
        predecessor_session_id=predecessor["session_id"] if predecessor else None,
        vendor_session_id=facts.get("vendor_session_id"),
        transcript_path=facts.get("transcript_path"),
        executable_path=facts.get("executable_path"),
        executable_version=facts.get("executable_version"),
        run=_run_of(run, entry.at) if run else None,
    )


def _lineage(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the origin of an imported session: the turn and call that made it, and the session it was copied from."""
    names = ("subagent", "forked_from", "parent_session_id")
    found: dict[str, Any] = {name: facts[name] for name in names if facts.get(name)}
    parent: dict[str, Any] = facts.get("parent") or {}
    named = {"parent_session_id": "session", "parent_turn": "turn", "parent_call": "call"}
    return found | {ours: parent[theirs] for ours, theirs in named.items() if parent.get(theirs)}


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
            "executable_path",
            "executable_version",
            "hidden",
            "successor_session_id",
        )
        if name in facts
    }
    if "tags" in facts:
        known["tags"] = tuple(facts["tags"])
    known |= _lineage(facts)
    if "started" in facts:
        known["started"] = _time(facts["started"], session.started)
    if "state" in facts:
        known["state"] = SessionState(facts["state"])
    return changed(session, **known), turn


def _session_suspended(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    cause = str(entry.facts.get("cause", "idle"))
    return changed(session, state=SessionState.SUSPENDED, suspended_cause=cause), turn


def _session_resumed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    run = session.run
    if run is not None and run.status is RunStatus.ORPHANED and run.pid is None:
        # Only its silence ended the run, and this is a sign of life; a process that is gone stays gone.
        run = changed(run, status=RunStatus.RUNNING)
    return changed(session, state=SessionState.OPEN, suspended_cause=None, closing=None, run=run), turn


def _session_closed(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    # Erasing the close of a session must not loosen its policy: if nothing was kept, the strictest one holds.
    policy = Succession(facts.get("policy", Succession.NONE if entry.body is None else Succession.ALLOWED))
    deadline = facts.get("successor_deadline")
    closing = Closing(
        at=entry.at,
        reason=str(facts.get("reason", ERASED_TEXT)),
        reason_class=str(facts.get("reason_class", "other")),
        note=facts.get("note"),
        policy=policy,
        successor_deadline=datetime.fromisoformat(deadline) if deadline else None,
    )
    return changed(session, state=STATE_AFTER_CLOSE[policy], suspended_cause=None, closing=closing), turn


def _handoff_offered(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    agent_id = facts.get("agent_id")
    offer = Offer(
        agent_id=agent_id,
        agent_key=agent_key(agent_id) if agent_id else None,
        at=entry.at,
        expires_at=_time(facts.get("expires_at"), entry.at),
        seq=entry.seq,
    )
    return changed(session, offer=offer), turn


def _token_reissued(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    # An offer stands for as long as the token that accepts it.
    if session.offer is None:
        return session, turn
    expires_at = _time(entry.facts.get("expires_at"), session.offer.expires_at)
    return changed(session, offer=changed(session.offer, expires_at=expires_at)), turn


def _handoff_over(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    return changed(session, offer=None), turn


def _turn_begun(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    begun = Turn(
        request_id=entry.turn or "",
        ordinal=session.turns_total + session.turns_deleted + 1,
        status=TurnStatus.IN_PROGRESS,
        begun_at=_time(facts.get("timestamp"), entry.at),
        last_updated=moment(entry),
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
    session = changed(session, turns_total=session.turns_total + 1)
    if not facts.get("imported"):
        return changed(session, current_turn=entry.turn, imported_turn_at=None), begun
    # An imported turn must not replace a current turn that is worked on.
    latest = session.imported_turn_at
    if session.current_turn is None or (latest is not None and begun.begun_at >= latest):
        session = changed(session, current_turn=entry.turn, imported_turn_at=begun.begun_at)
    return session, begun


def _turn_updated(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    if turn is None:
        return session, turn
    facts: dict[str, Any] = entry.facts
    if facts.get("deleted"):
        return _without_turn(session, turn, facts.get("current_turn")), None
    session, turn = _cleared(session, turn, facts.get("clear", ()), entry.seq)
    session, turn = _without_items(session, turn, facts)
    values: dict[str, Any] = dict(facts.get("set", {}))
    if "token_count" in values:
        counted = session.tokens_counted + values["token_count"] - turn.token_count
        session = changed(session, tokens_counted=counted)
    for name, items in facts.get("add", {}).items():
        values[name] = (*getattr(turn, name), *items)
    files = turn.files
    for path in facts.get("add", {}).get("files_modified", ()):
        files = _touched(files, path, "edit", entry.seq, session.workspace, listed=True)
    files = with_seen(files, facts.get("seen", {}), entry.seq)
    return session, changed(turn, files=files, **values)


def _without_turn(session: Session, turn: Turn, current: str | None) -> Session:
    """Return the session after a turn of it was deleted; `current` is the one begun before it."""
    session = changed(
        session,
        turns_total=session.turns_total - 1,
        turns_deleted=session.turns_deleted + 1,
        dialog_items=session.dialog_items - turn.dialog_items,
        actions_total=session.actions_total - turn.actions,
        actions_unfinished=session.actions_unfinished - turn.actions_unfinished,
        tokens_counted=session.tokens_counted - turn.token_count,
    )
    return session if session.current_turn != turn.request_id else changed(session, current_turn=current)


def _without_items(session: Session, turn: Turn, facts: dict[str, Any]) -> tuple[Session, Turn]:
    """Take single items away: values of lists (`remove`), dialog items and actions by their seq (`drop`)."""
    if "remove" not in facts and "drop" not in facts:
        return session, turn
    files = turn.files
    values: dict[str, Any] = {}
    for name, gone in facts.get("remove", {}).items():
        kept: tuple[Any, ...] = getattr(turn, name)
        values[name] = tuple(item for item in kept if (item["sha"] if name == "commits" else item) not in gone)
        if name == "files_modified":
            paths = {normal_path(path, session.workspace) for path in values[name]}
            files = {path: changed(touch, listed=path in paths) for path, touch in files.items()}
    dropped: dict[str, Any] = facts.get("drop", {})
    dialog, actions = dropped.get("dialog", ()), dropped.get("actions", ())
    for action in actions:
        path = normal_path(action["file_path"], session.workspace)
        if path in files and _touches(action):
            files = {**files, path: changed(files[path], acted=max(files[path].acted - 1, 0))}
    files = {path: touch for path, touch in files.items() if touch.listed or touch.acted or touch.seen}
    unfinished = sum(action["status"] in UNFINISHED for action in actions)
    turn = changed(
        turn,
        files=files,
        dropped=(*turn.dropped, *dialog, *(action["seq"] for action in actions)),
        dialog_items=turn.dialog_items - len(dialog),
        actions=turn.actions - len(actions),
        actions_unfinished=turn.actions_unfinished - unfinished,
        **values,
    )
    session = changed(
        session,
        dialog_items=session.dialog_items - len(dialog),
        actions_total=session.actions_total - len(actions),
        actions_unfinished=session.actions_unfinished - unfinished,
    )
    return session, turn


def _cleared(session: Session, turn: Turn, names: Any, seq: int) -> tuple[Session, Turn]:
    for name in names:
        if name == "dialog":
            session = changed(session, dialog_items=session.dialog_items - turn.dialog_items)
            turn = changed(turn, dialog_items=0, dialog_floor=seq)
        elif name == "actions":
            session = changed(
                session,
                actions_total=session.actions_total - turn.actions,
                actions_unfinished=session.actions_unfinished - turn.actions_unfinished,
            )
            kept = {path: touch for path, touch in turn.files.items() if touch.listed or touch.seen}
            files = {path: changed(touch, acted=0) for path, touch in kept.items()}
            turn = changed(turn, actions=0, actions_unfinished=0, actions_floor=seq, last_order=0, files=files)
        elif name == "token_count":
            session = changed(session, tokens_counted=session.tokens_counted - turn.token_count)
            turn = changed(turn, token_count=0)
        elif name == "model":
            turn = changed(turn, model=None)
        else:
            empty: Any = "" if isinstance(getattr(turn, name), str) else ()
            turn = changed(turn, **{name: empty})
            if name == "files_modified":
                kept = {path: touch for path, touch in turn.files.items() if touch.acted or touch.seen}
                turn = changed(turn, files={path: changed(touch, listed=False) for path, touch in kept.items()})
    return session, turn


def _action(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    if turn is None:
        return session, turn
    facts: dict[str, Any] = entry.facts
    unfinished = int(facts.get("status") in UNFINISHED)
    path = str(facts.get("file_path", "")) if _touches(facts) else ""
    turn = changed(
        turn,
        actions=turn.actions + 1,
        actions_unfinished=turn.actions_unfinished + unfinished,
        last_order=max(turn.last_order, int(facts.get("order", 0))),
        items_hash=rolled(turn.items_hash, entry.hash),
        files=_touched(turn.files, path, str(facts.get("type", "")), entry.seq, session.workspace),
    )
    session = changed(
        session,
        actions_total=session.actions_total + 1,
        actions_unfinished=session.actions_unfinished + unfinished,
    )
    return session, turn


def _touches(action: Mapping[str, Any]) -> bool:
    """Return True if an action may have changed its file.

    A pending one is only planned. A call that failed changed nothing; what an agent itself reports as failed may have.
    """
    status = action.get("status")
    return status != "pending" and not (status == "failed" and "call_id" in action)


def _usage(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    used = msgspec.convert(entry.facts, Usage)
    if turn is not None:
        turn = changed(turn, usage=used if turn.usage is None else turn.usage.plus(used))
    name = billed_name(entry.facts.get("model"), entry.facts.get("tier"))
    return _with_usage(session, used, name, entry.at), turn


def _with_usage(session: Session, used: Usage, name: str, at: datetime) -> Session:
    """Add usage to a session; what is billed under a name, or came on a later day, is also kept apart."""
    by_model = _grown(session.model_usage, name, used) if name else session.model_usage
    days, beyond, day = session.later_days, session.beyond_run, at.date().isoformat()
    if at.date() > session.started.date():
        days = {**days, day: _grown(days.get(day, {}), name, used)}
    if session.run is not None and session.run.ended_before(at):
        beyond = {**beyond, day: _grown(beyond.get(day, {}), name, used)}
    whole = used if session.usage is None else session.usage.plus(used)
    return changed(session, usage=whole, model_usage=by_model, later_days=days, beyond_run=beyond)


def _grown(sums: dict[str, Usage], name: str, used: Usage) -> dict[str, Usage]:
    return {**sums, name: sums[name].plus(used) if name in sums else used}


def _turn_ended(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    is_completed = entry.kind is Kind.TURN_COMPLETED
    counted = "turns_completed" if is_completed else "turns_failed"
    session = changed(session, **{counted: getattr(session, counted) + 1})
    if turn is None:
        return session, None
    facts: dict[str, Any] = entry.facts
    count = facts.get("token_count")
    if isinstance(count, int):
        # It replaces the report that the turn had before.
        session = changed(session, tokens_counted=session.tokens_counted + count - turn.token_count)
    turn = changed(
        turn,
        status=TurnStatus.COMPLETED if is_completed else TurnStatus.FAILED,
        finished_at=moment(entry),
        response=str(facts.get("response", turn.response)),
        failure_note=str(facts.get("failure_note", "")),
        error_code=str(facts.get("error_code", "")),
        token_count=int(facts.get("token_count", turn.token_count)),
        model=facts.get("model", turn.model),
        seal=facts.get("seal"),
    )
    return session, turn


def _run_updated(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    run = session.run
    if run is None and "alias" in entry.facts:
        # A session known from its transcript alone is worked in by a process after all.
        return changed(session, run=_run_of(entry.facts, entry.at)), turn
    if run is None:
        # An imported session has no process of its own here; what its records say of the model still holds.
        model = entry.facts.get("model")
        return (changed(session, model=model) if isinstance(model, str) else session), turn
    run = msgspec.convert({**msgspec.to_builtins(run), **entry.facts}, Run)
    return changed(session, run=run), turn


def _lease_taken(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    # Counted, not read: the fence grows by one with every grant, also when the body was erased.
    return changed(session, fence=session.fence + 1), turn


def _worked(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    return session if session.has_work else changed(session, has_work=True), turn


def _capsule_saved(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    return _worked(session, turn, entry) if "statement" in entry.facts else (session, turn)


def _import_noted(session: Session, turn: Turn | None, entry: Entry) -> Pair:
    facts: dict[str, Any] = entry.facts
    if "shared" in facts:
        shared: dict[str, Any] = facts["shared"]
        others = tuple(one for one in session.shared if one.get("session") != shared.get("session"))
        session = changed(session, shared=(*others, shared))
    if "abandoned" in facts:
        session = changed(session, abandoned=tuple(dict.fromkeys((*session.abandoned, *facts["abandoned"]))))
    if entry.turn is None:
        return changed(session, import_hash=entry.hash), turn
    if turn is None or "fields" not in facts:
        return session, turn
    fields, at = facts["fields"], _time(facts.get("at"), entry.at)
    note = Amendment(at=at, source=str(facts.get("source", "")), fields=fields, seq=entry.seq)
    files = turn.files
    for path in fields.get("files_modified", ()):
        files = _touched(files, path, "edit", entry.seq, session.workspace, listed=True)
    for action in fields.get("actions", ()):
        if _touches(action):
            files = _touched(files, action["file_path"], action["type"], entry.seq, session.workspace)
    files = with_seen(files, fields.get("files_seen", {}), entry.seq)
    return session, changed(turn, files=files, amendments=(*turn.amendments, note))


def _touched(
    files: dict[str, FileTouch], path: str, kind: str, seq: int, workspace: str | None, *, listed: bool = False
) -> dict[str, FileTouch]:
    path = normal_path(path, workspace)
    if not path:
        return files
    before = files.get(path)
    if before is None or before.seen:  # a report counts more than a checkpoint
        before = FileTouch(changes=0, last_type=kind, seq=seq)
    if listed and before.acted:
        # An action recorded it already, with more detail: the list adds only the name.
        return {**files, path: changed(before, listed=True)}
    only_listed = before.listed and not before.acted
    touch = FileTouch(
        changes=before.changes + (listed or not only_listed),
        last_type=kind,
        seq=seq,
        listed=listed or before.listed,
        acted=before.acted + (not listed),
    )
    return {**files, path: touch}


def rolled(before: str, hash_of_entry: str) -> str:
    """Return the hash over the dialog items and actions of a turn after one more of them."""
    return hashlib.sha256((before + hash_of_entry).encode("ascii")).hexdigest()


def _time(text: object, fallback: datetime) -> datetime:
    return datetime.fromisoformat(text) if isinstance(text, str) else fallback


_CHANGES: dict[Kind, Change] = {
    Kind.SESSION_UPDATED: _session_updated,
    Kind.SESSION_SUSPENDED: _session_suspended,
    Kind.SESSION_RESUMED: _session_resumed,
    Kind.SESSION_CLOSED: _session_closed,
    Kind.HANDOFF_OFFERED: _handoff_offered,
    Kind.HANDOFF_ACCEPTED: _handoff_over,
    Kind.HANDOFF_ENDED: _handoff_over,
    Kind.TOKEN_REISSUED: _token_reissued,
    Kind.TURN_BEGUN: _turn_begun,
    Kind.TURN_UPDATED: _turn_updated,
    Kind.ACTION: _action,
    Kind.TURN_COMPLETED: _turn_ended,
    Kind.TURN_FAILED: _turn_ended,
    Kind.USAGE: _usage,
    Kind.RUN_UPDATED: _run_updated,
    Kind.CLIENT_JOINED: lambda session, turn, entry: (session.joined(entry.facts), turn),
    Kind.LEASE_TAKEN: _lease_taken,
    Kind.IMPORT_NOTED: _import_noted,
    Kind.COMMAND_STARTED: _worked,
    Kind.CAPSULE_SAVED: _capsule_saved,
}
