"""Replay of a session: its scenes, which are turns and the commands between them, and the steps of one scene.

The page asks for the list of scenes once, and for the steps of a scene when it comes to it.
"""

from collections.abc import Sequence
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.runs.service import cost_of_turn
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import millis
from shiftlog.store.protocol import Reader
from shiftlog.text.printable import one_line
from shiftlog.web.answers import PageView
from shiftlog.web.views.outline import every_turn
from shiftlog.web.views.session import number, of_page, read_session, request_images, session_head, turn_block
from shiftlog.web.views.steps import steps_of
from shiftlog.web.views.timeline import TurnPlace, find_turn, in_order, is_of, read_children, read_turn

# Entries outside of turns that are worth a scene; the rest of them is bookkeeping.
_ACTED = (
    Kind.COMMAND_STARTED,
    Kind.COMMAND_FINISHED,
    Kind.COMMAND_ASKED,
    Kind.COMMAND_DECIDED,
    Kind.CHECKPOINT_RESTORED,
)
LOOSE_MOST = 20_000
SCENE_ENTRIES = 150

Item = dict[str, Any]


async def replay_page(app: App, request: Request) -> PageView:
    """Show the player, or as a part the steps of the scene that `turn`, or `from` and `to`, names."""
    query = request.query_params
    if "part" in query:
        return await _scene(app, request, query)

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        data: Item = {"session_id": session.id, "scenes": _scenes(reader, session)}
        return data, {"session": session_head(app, reader, session)}

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="replay.html", extra=extra)


async def _scene(app: App, request: Request, query: QueryParams) -> PageView:
    after, place = number(query, "after", 0), query.get("place")
    first, last = number(query, "from", 1, least=1), number(query, "to", 1, least=1)

    def work(reader: Reader, session: Session) -> Item:
        about: Item = {
            "session": session_head(app, reader, session),
            "session_id": session.id,
            "is_first": not (after or place),
        }
        if query.get("turn"):
            turn = find_turn(reader, session, query["turn"])
            entries, next_place = read_turn(reader, session, turn, TurnPlace.read(place), SCENE_ENTRIES)
            children = [] if next_place else [child for child in read_children(reader, session) if is_of(child, turn)]
            responses = app.runs.responses_of(session, turn, reader)
            steps = steps_of(entries, children, turn, of_page(responses, entries, next_place))
            block = turn_block(session, turn, steps, cost_of_turn(turn, responses), images=request_images(entries))
            moments: Item = {"begun_ms": millis(turn.begun_at), "ends_ms": _ends(turn)}
            return (
                about
                | moments
                | {"block": block, "steps": steps, "rest": {"place": next_place} if next_place else None}
            )
        after_seq = max(after, first - 1)
        read = reader.entries(
            session.id, after=after_seq, until=min(last, session.head_seq), limit=SCENE_ENTRIES, kinds=_ACTED
        )
        loose = [entry for entry in read if entry.turn is None]
        more = read[-1].seq if len(read) == SCENE_ENTRIES else None
        return about | {"block": None, "steps": steps_of(in_order(loose)), "rest": {"after": more} if more else None}

    found = await read_session(app, request, work)
    asked = {name: query[name] for name in ("turn", "from", "to") if query.get(name)}
    found["rest"] = found["rest"] and {**asked, **found["rest"]}
    return PageView(data={}, template="replay.html", part="_scene.html", extra={**found, "replaying": True})


def _scenes(reader: Reader, session: Session) -> list[Item]:
    """Return the scenes of a session in the order in which they happened."""
    turns = [_turn_scene(turn) for turn in every_turn(reader, session)]
    loose = reader.entries(session.id, until=session.head_seq, limit=LOOSE_MOST, kinds=_ACTED)
    groups: list[list[Entry]] = []
    begins = [scene["begun_ms"] for scene in turns]
    for entry in in_order([entry for entry in loose if entry.turn is None]):
        last = groups[-1][-1] if groups else None
        if last is None or any(millis(last.at) < begun <= millis(entry.at) for begun in begins):
            groups.append([])
        groups[-1].append(entry)
    scenes = [*turns, *map(_loose_scene, groups)]
    return sorted(scenes, key=lambda scene: scene["begun_ms"])


def _turn_scene(turn: Turn) -> Item:
    return {
        "request_id": turn.request_id,
        "from_seq": turn.begun_seq,
        "to_seq": turn.last_seq,
        "title": f"{turn.ordinal} {one_line(turn.query_title or turn.query_text, 120)}",
        "begun_ms": millis(turn.begun_at),
        "ended_ms": _ends(turn),
    }


def _loose_scene(entries: Sequence[Entry]) -> Item:
    commands = sum(entry.kind is Kind.COMMAND_STARTED for entry in entries)
    return {
        "request_id": None,
        "from_seq": min(entry.seq for entry in entries),
        "to_seq": max(entry.seq for entry in entries),
        "title": f"Outside of turns: {commands} {'command' if commands == 1 else 'commands'}",
        "begun_ms": millis(entries[0].at),
        "ended_ms": millis(entries[-1].at),
    }


def _ends(turn: Turn) -> int:
    return max(millis(turn.finished_at or turn.last_updated), millis(turn.begun_at))
