"""Sessions, turns, entries, runs and files as answers show them: short items that name the call for more."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from shiftlog.journal.runs.service import Runs
from shiftlog.journal.texts import summary
from shiftlog.model.entry import CLOCK_MARKS, Entry, Kind
from shiftlog.model.moves import SessionState
from shiftlog.model.nouns import Run, Session, Turn, Usage
from shiftlog.model.times import shown, shown_or_none, shown_text
from shiftlog.store.protocol import FileRow, Reader
from shiftlog.text.printable import one_line
from shiftlog.text.titles import IMPLICIT_TITLE

Item = dict[str, Any]
RAN_CHARS = 120


def more(session_id: str, request_id: str | None = None) -> Item:
    """Return the call that shows more of an item."""
    arguments = {"session_id": session_id}
    if request_id:
        arguments["request_id"] = request_id
    return {"name": "query_history", "arguments": arguments}


def session_item(session: Session, *, now: Any, runs: Runs) -> Item:
    """Show a session in a list."""
    used = runs.usage_of(session)
    item: Item = {
        "kind": "session",
        "session_id": session.id,
        "agent": session.agent,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "project": PurePosixPath(session.workspace).name if session.workspace else None,
        "model": session.model,
        "started": shown(session.started),
        "last_activity": shown(session.last_activity),
        "turns": session.turns_total,
        "turns_open": session.turns_open,
        "tokens": runs.tokens_of(session),
        "cost_usd": used.cost_usd if used else None,
        "summary": one_line(session.title, 160),
    }
    return item | _assumed(session) | obligation(session, now) | {"more": more(session.id)}


def first_run(session: Session, reader: Reader) -> Item:
    """Return the first command, else the directory, of a session that was opened for its shell alone."""
    if session.title != IMPLICIT_TITLE:
        return {}
    command = reader.entries(session.id, limit=1, kinds=(Kind.COMMAND_STARTED,))
    if command and (text := str(command[0].facts.get("command") or "")):
        return {"ran": one_line(text, RAN_CHARS)}
    opened = reader.entries(session.id, limit=1, kinds=(Kind.SHELL_OPENED,))
    place = opened[0].facts.get("workspace") or opened[0].facts.get("cwd") if opened else None
    return {"ran": f"Shell in {PurePosixPath(str(place)).name or place}"} if place else {}


def _assumed(session: Session) -> Item:
    """Return the mark of a model that was not given."""
    return {"model_assumed": True} if session.is_model_assumed else {}


def obligation(session: Session, now: Any) -> Item:
    """Return the deadline for a successor, empty if none is required."""
    deadline = session.closing.successor_deadline if session.closing else None
    if session.state is not SessionState.AWAITING_SUCCESSOR or deadline is None:
        return {}
    return {"successor_deadline": shown(deadline), "overdue": now > deadline}


def turn_item(session: Session, turn: Turn) -> Item:
    """Show a turn in a list, with counts in place of contents; one that its user rewound says so."""
    return {
        "kind": "turn",
        "session_id": session.id,
        "request_id": turn.request_id,
        "status": str(turn.status),
        "begun_at": shown(turn.begun_at),
        "finished_at": shown_or_none(turn.finished_at),
        "title": turn.query_title,
        "dialog_items": turn.dialog_items,
        "actions": turn.actions,
        "files": len(turn.files),
        "summary": one_line(turn.failure_note or turn.response or turn.query_title, 160),
        "more": more(session.id, turn.request_id),
        **({"abandoned": True} if turn.request_id in session.abandoned else {}),
    }


def entry_item(session_id: str, entry: Entry, *, kind: str = "entry") -> Item:
    """Show one entry, decision or command in a list."""
    item: Item = {
        "kind": kind,
        "session_id": session_id,
        "seq": entry.seq,
        "entry_kind": str(entry.kind),
        "at": shown(entry.at),
        "request_id": entry.turn,
        "summary": _decision(entry) if kind == "decision" else summary(entry),
        "more": more(session_id, entry.turn),
    }
    if entry.kind is Kind.DIALOG and entry.body is not None:
        item |= {name: entry.body.get(name) for name in ("role", "category")}
    if kind == "command":
        item["command_id"] = entry.facts.get("command_id")
    return item


def _decision(entry: Entry) -> str:
    decisions: list[str] = entry.facts.get("add", {}).get("design_decisions", [])
    return one_line("; ".join(decisions), 300) if decisions else summary(entry, max_chars=300)


def file_item(row: FileRow) -> Item:
    """Show the changes of a turn to one file."""
    return {
        "kind": "file",
        "path": row.path,
        "changes": row.touch.changes,
        "last_type": row.touch.last_type,
        "session_id": row.session_id,
        "request_id": row.request_id,
        "seq": row.touch.seq,
        "at": shown_or_none(row.touched),
        "summary": f"{row.touch.last_type} {row.path}",
        "more": more(row.session_id, row.request_id),
    }


def run_item(session: Session, run: Run, used: Usage | None) -> Item:
    """Show a run with the figures that its launcher reported, and what is known of its tokens and cost in all."""
    return {
        "kind": "run",
        "session_id": session.id,
        **run_facts(run),
        "usage": used.shown() if used else None,
        "summary": one_line(f"{run.backend or session.agent} {run.model or ''} {run.status}", 160),
        "more": more(session.id),
    }


def run_facts(run: Run) -> Item:
    """Return a run's facts as results show them."""
    facts: Item = msgspec.to_builtins(run)
    facts["run_id"] = facts.pop("alias")
    facts["started"] = shown(run.started)
    facts["ended"] = shown_or_none(run.ended)
    for hidden in ("pid_started", "host", "context_excerpt"):
        facts.pop(hidden, None)
    return facts


