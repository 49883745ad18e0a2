"""Search inside one session: every entry that matches, in the order of the journal."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from shiftlog.app.app import App
from shiftlog.journal.history.requests import expression
from shiftlog.journal.texts import summary
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.model.search import Term, Word, positive_terms
from shiftlog.store.protocol import Filter, Hit, Reader
from shiftlog.text.titles import shown_title
from shiftlog.web.answers import PageView, wants_json
from shiftlog.web.views.session import read_session, session_head

MATCHES = 1_000
LINES = 200
_SAID = (Kind.DIALOG, Kind.TURN_BEGUN, Kind.TURN_COMPLETED, Kind.TURN_FAILED)
_OF_COMMANDS = (Kind.COMMAND_STARTED, Kind.COMMAND_FINISHED, Kind.ACTION)

Item = dict[str, Any]


async def find_page(app: App, request: Request) -> PageView:
    """List the entries of a session that match `q`."""
    text = request.query_params.get("q", "").strip()
    if not text:
        raise InvalidParameter.missing("q")
    try:
        expr = expression(text)
    except InvalidParameter as error:
        raise InvalidParameter.invalid("q", str(error.details.get("constraint", "")), text) from None

    is_json = wants_json(request)

    def work(reader: Reader, session: Session) -> tuple[Item, Item]:
        found = reader.search(expr, Filter(session_id=session.id), unit="entry", limit=MATCHES, most=MATCHES)
        hits = _one_per_command(reader, session, sorted(found.hits, key=lambda hit: hit.seq))
        data: Item = {
            "session_id": session.id,
            "q": text,
            "terms": [_said(term) for term in positive_terms(expr)],
            "total": found.total if found.total > MATCHES else len(hits),
            "matches": [{"seq": hit.seq, "request_id": hit.turn} for hit in hits],
        }
        told = {} if is_json else {hit.seq: _line(reader, session, hit.seq) for hit in hits[:LINES]}
        return data, {"session": session_head(app, reader, session), "told": told}

    data, extra = await read_session(app, request, work)
    return PageView(data=data, template="find.html", extra=extra)


def _one_per_command(reader: Reader, session: Session, hits: Sequence[Hit]) -> list[Hit]:
    """Leave out entries of a command that was found before: its start, its end and its action are one step."""
    seen: set[str] = set()
    kept: list[Hit] = []
    for hit in hits:
        found = reader.entries(session.id, after=hit.seq - 1, until=hit.seq, kinds=_OF_COMMANDS)
        command = str(found[0].facts.get("command_id") or "") if found else ""
        if command not in seen:
            kept.append(hit)
        seen |= {command} - {""}
    return kept


def _line(reader: Reader, session: Session, seq: int) -> str:
    """Return one line about an entry; what was said loses its Markdown, what a tool wrote stays as it is."""
    entry = next(iter(reader.entries(session.id, after=seq - 1, until=seq)), None)
    if entry is None:
        return ""
    line = summary(entry)
    is_said = entry.kind in _SAID and entry.facts.get("category") not in ("tool_call", "tool_result")
    return shown_title(line) if is_said else line


def _said(term: Term) -> str:
    """Return the letters that a term looks for, for marking them on the page."""
    return term.text if isinstance(term, Word) else " ".join(term.words)
