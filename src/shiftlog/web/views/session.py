"""The views of one session: facts and timeline in pages; one turn; its entries; one entry."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.continuity.answers import vendor_resume
from shiftlog.journal.history.items import first_run, obligation, session_facts
from shiftlog.journal.journal import find_session
from shiftlog.journal.runs.service import PricedResponse, Runs, cost_of_turn
from shiftlog.journal.usage.totals import project_of
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.moves import SessionState, status_shown
from shiftlog.model.nouns import Session, Turn
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import NOT_FOUND, PageView, refusal
from shiftlog.web.present.texts import between
from shiftlog.web.views.notes import said_by
from shiftlog.web.views.now import waiting
from shiftlog.web.views.steps import images_of, steps_of
from shiftlog.web.views.timeline import (
    ENTRIES_SHOWN,
    Piece,
    TurnPlace,
    entry_document,
    find_turn,
    in_order,
    is_of,
    late_notes,
    read_children,
    read_pieces,
    read_restores,
    read_strays,
    read_turn,
    turn_document,
    who_took_back,
)
from shiftlog.web.views.timing import timing_of

OPENED_ENTRIES = 40
SHORT_SESSION = 400
ENTRIES_MOST = 1_000
WHOLE_TURN = 1_000_000

Item = dict[str, Any]
Read = TypeVar("Read")


async def read_session(app: App, request: Request, work: Callable[[Reader, Session], Read]) -> Read:
    """Read from the store about the session that the address names."""
    name = request.path_params["session_id"]
    return await app.store.read(lambda reader: work(reader, find_session(reader, name)))


async def session_page(app: App, request: Request) -> PageView:
    """Show a session: facts and a page of its timeline; `turn` begins it at that turn."""
    query = request.query_params

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        place = query.get("place")
        if query.get("turn"):
            turn = find_turn(reader, session, query["turn"])
            place = f"{turn.ordinal - 1}-{turn.begun_seq - 1}"
        pieces, next_place = read_pieces(reader, session, place)
        data: Item = {
            "session": session_head(app, reader, session),
            "timeline": [_piece_document(piece) for piece in pieces],
            "next_place": next_place,
        }
        blocks = timeline_blocks(reader, session, pieces, app.runs, is_end=next_place is None)
        extra: Item = {"timeline": blocks, "is_first": not place}
        if "part" not in query:
            extra["questions"] = waiting(app, session.id)
            extra |= {"family": _family(reader, session), "find": query.get("find", "")}
        return data, extra

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="session.html", part="_timeline.html", extra=extra)


async def turn_page(app: App, request: Request) -> PageView:
    """Show the steps of one turn, from the entry `after` or the position `place` on."""
    query = request.query_params
    place = TurnPlace.read(query.get("place"), number(query, "after", 0))

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        turn = find_turn(reader, session, request.path_params["request_id"])
        entries, next_place = read_turn(reader, session, turn, place)
        children = [] if next_place else [child for child in read_children(reader, session) if is_of(child, turn)]
        data: Item = {
            "session_id": session.id,
            "turn": turn_document(turn),
            "entries": [entry_document(entry) for entry in entries],
            "next_place": next_place,
        }
        responses = app.runs.responses_of(session, turn, reader)
        steps = steps_of(entries, children, turn, of_page(responses, entries, next_place))
        cost_usd, images = cost_of_turn(turn, responses), request_images(entries)
        block = turn_block(session, turn, steps, cost_usd, opened=True, next_place=next_place, images=images)
        block["taken_back"] = who_took_back(read_restores(reader, session), turn, entries)
        return data, {"block": block, "session": session_head(app, reader, session)}

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="turn.html", part="_turn_steps.html", extra=extra)


async def entries_page(app: App, request: Request) -> PageView:
    """Show the journal itself: entries as they were written."""
    query = request.query_params
    after, limit = number(query, "after", 0), number(query, "limit", 100, ENTRIES_MOST, least=1)

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        entries = reader.entries(session.id, after=after, until=session.head_seq, limit=limit)
        last = entries[-1].seq if entries else session.head_seq
        data: Item = {
            "session_id": session.id,
            "entries": [entry_document(entry) for entry in entries],
            "total": session.head_seq,
            "next_after": last if last < session.head_seq else None,
        }
        named = {entry.turn: reader.turn(session.id, entry.turn) for entry in entries if entry.turn}
        return data, {
            "session": session_head(app, reader, session),
            "says": {entry.seq: said_by(entry) for entry in entries},
            "ordinals": {name: turn.ordinal for name, turn in named.items() if turn is not None},
        }

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="entries.html", extra=extra)


async def entry_page(app: App, request: Request) -> PageView | Response:
    """Show one entry whole, and where it belongs."""
    seq = number(request.path_params, "seq", 0)

    def work(reader: Reader, session: Session) -> tuple[Item, Item] | None:
        found = reader.entries(session.id, after=seq - 1, until=seq) if 0 < seq <= session.head_seq else []
        if not found:
            return None
        data: Item = {"session_id": session.id, "entry": entry_document(found[0]), "total": session.head_seq}
        return data, {"session": session_head(app, reader, session)}

    read = await read_session(app, request, work)
    if read is None:
        return refusal(request, InvalidParameter.invalid("seq", f"the session has no entry {seq}", seq), NOT_FOUND)
    return PageView(data=read[0], template="entry.html", extra=read[1])


def session_head(app: App, reader: Reader, session: Session) -> Item:
    """Return the facts in the head of a session's page."""
    now = app.clock.now()
    facts = session_facts(session, app.runs, reader) | obligation(session, now) | first_run(session, reader)
    ends = None if session.state is SessionState.OPEN and session.turns_open else facts["last_activity"]
    return facts | {
        "files": reader.count_files(session.id),
        "duration_s": int(between(facts["started"], ends, now)),
        "is_live": session.is_live,
        "resume_command": vendor_resume(session),
        "can_undo": bool(reader.entries(session.id, limit=1, kinds=(Kind.CHECKPOINT_SAVED,))),
        "subagent": dict(session.subagent),
        "project": project_of(session.workspace),
    }


