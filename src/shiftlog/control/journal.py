"""Questions about the journal: status, sessions, search, verification, the journal's tools, runs and costs."""

from collections.abc import AsyncGenerator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from shiftlog.app.app import App
from shiftlog.control.naming import named_session, named_turn
from shiftlog.control.questions import Params, Question
from shiftlog.journal.history.following import follow
from shiftlog.journal.history.items import TURN_KINDS, first_run, session_facts, session_item, turn_contents, turn_facts
from shiftlog.journal.history.requests import filter_of
from shiftlog.journal.journal import find_session
from shiftlog.journal.keeping.facts import kept_facts
from shiftlog.journal.signing.keys import receipt_from
from shiftlog.journal.usage.service import list_runs, runs_filter, total_usage
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, UnknownTool
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Page, Reader

# Tools that act on shells and files: the journal records their work, but not the call.
BEYOND_THE_JOURNAL = frozenset(
    "open_shell run_command send_input close_shell create_checkpoint restore_checkpoint "
    "session_create session_exec session_destroy session_checkpoint session_restore".split()
)
BEYOND_HINT = (
    "A command may have run, in part or whole, and goes on in a local shell (read_output waits for it): before you "
    "send it again, look at the files and at the shell's last command (list_shells with include_ended)"
)

TURNS_AT_ONCE = 50


async def _status(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        counts = reader.counts()
        live = reader.find_sessions(filter_of(reader, {"status": "open"}), Page(limit=5), by_activity=True)
        now = app.clock.now()
        return {
            "home": str(app.home),
            "durability": app.config.durability,
            "sessions": counts.sessions,
            "sessions_open": reader.count("session", filter_of(reader, {"status": "open"})),
            "turns": counts.turns,
            "entries": counts.entries,
            "database_bytes": counts.bytes,
            "schema": counts.schema,
            "open": [_listed(app, reader, row.session, now) for row in live],
        }

    return await app.store.read(work)


async def _session_named(app: App, params: Params, caller: Caller) -> object:
    """Return the id of the session that a person named."""
    typed = str(params["name"])
    session = await app.store.read(lambda reader: named_session(reader, typed))
    return {"session_id": session.id, "title": session.title}


async def _sessions(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        now = app.clock.now()
        where = filter_of(reader, params, now)
        rows = reader.find_sessions(where, Page(limit=int(params.get("limit", 20))), by_activity=True)
        kept = kept_facts(reader, [row.session for row in rows], sizes=bool(params.get("sizes")))
        return {
            "items": [_listed(app, reader, row.session, now) | kept[row.session.id] for row in rows],
            "total": reader.count("session", where),
        }

    return await app.store.read(work)


def _listed(app: App, reader: Reader, session: Session, now: datetime) -> dict[str, Any]:
    return session_item(session, now=now, runs=app.runs) | first_run(session, reader)


async def _show(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    name = str(params["session_id"])
    session = await app.store.read(lambda reader: find_session(reader, name))
    facts = await app.store.read(
        lambda reader: (
            session_facts(session, app.runs, reader)
            | first_run(session, reader)
            | kept_facts(reader, [session], sizes=True)[session.id]
        )
    )
    typed = params.get("turn")
    turns = [await app.store.read(lambda reader: named_turn(reader, session, str(typed)))] if typed else None
    yield {"session": facts}
    after = 0
    while True:
        turns = turns or await app.store.read(
            lambda reader, after=after: reader.turns(session.id, after=after, limit=TURNS_AT_ONCE)
        )
        for turn in turns:
            entries = await app.store.read(
                lambda reader, turn=turn: reader.entries(
                    session.id,
                    after=turn.begun_seq,
                    until=turn.last_seq,
                    turn=turn.request_id,
                    kinds=TURN_KINDS,
                )
            )
            yield {"turn": turn_facts(turn), "contents": turn_contents(turn, entries)}
            after = turn.ordinal
        if typed or len(turns) < TURNS_AT_ONCE:
            return
        turns = None


async def _search(app: App, params: Params, caller: Caller) -> object:
    found = await app.history.query_history(params, caller)

    def work(reader: Reader) -> list[dict[str, Any]]:
        known = {item["session_id"]: reader.session(item["session_id"]) for item in found["items"]}
        named = {name: first_run(session, reader) for name, session in known.items() if session is not None}
        return [item | named.get(item["session_id"], {}) for item in found["items"]]

    return {**found, "items": await app.store.read(work)}


async def _tail(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    name = params.get("session_id")
    last, following = int(params.get("last", 10)), bool(params.get("follow"))
    async for line in follow(app.store, session=name, last=last, following=following):
        yield line


async def _verify(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    try:
        receipts = [receipt_from(document) for document in params.get("receipts", ())]
    except ValueError as error:
        raise InvalidParameter.invalid("receipt", str(error)) from None
    name = params.get("session_id")
    if name is None and receipts and params.get("only_receipts"):
        known = set(await app.maintenance.session_ids())
        wanted = [receipt.session_id for receipt in receipts if receipt.session_id in known]
        ids = list(dict.fromkeys(wanted))
    else:
        ids = await app.maintenance.session_ids(name)
    yield {"total": len(ids)}
    async for finding in app.maintenance.verify(ids, receipts):
        yield {**asdict(finding), "ok": finding.ok}


async def _rebuild(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    ids = await app.maintenance.session_ids(params.get("session_id"))
    yield {"total": len(ids)}
    async for rebuilt in app.maintenance.rebuild(ids):
        yield asdict(rebuilt)


async def _erase(app: App, params: Params, caller: Caller) -> object:
    reason = app.redactor.text(str(params.get("reason") or "")).text
    if not reason.strip():
        raise InvalidParameter.missing("reason")
    return await app.erase(str(params["session_id"]), list(params["entries"]), reason)


async def _call_outcome(app: App, params: Params, caller: Caller) -> object:
    """Return the recorded outcome of a call; None if it did nothing. Outcomes of shell calls are not recorded."""
    client_id, call_id = str(params["client_id"]), str(params["call_id"])
    found = await app.store.read(lambda reader: reader.outcome(client_id, call_id))
    if found is None and params.get("tool") in BEYOND_THE_JOURNAL:
        return {"unknown": True, "hint": BEYOND_HINT}
    return found


async def _tool(app: App, params: Params, caller: Caller) -> object:
    """Run a journal tool by name, as the demo, `close` and `resume` do."""
    tools = {
        "open_session": app.sessions.open_session,
        "begin_turn": app.sessions.begin_turn,
        "update_turn": app.sessions.update_turn,
        "finish_turn": app.sessions.finish_turn,
        "close_session": app.continuity.close_session,
        "resume_session": app.continuity.resume_session,
    }
    tool = tools.get(str(params.get("tool")))
    if tool is None:
        raise UnknownTool(f"Unknown tool: {params.get('tool')}")
    return await tool(params.get("arguments", {}), caller)


async def _runs(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        return list_runs(reader, app.runs, where, int(params.get("limit", 20)))

    return await app.store.read(work)


async def _usage(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        totals = total_usage(reader, app.runs, where, list(params.get("by") or ["day"]))
        return {**totals, "budgets": app.spending_limits.states(reader, app.runs, app.clock.now())}

    return await app.store.read(work)


QUESTIONS: dict[str, Question] = {
    "status": _status,
    "session_named": _session_named,
    "sessions": _sessions,
    "show": _show,
    "search": _search,
    "tail": _tail,
    "verify": _verify,
    "rebuild": _rebuild,
    "erase": _erase,
    "call_outcome": _call_outcome,
    "tool": _tool,
    "runs": _runs,
    "usage": _usage,
}
