"""Vendor transcripts written from the journal, so that a session whose file is gone can be continued.

Sans-I/O: a session, its turns and entries in, the vendor's records out. The journal lacks signatures of reasoning,
images and masked secrets; `RestoredTranscript` counts what is missing.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from shiftlog.ingest.readers.claude.assistant import SYNTHETIC
from shiftlog.ingest.readers.claude.turns import SUPERSEDED, UNFINISHED
from shiftlog.ingest.readers.claude.user import STOPS
from shiftlog.ingest.readers.codex.text import output_of
from shiftlog.model.agents import BY_NAME
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import parse, precise

VENDORS = tuple(agent.name for agent in BY_NAME.values() if agent.resume)
NO_RESULT = "[no result was recorded]"
NO_ANSWER = "[no answer was recorded]"
ABORTED = "Turn aborted: "
SUPERSEDING = "superseded: "
VERSION = "2.1.0"
_IN_NOTE = 1_000_000
_MASKED = re.compile(r"\[REDACTED(?::[a-z_]+)?\]|\[BLOB:[^\]\s]+\]")
_SPACE = uuid.UUID("5c0f9d5e-6c1b-5f0e-9a37-0d7a1b0e6a51")

Record = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class RestoredTranscript:
    """A transcript to write; its counts are complete once all `records` were read."""

    vendor: str
    session_id: str
    cwd: str
    started: datetime
    records: Iterator[Record] = field(default_factory=lambda: iter(()))
    turns: int = 0
    masked: int = 0
    left_out: int = 0

    def about(self) -> Record:
        """Return a summary for people."""
        return {
            "vendor": self.vendor,
            "vendor_session_id": self.session_id,
            "place": self.place(),
            "command": f"{BY_NAME[self.vendor].resume} {self.session_id}",
            "turns": self.turns,
            "masked": self.masked,
            "left_out": self.left_out,
        }

    def place(self) -> str:
        """Return the path where the vendor's client looks for it, below its home folder."""
        if self.vendor == "claude":
            folder = re.sub(r"[^A-Za-z0-9-]", "-", self.cwd)
            return f"projects/{folder}/{self.session_id}.jsonl"
        return f"sessions/{self.started:%Y/%m/%d}/rollout-{self.started:%Y-%m-%dT%H-%M-%S}-{self.session_id}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDialog:
    """A turn and its dialog in order; `vendor_id` is the vendor's turn id."""

    turn: Turn
    entries: Sequence[Entry]
    vendor_id: str | None = None


def late_dialog(turn: Turn) -> list[Entry]:
    """Return the dialog that a transcript added to an ended turn, as entries."""
    late: list[Entry] = []
    for note in turn.amendments:
        items = cast("list[Record]", note.fields.get("dialog") or [])
        for number, item in enumerate(items):
            late.append(
                Entry(
                    seq=note.seq * _IN_NOTE + number,
                    kind=Kind.DIALOG,
                    at=parse(str(item["timestamp"])) if item.get("timestamp") else note.at,
                    turn=turn.request_id,
                    body=item,
                    salt=None,
                    body_hash="",
                    hash="",
                )
            )
    return late


def restore(session: Session, dialog: Iterable[TurnDialog], vendor: str) -> RestoredTranscript:
    """Return the transcript of a session in a vendor's format; under its own id if it is that vendor's session."""
    own = session.vendor_session_id if session.agent == BY_NAME[vendor].kind else None
    name = own or str(uuid.uuid5(_SPACE, f"{vendor}:{session.id}"))
    cwd = session.cwd or session.workspace or "/"
    restored = RestoredTranscript(vendor=vendor, session_id=name, cwd=cwd, started=session.started)
    writer = _Claude(session, restored) if vendor == "claude" else _Codex(session, restored)
    restored.records = _counted(writer.records(dialog), restored)
    return restored


def _counted(records: Iterator[Record], restored: RestoredTranscript) -> Iterator[Record]:
    for record in records:
        restored.masked += len(_MASKED.findall(json.dumps(record, ensure_ascii=False)))
        yield record