def session_facts(session: Session, runs: Runs, reader: Reader) -> Item:
    """Return one session read whole: identity, state, counts, run and lineage."""
    closing = session.closing
    used = runs.usage_of(session, reader)
    return {
        "session_id": session.id,
        "agent": session.agent,
        "agent_id": session.agent_id,
        "title": session.title,
        "state": str(session.state),
        "started": shown(session.started),
        "last_activity": shown(session.last_activity),
        "closed_at": shown_or_none(closing.at if closing else None),
        "reason": closing.reason if closing else None,
        "closing_note": closing.note if closing else None,
        "model": session.model,
        "workspace": session.workspace,
        "tags": list(session.tags),
        "exclusive": session.exclusive,
        "fence": session.fence,
        "turns_total": session.turns_total,
        "turns_completed": session.turns_completed,
        "turns_failed": session.turns_failed,
        "turns_open": session.turns_open,
        "current_request_id": session.current_turn,
        "dialog_items": session.dialog_items,
        "actions_total": session.actions_total,
        "tokens_total": runs.tokens_of(session),
        "cost_usd": used.cost_usd if used else None,
        "usage": session.usage.shown() if session.usage else None,
        "run": run_facts(session.run) if session.run else None,
        "lineage": {
            "parent_session_id": session.parent_session_id,
            "predecessor_session_id": session.predecessor_session_id,
            "successor_session_id": session.successor_session_id,
            **_imported_lineage(session),
        },
        "vendor_session_id": session.vendor_session_id,
        "transcript_path": session.transcript_path,
        "entry_count": session.head_seq,
        "head_hash": session.head_hash,
        **_assumed(session),
    }


def _imported_lineage(session: Session) -> Item:
    """Return the origin of an imported session, as far as it is known."""
    known = {
        "parent_request_id": session.parent_turn,
        "parent_call_id": session.parent_call,
        "subagent": session.subagent,
        "forked_from": session.forked_from,
    }
    return {name: value for name, value in known.items() if value}


def turn_facts(turn: Turn) -> Item:
    """Return one whole turn without its dialog and actions."""
    return {
        "request_id": turn.request_id,
        "ordinal": turn.ordinal,
        "status": str(turn.status),
        "begun_at": shown(turn.begun_at),
        "last_updated": shown(turn.last_updated),
        "finished_at": shown_or_none(turn.finished_at),
        "query_title": turn.query_title,
        "query_text": turn.query_text,
        "interpretation": turn.interpretation,
        "response": turn.response,
        "failure_note": turn.failure_note,
        "error_code": turn.error_code,
        "model": turn.model,
        "plan_file": turn.plan_file,
        "todo_id": turn.todo_id,
        "token_count": turn.token_count,
        "tags": list(turn.tags),
        "context_list": list(turn.context_list),
        "design_decisions": list(turn.design_decisions),
        "requirements_discovered": list(turn.requirements_discovered),
        "files_modified": [*turn.files_modified, *seen_files(turn)],
        "files_seen": seen_files(turn),
        "blockers": list(turn.blockers),
        "next": list(turn.next),
        "do_not": list(turn.do_not),
        "refuted": list(turn.refuted),
        "commits": commit_facts(turn.commits),
        "usage": turn.usage.shown() if turn.usage else None,
        "dialog_items": turn.dialog_items,
        "actions": turn.actions,
        "seal": turn.seal,
        "amendments": [
            {"at": shown(note.at), "source": note.source, "fields": _amended(note.fields), "seq": note.seq}
            for note in turn.amendments
        ],
    }


def seen_files(turn: Turn) -> list[str]:
    """Return the files that only the turn's checkpoints show as changed."""
    return [path for path, touch in turn.files.items() if touch.seen]


def commit_facts(commits: Iterable[Mapping[str, Any]]) -> list[Item]:
    """Return commits with their times as every result shows times, where they are times."""
    return [{name: shown_text(v) if name == "timestamp" else v for name, v in commit.items()} for commit in commits]


def _amended(fields: Mapping[str, Any]) -> Item:
    return {name: commit_facts(value) if name == "commits" else value for name, value in fields.items()}


# Kinds that are recorded in a turn automatically; its commands are actions.
BY_ITSELF = (Kind.COMMAND_INPUT, Kind.CHECKPOINT_RESTORED)
TURN_KINDS = (Kind.DIALOG, Kind.ACTION, *BY_ITSELF)


def turn_contents(turn: Turn, entries: Iterable[Entry]) -> list[Item]:
    """Return a turn's dialog items and actions that still count, input and restores, in journal order."""
    keeps = {Kind.DIALOG: turn.keeps_dialog, Kind.ACTION: turn.keeps_action}
    contents: list[Item] = []
    for entry in entries:
        if entry.kind in BY_ITSELF or (entry.kind in keeps and keeps[entry.kind](entry.seq)):
            facts = {name: value for name, value in entry.facts.items() if name not in CLOCK_MARKS}
            erased = {"erased": True} if entry.body is None else {}
            contents.append({"kind": str(entry.kind), "seq": entry.seq, "at": shown(entry.at), **facts, **erased})
    return contents
