"""Filters as predicates over sessions, turns and touched files: what the other stores say in SQL."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import cast

from shiftlog.model.moves import LIVE, SessionState, TurnStatus
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import millis
from shiftlog.store.globs import is_whole, patterns
from shiftlog.store.protocol import Filter
from tests.contract.model_store.shelves import Shelf, Shelves


def session_matches(shelves: Shelves, shelf: Shelf, session: Session, where: Filter) -> bool:
    """Tell whether a session matches, by itself and by its turns: each condition may be met by another turn."""
    kin = kin_of(shelves, shelf) if where.without_subagents else [shelf]
    turns = [turn for one in kin for turn in one.turns.values()]
    if where.tag is not None and where.tag in session.tags:
        where = replace(where, tag=None)
    return session_alone_matches(session, where, turns) and all(
        any(condition(turn) for turn in turns) for condition in _turn_conditions(where, session.workspace)
    )


def kin_of(shelves: Shelves, shelf: Shelf) -> list[Shelf]:
    """Return a session with its subagents and theirs."""
    found = [shelf]
    for parent in found:  # grows as it goes
        found += [
            child
            for child, session in shelves.listed()
            if session.parent_session_id == parent.id and session.subagent and child not in found
        ]
    return found


def session_alone_matches(session: Session, where: Filter, turns: Sequence[Turn]) -> bool:
    """Tell whether a session matches whichever of its turns are asked for; `turns` are all of them."""
    run = session.run
    asked = (
        (where.session_id, session.id),
        (where.agent, session.agent),
        (where.agent_key, session.agent_key),
        (where.model, session.model),
        (where.backend, run.backend if run else None),
        (where.caller, run.caller if run else None),
        (where.run_status, run.status if run else None),
        (where.workspace, session.workspace),
        (where.parent_id, session.parent_session_id),
        (where.predecessor_id, session.predecessor_session_id),
        (where.offered_to, session.offer.agent_key if session.offer else None),
    )
    return (
        all(wanted is None or wanted == actual for wanted, actual in asked)
        and (where.states is None or session.state in where.states)
        and (where.project is None or where.project in _projects(session))
        and (where.from_ is None or last_second(session.last_activity) >= where.from_)
        and (where.to is None or millis(session.started) <= millis(where.to))
        and (where.idle_since is None or millis(session.last_activity) <= millis(where.idle_since))
        and (run is not None or not where.with_run)
        and not (where.without_subagents and session.parent_session_id and session.subagent)
        and (session.offer is not None or not where.offered)
        and _is_in_history(session, where, turns)
    )


def _is_in_history(session: Session, where: Filter, turns: Sequence[Turn]) -> bool:
    """Tell what the session log's history asks for; its times count in whole seconds, as they are shown."""
    since, until = where.started_from, where.active_to
    ended = session.state not in LIVE
    is_open = any(turn.status is TurnStatus.IN_PROGRESS for turn in turns)
    idle = session.state is SessionState.SUSPENDED and bool(turns) and not is_open
    return (
        (where.model_part is None or where.model_part.lower() in (session.model or "unknown").lower())
        and (since is None or millis(session.started) // 1000 >= -(-millis(since) // 1000))
        and (until is None or millis(session.last_activity) // 1000 <= millis(until) // 1000)
        and (where.finished is None or where.finished == (ended or idle))
    )


def all_tags(turn: Turn) -> tuple[str, ...]:
    """Return a turn's tags with those that came later for it."""
    later = (cast("list[str]", note.fields.get("tags", ())) for note in turn.amendments)
    return (*turn.tags, *(tag for tags in later for tag in tags))


def turn_matches(turn: Turn, where: Filter, workspace: str | None) -> bool:
    """Tell whether a turn of a matching session matches, and was worked on in the span that is asked for."""
    return is_in_span(turn.begun_at, last_second(turn.last_updated), where) and all(
        condition(turn) for condition in _turn_conditions(where, workspace)
    )


def entry_matches(shelf: Shelf, session: Session, request_id: str | None, where: Filter) -> bool:
    """Tell whether an entry of a matching session matches: what is asked of turns must hold for its own."""
    if where.tag is not None and where.tag in session.tags:
        where = replace(where, tag=None)
    if not where.asks_turn:
        return True
    turn = shelf.turns.get(request_id) if request_id else None
    return turn is not None and all(condition(turn) for condition in _turn_conditions(where, session.workspace))


def last_second(at: datetime) -> datetime:
    """Return the end of the second in which something was last worked on, for activity counts in whole seconds."""
    return at.replace(microsecond=999_999)


def is_in_span(first: datetime, last: datetime, where: Filter) -> bool:
    """Tell whether something that began and ended at these times falls into the span that is asked for."""
    return (where.from_ is None or millis(last) >= millis(where.from_)) and (
        where.to is None or millis(first) <= millis(where.to)
    )


def is_touched_in_span(touched: datetime | None, changes: int, where: Filter) -> bool:
    """Tell whether a file of a fitting turn was touched in the span; only its last change has a known time."""
    if touched is None:
        return True
    return is_in_span(touched, touched, replace(where, to=None) if changes > 1 else where)


def path_matches(path: str, where: Filter, workspace: str | None) -> bool:
    """Tell whether a touched file of a session with that workspace matches."""
    if where.path is None:
        return True
    forms = [path]
    if is_whole(where.path) and workspace is not None and not path.startswith("/"):
        forms.append(f"{workspace}/{path}")
    return any(_glob(pattern).fullmatch(form) for pattern in patterns(where.path) for form in forms)


def _projects(session: Session) -> tuple[str, ...]:
    workspace = session.workspace
    return () if not workspace else (workspace, PurePosixPath(workspace).name)


def _turn_conditions(where: Filter, workspace: str | None) -> Iterator[Callable[[Turn], bool]]:
    asked = (where.turn_status, where.plan_file, where.todo_id)
    if where.untouched_since is not None or asked != (None, None, None):
        yield where.fits
    if where.tag is not None:
        yield lambda turn: where.tag in all_tags(turn)
    if where.path is not None:
        yield lambda turn: any(path_matches(path, where, workspace) for path in turn.files)


_GLOB = re.compile(r"\*+|\?|\[\^?+\]?+[^\]]*\]|.", re.S)
_SET_MEMBER = re.compile(r"(.)-(.)|.", re.S)


@lru_cache(maxsize=64)
def _glob(pattern: str) -> re.Pattern[str]:
    """Return a pattern in which `*` stands for any text, slashes too, `?` for one character, `[…]` for one of a set."""
    return re.compile(_GLOB.sub(lambda part: _glob_part(part[0]), pattern), re.S)


def _glob_part(part: str) -> str:
    match part[0]:
        case "*":
            return ".*"
        case "?":
            return "."
        case "[" if len(part) == 1:
            return "(?!)"  # a set that is not closed matches nothing
        case "[":
            return _glob_set(part)
        case _:
            return re.escape(part)


def _glob_set(part: str) -> str:
    is_negated = part.startswith("[^")
    inner = part[2 if is_negated else 1 : -1]
    rest = inner.removeprefix("]")
    members = "" if rest == inner else re.escape("]")
    for member in _SET_MEMBER.finditer(rest):
        members += re.escape(member[1] or member[0])
        if member[1] and member[1] <= member[2]:
            members += f"-{re.escape(member[2])}"
    return f"[{'^' if is_negated else ''}{members}]"
