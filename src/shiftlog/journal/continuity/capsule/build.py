"""Build the capsule, the hand-over packet, from a session's turns and entries.

No model writes it and nothing is guessed: an item is `recorded` and cites its entry, or `claimed` by the agent's
statement. Three steps: `gathering` collects facts, this module orders them, `budget` cuts them to size.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from shiftlog.journal.continuity.capsule.budget import Aged, Item, fitted
from shiftlog.journal.continuity.capsule.gathering import CapsuleFacts, recorded, text_of
from shiftlog.journal.continuity.statement import read_time
from shiftlog.journal.continuity.taken_back import TakenBack
from shiftlog.model.entry import Entry
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import FileTouch, Session, Turn
from shiftlog.model.times import shown

DEFAULT_BUDGET_BYTES = 8_000
STATED_LISTS = ("done", "next", "blockers", "do_not", "refuted")

_LAST_COMMANDS = 5
_ENDED_SHELLS = 5
_CHECKPOINTS = 20
# A statement that is not in the journal yet is newer than everything in it.
_NEWEST = sys.maxsize


def build_capsule(
    session: Session,
    turns: Sequence[Turn],
    entries: Iterable[Entry],
    *,
    statement: dict[str, object] | None,
    restores: Sequence[TakenBack] = (),
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    now: datetime,
) -> dict[str, object]:
    """Build the capsule of a session from its turns and entries, in the order of the journal.

    What one of the `restores` took back is marked as such.
    `statement` is one that is being made now; without it the newest one that the journal holds counts.
    Raise ValueError for a budget under 2,000 bytes; any other is always kept.
    """
    gathered = CapsuleFacts({turn.request_id: turn for turn in turns})
    for entry in entries:
        gathered.take(entry)
    stated, statement_seq, stated_at = _statement(gathered.statements, statement, now)
    for turn in turns:
        for seq, facts in _fields_of(turn):
            for text in _texts(facts, "design_decisions"):
                gathered.decide(text, seq, spoken=False)
    lists = _lists(session, turns, gathered, restores)
    age = _NEWEST if statement_seq is None else statement_seq
    for name in STATED_LISTS:
        text = text_of(stated, name)
        if text:
            claimed: Item = {"text": text, "basis": "claimed", "seq": statement_seq}
            lists[name].insert(0, (age, claimed))
    lists["receipts"][:0] = [(age, text) for text in _texts(stated, "receipts")]
    omitted = {
        "checkpoints": max(0, len(gathered.checkpoints) - _CHECKPOINTS),
        "shells": len(gathered.shells) - len(lists["shells"]),
    }
    singles: dict[str, Item | None] = {
        "goal": _goal(session, turns, text_of(stated, "goal")),
        "open_turn": _open_turn(session, turns),
        "last_shell_cwd": gathered.last_cwd,
        "usage": {**session.usage.shown()} if session.usage else None,
        "closing_note": (session.closing.note if session.closing else None) or gathered.closing_note,
        "stated": _stated(stated, stated_at, now) if stated else None,
    }
    fixed = {"origin": "agent" if stated else "auto", "budget_bytes": budget_bytes}
    return fitted(fixed, singles, lists, omitted=omitted, budget_bytes=budget_bytes)


def _lists(
    session: Session, turns: Sequence[Turn], gathered: CapsuleFacts, restores: Sequence[TakenBack]
) -> dict[str, list[Aged]]:
    """Return every list as the journal has it, each item with the seq that tells its age."""
    done: list[Aged] = []
    following: list[Aged] = []
    blockers: dict[str, Aged] = {}
    commits: dict[str, Aged] = {}
    for turn in turns:
        if turn.status is TurnStatus.COMPLETED:
            done.append(recorded(_outcome(turn, gathered, restores), turn.begun_seq))
        elif turn.status is TurnStatus.IN_PROGRESS:
            following.append(recorded(turn.query_title.strip(), turn.begun_seq))
        for seq, facts in _fields_of(turn):
            for text in _texts(facts, "blockers"):
                blockers.setdefault(text, recorded(text, seq))
            for commit in facts.get("commits") or ():
                commits.setdefault(commit["sha"], (seq, f"commit {commit['sha']}"))
        note = turn.failure_note.strip()
        if turn.status is TurnStatus.FAILED and note:
            blockers.setdefault(note, recorded(note, turn.begun_seq))
    ended = [shell_id for shell_id, shell in gathered.shells.items() if shell["state"] == "ended"]
    forgotten = set(ended[:-_ENDED_SHELLS])
    shells = [shell for shell_id, shell in gathered.shells.items() if shell_id not in forgotten]
    commands: list[Aged] = [
        (seq, {**command, **_mark(restores, lambda one, name=name: name in one.commands)})
        for name, (seq, command) in gathered.commands.items()
    ]
    head: list[Aged] = [(_NEWEST, f"head {session.head_hash}")] if session.head_hash else []
    return {
        "done": _in_order(done),
        "next": _in_order(chain(following, gathered.unfinished.values())),
        "blockers": _in_order(blockers.values()),
        **{name: _in_order(items) for name, items in gathered.decisions.items()},
        "files_touched": _files(turns, restores),
        "last_commands": commands[-_LAST_COMMANDS:],
        "shells": list(enumerate(shells)),
        "checkpoints": gathered.checkpoints[-_CHECKPOINTS:],
        "receipts": [*_in_order(commits.values()), *head],
    }


def _fields_of(turn: Turn) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Return the list fields of a turn and of what came later for it, each with the seq to cite."""
    own = {"design_decisions": turn.design_decisions, "blockers": turn.blockers, "commits": turn.commits}
    yield turn.begun_seq, own
    for amendment in turn.amendments:
        yield amendment.seq, amendment.fields