def timeline_blocks(
    reader: Reader, session: Session, pieces: Sequence[Piece], runs: Runs, *, is_end: bool, whole: bool = False
) -> list[Item]:
    """Return the pieces of a timeline for the template; a short session shows its steps at once, `whole` any."""
    blocks: list[Item] = []
    children = read_children(reader, session)
    restores = read_restores(reader, session)
    first = next((piece.turn for piece in pieces if piece.turn is not None), None)
    late = late_notes(reader, session, first.begun_seq) if first is not None else []
    room = SHORT_SESSION if session.head_seq <= SHORT_SESSION else OPENED_ENTRIES
    for piece in pieces:
        turn = piece.turn
        if turn is None:
            blocks.append({"kind": "loose", "seq": piece.seq, "steps": steps_of(in_order(piece.entries))})
            continue
        size, responses = turn.last_seq - turn.begun_seq, runs.responses_of(session, turn, reader)
        cost_usd = cost_of_turn(turn, responses)
        if not whole and turn.is_terminal and size > room:
            begun = reader.entries(session.id, after=turn.begun_seq - 1, until=turn.begun_seq)
            block = turn_block(session, turn, None if size > 1 else [], cost_usd, images=request_images(begun))
            blocks.append(block | {"taken_back": who_took_back(restores, turn)})
            continue
        room_of_turn = WHOLE_TURN if whole else ENTRIES_SHOWN
        entries, next_place = read_turn(reader, session, turn, TurnPlace(), room_of_turn, late)
        own = [] if next_place else [child for child in children if is_of(child, turn)]
        opened = whole or not turn.is_terminal or len(entries) <= OPENED_ENTRIES
        steps = steps_of(entries, own, turn, of_page(responses, entries, next_place))
        images = request_images(entries)
        block = turn_block(session, turn, steps, cost_usd, opened=opened, next_place=next_place, images=images)
        blocks.append(block | {"taken_back": who_took_back(restores, turn, entries)})
        room -= len(entries)
    strays = read_strays(reader, session, children) if is_end else []
    if strays:
        blocks.append({"kind": "loose", "seq": session.head_seq, "steps": steps_of((), strays)})
    return blocks


