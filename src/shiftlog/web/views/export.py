"""Export of a session: one self-contained HTML file, Markdown, or the journal as JSON lines.

Written in pieces, so that a session of any length needs little memory. JSON lines hold everything that
`shiftlog verify` reads; the other two are for people.
"""

import base64
import hashlib
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shiftlog.app.app import App
from shiftlog.journal.history.items import session_facts
from shiftlog.journal.journal import find_session
from shiftlog.journal.signing.keys import receipt_document
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS
from shiftlog.web.present.templates import HERE, render
from shiftlog.web.views.export_markdown import markdown_head, markdown_piece
from shiftlog.web.views.session import SessionView, turn_block
from shiftlog.web.views.steps import steps_of
from shiftlog.web.views.timeline import (
    Piece,
    entry_document,
    is_of,
    read_children,
    read_strays,
    read_stretch,
    read_turn,
)

FORMATS = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
ENTRIES_AT_ONCE = 500
TURNS_AT_ONCE = 20
WHOLE_TURN = 1_000_000

Item = dict[str, Any]


async def exported(app: App, name: str, form: str) -> AsyncGenerator[str]:
    """Yield a session in a format, in pieces that together are the file; raises before the first piece."""
    if form not in FORMATS:
        raise InvalidParameter.invalid("format", "one of " + ", ".join(FORMATS), form, allowed=list(FORMATS))
    session = await app.store.read(lambda reader: find_session(reader, name))
    pieces = {"html": _html, "md": _markdown, "jsonl": _jsonl}[form](app, session)
    async for piece in pieces:
        yield piece


async def download(app: App, request: Request) -> Response:
    """Answer with a session as a file."""
    name, form = request.path_params["session_id"], request.path_params["form"]
    pieces = exported(app, name, form)
    first = await anext(pieces)
    session = await app.store.read(lambda reader: find_session(reader, name))

    async def whole() -> AsyncGenerator[bytes]:
        yield first.encode("utf-8", "replace")
        async for piece in pieces:
            yield piece.encode("utf-8", "replace")

    file = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "-" for char in session.id)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{file}.{form}"'}
    return StreamingResponse(whole(), 200, headers, FORMATS[form])


async def _jsonl(app: App, session: Session) -> AsyncGenerator[str]:
    facts = await app.store.read(lambda reader: session_facts(session, app.runs, reader))
    yield _line({"type": "session", **facts})
    after = 0
    while after < session.head_seq:
        entries = await app.store.read(
            lambda reader, after=after: reader.entries(
                session.id, after=after, until=session.head_seq, limit=ENTRIES_AT_ONCE
            )
        )
        if not entries:
            break
        yield "".join(
            _line(
                {"type": "entry", **entry_document(entry), "salt": base64.b64encode(entry.salt or b"").decode() or None}
            )
            for entry in entries
        )
        after = entries[-1].seq
    for receipt in await app.store.read(lambda reader: reader.receipts(session.id)):
        if receipt.seq > session.head_seq:
            continue  # signed since the export began, over entries that are not in it
        yield _line({"type": "receipt", **receipt_document(receipt)})


def _line(document: Item) -> str:
    return msgspec.json.encode(document).decode() + "\n"


async def _blocks(app: App, session: Session) -> AsyncGenerator[list[Item]]:
    """Yield the whole timeline for the templates, some turns at a time."""
    place: str | None = None
    while True:

        def work(reader: Reader, place: str | None = place) -> tuple[list[Item], str | None]:
            stretch = read_stretch(reader, session, place, TURNS_AT_ONCE)
            children = read_children(reader, session)
            blocks = [_block(reader, session, piece, children) for piece in stretch.pieces]
            strays = read_strays(reader, session, children) if stretch.next_place is None else []
            if strays:
                blocks.append({"kind": "loose", "seq": session.head_seq, "steps": steps_of((), strays)})
            return blocks, stretch.next_place

        blocks, place = await app.store.read(work)
        yield blocks
        if place is None:
            return


def _block(reader: Reader, session: Session, piece: Piece, children: list[Session]) -> Item:
    if piece.turn is None:
        return {"kind": "loose", "seq": piece.seq, "steps": steps_of(piece.entries)}
    own = [child for child in children if is_of(child, piece.turn)]
    steps = steps_of(read_turn(reader, session, piece.turn, 0, WHOLE_TURN), own)
    return turn_block(session, piece.turn, steps, opened=True)


async def _html(app: App, session: Session) -> AsyncGenerator[str]:
    view = SessionView(app=app)
    now = app.clock.now()
    facts = await app.store.read(lambda reader: view.facts(reader, session, now))
    style = (HERE / "static" / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    frame = {"session": facts, "style": style, "digest": digest, "at": shown(now), "session_id": session.id}
    yield render("export_head.html", frame, exporting=True)
    async for blocks in _blocks(app, session):
        yield render("export_blocks.html", {"timeline": blocks, "session_id": session.id}, exporting=True)
    yield render("export_foot.html", frame, exporting=True)


async def _markdown(app: App, session: Session) -> AsyncGenerator[str]:
    now = app.clock.now()
    facts = await app.store.read(lambda reader: SessionView(app=app).facts(reader, session, now))
    yield markdown_head(facts)
    async for blocks in _blocks(app, session):
        yield "".join(markdown_piece(block) for block in blocks)