def _files(turns: Sequence[Turn], restores: Sequence[TakenBack]) -> list[Aged]:
    newest: dict[str, tuple[FileTouch, Turn]] = {}
    changes: Counter[str] = Counter()
    for turn in turns:
        for path, touch in turn.files.items():
            changes[path] += touch.changes
            if path not in newest or touch.seq >= newest[path][0].seq:
                newest[path] = touch, turn
    return _in_order(
        (
            touch.seq,
            {
                "path": path,
                "changes": changes[path],
                "last_type": touch.last_type,
                **_mark(restores, lambda one, path=path, turn=turn: one.takes_file(path, turn)),
            },
        )
        for path, (touch, turn) in newest.items()
    )


def _mark(restores: Sequence[TakenBack], takes: Callable[[TakenBack], bool]) -> dict[str, object]:
    """Return the mark of an item that a restore took back, with who made it; nothing if none did."""
    by = next((one.by for one in reversed(restores) if takes(one)), None)
    return {"taken_back": by} if by else {}


def _outcome(turn: Turn, gathered: CapsuleFacts, restores: Sequence[TakenBack]) -> str:
    """Return a completed turn as its title and the first line of its response, after who took it back if one did."""
    title, response = turn.query_title.strip(), turn.response.strip()
    text = f"{title}: {response.splitlines()[0].rstrip()}" if response else title
    commands = gathered.commands_of.get(turn.request_id, ())
    who = next((one.who for one in reversed(restores) if one.takes(turn, commands)), None)
    return f"taken back by {who}, wholly or in part: {text}" if who else text


def _goal(session: Session, turns: Sequence[Turn], stated: str) -> Item:
    if stated:
        return {"text": stated, "basis": "claimed"}
    first = turns[0].query_title.strip() if turns else ""
    return {"text": session.title.strip() or first, "basis": "recorded"}


def _open_turn(session: Session, turns: Sequence[Turn]) -> Item | None:
    unfinished = [turn for turn in turns if not turn.is_terminal]
    current = [turn for turn in unfinished if turn.request_id == session.current_turn] or unfinished[-1:]
    if not current:
        return None
    turn = current[0]
    return {
        "request_id": turn.request_id,
        "query_title": turn.query_title,
        "query_text": turn.query_text,
        "begun_at": shown(turn.begun_at),
        "dialog_items": turn.dialog_items,
        "actions": turn.actions,
    }


def _statement(
    saved: Sequence[Entry], given: dict[str, object] | None, now: datetime
) -> tuple[Mapping[str, Any], int | None, datetime]:
    """Return the statement that counts, the seq of the entry that holds it, and when it came."""
    for entry in reversed(saved):
        held: Any = entry.facts["statement"]
        if given is None or held == given:
            return held, entry.seq, entry.at
    return given or {}, None, now


def _stated(statement: Mapping[str, Any], at: datetime, now: datetime) -> Item:
    written_at = text_of(statement, "written_at")
    written = read_time(written_at) if written_at else at
    age = max(now - written, timedelta(0))
    ttl_days = statement.get("ttl_days")
    return {
        "version": statement.get("version"),
        "written_by": text_of(statement, "written_by") or None,
        "written_at": shown(written),
        "age_days": age.days,
        "stale": isinstance(ttl_days, int) and age > timedelta(days=ttl_days),
        "handoff_to": text_of(statement, "handoff_to") or None,
    }


def _in_order(items: Iterable[Aged]) -> list[Aged]:
    return sorted(items, key=lambda aged: aged[0])


def _texts(facts: Mapping[str, Any], name: str) -> list[str]:
    return [text.strip() for text in facts.get(name) or () if isinstance(text, str) and text.strip()]
