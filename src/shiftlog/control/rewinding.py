"""Rewinding files and conversation together: the workspace before a turn, and a transcript that ends there.

All or nothing: the transcript is written under a name that no client reads, then the files are restored, then the
transcript gets its name and the journal its entry. After a failure the safety checkpoint restores the files.
"""

import json
import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio.to_thread

from shiftlog.app.app import App
from shiftlog.control.conversation import dialog_of, provider_of
from shiftlog.ingest.restoring.transcript import Record, RestoredTranscript, TurnDialog
from shiftlog.ingest.restoring.writing import restore
from shiftlog.journal.journal import find_session
from shiftlog.model.agents import AGENTS
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, ShiftlogError, StorageError, TurnNotFound
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.shell_errors import NothingToRestore, RestoreIncomplete
from shiftlog.store.protocol import Reader
from shiftlog.workspace import history
from shiftlog.workspace.checkpoints import Workspace
from shiftlog.workspace.history import RestoreTarget
from shiftlog.workspace.ports import Cause, Location, Restored, Saved
from shiftlog.workspace.results import RestoreResult
from shiftlog.workspace.runner import LocalRunner

NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """The plan of a rewind: the session, the turns that it leaves, and the transcript that it writes."""

    session: Session
    turn: Turn
    left: tuple[str, ...]
    transcript: RestoredTranscript
    path: Path


async def rewind_both(app: App, location: Location, request_id: str, params: dict[str, Any], by: str) -> Record:
    """Restore files and conversation to the state before a turn; with `dry_run` only return what would change."""
    plan = await _plan(app, location, request_id)
    workspace = await app.workspaces.checkpoints.open(LocalRunner(), location.path, session_id=plan.session.id)
    keep: Sequence[str] = params.get("keep") or ()
    others = await _changed_by_others(app, workspace, plan)
    target = RestoreTarget(before_turn=request_id)
    checkpoints = app.workspaces.checkpoints
    shown = await checkpoints.restore(workspace, target, clean=True, dry_run=True)
    if not params.get("force"):
        _refuse_others(shown, others, keep)
    about = plan.transcript.about() | {"transcript": str(plan.path), "turns_left": list(plan.left)}
    if params.get("dry_run"):
        return {**shown.as_dict(), "conversation": about}
    written = await anyio.to_thread.run_sync(_write, plan)
    cause = Cause(session_id=plan.session.id, by=by)
    try:
        done = await _restore_files(app, workspace, target, keep, cause)
        try:
            # Counted while the records were written.
            about = plan.transcript.about() | {"transcript": str(plan.path), "turns_left": list(plan.left)}
            await anyio.to_thread.run_sync(_publish, written, plan.path)
            await _record(app, plan, done, about, by)
        except BaseException:
            plan.path.unlink(missing_ok=True)
            await _bring_back(app, workspace, done, cause)
            raise
    finally:
        written.unlink(missing_ok=True)
    return {**done.as_dict(), "conversation": about}


# Planning


async def _plan(app: App, location: Location, request_id: str) -> RewindPlan:
    records = await app.workspaces.log.read(location)
    owners = [one.cause.session_id for one in records if one.cause.request_id == request_id and one.cause.session_id]
    if not owners:
        raise TurnNotFound(
            f"turn '{request_id}' not found",
            details={"request_id": request_id},
            hint="shiftlog checkpoints shows turns",
        )

    def work(reader: Reader) -> tuple[Session, list[TurnDialog], str | None]:
        session = find_session(reader, str(owners[-1]))
        return session, dialog_of(reader, session), provider_of(reader, session)

    session, dialog, provider = await app.store.read(work)
    agent = AGENTS.get(session.agent)
    if agent is None or agent.resume is None:
        raise InvalidParameter.invalid("with_conversation", "a turn of Claude Code or Codex", session.agent)
    at = next((n for n, one in enumerate(dialog) if one.turn and one.turn.request_id == request_id), None)
    turn = dialog[at].turn if at is not None else None
    if at is None or turn is None:
        raise TurnNotFound(f"turn '{request_id}' not found", details={"request_id": request_id})
    # What was rewound just before the turn is no part of the conversation before it.
    before = [*dialog[:at], replace(dialog[at], turn=None, entries=(), usage=())]
    gone = frozenset[str]().union(*(one.abandoned for one in before))
    if not any(one.turn and one.turn.request_id not in gone for one in before):
        raise NothingToRestore(
            "no turn comes before it, so no conversation is left",
            hint="Without --with-conversation the files go back; then start a new conversation",
        )
    transcript = restore(session, before, agent.name, session_id=str(uuid.uuid4()), model_provider=provider)
    path = agent.homes(app.environ, Path(app.environ.get("HOME") or Path.home()))[0] / transcript.place()
    if session.transcript_path is not None:  # beside the old one, which may be another home's
        path = Path(session.transcript_path).with_name(path.name)
    left = tuple(one.turn.request_id for one in dialog[at:] if one.turn)
    return RewindPlan(session=session, turn=turn, left=left, transcript=transcript, path=path)


