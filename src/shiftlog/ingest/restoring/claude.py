"""A transcript of Claude Code: one line per block, each linked to the record before it.

The client goes back from the last record by these links, up to the last compaction; what lies on no way back is not in
the conversation. So records keep their own links, a compaction begins anew, and turns that were rewound stay aside.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shiftlog.ingest.readers.claude.assistant import SYNTHETIC
from shiftlog.ingest.readers.claude.turns import SUPERSEDED, UNFINISHED
from shiftlog.ingest.readers.claude.user import AS_USER, STOPS
from shiftlog.ingest.restoring.transcript import Record, TranscriptWriter, TurnDialog, as_object, ids_of
from shiftlog.model.entry import Entry
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Turn
from shiftlog.model.times import precise

VERSION = "2.1.0"
SPACE = uuid.UUID("5c0f9d5e-6c1b-5f0e-9a37-0d7a1b0e6a51")
_UNTITLED = "(untitled)"
_FLAGS = {
    "meta": {"isMeta": True},
    "summary": {"isVisibleInTranscriptOnly": True, "isCompactSummary": True},
    "hidden": {"isVisibleInTranscriptOnly": True},
}
# Begins the name of a record that the journal has no id of; every other one keeps its own.
_MADE = "+"
_NO_TOKENS = {"input_tokens": 0, "output_tokens": 0}


@dataclass(slots=True)
class ClaudeWriter(TranscriptWriter):
    """Writes records of Claude Code."""

    last: str | None = None
    count: int = 0
    written: set[str] = field(default_factory=set[str])
    ends: dict[str, str] = field(default_factory=dict[str, str])
    """The last record of each turn."""
    place: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def records(self, dialog: Iterable[TurnDialog]) -> Iterator[Record]:
        """Yield the records of a session, without turns rewound at its end: the client goes on with the last one."""
        dialog = list(dialog)
        rewound = dialog[-1].abandoned if dialog and dialog[-1].turn is None else frozenset[str]()
        kept = (each for each in dialog if each.turn is None or each.turn.request_id not in rewound)
        for number, each in enumerate(kept):
            turn = each.turn
            if number == 0 and self._is_titled(turn):
                name = self.restored.conversation
                yield {"type": "custom-title", "customTitle": self.session.title, "sessionId": name}
            if each.abandoned:
                self._go_back(each.abandoned)
            if turn is None:
                yield from self._said(each, [])
                continue
            self.restored.turns += 1
            yield from self._turn(each, turn)
            if self.last is not None:
                self.ends[turn.request_id] = self.last

    def _go_back(self, abandoned: frozenset[str]) -> None:
        """Go on behind the last turn that was not rewound."""
        for name in abandoned:
            self.ends.pop(name, None)
        self.last = next(reversed(self.ends.values()), None)

    def _is_titled(self, first: Turn | None) -> bool:
        """Return True if the title is one of its own, not the first line of the first prompt."""
        if self.is_agents:  # its records name its parent, and so would the title
            return False
        prompt = first.query_title if first is not None else ""
        return self.session.title not in ("", _UNTITLED, prompt)

    @property
    def is_agents(self) -> bool:
        """Return True for the transcript of a subagent, which lies beside its parent's."""
        return self.restored.conversation != self.restored.session_id

    def _turn(self, dialog: TurnDialog, turn: Turn) -> Iterator[Record]:
        self.place = dialog.places.at(turn.begun_seq)
        if dialog.has_prompt:
            parent = ids_of(dialog.begun).get("parent_uuid")
            key = dialog.vendor_id or f"{_MADE}{turn.request_id}"
            yield self._record("user", turn.begun_at, key, self._prompt(dialog, turn), parent=parent)
        texts: list[tuple[str, Entry]] = []
        yield from self._said(dialog, texts)
        if dialog.is_cut:
            return
        answer = self.answer(dialog, texts)
        if answer is not None:
            block = {"type": "text", "text": answer}
            yield self._says(block, dialog, None, {}, f"{_MADE}{turn.request_id}:answer")
        if turn.status is TurnStatus.COMPLETED:
            at = turn.finished_at or turn.last_updated
            duration = max(int((at - turn.begun_at).total_seconds() * 1000), 0)
            about: Record = {"subtype": "turn_duration", "durationMs": duration, "isMeta": False}
            yield self._record("system", at, f"{_MADE}{turn.request_id}:end", None, **about)
        elif turn.status is TurnStatus.FAILED and turn.failure_note not in (SUPERSEDED, UNFINISHED):
            yield self._failed(dialog, turn)  # those two need no record: the next prompt ends the turn

    def _prompt(self, dialog: TurnDialog, turn: Turn) -> Record:
        """Return the prompt as the client sent it: a slash command with its marks, images as blocks."""
        text = turn.query_text or turn.query_title
        if dialog.begun.get("opened_by") == "command" and text.startswith("/"):
            name, _, arguments = text[1:].partition(" ")
            text = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
            text += f"\n<command-args>{arguments}</command-args>" if arguments else ""
        return {"role": "user", "content": self._with_images(text, dialog.begun.get("images"))}

    def _with_images(self, text: str, images: Sequence[Mapping[str, Any]] | None) -> str | list[Record]:
        """Return a text, with the images whose bytes were kept as blocks; the others are left out."""
        kept = [image for image in images or () if image.get("data")]
        self.restored.left_out += len(images or ()) - len(kept)
        if not kept:
            return text
        blocks: list[Record] = [{"type": "text", "text": text}] if text else []
        for image in kept:
            source = {"type": "base64", "media_type": image["media_type"], "data": image["data"]}
            blocks.append({"type": "image", "source": source})
        return blocks

    def _said(self, dialog: TurnDialog, texts: list[tuple[str, Entry]]) -> Iterator[Record]:
        for what, facts, entry in self.items(dialog):
            self.place = dialog.places.at(entry.seq) or self.place
            given = ids_of(facts)
            key = str(given.get("uuid") or f"{_MADE}{entry.seq}:{what}")
            content = str(facts.get("content") or "")
            if what == "text":
                texts.append((content, entry))
                yield self._says({"type": "text", "text": content}, dialog, entry, given, key)
            elif what == "call":
                use = {"type": "tool_use", "id": facts["call_id"], "name": facts.get("tool") or "unknown"}
                yield self._says({**use, "input": as_object(facts.get("input"))}, dialog, entry, given, key)
            elif what in ("reasoning", "system") and not (what == "system" and content.startswith(AS_USER)):
                self.restored.left_out += 1  # reasoning needs its signature
            else:
                yield self._user_record(what, facts, entry, key)

    def _user_record(self, what: str, facts: Mapping[str, Any], entry: Entry, key: str) -> Record:
        """Return what the client wrote as the user's: a result, an injected text, or the mark of a compaction."""
        content, parent = str(facts.get("content") or ""), ids_of(facts).get("parent_uuid")
        if what == "compaction":
            return self._boundary(facts, entry, key)
        if what == "result":
            block: Record = {"type": "tool_result", "tool_use_id": facts["call_id"]}
            block["content"] = self._with_images(content, facts.get("images"))
            if facts.get("is_error"):
                block["is_error"] = True
            return self._record("user", entry.at, key, {"role": "user", "content": [block]}, parent=parent)
        flags = _FLAGS.get(str(facts.get("injected")), {}) if what != "user" else {"isMeta": True}
        body = {"role": "user", "content": self._with_images(content, facts.get("images"))}
        return self._record("user", entry.at, key, body, parent=parent, **flags)

    def _boundary(self, facts: Mapping[str, Any], entry: Entry, key: str) -> Record:
        about = dict(as_object(facts["compaction"]))
        logical = about.pop("logical_parent_uuid", None) or self.last
        more: Record = {
            "subtype": "compact_boundary",
            "content": facts.get("content"),
            "isMeta": False,
            "level": "info",
        }
        record = self._record("system", entry.at, key, None, **more, compactMetadata=about)
        return {**record, "parentUuid": None, "logicalParentUuid": logical}

    def _failed(self, dialog: TurnDialog, turn: Turn) -> Record:
        """Return the record that ends a failed turn, under its own id if the journal has it."""
        at, key, text = turn.finished_at or turn.last_updated, f"{_MADE}{turn.request_id}:end", turn.failure_note
        observed = [entry for entry in dialog.entries if entry.facts.get("role") == "system"]
        for entry in reversed(observed):
            content = str(entry.facts.get("content"))
            if content == text if turn.error_code else content.startswith(STOPS):
                self.restored.left_out -= 1
                given: Mapping[str, Any] = entry.facts.get("record") or {}
                at, key, text = entry.at, str(given.get("uuid") or key), content
                break
        if not turn.error_code:
            body = {"role": "user", "content": text if text.startswith(STOPS) else STOPS[0] + "]"}
            return self._record("user", at, key, body)
        body = {"role": "assistant", "model": SYNTHETIC, "content": [{"type": "text", "text": text}]}
        return self._record("assistant", at, key, body, isApiErrorMessage=True, error=turn.error_code)

    def _says(
        self, block: Record, dialog: TurnDialog, entry: Entry | None, given: Mapping[str, Any], key: str
    ) -> Record:
        self.count += 1
        turn = dialog.turn
        model = (turn.model if turn else None) or self.session.model
        message = str(given.get("message_id") or "") or f"msg_restored_{self.count:06d}"
        body: Record = {
            "id": message,
            "type": "message",
            "role": "assistant",
            **({"model": model} if model else {}),
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _tokens_of(dialog, message) if given.get("message_id") else _NO_TOKENS,
        }
        at = entry.at if entry is not None else turn.last_updated if turn else self.session.last_activity
        more = {"requestId": given["request_id"]} if given.get("request_id") else {}
        return self._record("assistant", at, key, body, parent=given.get("parent_uuid"), **more)

    def _record(
        self, kind: str, at: datetime, key: str, message: Record | None, *, parent: str | None = None, **more: Any
    ) -> Record:
        name = str(uuid.uuid5(SPACE, f"{self.session.id}:{key[1:]}")) if key.startswith(_MADE) else key
        if name in self.written:
            name = str(uuid.uuid5(SPACE, f"{name}:{self.count}:{len(self.written)}"))
        place = self.place
        record = {
            "parentUuid": parent if parent in self.written else self.last,
            "isSidechain": self.is_agents,
            **({"agentId": self.restored.session_id} if self.is_agents else {}),
            "userType": "external",
            "cwd": place.get("cwd") or self.restored.cwd,
            "sessionId": self.restored.conversation,
            "version": place.get("version") or self.session.executable_version or VERSION,
            "gitBranch": place.get("branch") or "",
            "type": kind,
            **({} if message is None else {"message": message}),
            "uuid": name,
            "timestamp": precise(at),
            **more,
        }
        self.last = name
        self.written.add(name)
        return record


def _tokens_of(dialog: TurnDialog, message: str) -> Record:
    """Return the tokens of a message as its vendor reported them; they are known by the times of its records."""
    names = [(ids_of(entry.facts).get("message_id"), entry.at) for entry in dialog.entries]
    times = {at for name, at in names if name == message} - {at for name, at in names if name not in (message, None)}
    reports = [entry.facts.get("vendor") for entry in dialog.usage if entry.at in times]
    return next((dict(report) for report in reversed(reports) if report), _NO_TOKENS)