def of_page(
    responses: Sequence[PricedResponse], entries: Sequence[Entry], next_place: str | None
) -> Sequence[PricedResponse]:
    """Return the responses that led to a page of a turn's steps; later ones belong to its next page."""
    if next_place is None or not entries:
        return responses
    return [response for response in responses if response.at <= entries[-1].at]


def number(given: Mapping[str, Any], name: str, default: int, most: int = 1 << 30, *, least: int = 0) -> int:
    """Read a whole number of a query or a path."""
    text = str(given.get(name) or "")
    if not text:
        return default
    # Measured first: Python refuses to read thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and least <= int(text) <= most):
        raise InvalidParameter.invalid(name, f"a whole number from {least} to {most}", text)
    return int(text)


def request_images(entries: Sequence[Entry]) -> list[Item]:
    """Return the images of a turn's request."""
    return [image for entry in entries if entry.kind is Kind.TURN_BEGUN for image in images_of(entry)]


def _request(turn: Turn) -> Item:
    """Return the request of a turn so that nothing is said twice: a title that only begins the text is left out."""
    title, text = " ".join(turn.query_title.split()), " ".join(turn.query_text.split())
    begins = text.startswith(title.rstrip("….").rstrip())
    return {"request": turn.query_text if text and text != title else None, "title_begins_request": begins}


def turn_block(
    session: Session,
    turn: Turn,
    steps: list[Item] | None,
    cost_usd: float | None,
    *,
    opened: bool = False,
    next_place: str | None = None,
    images: Sequence[Item] = (),
) -> Item:
    """Return a turn for the template."""
    document = turn_document(turn)
    return {
        **_request(turn),
        "images": list(images),
        "errors": sum(bool(step["error"]) for step in steps or ()),
        "timing": timing_of(turn, steps) if steps is not None else None,
        "kind": "turn",
        "seq": turn.begun_seq,
        "turn": document,
        "status": status_shown(turn.status, session.state),
        "abandoned": turn.request_id in session.abandoned,
        "steps": steps,
        # Commands and checkpoints are steps beside dialog and actions, notes are none.
        "count": turn.dialog_items + turn.actions if steps is None else sum(step["type"] != "quiet" for step in steps),
        "opened": opened,
        "next_place": next_place,
        "duration_s": between(document["begun_at"], document["finished_at"], turn.last_updated),
        "tokens": _tokens(turn),
        "cost_usd": cost_usd,
    }


def _tokens(turn: Turn) -> int:
    used = turn.usage
    if used is None:
        return turn.token_count
    return used.input_tokens + used.cached_input_tokens + used.cache_creation_tokens + used.output_tokens


def _piece_document(piece: Piece) -> Item:
    if piece.turn is not None:
        return {"kind": "turn", "seq": piece.seq, "turn": turn_document(piece.turn)}
    return {"kind": "entries", "seq": piece.seq, "entries": [entry_document(entry) for entry in piece.entries]}


def _family(reader: Reader, session: Session) -> Item:
    """Return parent, predecessor and successor of a session."""
    names = {
        "parent": session.parent_session_id,
        "predecessor": session.predecessor_session_id,
        "successor": session.successor_session_id,
    }
    found = {how: reader.session(name) for how, name in names.items() if name}
    return {how: {"session_id": one.id, "title": one.title} for how, one in found.items() if one is not None}