async def _changed_by_others(app: App, workspace: Workspace, plan: RewindPlan) -> set[str]:
    """Return the files that changed since the turn began, but in no turn of its session."""
    records = await app.workspaces.log.read(workspace.location)
    checkpoints = app.workspaces.checkpoints
    first = next(
        (n for n, one in enumerate(records) if one.cause.request_id == plan.turn.request_id and _is_turn(one)), None
    )
    if first is None:
        return set()
    found: set[str] = set()
    states = [one for one in records[first:] if isinstance(one, Saved)]
    for older, newer in pairwise(states):
        if not _is_own(older, plan) and older.tree != newer.tree:
            between = await checkpoints.between(workspace, older.checkpoint_id, newer.checkpoint_id)
            found |= {file.path for file in between}
    here = history.position(records)
    if here is not None and (isinstance(records[-1], Restored) or not _is_own(states[-1], plan)):
        now = await checkpoints.diff(workspace, RestoreTarget(checkpoint_id=here.checkpoint_id))
        found |= {file.path for file in now.files}
    return found


def _is_turn(record: Saved | Restored) -> bool:
    return isinstance(record, Saved) and record.kind == "turn"


def _is_own(record: Saved, plan: RewindPlan) -> bool:
    """Return True if the changes after a checkpoint were made in a turn of the session."""
    return record.cause.session_id == plan.session.id and record.kind in ("turn", "auto")


def _refuse_others(shown: RestoreResult, others: set[str], keep: Sequence[str]) -> None:
    lost = sorted(
        change.path
        for change in shown.changes
        if change.path in others and not any(change.path == one or change.path.startswith(f"{one}/") for one in keep)
    )
    if lost:
        named = ", ".join(lost[:NAMED]) + (f" and {len(lost) - NAMED} more" if len(lost) > NAMED else "")
        raise NothingToRestore(
            f"changed since by another than this session: {named}; nothing was rewound",
            details={"paths": lost[:1000]},
            hint="--keep PATH leaves a file as it is, --force takes them back too",
        )


# Doing


async def _restore_files(
    app: App, workspace: Workspace, target: RestoreTarget, keep: Sequence[str], cause: Cause
) -> RestoreResult:
    checkpoints = app.workspaces.checkpoints
    try:
        done = await checkpoints.restore(workspace, target, clean=True, cause=cause)
    except RestoreIncomplete as error:
        safety = error.details.get("safety_checkpoint_id")
        if safety:
            await checkpoints.restore(workspace, RestoreTarget(checkpoint_id=str(safety)), clean=True, cause=cause)
        raise
    if keep and done.safety_checkpoint_id:
        back = RestoreTarget(checkpoint_id=done.safety_checkpoint_id)
        try:
            await checkpoints.restore(workspace, back, paths=keep, clean=True, cause=cause)
        except ShiftlogError:
            await _bring_back(app, workspace, done, cause)
            raise
    return done


async def _bring_back(app: App, workspace: Workspace, done: RestoreResult, cause: Cause) -> None:
    if done.safety_checkpoint_id:
        back = RestoreTarget(checkpoint_id=done.safety_checkpoint_id)
        with anyio.CancelScope(shield=True):
            await app.workspaces.checkpoints.restore(workspace, back, clean=True, cause=cause)


def _write(plan: RewindPlan) -> Path:
    """Write the transcript under a name that no client reads."""
    path = plan.path.with_name(f".{plan.path.name}.new")
    try:
        plan.path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        plan.path.parent.mkdir(mode=0o700, exist_ok=True)
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            for record in plan.transcript.records:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise StorageError(f"Cannot write {path}: {error.strerror}", hint="Nothing was rewound") from None
    return path


def _publish(written: Path, path: Path) -> None:
    try:
        os.link(written, path)  # never over another file
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error.strerror}", hint="The files are as they were") from None


async def _record(app: App, plan: RewindPlan, done: RestoreResult, about: Record, by: str) -> None:
    facts = {
        "request_id": plan.turn.request_id,
        "turns_left": list(plan.left),
        "checkpoint_id": done.restored_to,
        "safety_checkpoint_id": done.safety_checkpoint_id,
        "files_changed": done.files_changed,
        "vendor_session_id": about["vendor_session_id"],
        "transcript": about["transcript"],
        "masked": about["masked"],
        "by": by,
    }
    await app.shell_log.note(plan.session.id, Kind.SESSION_REWOUND, facts)
