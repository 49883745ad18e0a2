"""The first page beside the list: it shows commands that wait for a person, turns in progress and recent failures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.items import first_run
from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import shown
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.text.titles import shown_title
from shiftlog.web.answers import PageView
from shiftlog.web.views.rail import list_row, read_rail

FAILED_DAYS = 7
FAILED_SHOWN = 10
FAILED_READ = 200
WORKING_SHOWN = 30
AWAITING_SHOWN = 20
PROJECTS_SHOWN = 12

Item = dict[str, Any]


async def now_page(app: App, request: Request) -> PageView:
    """Show what waits, works and failed, or as a part what waits in one session.

    A browser that notifies its person asks for the JSON.
    """
    rail = await read_rail(app, QueryParams())
    overview = await read_overview(app, rail.items)
    session_id = request.query_params.get("session")
    extra: Item = {"rail": rail, "questions": waiting(app, session_id) if session_id else []}
    part = "_waits.html" if session_id else "_now.html"
    return PageView(data={"overview": overview}, template="now.html", part=part, extra=extra)


def waiting(app: App, session_id: str | None = None) -> list[Item]:
    """Return the questions that wait for a person, each with the directory in which its command would run."""
    questions = app.shells.open_questions() if app.live_shells() else []
    return [_placed(app, one) for one in questions if session_id in (None, one["session_id"])]


async def read_overview(app: App, listed: Sequence[Item]) -> Item:
    """Return what the first page shows; `listed` are the sessions of the list beside it."""
    questions = waiting(app)
    now = app.clock.now()

    def work(reader: Reader) -> Item:
        awaiting = Filter(states=frozenset({str(SessionState.AWAITING_SUCCESSOR)}))
        rows = reader.find_sessions(awaiting, Page(limit=AWAITING_SHOWN), by_activity=True)
        return {
            "questions": questions,
            "titles": _titles(reader, (str(one["session_id"]) for one in questions)),
            "awaiting": [list_row(app, reader, row.session, now) for row in rows],
            "working": [
                {**item, "turn": _current(reader, str(item["session_id"]))}
                for item in _every(listed)
                if item["state"] == SessionState.OPEN and item["turns_open"]
            ][:WORKING_SHOWN],
            "failed": _failed(reader, now),
            "projects": list(dict.fromkeys(str(item["project"]) for item in listed if item["project"]))[
                :PROJECTS_SHOWN
            ],
        }

    return await app.store.read(work)


def _failed(reader: Reader, now: datetime) -> list[Item]:
    """Return the last failed turn of each session that failed lately, and how many there were.

    One session that fails all the time does not hide the others.
    """
    failed = Filter(turn_status=str(TurnStatus.FAILED), from_=now - timedelta(days=FAILED_DAYS))
    rows = [row for row in reader.find_turns(failed, Page(limit=FAILED_READ)) if row.turn.status is TurnStatus.FAILED]
    rows.sort(key=lambda row: _ended(row.turn), reverse=True)
    times = Counter(row.session.id for row in rows)
    newest = {row.session.id: row for row in reversed(rows)}
    return [
        {
            "session_id": name,
            "session_title": newest[name].session.title,
            "request_id": newest[name].turn.request_id,
            "title": newest[name].turn.query_title,
            "note": newest[name].turn.failure_note,
            "at": shown(_ended(newest[name].turn)),
            "times": count,
        }
        for name, count in list(times.items())[:FAILED_SHOWN]
    ]


def _ended(turn: Turn) -> datetime:
    return turn.finished_at or turn.last_updated


def _placed(app: App, question: Item) -> Item:
    """Return a question with the directory in which its command would run."""
    shell = app.shells.registry.find(str(question.get("shell_id") or ""))
    return {**question, "cwd": shell.cwd if shell is not None else None}


def _every(listed: Iterable[Item]) -> Iterable[Item]:
    for item in listed:
        yield item
        yield from item["children"]


def _titles(reader: Reader, names: Iterable[str]) -> dict[str, str]:
    return {
        name: shown_title(session.title, first_run(session, reader).get("ran"))
        for name in set(names)
        if (session := reader.session(name)) is not None
    }


def _current(reader: Reader, session_id: str) -> str:
    session = reader.session(session_id)
    turn = reader.turn(session_id, session.current_turn) if session and session.current_turn else None
    return turn.query_title if turn else ""
