"""Sessions, turns and their items as the session log shows them: as current, in a list of history, and whole.

A log that was read may come back in this form.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from shiftlog.dialects.mcpserver.errors import status_of
from shiftlog.dialects.mcpserver.naming import to_dialect
from shiftlog.dialects.mcpserver.requests import HEADER_FACTS
from shiftlog.dialects.mcpserver.subagents import SubagentSession, subagents_of
from shiftlog.journal.history.items import obligation
from shiftlog.journal.projection import ERASED_TEXT
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown, shown_text
from shiftlog.model.turn_texts import shortened_result
from shiftlog.store.protocol import Reader

TURNS_AT_ONCE = 200
NONE = "None"
ITEMS = (Kind.DIALOG, Kind.ACTION)
_ACTION = ("order", "description", "type", "status", "file_path")
_DIALOG = ("timestamp", "role", "content", "category")
_ERASED_DIALOG = {"role": "system", "category": "observation", "content": ERASED_TEXT}
_ERASED_ACTION = {"order": 0, "description": ERASED_TEXT, "type": "erased", "status": "completed", "file_path": ""}


def _head(session: Session, subagents: Sequence[Session]) -> dict[str, Any]:
    return {
        "agent": session.agent,
        "sessionId": session.id,
        "title": session.title,
        "model": session.model or "unknown",
        "started": shown(session.started),
        "lastUpdated": shown(session.last_activity),
        "status": status_of(session, subagents),
    }


def _headers(session: Session) -> dict[str, Any]:
    """Return the facts about the agent's own session and program."""
    return {name: getattr(session, fact) or None for name, fact in HEADER_FACTS.items()}


def current_object(reader: Reader, session: Session, turn: Turn | None) -> dict[str, Any]:
    """Show the current session and the state of its last turn."""
    subagents = [child.session for child in subagents_of(reader, session)]
    return {
        **_head(session, subagents),
        "state": str(session.state),
        "currentTurnRequestId": turn.request_id if turn else None,
        "currentTurnStatus": str(turn.status) if turn else None,
        "turnCount": sum(each.turns_total for each in (session, *subagents)),
        **{name: value for name, value in _headers(session).items() if value},
    }


def history_object(reader: Reader, session: Session, now: datetime) -> dict[str, Any]:
    """Show a session in a list, with the sums over its turns and its subagents', and any required successor."""
    children = list(subagents_of(reader, session))
    subagents = [child.session for child in children]
    sessions = [session, *subagents]
    return {
        **_head(session, subagents),
        "turnCount": sum(each.turns_total for each in sessions),
        "filesModifiedCount": reader.count_files(*(each.id for each in sessions)),
        "tags": shown_tags(reader, session, children),
        "state": str(session.state),
        **to_dialect(obligation(session, now)),
    }


def shown_tags(reader: Reader, session: Session, children: Iterable[SubagentSession]) -> list[str]:
    """Return the tags of a session's turns and of those of its subagents, which the subagents' marks join."""
    tags = {*reader.tags_of(session.id)}
    for child in children:
        if child.session.turns_total:
            tags.update(child.marks(), reader.tags_of(child.session.id))
    return sorted(tags)


def session_object(reader: Reader, session: Session, tokens_of: Callable[[Session], int]) -> dict[str, Any]:
    """Show a whole session with its turns; `tokens_of` counts the tokens of it and its subagents."""
    workspace = session.workspace
    children = list(subagents_of(reader, session))
    turns = [turn_object(turn, entries) for turn, entries in turns_with_items(reader, session.id)]
    for child in children:
        of_child = turns_with_items(reader, child.session.id)
        turns += [child.as_parents(turn, turn_object(turn, entries)) for turn, entries in of_child]
    head = _head(session, [child.session for child in children])
    return {
        "sourceType": head.pop("agent"),
        "sessionId": session.id,
        **_headers(session),
        **head,
        "turnCount": len(turns),
        "workspace": {
            "project": PurePosixPath(workspace).name if workspace else None,
            "targetFramework": None,
            "repository": None,
            "branch": None,
        },
        "tags": sorted({*session.tags, *shown_tags(reader, session, children)}),
        "totalTokens": sum(tokens_of(each) for each in (session, *(child.session for child in children))),
        "turns": turns,
        "state": str(session.state),
    }


