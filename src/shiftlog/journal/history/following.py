"""Following journals live: the newest entries of one session or of all, then each new one as it is written.

New entries are found by comparing heads, newest activity first, so that entries written by another process over
the same store are seen too.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio

from shiftlog.journal.history.items import entry_item, first_run
from shiftlog.journal.journal import find_session
from shiftlog.model.entry import Entry
from shiftlog.model.limits import FOLLOW_POLL_S
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Filter, Page, Reader, Store

LOOKED_AT = 50


async def follow(store: Store, *, session: str | None, last: int, following: bool) -> AsyncGenerator[dict[str, Any]]:
    """Yield the last entries, oldest first, and then those that come."""
    name = None if session is None else (await store.read(lambda reader: find_session(reader, session))).id
    heads: dict[str, int] = {}
    for line in await store.read(lambda reader: _newest(reader, name, last, heads)):
        yield line
    while following:
        await anyio.sleep(FOLLOW_POLL_S)
        for line in await store.read(lambda reader: _since(reader, name, heads)):
            yield line


def _active(reader: Reader, name: str | None) -> list[Session]:
    rows = reader.find_sessions(Filter(session_id=name), Page(limit=LOOKED_AT), by_activity=True)
    return [row.session for row in rows]


def _newest(reader: Reader, name: str | None, last: int, heads: dict[str, int]) -> list[dict[str, Any]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for session in _active(reader, name):
        heads[session.id] = session.head_seq
        entries = reader.entries(session.id, after=max(0, session.head_seq - last))
        moments = (entry.at.isoformat() for entry in entries)
        found.extend(zip(moments, _lines(reader, session, entries), strict=True))
    found.sort(key=lambda pair: (pair[0], pair[1]["session_id"], pair[1]["seq"]))
    return [line for _, line in found[max(0, len(found) - last) :]] if last else []


def _lines(reader: Reader, session: Session, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    about = {"session_title": session.title} | first_run(session, reader)
    return [entry_item(session.id, entry) | about for entry in entries]


def _since(reader: Reader, name: str | None, heads: dict[str, int]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for session in reversed(_active(reader, name)):
        known = heads.get(session.id, 0)
        if session.head_seq > known:
            entries = reader.entries(session.id, after=known)
            lines += _lines(reader, session, entries)
            heads[session.id] = session.head_seq
    return lines
