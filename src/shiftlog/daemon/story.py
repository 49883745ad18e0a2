"""The answer to `story`: a session as its page tells it, turn by turn, for the terminal."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.naming import named_turn
from shiftlog.journal.journal import find_session
from shiftlog.journal.keeping.facts import kept_facts
from shiftlog.store.protocol import Reader
from shiftlog.web.views.session import session_head, timeline_blocks
from shiftlog.web.views.timeline import Piece, read_pieces

TURNS_AT_ONCE = 20

Item = dict[str, Any]


async def story(app: App, params: Mapping[str, Any]) -> AsyncGenerator[Item]:
    """Yield the facts of a session, then its turns and what is between them; with `turn` that turn alone."""
    name, typed = str(params["session_id"]), params.get("turn")
    session = await app.store.read(lambda reader: find_session(reader, name))
    only = await app.store.read(lambda reader: named_turn(reader, session, str(typed))) if typed else None
    sizes = bool(params.get("sizes"))
    yield {
        "session": await app.store.read(
            lambda reader: session_head(app, reader, session) | kept_facts(reader, [session], sizes=sizes)[session.id]
        )
    }
    place: str | None = None
    while True:

        def work(reader: Reader, place: str | None = place) -> tuple[list[Item], str | None]:
            if only is not None:
                pieces, next_place = [Piece(seq=only.begun_seq, turn=only)], None
            else:
                pieces, next_place = read_pieces(reader, session, place, TURNS_AT_ONCE)
            is_end = only is None and next_place is None
            blocks = timeline_blocks(reader, session, pieces, app.runs, is_end=is_end, whole=True)
            return blocks, next_place

        blocks, place = await app.store.read(work)
        for block in blocks:
            yield block
        if place is None:
            return
