"""The pages beside a session's timeline: hand-over, trust and receipts, one checkpoint, the output of a command."""

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.continuity.capsule.brief import BRIEF_CHARS
from shiftlog.journal.continuity.capsule.markdown import capsule_markdown
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.journal.keeping.facts import kept_facts
from shiftlog.journal.signing.keys import receipt_document
from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, NOT_FOUND, PageView, json_response, refusal
from shiftlog.web.present.addresses import address
from shiftlog.web.present.charts import lineage_picture
from shiftlog.web.views.session import number, read_session, session_head
from shiftlog.web.views.steps import steps_of

OUTPUT_CHARS = 60_000

Item = dict[str, Any]


async def handover_page(app: App, request: Request) -> PageView:
    """Show the capsule of a session as it stands, its Markdown and its lineage."""

    def work(reader: Reader, session: Session) -> Item:
        capsule = capsule_of(reader, session, app.clock.now())
        return {
            "session": session_head(app, reader, session),
            "capsule": capsule,
            "markdown": capsule_markdown(capsule, session=session, max_chars=BRIEF_CHARS),
            "lineage": lineage(reader, session),
        }

    data = await read_session(app, request, work)
    picture = lineage_picture(data["lineage"], data["session"]["session_id"])
    return PageView(data=data, template="handover.html", extra={"picture": picture})


async def handover_file(app: App, request: Request) -> Response:
    """Return the capsule as Markdown."""
    view = await handover_page(app, request)
    return Response(view.data["markdown"], 200, HEADERS, "text/markdown; charset=utf-8")


async def trust_page(app: App, request: Request) -> PageView:
    """Check the chain of a session now, against its receipts too."""

    def work(reader: Reader, session: Session) -> tuple[Item, list[Item]]:
        receipts = [receipt_document(receipt) for receipt in reader.receipts(session.id)]
        return session_head(app, reader, session) | kept_facts(reader, [session], sizes=True)[session.id], receipts

    facts, receipts = await read_session(app, request, work)
    finding: Item = {}
    async for found in app.maintenance.verify([facts["session_id"]]):
        finding = {**asdict(found), "ok": found.ok}
    data = {"session": facts, "chain": finding, "receipts": receipts}
    return PageView(data=data, template="trust.html", part="_chain.html")


async def receipt_file(app: App, request: Request) -> Response:
    """Return one receipt as a file to keep elsewhere."""
    seq = number(request.path_params, "seq", 0)

    def work(reader: Reader, session: Session) -> Item | None:
        receipts = reader.receipts(session.id)
        return next((receipt_document(receipt) for receipt in receipts if receipt.seq == seq), None)

    document = await read_session(app, request, work)
    if document is None:
        missing = InvalidParameter.invalid("seq", f"the session has no receipt of entry {seq}", seq)
        return refusal(request, missing, NOT_FOUND)
    shown = "".join(char if char.isalnum() or char in "-_." else "-" for char in str(document["session_id"]))
    file = f'attachment; filename="receipt-{shown}-{seq}.json"'
    return json_response(document, headers={"Content-Disposition": file})


async def checkpoint_page(app: App, request: Request) -> PageView | Response:
    """Show the checkpoint that an entry saved, and what changed since the one before it in the same workspace."""
    seq = number(request.path_params, "seq", 0)

    def work(reader: Reader, session: Session) -> tuple[Item, list[Entry]]:
        saved = reader.entries(session.id, until=seq, kinds=(Kind.CHECKPOINT_SAVED,))
        return session_head(app, reader, session), [entry for entry in saved if entry.body is not None]

    facts, saved = await read_session(app, request, work)
    if not saved or saved[-1].seq != seq:
        return refusal(request, InvalidParameter.invalid("seq", f"entry {seq} saved no checkpoint", seq), NOT_FOUND)
    this = saved.pop()
    where = ("target", "workspace")
    alike = [entry for entry in saved if all(entry.facts.get(name) == this.facts.get(name) for name in where)]
    before = alike[-1] if alike else None
    data: Item = {
        "session_id": facts["session_id"],
        "checkpoint": this.facts,
        "since": before.facts.get("id") if before else None,
        "changes": await _changes(app, before, this) if before else None,
    }
    return PageView(data=data, template="checkpoint.html", extra={"session": facts, "steps": steps_of([this])})


async def _changes(app: App, before: Entry, this: Entry) -> Item | None:
    """Return the diff of two checkpoints on this machine; remote ones need their shell."""
    if this.facts.get("target") is not None or app.is_for_team:
        return None
    request = {
        "workspace": str(this.facts.get("workspace")),
        "checkpoint_id": str(before.facts.get("id")),
        "to": str(this.facts.get("id")),
        "format": "patch",
    }
    return await app.workspaces.diff_checkpoint(request, Caller(operator=True))


async def output_page(app: App, request: Request) -> PageView:
    """Show a page of one stream of a command's output, from a cursor on, as long as it is kept."""
    query = request.query_params
    arguments: Item = {
        "command_id": request.path_params["command_id"],
        "stream": query.get("stream", "stdout"),
        "max_chars": OUTPUT_CHARS,
        "cursor": query.get("cursor") or None,
    }
    page = await app.shells.commands.read_output(arguments, LIBRARY)
    known = await app.shells.commands.journal.command(arguments["command_id"])
    facts = (known.started or known.finished or {}) if known else {}
    extra: Item = {
        "command": str(facts.get("command") or ""),
        "back": address("sessions", known.session_id, turn=known.request_id) if known else "/sessions",
    }
    return PageView(data=page, template="output.html", part="_output.html", extra=extra)
