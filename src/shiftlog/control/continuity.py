"""Questions about closing, resuming and handing over sessions."""

from shiftlog.app.app import App
from shiftlog.control.newer import newer
from shiftlog.control.questions import Params, Question
from shiftlog.dialects.delx.refusals import refusal
from shiftlog.journal.clients import sessions_around
from shiftlog.journal.continuity.capsule.brief import BRIEF_CHARS, brief
from shiftlog.journal.continuity.capsule.markdown import capsule_markdown
from shiftlog.journal.continuity.handover import offered, shown_offer
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.journal.journal import find_session
from shiftlog.journal.last_session import without_expired_offer
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.store.protocol import Reader


async def _close_or_resume(app: App, params: Params, caller: Caller) -> object:
    """Close or resume as the tools do: the same answer with its prose, or the same error body.

    The prose of a resume is followed by the capsule, which a person cannot read from the lists of the answer.
    """
    tool = "close_session" if params.get("tool") == "close_session" else "resume_session"
    run = app.delx.close_session if tool == "close_session" else app.delx.resume_session
    try:
        shown, prose = await run(params.get("arguments") or {}, caller)
    except ShiftlogError as error:
        return {"refusal": refusal(tool, error)}
    if tool == "close_session" or prose is None:
        return {"answer": shown, "prose": prose}
    data = shown["data"]
    named = data["predecessor_session_id"] if data["resume_mode"] == "forked" else data["session_id"]
    session = await app.store.read(lambda reader: find_session(reader, named))
    handed = capsule_markdown(data["capsule"], session=session, max_chars=BRIEF_CHARS)
    return {"answer": shown, "prose": f"{prose}\n\n{handed}"}


async def _offers(app: App, params: Params, caller: Caller) -> object:
    now = app.clock.now()
    sessions = await app.store.read(offered)
    items = [shown_offer(each) for each in sessions if without_expired_offer(each, now).offer is not None]
    return {"items": newer(items, params, "offered_at", now)}


async def _lineage(app: App, params: Params, caller: Caller) -> object:
    name = str(params["session_id"])
    return await app.store.read(lambda reader: lineage(reader, find_session(reader, name)))


async def _brief(app: App, params: Params, caller: Caller) -> object:
    named = {name: str(params[name]) for name in ("agent_id", "cwd", "session_id") if params.get(name)}
    chars = int(params.get("max_chars") or BRIEF_CHARS)
    now, holders = app.clock.now(), app.journal.holders

    def work(reader: Reader) -> str:
        own = holders.sessions_of(reader, caller, now) | sessions_around(reader, caller)
        return brief(reader, caller, now, own=own, max_chars=chars, **named)

    return {"text": await app.store.read(work)}


QUESTIONS: dict[str, Question] = {
    "continuity": _close_or_resume,
    "reissue_token": lambda app, params, caller: app.continuity.reissue_token(params, caller),
    "offer": lambda app, params, caller: app.continuity.offer(params, caller),
    "decline": lambda app, params, caller: app.continuity.decline(params, caller),
    "revoke": lambda app, params, caller: app.continuity.revoke(params, caller),
    "offers": _offers,
    "lineage": _lineage,
    "brief": _brief,
}