@dataclass(slots=True)
class _TranscriptWriter:
    """What both formats share: dialog in order, each call with a result."""

    session: Session
    restored: RestoredTranscript

    def _items(self, dialog: TurnDialog) -> Iterator[tuple[str, Mapping[str, Any], Entry]]:
        """Yield texts, calls and results; an unanswered call gets a result that says so."""
        # An agent that records its own work need not name its calls; then they are text.
        named = [
            (entry.facts.get("category"), str(entry.facts["call_id"]))
            for entry in dialog.entries
            if entry.facts.get("call_id")
        ]
        calls = {name for category, name in named if category == "tool_call"}
        answered = {name for category, name in named if category == "tool_result"}
        for entry in dialog.entries:
            facts: dict[str, Any] = entry.facts
            category, role, call = facts.get("category"), facts.get("role"), str(facts.get("call_id"))
            if category == "tool_call" and facts.get("call_id"):
                yield "call", facts, entry
                if call not in answered:
                    yield "result", {"call_id": call, "content": NO_RESULT, "is_error": True}, entry
            elif category == "tool_result" and call in calls:
                calls.discard(call)  # a call can have only one result
                yield "result", facts, entry
            elif role in ("model", "user") and (category != "reasoning" or "phase" in facts) and facts.get("content"):
                # Codex says text between its calls too; the journal may file it as reasoning.
                yield ("text" if role == "model" else "user"), facts, entry
            elif category == "reasoning" and role == "model":
                yield "reasoning", facts, entry
            else:
                self.restored.left_out += 1

    def _answer(self, dialog: TurnDialog, texts: Sequence[str]) -> str | None:
        """Return the response of a turn unless its dialog already holds it."""
        response = dialog.turn.response
        if response and response not in texts and "\n\n".join(texts[-8:]).find(response) < 0:
            return response
        return NO_ANSWER if not texts and dialog.turn.status is TurnStatus.COMPLETED else None


