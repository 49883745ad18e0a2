"""Build the capsule, the hand-over packet, from a session's turns and entries.

No model writes it and nothing is guessed: an item is `recorded` and cites its entry, or `claimed` by the agent's
statement. Three steps: `gathering` collects facts, this module orders them, `budget` cuts them to size.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from shiftlog.journal.continuity.capsule.budget import Aged, Item, claimed_age, clipped, fitted
from shiftlog.journal.continuity.capsule.gathering import CapsuleFacts, compared, recorded, text_of
from shiftlog.journal.continuity.capsule.inheriting import Since, inherit
from shiftlog.journal.continuity.statement import read_time
from shiftlog.journal.continuity.taken_back import TakenBack
from shiftlog.model.entry import Entry
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import FileTouch, Session, Turn
from shiftlog.model.times import shown

DEFAULT_BUDGET_BYTES = 8_000
STATED_LISTS = ("done", "next", "blockers", "do_not", "refuted")

_ENDED_SHELLS = 5
_CHECKPOINTS = 20
_HEAD = "head "
# What a client's own records say of a turn that was stopped and of a call that its user refused.
_STOPPED = ("Turn aborted: ", "Denied: ")
_ASKED = 3
_ASKED_BYTES = 600
_NO_PROSE = re.compile(r"#{1,6}\s.*|#+|[-*_=~`]{3,}.*|\*\*[^*]+\*\*:?|__[^_]+__:?|[-*+]|\d+[.)]|[^.!?]{1,60}:")
_FENCE = re.compile(r"`{3,}|~{3,}")
_WORD = re.compile(r"\w")
_UNDERLINE = re.compile(r"=+|-{2,}")
_BULLET = re.compile(r"^(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
# A statement that is not in the journal yet is newer than everything in it.
_NEWEST = sys.maxsize


def build_capsule(
    session: Session,
    turns: Sequence[Turn],
    entries: Iterable[Entry],
    *,
    statement: dict[str, object] | None,
    restores: Sequence[TakenBack] = (),
    handed: Mapping[str, Any] | None = None,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    now: datetime,
) -> dict[str, object]:
    """Build the capsule of a session from its turns and entries, in the order of the journal.

    What one of the `restores` took back is marked as such. `handed` is the capsule of the session that it continues.
    `statement` is one that is being made now; without it the newest one that the journal holds counts.
    Raise ValueError for a budget under 2,000 bytes; any other is always kept.
    """
    gathered = CapsuleFacts({turn.request_id: turn for turn in turns}, frozenset(session.abandoned))
    for entry in entries:
        gathered.take(entry)
    stated, statement_seq, stated_at = _statement(gathered.statements, statement, now)
    for turn in _in_force(turns, session):
        for seq, facts in _fields_of(turn):
            for text in _texts(facts, "design_decisions"):
                gathered.decide(text, seq, spoken=False)
    lists = _lists(session, turns, gathered, restores)
    for name in STATED_LISTS:
        claimed = _claims(stated, name, statement_seq)
        said = {compared(item["text"]) for _, item in claimed}
        lists[name] = [*claimed, *(aged for aged in lists[name] if compared(_text(aged[1])) not in said)]
    lists["receipts"][:0] = [(_NEWEST, text) for text in _texts(stated, "receipts")]
    omitted = {
        "checkpoints": max(0, len(gathered.checkpoints) - _CHECKPOINTS),
        "shells": len(gathered.shells) - len(lists["shells"]),
    }
    singles: dict[str, Item | None] = {
        "goal": _goal(session, turns, text_of(stated, "goal")),
        "open_turn": _open_turn(session, turns, gathered),
        "last_shell_cwd": gathered.last_cwd,
        "usage": {**session.usage.shown()} if session.usage else None,
        "closing_note": (session.closing.note if session.closing else None) or gathered.closing_note,
        "stated": _stated(stated, stated_at, now) if stated else None,
    }
    lists["requirements"] = _requirements(turns)
    lists["asked"] = _asked(_in_force(turns, session), singles["open_turn"])
    if handed:
        left_out = inherit(handed, lists, singles, _since(stated, turns, gathered))
        omitted = Counter(omitted) + Counter(left_out)
    fixed = {"origin": "agent" if singles["stated"] else "auto", "budget_bytes": budget_bytes}
    return fitted(fixed, singles, lists, omitted=omitted, budget_bytes=budget_bytes)


def _since(stated: Mapping[str, Any], turns: Sequence[Turn], gathered: CapsuleFacts) -> Since:
    """Return what a session did with what was handed to it."""
    completed = [turn.query_title for turn in turns if turn.status is TurnStatus.COMPLETED]
    return Since(
        stated={name for name in STATED_LISTS if stated.get(name)},
        finished={compared(text) for text in (*completed, *gathered.finished())},
        has_finished=bool(completed),
        is_resolved=gathered.is_resolved,
    )


def _in_force(turns: Sequence[Turn], session: Session) -> list[Turn]:
    """Return the turns that the user did not rewind."""
    abandoned = frozenset(session.abandoned)
    return [turn for turn in turns if turn.request_id not in abandoned]


def is_head(receipt: str) -> bool:
    """Return True if a receipt is the head of the journal, which tells a reader nothing."""
    return receipt.startswith(f"{_HEAD}sha256:")


def _claims(stated: Mapping[str, Any], name: str, seq: int | None) -> list[tuple[int, dict[str, Any]]]:
    """Return the items of a statement: a text is one, a list has one for each of its texts."""
    given: object = stated.get(name)
    texts = _texts(stated, name) if isinstance(given, list) else [text_of(stated, name)]
    claims = ({"text": text, "basis": "claimed", "seq": seq} for text in texts if text)
    return [(claimed_age(name, position), claim) for position, claim in enumerate(claims)]


def _text(item: Item) -> str:
    return item if isinstance(item, str) else str(item.get("text", ""))


def _lists(
    session: Session, turns: Sequence[Turn], gathered: CapsuleFacts, restores: Sequence[TakenBack]
) -> dict[str, list[Aged]]:
    """Return every list as the journal has it, each item with the seq that tells its age."""
    done = [
        recorded(_outcome(turn, gathered, restores), turn.begun_seq)
        for turn in turns
        if turn.status is TurnStatus.COMPLETED
    ]
    in_force = _in_force(turns, session)
    opened = [
        recorded(turn.query_title.strip(), turn.begun_seq) for turn in in_force if turn.status is TurnStatus.IN_PROGRESS
    ]
    commits: dict[str, Aged] = {}
    for turn in turns:
        for seq, facts in _fields_of(turn):
            for commit in facts.get("commits") or ():
                commits.setdefault(commit["sha"], (seq, f"commit {commit['sha']}"))
    ended = [shell_id for shell_id, shell in gathered.shells.items() if shell["state"] == "ended"]
    forgotten = set(ended[:-_ENDED_SHELLS])
    shells = [shell for shell_id, shell in gathered.shells.items() if shell_id not in forgotten]
    head: list[Aged] = [(_NEWEST, f"{_HEAD}{session.head_hash}")] if session.head_hash else []
    told = {name: _told(in_force, gathered, name) for name in ("next", "do_not")}
    told["refuted"] = _told(turns, gathered, "refuted")
    completed_until = max((turn.begun_seq for turn in turns if turn.status is TurnStatus.COMPLETED), default=0)
    plan = [step for step in gathered.planned() if step[0] > completed_until]
    planned = _first_told(chain(opened, gathered.unfinished(), told["next"], plan))
    done_words = {compared(_text(item)) for _, item in done}
    return {
        "done": _in_order(done),
        "next": _in_order(aged for aged in planned if compared(_text(aged[1])) not in done_words),
        "blockers": _in_order(_blockers(in_force, gathered)),
        "decisions": _in_order(gathered.decisions["decisions"]),
        "do_not": _live(chain(gathered.decisions["do_not"], told["do_not"]), gathered),
        "refuted": _once(chain(gathered.decisions["refuted"], told["refuted"], gathered.failed())),
        "files_touched": _files(turns, gathered, restores),
        "last_commands": [
            (seq, {**command, **_mark(restores, lambda one, name=command["command_id"]: name in one.commands)})
            for seq, command in gathered.last_commands()
        ],
        "shells": list(enumerate(shells)),
        "checkpoints": _latest_of_each(gathered.checkpoints.values()),
        "receipts": [*_in_order(commits.values()), *head],
    }


def _told(turns: Sequence[Turn], gathered: CapsuleFacts, name: str) -> list[Aged]:
    """Return what an agent told in a list of its turns; plans of a finished turn were carried out with it."""
    told: list[Aged] = []
    for turn in turns:
        for text in _texts({name: getattr(turn, name)}, name):
            seq = gathered.added.get((turn.request_id, name, text), turn.begun_seq)
            if name != "next" or not _was_over_later(turn, seq, gathered):
                told.append(recorded(text, seq))
    return [aged for aged in told if name == "refuted" or not gathered.is_resolved(_text(aged[1]), aged[0])]


def _was_over_later(turn: Turn, seq: int, gathered: CapsuleFacts) -> bool:
    """Return True if a turn was completed by a later request than the one that wrote an entry of it."""
    return turn.status is TurnStatus.COMPLETED and seq < gathered.completed_from.get(turn.request_id, seq)


def _blockers(turns: Sequence[Turn], gathered: CapsuleFacts) -> list[Aged]:
    """Return what still stands in the way: neither resolved nor of a turn that was completed after all.

    A stop or a refusal stands in the way of nothing once the user went on with another turn.
    """
    found: dict[str, Aged] = {}
    last = turns[-1].request_id if turns else None
    completed = {compared(turn.query_title): turn.ordinal for turn in turns if turn.status is TurnStatus.COMPLETED}
    for turn in turns:
        for seq, facts in _fields_of(turn):
            for text in _texts(facts, "blockers"):
                at = gathered.added.get((turn.request_id, "blockers", text), seq)
                is_over = text.startswith(_STOPPED) and turn.request_id != last
                if not is_over and not _was_over_later(turn, at, gathered):
                    found.setdefault(compared(text), recorded(text, at))
        note = turn.failure_note.strip()
        was_completed = completed.get(compared(turn.query_title), -1) > turn.ordinal
        is_over = was_completed or (note.startswith(_STOPPED) and turn.request_id != last)
        if turn.status is TurnStatus.FAILED and note and not is_over:
            found.setdefault(compared(note), recorded(note, turn.begun_seq))
    return _live(found.values(), gathered)


def _live(items: Iterable[Aged], gathered: CapsuleFacts) -> list[Aged]:
    return _once(aged for aged in items if not gathered.is_resolved(_text(aged[1]), aged[0]))


def _once(items: Iterable[Aged]) -> list[Aged]:
    """Return items in order, each text where it was said last."""
    newest: dict[str, Aged] = {compared(_text(item)): (age, item) for age, item in _in_order(items)}
    return _in_order(newest.values())


def _first_told(items: Iterable[Aged]) -> list[Aged]:
    """Return items without repeats, each text as it was given first."""
    found: dict[str, Aged] = {}
    for age, item in items:
        found.setdefault(compared(_text(item)), (age, item))
    return list(found.values())


def _latest_of_each(checkpoints: Iterable[Aged]) -> list[Aged]:
    """Return checkpoints without repeats of one label."""
    newest: dict[object, Aged] = {}
    for age, item in checkpoints:
        newest[item["label"] or item["id"] if isinstance(item, dict) else item] = (age, item)
    return _in_order(newest.values())[-_CHECKPOINTS:]


def _requirements(turns: Sequence[Turn]) -> list[Aged]:
    found = dict.fromkeys(text for turn in turns for text in turn.requirements_discovered)
    return list(enumerate(found))


def _asked(turns: Sequence[Turn], open_turn: Item | None) -> list[Aged]:
    """Return what the first turn and the newest ones were asked, where that says more than their titles.

    The open turn tells its own. The title of a turn that failed stands nowhere else.
    """
    current = open_turn.get("request_id") if isinstance(open_turn, dict) else None
    finished = {compared(turn.query_title) for turn in turns if turn.status is TurnStatus.COMPLETED}
    telling = [
        turn
        for turn in turns
        if turn.request_id != current
        and (
            len(compared(turn.query_text)) > len(compared(turn.query_title))
            or (turn.status is TurnStatus.FAILED and compared(turn.query_title) not in finished)
        )
    ]
    chosen = [*telling[:1], *telling[1:][1 - _ASKED :]]
    return [recorded(clipped(turn.query_text.strip(), _ASKED_BYTES), turn.begun_seq) for turn in chosen]


def _fields_of(turn: Turn) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Return the list fields of a turn and of what came later for it, each with the seq to cite."""
    own = {"design_decisions": turn.design_decisions, "blockers": turn.blockers, "commits": turn.commits}
    yield turn.begun_seq, own
    for amendment in turn.amendments:
        yield amendment.seq, amendment.fields


