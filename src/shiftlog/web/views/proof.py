"""Hand-over and trust: the capsule as the next agent gets it, the lineage, the state of the chain and the receipts."""

from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shiftlog.app.app import App
from shiftlog.journal.continuity.capsule.brief import BRIEF_CHARS
from shiftlog.journal.continuity.capsule.markdown import capsule_markdown
from shiftlog.journal.continuity.capsule.reading import capsule_of
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.journal.journal import find_session
from shiftlog.journal.signing.keys import receipt_document
from shiftlog.model.errors import InvalidParameter
from shiftlog.store.protocol import Reader
from shiftlog.web.answers import HEADERS, NOT_FOUND, PageView, json_response, refusal
from shiftlog.web.present.charts import lineage_picture
from shiftlog.web.views.session import SessionView, number

Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofView:
    """Looks up the capsule, the lineage, the chain and the receipts of a session."""

    app: App
    sessions: SessionView

    async def handover(self, request: Request) -> PageView:
        """Show the capsule of a session as it stands, its Markdown and its lineage."""
        name, now = request.path_params["session_id"], self.app.clock.now()

        def work(reader: Reader) -> Item:
            session = find_session(reader, name)
            capsule = capsule_of(reader, session, now)
            return {
                "session": self.sessions.facts(reader, session, now),
                "capsule": capsule,
                "markdown": capsule_markdown(capsule, session=session, max_chars=BRIEF_CHARS),
                "lineage": lineage(reader, session),
            }

        data = await self.app.store.read(work)
        picture = lineage_picture(data["lineage"], data["session"]["session_id"])
        return PageView(data=data, template="handover.html", extra={"picture": picture})

    async def brief(self, request: Request) -> Response:
        """Return the capsule as Markdown."""
        view = await self.handover(request)
        return Response(view.data["markdown"], 200, HEADERS, "text/markdown; charset=utf-8")

    async def trust(self, request: Request) -> PageView:
        """Check the chain of a session now, against its receipts too."""
        name, now = request.path_params["session_id"], self.app.clock.now()

        def work(reader: Reader) -> tuple[Item, list[Item]]:
            session = find_session(reader, name)
            receipts = [receipt_document(receipt) for receipt in reader.receipts(session.id)]
            return self.sessions.facts(reader, session, now), receipts

        facts, receipts = await self.app.store.read(work)
        finding: Item = {}
        async for found in self.app.maintenance.verify([facts["session_id"]]):
            finding = {**asdict(found), "ok": found.ok}
        data = {"session": facts, "chain": finding, "receipts": receipts}
        return PageView(data=data, template="trust.html", part="_chain.html")

    async def receipt(self, request: Request) -> Response:
        """Return one receipt as a file to keep elsewhere."""
        name, seq = request.path_params["session_id"], number(request.path_params, "seq", 0)

        def work(reader: Reader) -> Item | None:
            receipts = reader.receipts(find_session(reader, name).id)
            return next((receipt_document(receipt) for receipt in receipts if receipt.seq == seq), None)

        document = await self.app.store.read(work)
        if document is None:
            missing = InvalidParameter.invalid("seq", f"the session has no receipt of entry {seq}", seq)
            return refusal(request, missing, NOT_FOUND)
        shown = "".join(char if char.isalnum() or char in "-_." else "-" for char in str(document["session_id"]))
        file = f'attachment; filename="receipt-{shown}-{seq}.json"'
        return json_response(document, headers={"Content-Disposition": file})