@dataclass(slots=True)
class _Claude(_TranscriptWriter):
    """Records of Claude Code: one line per block, each linked to the one before."""

    last: str | None = None
    count: int = 0

    def records(self, dialog: Iterable[TurnDialog]) -> Iterator[Record]:
        """Yield the records of a session."""
        name = self.restored.session_id
        yield {"type": "custom-title", "customTitle": self.session.title, "sessionId": name}
        for each in dialog:
            self.restored.turns += 1
            yield from self._turn(each)

    def _turn(self, dialog: TurnDialog) -> Iterator[Record]:
        turn = dialog.turn
        prompt = _user(turn.query_text or turn.query_title)
        yield self._record("user", turn.begun_at, dialog.vendor_id or turn.request_id, prompt)
        texts: list[str] = []
        for what, facts, entry in self._items(dialog):
            given: Mapping[str, Any] = facts.get("record") or {}
            key = str(given.get("uuid") or f"{entry.seq}:{what}")
            if what == "text":
                texts.append(str(facts["content"]))
                yield self._says({"type": "text", "text": facts["content"]}, dialog, entry, given, key)
            elif what == "call":
                use = {"type": "tool_use", "id": facts["call_id"], "name": facts.get("tool") or "unknown"}
                yield self._says({**use, "input": _object(facts.get("input"))}, dialog, entry, given, key)
            elif what == "result":
                block: Record = {"type": "tool_result", "tool_use_id": facts["call_id"], "content": facts["content"]}
                if facts.get("is_error"):
                    block["is_error"] = True
                yield self._record("user", entry.at, key, {"role": "user", "content": [block]})
            elif what == "user":
                yield self._record("user", entry.at, key, _user(str(facts["content"])), isMeta=True)
            else:
                self.restored.left_out += 1  # reasoning needs its signature
        answer = self._answer(dialog, texts)
        if answer is not None:
            block = {"type": "text", "text": answer}
            yield self._says(block, dialog, None, {}, f"{turn.request_id}:answer")
        if turn.status is TurnStatus.COMPLETED:
            at = turn.finished_at or turn.last_updated
            duration = max(int((at - turn.begun_at).total_seconds() * 1000), 0)
            about = {"subtype": "turn_duration", "durationMs": duration, "isMeta": False}
            yield self._record("system", at, f"{turn.request_id}:end", None, **about)
        elif turn.status is TurnStatus.FAILED and turn.failure_note not in (SUPERSEDED, UNFINISHED):
            yield self._failed(dialog)  # those two need no record: the next prompt ends the turn

    def _failed(self, dialog: TurnDialog) -> Record:
        """Return the record that ends a failed turn, under its own id if the journal has it."""
        turn = dialog.turn
        at, key, text = turn.finished_at or turn.last_updated, f"{turn.request_id}:end", turn.failure_note
        observed = [entry for entry in dialog.entries if entry.facts.get("role") == "system"]
        for entry in reversed(observed):
            content = str(entry.facts.get("content"))
            if content == text if turn.error_code else content.startswith(STOPS):
                self.restored.left_out -= 1
                given: Mapping[str, Any] = entry.facts.get("record") or {}
                at, key, text = entry.at, str(given.get("uuid") or key), content
                break
        if not turn.error_code:
            return self._record("user", at, key, _user(text if text.startswith(STOPS) else STOPS[0] + "]"))
        body = {"role": "assistant", "model": SYNTHETIC, "content": [{"type": "text", "text": text}]}
        return self._record("assistant", at, key, body, isApiErrorMessage=True, error=turn.error_code)

    def _says(
        self, block: Record, dialog: TurnDialog, entry: Entry | None, given: Mapping[str, Any], key: str
    ) -> Record:
        self.count += 1
        message = str(given.get("message_id") or "") or f"msg_restored_{self.count:06d}"
        body: Record = {
            "id": message,
            "type": "message",
            "role": "assistant",
            "model": dialog.turn.model or self.session.model or "unknown",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        at = entry.at if entry is not None else dialog.turn.last_updated
        more = {"requestId": given["request_id"]} if given.get("request_id") else {}
        return self._record("assistant", at, key, body, **more)

    def _record(self, kind: str, at: datetime, key: str, message: Record | None, **more: Any) -> Record:
        name = key if _is_uuid(key) else str(uuid.uuid5(_SPACE, f"{self.session.id}:{key}"))
        if name == self.last:
            name = str(uuid.uuid5(_SPACE, f"{name}:{self.count}"))
        record = {
            "parentUuid": self.last,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.restored.cwd,
            "sessionId": self.restored.session_id,
            "version": self.session.executable_version or VERSION,
            "gitBranch": "",
            "type": kind,
            **({} if message is None else {"message": message}),
            "uuid": name,
            "timestamp": precise(at),
            **more,
        }
        self.last = name
        return record


@dataclass(slots=True)
class _Codex(_TranscriptWriter):
    """Lines of a rollout: a header, then each turn with its items."""

    custom: set[str] = field(default_factory=set[str])

    def records(self, dialog: Iterable[TurnDialog]) -> Iterator[Record]:
        """Yield the lines of a session."""
        session = self.session
        yield _line(
            session.started,
            "session_meta",
            {
                "id": self.restored.session_id,
                "timestamp": precise(session.started),
                "cwd": self.restored.cwd,
                "originator": "shiftlog",
                "cli_version": session.executable_version or "0.0.0",
                "source": "cli",
                "model_provider": "openai",
                "instructions": None,
            },
        )
        for each in dialog:
            self.restored.turns += 1
            yield from self._turn(each)
        yield _line(session.last_activity, "event_msg", {"type": "thread_name_updated", "thread_name": session.title})

    def _turn(self, dialog: TurnDialog) -> Iterator[Record]:
        turn = dialog.turn
        name = dialog.vendor_id or turn.request_id.split("-", 2)[2]
        at = turn.begun_at
        started = {"type": "task_started", "turn_id": name, "started_at": int(at.timestamp())}
        yield _line(at, "event_msg", {**started, "model_context_window": None})
        yield _line(
            at,
            "turn_context",
            {
                "turn_id": name,
                "cwd": self.restored.cwd,
                "approval_policy": "on-request",
                "sandbox_policy": {"type": "read-only"},
                "model": turn.model or self.session.model or "unknown",
                "summary": "auto",
            },
        )
        query = turn.query_text or turn.query_title
        yield _message(at, "user", "input_text", query)
        yield _line(at, "event_msg", {"type": "user_message", "message": query, "images": []})
        texts: list[str] = []
        for what, facts, entry in self._items(dialog):
            if what == "text":
                texts.append(str(facts["content"]))
            yield from self._item(what, facts, entry)
        answer = self._answer(dialog, texts)
        if answer is not None:
            texts.append(answer)
            yield from _spoken(turn.last_updated, answer)
        yield from _ended(turn, name, texts)

    def _item(self, what: str, facts: Mapping[str, Any], entry: Entry) -> Iterator[Record]:
        content = str(facts.get("content") or "")
        if what == "text":
            yield from _spoken(entry.at, content, facts.get("phase"))
        elif what == "user":
            yield _message(entry.at, "user", "input_text", content)
        elif what == "reasoning":
            yield _line(entry.at, "event_msg", {"type": "agent_reasoning", "text": content})
        elif what == "call":
            given: Any = facts.get("input")
            about = {"name": facts.get("tool") or "unknown", "call_id": facts["call_id"]}
            if isinstance(given, str):
                self.custom.add(str(facts["call_id"]))
                yield _line(entry.at, "response_item", {"type": "custom_tool_call", **about, "input": given})
            else:
                arguments = json.dumps(_object(given), ensure_ascii=False)
                yield _line(entry.at, "response_item", {"type": "function_call", **about, "arguments": arguments})
        else:
            kind = "custom_tool_call_output" if facts["call_id"] in self.custom else "function_call_output"
            output = _with_exit_code(content, facts.get("exit_code"))
            yield _line(entry.at, "response_item", {"type": kind, "call_id": facts["call_id"], "output": output})


def _spoken(at: datetime, text: str, phase: str | None = None) -> Iterator[Record]:
    more = {"phase": phase} if phase else {}
    yield _line(at, "event_msg", {"type": "agent_message", "message": text, **more})
    yield _message(at, "assistant", "output_text", text, **more)


def _ended(turn: Turn, name: str, texts: Sequence[str]) -> Iterator[Record]:
    at = turn.finished_at or turn.last_updated
    if turn.status is TurnStatus.COMPLETED:
        last = turn.response or (texts[-1] if texts else None)
        yield _line(at, "event_msg", {"type": "task_complete", "turn_id": name, "last_agent_message": last})
    elif turn.status is TurnStatus.FAILED and turn.failure_note.startswith(SUPERSEDING):
        return  # the start of the next turn ends it
    elif turn.status is TurnStatus.FAILED and turn.error_code:
        error = {"message": turn.failure_note, "code": turn.error_code}
        yield _line(at, "event_msg", {"type": "task_complete", "turn_id": name, "error": error})
    elif turn.status is TurnStatus.FAILED:
        _, mark, reason = turn.failure_note.partition(ABORTED)
        reason = reason if mark and reason else "interrupted"
        yield _line(at, "event_msg", {"type": "turn_aborted", "turn_id": name, "reason": reason})


def _with_exit_code(text: str, code: Any) -> str:
    """Return an output from which the exit code can be read again."""
    if not isinstance(code, int) or output_of(text, keep=False).exit_code == code:
        return text
    return json.dumps({"output": text, "metadata": {"exit_code": code}}, ensure_ascii=False)


def _message(at: datetime, role: str, kind: str, text: str, **more: str) -> Record:
    content = [{"type": kind, "text": text}]
    return _line(at, "response_item", {"type": "message", "role": role, "content": content, **more})


def _line(at: datetime, kind: str, payload: Record) -> Record:
    return {"timestamp": precise(at), "type": kind, "payload": payload}


def _user(text: str) -> Record:
    return {"role": "user", "content": text}


def _object(value: Any) -> Record:
    if isinstance(value, dict):
        return cast(Record, value)
    return {} if value is None else {"input": value}


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
