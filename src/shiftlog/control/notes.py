"""A person's own words about a session: another title, tags, a note; recorded as a person's act."""

from typing import Any

from shiftlog.app.app import App
from shiftlog.control.questions import Params, Question
from shiftlog.facts.batch import origin_key
from shiftlog.journal.activity import BY, PERSON
from shiftlog.journal.joining import GIVEN_TITLE
from shiftlog.journal.journal import find_session
from shiftlog.journal.requests import NAME_CHARS, TITLE_CHARS
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.params.fields import ListOf, Record, SessionRef, Text
from shiftlog.store.protocol import Writer
from shiftlog.store.sources import Origin

NOTE_CHARS = 4_000
ANNOTATE = Record(
    fields={
        "session_id": SessionRef(required=True, description="The session."),
        "title": Text(max_chars=TITLE_CHARS, description="Its new title."),
        "add_tags": ListOf(item=Text(max_chars=NAME_CHARS), max_items=50, description="Tags to add."),
        "remove_tags": ListOf(item=Text(max_chars=NAME_CHARS), max_items=50, description="Tags to remove."),
        "note": Text(lines=True, max_chars=NOTE_CHARS, description="A note for its journal."),
    }
)


async def annotate(app: App, params: Params, caller: Caller) -> object:
    """Rename, tag or annotate a session; raise InvalidParameter if nothing would change."""
    request = app.journal.request("annotate", ANNOTATE, params, caller)

    def work(writer: Writer) -> dict[str, Any]:
        session = find_session(writer, request.values["session_id"])
        changes = _changes(request.values, session.title, session.tags)
        if not changes:
            raise InvalidParameter("Nothing would change", hint="Give another title, a tag or a note")
        pen = app.journal.pen(writer, session.id, session)
        pen.write(Kind.SESSION_UPDATED, {**changes, BY: PERSON})
        pen.commit(writer)
        if "title" in changes:
            # An import must not replace a title that a person chose.
            key = origin_key(session.agent, f"title:{session.id}")
            writer.put_origins({key: Origin(session_id=session.id, doc={"rank": GIVEN_TITLE})})
        return {"session_id": session.id, "title": pen.session.title, "tags": list(pen.session.tags)}

    return await app.journal.transaction(request, work)


def _changes(values: Params, title: str, tags: tuple[str, ...]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    wanted = " ".join(str(values.get("title") or "").split())
    if wanted and wanted != title:
        changes["title"] = wanted
    dropped = set(values.get("remove_tags") or ())
    added = [tag.strip() for tag in values.get("add_tags") or () if tag.strip()]
    kept = [tag for tag in dict.fromkeys((*tags, *added)) if tag not in dropped]
    if kept != list(tags):
        changes["tags"] = kept
    if str(values.get("note") or "").strip():
        changes["note"] = str(values["note"]).strip()
    return changes


QUESTIONS: dict[str, Question] = {"annotate": annotate}