def turns_with_items(reader: Reader, session_id: str) -> Iterator[tuple[Turn, list[Entry]]]:
    """Yield the turns of a session in order, each with its dialog items and actions that still count."""
    after = 0
    while turns := reader.turns(session_id, after=after, limit=TURNS_AT_ONCE):
        of_turn = items_of(reader, session_id, turns)
        for turn in turns:
            yield turn, of_turn[turn.request_id]
        after = turns[-1].ordinal


def items_of(reader: Reader, session_id: str, turns: Sequence[Turn]) -> dict[str, list[Entry]]:
    """Return the dialog items and actions that still count, by the turn that they belong to."""
    known = {turn.request_id: turn for turn in turns}
    of_turn: dict[str, list[Entry]] = defaultdict(list)
    first, last = min(turn.begun_seq for turn in turns), max(turn.last_seq for turn in turns)
    for entry in reader.entries(session_id, after=first, until=last, kinds=ITEMS):
        turn = known.get(entry.turn or "")
        if turn is not None and entry.seq > turn.begun_seq:
            keeps = turn.keeps_dialog if entry.kind is Kind.DIALOG else turn.keeps_action
            if keeps(entry.seq):
                of_turn[turn.request_id].append(entry)
    return of_turn


def turn_object(turn: Turn, entries: Iterable[Entry]) -> dict[str, Any]:
    """Show a turn whole."""
    items = list(entries)
    return {
        "requestId": turn.request_id,
        "timestamp": shown(turn.begun_at),
        "queryTitle": turn.query_title,
        "queryText": turn.query_text,
        "interpretation": turn.interpretation,
        "response": turn.response,
        "status": str(turn.status),
        "planFile": turn.plan_file or NONE,
        "todoId": turn.todo_id or NONE,
        "model": turn.model or "unknown",
        "modelProvider": turn.model_provider,
        "tokenCount": turn.token_count,
        "tags": list(turn.tags),
        "contextList": list(turn.context_list),
        "actions": [_item(entry, _ACTION) for entry in items if entry.kind is Kind.ACTION],
        "processingDialog": [_item(entry, _DIALOG) for entry in items if entry.kind is Kind.DIALOG],
        "commits": [_commit(commit) for commit in turn.commits],
        "designDecisions": list(turn.design_decisions),
        "requirementsDiscovered": list(turn.requirements_discovered),
        "filesModified": list(turn.files_modified),
        "blockers": list(turn.blockers),
        "failureNote": turn.failure_note,
        "amendments": [
            {"at": shown(note.at), "source": note.source, "fields": _amended(note.fields)} for note in turn.amendments
        ],
    }


def _amended(fields: Mapping[str, Any]) -> dict[str, Any]:
    commits = {"commits": [_commit(commit) for commit in fields["commits"]]} if "commits" in fields else {}
    # Other facts from a transcript can be read in the journal itself.
    items = {
        kind: [{name: item[name] for name in names if name in item} for item in fields[kind]]
        for kind, names in (("dialog", _DIALOG), ("actions", _ACTION))
        if kind in fields
    }
    return {**to_dialect({**fields, **items}), **commits}


def _commit(commit: Mapping[str, Any]) -> dict[str, Any]:
    """Show a commit with all its keys; a time that can be read as one is shown as all times are."""
    texts = {name: commit.get(name) or "" for name in ("sha", "branch", "message", "author", "timestamp")}
    texts["timestamp"] = shown_text(texts["timestamp"])
    return {**texts, "filesChanged": list(commit.get("files_changed") or ())}


def as_shown(entry: Entry) -> Mapping[str, Any]:
    """Return an item with a mark for erased text, and with only the beginning of an imported call's result."""
    if entry.body is None:
        return {"timestamp": shown(entry.at), **_ERASED_DIALOG} if entry.kind is Kind.DIALOG else _ERASED_ACTION
    facts: Mapping[str, Any] = entry.facts
    if "call_id" not in facts or facts.get("category") != "tool_result":
        return facts
    return {**facts, "content": shortened_result(str(facts.get("content")))}


def _item(entry: Entry, names: Iterable[str]) -> dict[str, Any]:
    facts = as_shown(entry)
    return to_dialect({name: facts.get(name) for name in names})
