"""What the command line asks of an app: questions by name, answered once or as a stream of items.

The names and shapes here are between our own programs of one version; the contracts do not know them.
"""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from shiftlog.app.app import App
from shiftlog.dialects.delx.refusals import refusal
from shiftlog.dialects.mcpserver.current import Binding, Place
from shiftlog.dialects.mcpserver.errors import payload
from shiftlog.dialects.mcpserver.objects import turns_with_items
from shiftlog.journal.continuity.capsule.brief import BRIEF_CHARS, brief
from shiftlog.journal.continuity.handover import offered, shown_offer
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.journal.history.following import follow
from shiftlog.journal.history.items import session_facts, session_item, turn_contents, turn_facts
from shiftlog.journal.history.requests import filter_of
from shiftlog.journal.journal import find_session
from shiftlog.journal.sessions import workspace_of
from shiftlog.journal.signing.keys import receipt_from
from shiftlog.journal.usage.service import list_runs, runs_filter, total_usage
from shiftlog.model.caller import Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, ShiftlogError, Unauthorized, UnknownTool
from shiftlog.model.nouns import Session
from shiftlog.store.protocol import Page, Reader

Params = Mapping[str, Any]
Answer = Awaitable[object] | AsyncGenerator[object]
Question = Callable[[App, Params, Caller], Answer]

# Tools that act on shells and files: the journal says what they did, but not for which call.
BEYOND_THE_JOURNAL = frozenset(
    "open_shell run_command send_input close_shell create_checkpoint restore_checkpoint "
    "session_create session_exec session_destroy session_checkpoint session_restore".split()
)
BEYOND_HINT = (
    "A command may have run, in part or whole: before you send it again, look at the files and at the shell's last "
    "command (list_shells with include_ended)"
)

TURNS_AT_ONCE = 50
CALL_S = 120.0


def answer(app: App, method: str, params: Params, caller: Caller) -> Answer:
    """Answer a question; raise UnknownTool for one that nobody answers, Unauthorized for an operator's."""
    question = QUESTIONS.get(method) or _shell_question(method)
    if question is None:
        raise UnknownTool(f"Unknown question: {method}", hint="Client and daemon are of different versions")
    if method in OPERATORS and not caller.operator:
        raise Unauthorized(f"Only an operator may ask for {method}")
    return question(app, params, caller)


def _shell_question(method: str) -> Question | None:
    """Return a question about shells, rules or checkpoints; what answers those is imported with the first one."""
    from shiftlog.control.checkpoints import CHECKPOINT_QUESTIONS
    from shiftlog.control.policy import POLICY_QUESTIONS
    from shiftlog.control.shells import SHELL_QUESTIONS

    return {**SHELL_QUESTIONS, **CHECKPOINT_QUESTIONS, **POLICY_QUESTIONS}.get(method)


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
            "open": [session_item(row.session, now=now, runs=app.runs) for row in live],
        }

    return await app.store.read(work)


