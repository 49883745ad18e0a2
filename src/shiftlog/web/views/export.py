"""Export of a session: one self-contained HTML file, Markdown, or the journal as JSON lines.

Written in pieces, so that a session of any length needs little memory. JSON lines hold everything that
`shiftlog verify` reads; the other two are for people. In Markdown recorded text is data: it is quoted, or fenced by
more backticks than it contains.
"""

import base64
import hashlib
import re
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
from shiftlog.text.figures import duration, milliseconds, money, short_count
from shiftlog.text.printable import page_text
from shiftlog.web.answers import HEADERS
from shiftlog.web.present.templates import HERE, render
from shiftlog.web.present.texts import moment
from shiftlog.web.views.session import session_head, timeline_blocks
from shiftlog.web.views.timeline import entry_document, read_pieces

FORMATS = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/x-ndjson",
}
ENTRIES_AT_ONCE = 500
TURNS_AT_ONCE = 20

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
            pieces, next_place = read_pieces(reader, session, place, TURNS_AT_ONCE)
            is_end = next_place is None
            return timeline_blocks(reader, session, pieces, app.runs, is_end=is_end, whole=True), next_place

        blocks, place = await app.store.read(work)
        yield blocks
        if place is None:
            return


async def _html(app: App, session: Session) -> AsyncGenerator[str]:
    facts = await app.store.read(lambda reader: session_head(app, reader, session))
    style = (HERE / "static" / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    frame = {"session": facts, "style": style, "digest": digest, "at": shown(app.clock.now()), "session_id": session.id}
    yield render("export_head.html", frame, exporting=True)
    async for blocks in _blocks(app, session):
        yield render("export_blocks.html", {"timeline": blocks, "session_id": session.id}, exporting=True)
    yield render("export_foot.html", frame, exporting=True)


async def _markdown(app: App, session: Session) -> AsyncGenerator[str]:
    facts = await app.store.read(lambda reader: session_head(app, reader, session))
    yield _markdown_head(facts)
    async for blocks in _blocks(app, session):
        yield "".join(_markdown_piece(block) for block in blocks)


def _markdown_head(session: Item) -> str:
    """Return title and facts of a session."""
    rows = [
        ("Session", session["session_id"]),
        ("Agent", session["agent_id"]),
        ("State", session["state"]),
        ("Project", session["workspace"]),
        ("Model", session["model"]),
        ("Started", session["started"]),
        ("Last activity", session["last_activity"]),
        ("Duration", duration(session["duration_s"])),
        ("Turns", f"{session['turns_total']} ({session['turns_failed']} failed)"),
        ("Tokens", short_count(session["tokens_total"])),
        ("Cost", money(session["cost_usd"])),
        ("Head", session["head_hash"]),
    ]
    facts = "".join(f"- {name}: {_inline(value)}\n" for name, value in rows if value)
    return f"# {_inline(session['title'])}\n\n{facts}\n"


def _markdown_piece(block: Item) -> str:
    """Return a turn, or the entries between turns."""
    if block["kind"] != "turn":
        return "".join(_markdown_step(step) for step in block["steps"])
    turn = block["turn"]
    parts = [f"## {turn['ordinal']}. {_inline(turn['query_title'])}\n\n"]
    facts = [block["status"], moment(turn["begun_at"]) + " UTC", duration(block["duration_s"])]
    if block["tokens"]:
        facts.append(f"{short_count(block['tokens'])} tokens")
    parts.append("*" + " · ".join(str(fact) for fact in facts) + "*\n\n")
    if turn["query_text"] and turn["query_text"] != turn["query_title"]:
        parts.append("**Request**\n\n" + _quoted(turn["query_text"]))
    parts += [_markdown_step(step) for step in block["steps"] or ()]
    for name, heading in (("response", "Response"), ("failure_note", "Failed")):
        if turn[name]:
            parts.append(f"**{heading}**\n\n{_quoted(turn[name])}")
    return "".join(parts)


def _markdown_step(step: Item) -> str:
    match step["type"]:
        case "say" | "reasoning" | "decision":
            name = step["role"] if step["type"] == "say" else step["type"]
            return f"**{_inline(str(name).capitalize())}**\n\n{_quoted(step['content'])}"
        case "command":
            return _markdown_command(step)
        case "tool":
            actions = "".join(_markdown_action(action) for action in step["actions"])
            result = _fenced(step["result"]) if step.get("result") else ""
            return f"**{_inline(step['tool'])}** {_inline(step['content'])}\n\n{actions}{result}"
        case "action":
            return "".join(_markdown_action(action) for action in step["actions"])
        case "checkpoint":
            did = "Restored" if step["restored"] else "Checkpoint"
            return f"- {did} `{_inline(step['checkpoint_id'])}` {_inline(step['label'] or '')}\n\n"
        case "child":
            return f"- Subagent {_inline(step['title'])} (`{_inline(step['session_id'])}`)\n\n"
        case "note":
            facts = ", ".join(f"{name} {_inline(value)}" for name, value in step["facts"])
            return f"- {step['says']}: {facts}\n\n" if facts else f"- {step['says']}\n\n"
        case "erased":
            return f"- Entry {step['seq']} was erased\n\n"
        case _:
            return ""


def _markdown_command(step: Item) -> str:
    ending = (
        "running" if step["live"] else f"exit {step['exit_code']}" if step["exit_code"] is not None else step["state"]
    )
    ending += "" if step["is_vouched"] else ", not vouched for"
    took = f", {milliseconds(step['duration_ms'])}" if step["duration_ms"] is not None else ""
    shown = _fenced(f"$ {step['command']}\n{step['stdout'] or ''}{step['stderr'] or ''}", "console")
    return f"{shown}*{ending}{took}*\n\n" + "".join(_markdown_action(action) for action in step["actions"])


def _markdown_action(action: Item) -> str:
    did = f"- {_inline(action['description'] or action['what'] or '')}"
    failed = " (failed)" if action["status"] == "failed" else ""
    return f"{did}{failed}\n\n" + (_fenced(action["diff"], "diff") if action["diff"] else "")


def _inline(text: object) -> str:
    line = " ".join(page_text(str(text)).split())
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", line)


def _quoted(text: object) -> str:
    # A quote keeps Markdown readable; only what could become a tag, or load an image from elsewhere, is broken.
    shown = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", page_text(str(text))).replace("![", "!\\[")
    return "".join(f"> {line}".rstrip() + "\n" for line in shown.strip("\n").split("\n")) + "\n"


def _fenced(text: object, language: str = "") -> str:
    shown = page_text(str(text)).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}\n\n"