def _files(turns: Sequence[Turn], gathered: CapsuleFacts, restores: Sequence[TakenBack]) -> list[Aged]:
    newest: dict[str, tuple[FileTouch, Turn]] = {}
    changes: Counter[str] = Counter()
    for turn in turns:
        for path, touch in turn.files.items():
            changes[path] += touch.changes
            if path not in newest or touch.seq >= newest[path][0].seq:
                newest[path] = touch, turn
    files: list[Aged] = []
    for path, (touch, turn) in newest.items():
        at = gathered.touched_at(touch, turn)
        mark = _mark(restores, lambda one, path=path, at=at: one.takes_file(path, at))
        item: Item = {"path": path, "changes": changes[path], "last_type": touch.last_type, "git": None, **mark}
        files.append((touch.seq, item))
    return _in_order(files)


def _mark(restores: Sequence[TakenBack], takes: Callable[[TakenBack], bool]) -> dict[str, object]:
    """Return the mark of an item that a restore took back, with who made it; nothing if none did."""
    by = next((one.by for one in reversed(restores) if takes(one)), None)
    return {"taken_back": by} if by else {}


def _outcome(turn: Turn, gathered: CapsuleFacts, restores: Sequence[TakenBack]) -> str:
    """Return a completed turn as its title and the first line of its prose, after who took it back if one did."""
    title, prose = turn.query_title.strip(), _prose(turn.response)
    colon = "" if title.endswith(("?", "!")) else ":"
    text = f"{title.rstrip('.:')}{colon} {prose}" if prose else title
    touched = [(path, gathered.touched_at(touch, turn)) for path, touch in turn.files.items()]
    commands = gathered.commands_of(turn.request_id) if restores else ()
    who = next((one.who for one in reversed(restores) if one.takes(touched, turn, commands)), None)
    if turn.request_id in gathered.abandoned:
        text = f"left by a rewind of the conversation: {text}"
    return f"taken back by {who}, wholly or in part: {text}" if who else text


