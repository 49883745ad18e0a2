"""A rollout of Codex: a header, then each turn with its items."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shiftlog.ingest.readers.codex.text import output_of
from shiftlog.ingest.readers.codex.thread import SPAWNED, WORDS
from shiftlog.ingest.restoring.transcript import Record, TranscriptWriter, TurnDialog, as_object
from shiftlog.model.agents import CODEX
from shiftlog.model.entry import Entry
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import precise

ABORTED = "Turn aborted: "
SUPERSEDING = "superseded: "


@dataclass(slots=True)
class CodexWriter(TranscriptWriter):
    """Lines of a rollout: a header, then each turn with its items."""

    custom: set[str] = field(default_factory=set[str])
    live: list[str] = field(default_factory=list[str])
    """The turns written that were not rolled back."""

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
                **self._origin(),
                **({"model_provider": self.restored.model_provider} if self.restored.model_provider else {}),
                "instructions": None,
            },
        )
        for each in dialog:
            if each.abandoned:
                yield from self._rolled_back(each)
            if each.turn is None:
                for what, facts, entry in self.items(each):
                    yield from self._item(what, facts, entry)
                continue
            self.restored.turns += 1
            self.live.append(each.turn.request_id)
            yield from self._turn(each, each.turn)
        yield _line(session.last_activity, "event_msg", {"type": "thread_name_updated", "thread_name": session.title})

    def _rolled_back(self, dialog: TurnDialog) -> Iterator[Record]:
        """Yield the line with which the client leaves the last turns behind."""
        left = [name for name in self.live if name not in dialog.abandoned]
        count, self.live = len(self.live) - len(left), left
        if count:
            at = dialog.turn.begun_at if dialog.turn is not None else self.session.last_activity
            yield _line(at, "event_msg", {"type": "thread_rolled_back", "num_turns": count})

    def _origin(self) -> Record:
        """Return what a header says of the threads that this one came from, so that their turns are not its own."""
        above, told = self.restored.ancestry, self.session.subagent
        origin: Record = {"forked_from_id": above.forked_from} if above.forked_from else {}
        if above.parent is None or not told:
            return origin
        kind = str(told.get("kind"))
        source: Any = {"subagent": {"other": kind}}
        if kind in WORDS:
            source = {"subagent": kind}
        elif kind == SPAWNED:
            source = {"subagent": {kind: {"parent_thread_id": above.parent, "depth": told.get("depth")}}}
        known = {"agent_nickname": told.get("name"), "agent_role": told.get("role"), "agent_path": above.agent_path}
        named = {name: value for name, value in known.items() if value}
        return {**origin, "source": source, "parent_thread_id": above.parent, **named}

    def _turn(self, dialog: TurnDialog, turn: Turn) -> Iterator[Record]:
        name = dialog.vendor_id or turn.request_id.split("-", 2)[2]
        at = turn.begun_at
        # Early releases marked neither the start of a turn nor its end.
        is_marked = dialog.begun.get("opened_by") != "prompt" or self.session.agent != CODEX
        if is_marked:
            started = {"type": "task_started", "turn_id": name, "started_at": int(at.timestamp())}
            yield _line(at, "event_msg", {**started, "model_context_window": None})
        if (context := self._context(dialog, turn, name if is_marked else None)) is not None:
            yield _line(at, "turn_context", context)
        if dialog.has_prompt and not _is_from_agent(dialog, turn):
            query = turn.query_text or turn.query_title
            yield _message(at, "user", "input_text", query)
            yield _line(at, "event_msg", {"type": "user_message", "message": query, "images": []})
        texts: list[tuple[str, Entry]] = []
        for what, facts, entry in self.items(dialog):
            if what == "text":
                texts.append((str(facts["content"]), entry))
            yield from self._item(what, facts, entry)
        if dialog.is_cut:
            return
        answer = self.answer(dialog, texts)
        if answer is not None:
            yield from _spoken(turn.last_updated, answer)
        if is_marked:
            yield from _ended(turn, name, [*(text for text, _ in texts), *([answer] if answer else [])])

    def _context(self, dialog: TurnDialog, turn: Turn, name: str | None) -> Record | None:
        """Return the settings of a turn; a session of Codex has none that its own rollout did not say."""
        place = dialog.places.at(turn.begun_seq)
        model = turn.model or self.session.model
        approval, sandbox = place.get("approval_policy"), place.get("sandbox_policy")
        if self.session.agent == CODEX and not (model and approval and sandbox):
            return None  # the client needs all of them, and goes on with its user's own
        return {
            **({"turn_id": name} if name else {}),
            "cwd": place.get("cwd") or self.restored.cwd,
            "approval_policy": approval or "on-request",
            "sandbox_policy": {"type": sandbox or "read-only"},
            "model": model or "unknown",
            "summary": "auto",
        }

    def _item(self, what: str, facts: Mapping[str, Any], entry: Entry) -> Iterator[Record]:
        content = str(facts.get("content") or "")
        if facts.get("author"):
            between = {name: facts[name] for name in ("author", "recipient") if facts.get(name)}
            body = [{"type": "input_text", "text": content}]
            yield _line(entry.at, "response_item", {"type": "agent_message", **between, "content": body})
        elif what == "text":
            yield from _spoken(entry.at, content, facts.get("phase"))
        elif what == "call":
            yield self._call(facts, entry)
        elif what == "result":
            kind = "custom_tool_call_output" if facts["call_id"] in self.custom else "function_call_output"
            output = _with_exit_code(content, facts.get("exit_code"))
            yield _line(entry.at, "response_item", {"type": kind, "call_id": facts["call_id"], "output": output})
        elif what == "reasoning":
            yield _line(entry.at, "event_msg", {"type": "agent_reasoning", "text": content})
        elif what == "user" or (what == "injected" and facts.get("injected") in ("meta", "hidden")):
            yield _message(entry.at, "user", "input_text", content)
        elif facts.get("injected") == "summary" or (what == "compaction" and "record" not in facts):
            # Claude Code has a mark and a summary after it; a rollout has one line with the summary.
            yield _line(entry.at, "compacted", {"message": content})
        else:
            self.restored.left_out += what != "compaction"  # Codex injects its own instructions again

    def _call(self, facts: Mapping[str, Any], entry: Entry) -> Record:
        given: Any = facts.get("input")
        about = {"name": facts.get("tool") or "unknown", "call_id": facts["call_id"]}
        if isinstance(given, str):
            self.custom.add(str(facts["call_id"]))
            return _line(entry.at, "response_item", {"type": "custom_tool_call", **about, "input": given})
        arguments = json.dumps(as_object(given), ensure_ascii=False)
        return _line(entry.at, "response_item", {"type": "function_call", **about, "arguments": arguments})


def _is_from_agent(dialog: TurnDialog, turn: Turn) -> bool:
    """Return True if another agent's message is the prompt of a turn; it stands in the dialog, too."""
    said = (entry.facts for entry in dialog.entries)
    return any(facts.get("author") and facts.get("content") == turn.query_text for facts in said)


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
