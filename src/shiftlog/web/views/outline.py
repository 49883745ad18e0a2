"""The outline of a session: its turns with their errors, the strip, files, decisions and commits.

It reads every turn and every entry that can go wrong, so a page asks for it after it is shown.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.changed_files import seen_outside
from shiftlog.journal.history.items import commit_facts
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import status_shown
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.printable import one_line
from shiftlog.web.answers import PageView, wants_json
from shiftlog.web.present.charts import STRIP_MOST, strip
from shiftlog.web.views.endings import failing
from shiftlog.web.views.notes import said_by
from shiftlog.web.views.session import read_session, session_head
from shiftlog.web.views.timeline import counts

TURNS_AT_ONCE = 2_000
ENTRIES_AT_ONCE = 5_000
LISTED_TURNS = 200
LISTED_ERRORS = 2_000
LISTED_FILES = 1_000
LISTED_TEXTS = 200
AXES = ("turn", "time")
_KINDS = (
    Kind.COMMAND_FINISHED,
    Kind.DIALOG,
    Kind.ACTION,
    Kind.RUN_UPDATED,
    Kind.CHECKPOINT_RESTORED,
    Kind.TURN_FAILED,
)

Item = dict[str, Any]


async def outline_page(app: App, request: Request) -> PageView:
    """Show the outline of a session; `axis` draws the strip by turn or by time."""
    axis = request.query_params.get("axis") or "turn"
    if axis not in AXES:
        raise InvalidParameter.invalid("axis", "one of " + ", ".join(AXES), axis, allowed=list(AXES))

    is_json = wants_json(request)

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        turns = every_turn(reader, session)
        errors = _errors(reader, session, {turn.request_id: turn for turn in turns})
        of_turn = Counter(str(error["request_id"]) for error in errors if error["request_id"])
        files = _files(reader, session)
        # Of a long session the page names only what went wrong; a program gets the words of every turn.
        is_told = is_json or len(turns) <= STRIP_MOST
        rows = [_row(session, turn, of_turn[turn.request_id], is_told=is_told) for turn in turns]
        data: Item = {
            "session_id": session.id,
            "turns": rows,
            "errors": errors,
            "errors_total": len(errors),
            "files": files[:LISTED_FILES],
            "files_total": max(reader.count_files(session.id), len(files)),
            "decisions": _texts(turns, "design_decisions"),
            "blockers": _texts(turns, "blockers"),
            "requirements": _texts(turns, "requirements_discovered"),
            "commits": [
                {**commit, "request_id": turn.request_id} for turn in turns for commit in commit_facts(turn.commits)
            ][-LISTED_TEXTS:],
        }
        picture = strip(rows, session.id, by_time=axis == "time")
        extra: Item = {"session": session_head(app, reader, session), "strip": picture, "axis": axis}
        return data, extra | {"groups": _groups(rows)}

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="outline.html", part="_outline.html", extra=extra)


def every_turn(reader: Reader, session: Session) -> list[Turn]:
    """Return all turns of a session, in order."""
    found: list[Turn] = []
    while turns := reader.turns(session.id, after=found[-1].ordinal if found else 0, limit=TURNS_AT_ONCE):
        found += turns
        if len(turns) < TURNS_AT_ONCE:
            break
    return found


def _row(session: Session, turn: Turn, errors: int, *, is_told: bool) -> Item:
    # A transcript's clock may run backwards: no turn takes less than no time.
    lasted = ((turn.finished_at or turn.last_updated) - turn.begun_at).total_seconds()
    status = str(status_shown(turn.status, session.state))
    errors = errors or int(status == "failed")
    return {
        "request_id": turn.request_id,
        "ordinal": turn.ordinal,
        "title": one_line(turn.query_title or turn.query_text, 120) if is_told or errors else "",
        "status": status,
        "errors": errors,
        "begun_at": shown(turn.begun_at) if is_told else "",
        "duration_s": max(0.0, lasted),
    }


def _errors(reader: Reader, session: Session, turns: Mapping[str, Turn]) -> list[Item]:
    """Return each entry that went wrong, in the order of the journal."""
    found: list[Item] = []
    after = 0
    while len(found) < LISTED_ERRORS:
        entries = reader.entries(session.id, after=after, until=session.head_seq, limit=ENTRIES_AT_ONCE, kinds=_KINDS)
        for entry in entries:
            how = failing(entry)
            turn = turns.get(entry.turn) if entry.turn else None
            if how is None or (turn is not None and not counts(turn, entry)):
                continue
            # A command that fails is told by its end; the action that stands for it says no more.
            if entry.kind is Kind.ACTION and entry.facts.get("type") == "command":
                continue
            found.append(
                {
                    "seq": entry.seq,
                    "request_id": entry.turn,
                    "outcome": how,
                    "text": one_line(said_by(entry), 120),
                    # The head of a turn tells of its failure.
                    "anchor": f"t-{entry.turn}" if entry.kind is Kind.TURN_FAILED else f"e{entry.seq}",
                }
            )
        if len(entries) < ENTRIES_AT_ONCE:
            break
        after = entries[-1].seq
    return found


def _files(reader: Reader, session: Session) -> list[Item]:
    """Return the files of a session, the one changed last first."""
    changed: dict[str, Item] = {}
    for row in reversed(reader.find_files(Filter(session_id=session.id), Page(limit=LISTED_FILES * 4))):
        known = changed.pop(row.path, {"changes": 0})
        changed[row.path] = {
            "path": row.path,
            "changes": known["changes"] + row.touch.changes,
            "last_type": row.touch.last_type,
            "request_id": row.request_id,
            "seq": row.touch.seq,
        }
    for _, entry, seen in reversed(list(seen_outside(reader, Filter(session_id=session.id)))):
        for path, how in seen.files.items():
            changes = changed.pop(path, {"changes": 0})["changes"] + 1
            changed[path] = {"path": path, "changes": changes, "last_type": how, "request_id": None, "seq": entry.seq}
    return list(reversed(changed.values()))


def _texts(turns: Sequence[Turn], name: str) -> list[Item]:
    """Return each text once, with its count and the last turn that had it."""
    found: dict[str, Item] = {}
    for turn in turns:
        for text in getattr(turn, name):
            times = found.pop(text)["times"] + 1 if text in found else 1
            found[text] = {"text": text, "request_id": turn.request_id, "times": times}
    return list(found.values())[-LISTED_TEXTS:]


def _groups(rows: Sequence[Item]) -> list[Item]:
    """Return the turns in groups of a size that fits a list; a short session is one group."""
    size = max(LISTED_TURNS, -(-len(rows) // LISTED_TURNS)) if len(rows) > LISTED_TURNS else len(rows) or 1
    return [
        {
            "first": group[0],
            "last": group[-1],
            "errors": sum(row["errors"] for row in group),
            # Of a long session the list names what went wrong; the rest is a link away.
            "turns": group if len(rows) <= LISTED_TURNS else [row for row in group if row["errors"]][:20],
        }
        for group in (rows[at : at + size] for at in range(0, len(rows), size))
    ]