def _prose(text: str) -> str:
    """Return the first line that is neither a heading, a rule, code nor the mark of a list alone.

    A line that announces the next one is followed by that, also by code.
    """
    lines = [line.strip() for line in text.strip().splitlines()]
    is_code = False
    for n, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and line and not _NO_PROSE.fullmatch(line) and not _is_underlined(lines, n):
            after = (other for other in lines[n + 1 :] if other and not _FENCE.match(other))
            announced = next(after, "") if line.endswith(":") else ""
            return f"{_BULLET.sub('', line)} {_BULLET.sub('', announced)}".strip()
    return next((line for line in lines if _WORD.search(line)), lines[0] if lines else "")


def _is_underlined(lines: Sequence[str], n: int) -> bool:
    return n + 1 < len(lines) and _UNDERLINE.fullmatch(lines[n + 1]) is not None


def _goal(session: Session, turns: Sequence[Turn], stated: str) -> Item:
    if stated:
        return {"text": stated, "basis": "claimed"}
    first = turns[0].query_title.strip() if turns else ""
    return {"text": session.title.strip() or first, "basis": "recorded"}


def _open_turn(session: Session, turns: Sequence[Turn], gathered: CapsuleFacts) -> Item | None:
    unfinished = [turn for turn in _in_force(turns, session) if not turn.is_terminal]
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
        "interpretation": turn.interpretation,
        "response": turn.response,
        "last_dialog": [
            {
                "role": entry.facts.get("role"),
                "category": entry.facts.get("category"),
                "text": text_of(entry.facts, "content"),
                "seq": entry.seq,
            }
            for entry in gathered.dialog.get(turn.request_id, ())
        ],
        "last_command": gathered.last_command_of(turn.request_id),
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