async def _sessions(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = filter_of(reader, params)
        rows = reader.find_sessions(where, Page(limit=int(params.get("limit", 20))), by_activity=True)
        now = app.clock.now()
        return {
            "items": [session_item(row.session, now=now, runs=app.runs) for row in rows],
            "total": reader.count("session", where),
        }

    return await app.store.read(work)


async def _show(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    name = str(params["session_id"])
    session = await app.store.read(lambda reader: find_session(reader, name))
    facts = await app.store.read(lambda reader: session_facts(session, app.runs, reader))
    yield {"session": facts}
    after = 0
    while True:
        turns = await app.store.read(
            lambda reader, after=after: reader.turns(session.id, after=after, limit=TURNS_AT_ONCE)
        )
        for turn in turns:
            entries = await app.store.read(
                lambda reader, turn=turn: reader.entries(
                    session.id,
                    after=turn.begun_seq,
                    until=turn.last_seq,
                    turn=turn.request_id,
                    kinds=(Kind.DIALOG, Kind.ACTION),
                )
            )
            yield {"turn": turn_facts(turn), "contents": turn_contents(turn, entries)}
            after = turn.ordinal
        if len(turns) < TURNS_AT_ONCE:
            return


async def _search(app: App, params: Params, caller: Caller) -> object:
    return await app.history.query_history(params, caller)


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
    name, entries = str(params["session_id"]), list(params["entries"])
    # Outputs first: once the entries are erased, nobody knows any more which ones were theirs.
    gone = app.shells.forget(await app.maintenance.commands(name, entries))
    return {**await app.maintenance.erase(name, entries, reason), "outputs_removed": gone}


async def _runs(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        return list_runs(reader, app.runs, where, int(params.get("limit", 20)))

    return await app.store.read(work)


async def _usage(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        totals = total_usage(reader, app.runs, where, list(params.get("by") or ["day"]))
        return {**totals, "budgets": app.budgets.states(reader, app.runs, app.clock.now())}

    return await app.store.read(work)


async def _call_outcome(app: App, params: Params, caller: Caller) -> object:
    """Return what a call recorded, None where it did nothing; of what a shell was told no call keeps an outcome."""
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


def calls_wait(app: App) -> bool:
    """Tell whether calls wait that a client script queued, and that come before this one."""
    try:
        with os.scandir(app.home / "spool") as found:
            return any(entry.name.startswith("calls-") for entry in found)
    except OSError:
        return False


async def _sessionlog(app: App, params: Params, caller: Caller) -> object:
    """Answer one call of the session log; what its connection is bound to comes with it and goes back changed."""
    if calls_wait(app):
        await app.hooks.carry_out_queued()
    bound: Mapping[str, Any] = params.get("binding") or {}
    binding = Binding(
        session_id=bound.get("session_id"), fence=bound.get("fence"), earlier=dict(bound.get("earlier") or {})
    )
    place = Place(
        # The name that the connection drew for itself counts, because it outlives the daemon.
        caller=replace(
            caller, client_id=f"repl:{params.get('client')}", call_id=str(params.get("call")), holds_leases=False
        ),
        workspace=workspace_of(str(params["workspace"])),
        agent=params.get("agent"),
        binding=binding,
        timeout_s=float(params.get("timeout_s", CALL_S)),
        again=bool(params.get("again")),
    )
    try:
        answered = {"result": await app.sessionlog.call(str(params["method"]), params.get("params"), place)}
    except ShiftlogError as error:
        answered = {"error": payload(error)}
    return {**answered, "binding": asdict(binding)}


async def _continuity(app: App, params: Params, caller: Caller) -> object:
    """Close or resume as the tools do: the same answer with its prose, or the same error body."""
    tool = "close_session" if params.get("tool") == "close_session" else "resume_session"
    run = app.delx.close_session if tool == "close_session" else app.delx.resume_session
    try:
        shown, prose = await run(params.get("arguments") or {}, caller)
    except ShiftlogError as error:
        return {"refusal": refusal(tool, error)}
    return {"answer": shown, "prose": prose}


async def _reissue_token(app: App, params: Params, caller: Caller) -> object:
    return await app.continuity.reissue_token(params, caller)


async def _offer(app: App, params: Params, caller: Caller) -> object:
    return await app.continuity.offer(params, caller)


async def _decline(app: App, params: Params, caller: Caller) -> object:
    return await app.continuity.decline(params, caller)


async def _revoke(app: App, params: Params, caller: Caller) -> object:
    return await app.continuity.revoke(params, caller)


async def _offers(app: App, params: Params, caller: Caller) -> object:
    return {"items": await app.store.read(lambda reader: [shown_offer(each) for each in offered(reader)])}


async def _lineage(app: App, params: Params, caller: Caller) -> object:
    name = str(params["session_id"])
    return await app.store.read(lambda reader: lineage(reader, find_session(reader, name)))


async def _brief(app: App, params: Params, caller: Caller) -> object:
    named = {name: str(params[name]) for name in ("agent_id", "cwd", "session_id") if params.get(name)}
    chars = int(params.get("max_chars") or BRIEF_CHARS)
    now = app.clock.now()
    return {"text": await app.store.read(lambda reader: brief(reader, caller, now, max_chars=chars, **named))}


async def _import(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Import transcripts; yields how far it is, then what it came to; with `watch` a report for each change."""
    from shiftlog.control.imports import import_answers

    async for item in import_answers(app, params, caller):
        yield item


async def _hook_brief(app: App, params: Params, caller: Caller) -> object:
    return {"text": await app.hooks.brief(params)}


async def _restore(app: App, params: Params, caller: Caller) -> AsyncGenerator[object]:
    """Write a session as its vendor's transcript: lines, then what a person should know about them."""
    from shiftlog.ingest.restoring import VENDORS, Told, restore, said_late

    name, vendor = str(params["session_id"]), next((one for one in VENDORS if one == params.get("as")), None)
    if vendor is None:
        says = "a vendor whose transcripts can be written"
        raise InvalidParameter.invalid("as", says, params.get("as"), allowed=list(VENDORS))

    def work(reader: Reader) -> tuple[Session, list[Told]]:
        session = find_session(reader, name)
        begun = {entry.turn: entry.facts for entry in reader.entries(session.id, kinds=(Kind.TURN_BEGUN,))}
        told = [
            Told(
                turn=turn,
                entries=[*(entry for entry in entries if entry.kind is Kind.DIALOG), *said_late(turn)],
                vendor_id=begun.get(turn.request_id, {}).get("vendor_turn_id"),
            )
            for turn, entries in turns_with_items(reader, session.id)
        ]
        return session, told

    session, told = await app.store.read(work)
    restored = restore(session, told, vendor)
    for record in restored.records:
        yield {"line": json.dumps(record, ensure_ascii=False)}
    yield {"about": restored.about()}


async def _spool(app: App, params: Params, caller: Caller) -> object:
    """Tell what waits and what was set aside, or what became of one queued call."""
    await app.hooks.carry_out_queued()
    if params.get("id"):
        return {"id": params["id"], "receipt": await app.hooks.calls.receipt(str(params["id"]))}
    return {"waiting": app.hooks.spool.waiting(), "set_aside": app.hooks.spool.aside()}


async def _import_stop(app: App, params: Params, caller: Caller) -> object:
    from shiftlog.control.imports import stop_import

    return {"stopping": stop_import(str(params.get("token")))}


QUESTIONS: dict[str, Question] = {
    "hook_brief": _hook_brief,
    "restore": _restore,
    "spool": _spool,
    "import": _import,
    "import_stop": _import_stop,
    "status": _status,
    "sessions": _sessions,
    "show": _show,
    "search": _search,
    "runs": _runs,
    "usage": _usage,
    "tail": _tail,
    "verify": _verify,
    "rebuild": _rebuild,
    "erase": _erase,
    "call_outcome": _call_outcome,
    "tool": _tool,
    "continuity": _continuity,
    "reissue_token": _reissue_token,
    "offer": _offer,
    "decline": _decline,
    "revoke": _revoke,
    "offers": _offers,
    "lineage": _lineage,
    "brief": _brief,
    "sessionlog": _sessionlog,
}
# What a program inside one of our shells must not do through us: decide for the operator, or step round its own rules.
OPERATORS = frozenset(
    {
        "erase",
        "rebuild",
        "reissue_token",
        "offer",
        "revoke",
        "exec",
        "close_shell",
        "undo",
        "rewind",
        "gc",
        "approve",
    }
)
