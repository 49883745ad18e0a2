"""The answers of close and resume, and how one is kept for a repeat of its idempotency key.

A token is shown once and never stored: the kept answer holds its hash, and a repeat gets a fresh token.
"""

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shiftlog.journal.continuity.selection import check_own
from shiftlog.journal.journal import Answered, Journal, Request
from shiftlog.journal.signing.tokens import Issued, Tokens
from shiftlog.model.agents import AGENTS
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader, Writer

TOKEN_HASH = "token_hash"


def shell(
    request: Request, session: Session, status: str, data: Mapping[str, Any], warnings: list[dict[str, object]]
) -> Answered:
    """Return the whole answer of a request; a dialect may show a part of it."""
    return {
        "ok": True,
        "tool_name": request.operation,
        "session_id": session.id,
        "agent_id": session.agent_id,
        "status": status,
        "data": dict(data),
        "warnings": warnings,
    }


def with_token(answered: Answered, issued: Issued | None) -> Answered:
    """Return an answer that shows a token, in the next call too where that needs it."""
    data = dict(answered["data"])
    data["recovery_token"] = issued.text if issued else None
    data["recovery_token_expires_at"] = shown(issued.expires_at) if issued else None
    action = data.get("next_action")
    if action and "recovery_token" in action["arguments"]:
        arguments = {**action["arguments"], "recovery_token": data["recovery_token"]}
        data["next_action"] = {**action, "arguments": arguments} if issued else None
    return {**answered, "data": data}


def keep(
    journal: Journal,
    writer: Writer,
    request: Request,
    scope: str,
    answered: Answered,
    issued: Issued | None,
    *,
    since: datetime | None = None,
) -> None:
    """Remember an answer for its idempotency key, with the hash of its token in place of the token."""
    blank = Issued(text="", hash="", expires_at=issued.expires_at) if issued else None
    kept = {**with_token(answered, blank), TOKEN_HASH: issued.hash if issued else None}
    data = answered["data"]
    receipt = {
        "code": "persisted",
        "session_id": answered["session_id"],
        "seq": data["entry_count"],
        "hash": data["head_hash"],
    }
    journal.remember(writer, request, scope, kept, receipt, since=since)


def repeated(journal: Journal, writer: Writer, request: Request, scope: str, tokens: Tokens) -> Answered | None:
    """Return the first answer to the request's idempotency key, with a token of its own, if there is one.

    The token of the first answer is revoked, unless it was used or replaced meanwhile: then the newer one stays.
    Knowing a key does not entitle the client of another agent to the answer.
    """
    first = journal.first_answer(writer, request, scope)
    if first is None:
        return None
    answered = {name: value for name, value in first.answer.items() if name != TOKEN_HASH}
    session = writer.session(answered["session_id"])
    if session is not None:
        check_own(writer, session, request.caller)
    token_hash = first.answer.get(TOKEN_HASH)
    if token_hash is None:
        return answered
    kept = writer.token(token_hash)
    if kept is not None and kept.is_unspent and session is not None:
        fresh = tokens.issue(writer, session, journal.clock.now())
        answered = with_token(answered, fresh)
        keep(journal, writer, request, scope, answered, fresh, since=first.at)
        return answered
    message = "The token of the first answer was used or replaced since; there is none to return"
    warnings = [*answered["warnings"], {"code": "recovery_token_superseded", "message": message}]
    return with_token({**answered, "warnings": warnings}, None)


def vendor_resume(session: Session) -> str | None:
    """Return the vendor's own command to continue a session, where its id is known."""
    vendor_id = session.vendor_session_id
    if not vendor_id:
        return None
    agent = AGENTS.get(session.agent)
    return f"{agent.resume} {shlex.quote(vendor_id)}" if agent and agent.resume else None


def summary_of(reader: Reader, session: Session, *, tokens: int) -> dict[str, Any]:
    """Return the figures of a session that its close reports."""
    return {
        "turns_total": session.turns_total,
        "turns_completed": session.turns_completed,
        "turns_failed": session.turns_failed,
        "turns_open": session.turns_open,
        "dialog_items": session.dialog_items,
        "actions_total": session.actions_total,
        "files_modified": reader.count_files(session.id),
        "tokens_total": tokens,
        "duration_seconds": int((session.last_activity - session.started).total_seconds()),
        "messages_total": session.dialog_items,
        "failures_processed": session.turns_failed,
        "pending_outcomes": session.turns_open + session.actions_unfinished,
    }
