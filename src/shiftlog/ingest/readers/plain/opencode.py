"""The reader of OpenCode: messages and parts from rows, storage files (`opencode_rows`) or an export."""

import re
from collections.abc import Iterable, Sequence
from typing import cast

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.actions import diff_of_replacements
from shiftlog.ingest.readers.plain.conversation import ConversationReader, as_raw
from shiftlog.ingest.readers.plain.opencode_rows import MESSAGE, PART, SESSION
from shiftlog.ingest.readers.records import (
    Object,
    bounded,
    image_from_url,
    list_in,
    object_in,
    objects_in,
    relative_path,
    text_in,
    tokens_in,
    utc,
    whole_in,
)
from shiftlog.model.agents import OPENCODE
from shiftlog.model.prices import billing_tier

_COUNTED = frozenset({"step-start", "step-finish", "snapshot", "agent", "retry", "subtask"})
_ENDED = frozenset({"completed", "success", "error", "failed"})
_ABORTED = "MessageAbortedError"
# The title until the model has given one.
_NO_TITLE = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z", re.ASCII)


def _written(message: Object, parts: list[Object]) -> int | None:
    """Return how many parts of a message are finished; None if even its prompt is missing."""
    if message.get("role") == "user":
        return len(parts) if parts or object_in(message, "summary") else None
    if object_in(message, "time").get("completed") is not None or message.get("error") is not None:
        return len(parts)
    return next((place for place, part in enumerate(parts) if _is_growing(part)), len(parts))


def _is_growing(part: Object) -> bool:
    if part.get("type") == "tool":
        return object_in(part, "state").get("status") == "pending"
    time = object_in(part, "time")
    return part.get("type") in ("text", "reasoning") and time.get("start") is not None and time.get("end") is None


class OpenCodeReader(ConversationReader):
    """Reads one session. A message is written when all its parts are there."""

    AGENT = OPENCODE
    BACKEND = "opencode"
    SHELL_TOOLS = frozenset({"bash", "shell"})

    def read_record(self, record: Object) -> f.Disposition:
        """Read one line: a session, message or part, or a whole export."""
        if (held := self.state.own.pop("held", None)) is not None:
            self.state.own["message"], self.state.own["parts"] = held
        kind = record.get("opencode")
        data = object_in(record, "data")
        if kind == SESSION:
            self._session(data)
        elif kind == MESSAGE:
            self._message(data)
        elif kind == PART:
            self._part(data)
        elif isinstance(record.get("info"), dict) and isinstance(record.get("messages"), list):
            self._session(object_in(record, "info"))
            for message in objects_in(record, "messages"):
                self._message(object_in(message, "info"))
                for part in objects_in(message, "parts"):
                    self._part(part)
        elif "messageID" in record and "type" in record:
            self._part(record)
        elif "sessionID" in record and "role" in record:
            self._message(record)
        elif "id" in record and "directory" in record:
            self._session(record)
        else:
            return self.unknown(text_in(record, "type") or "(none)")
        return f.Disposition.MAPPED

    def finish(self) -> Sequence[f.AnyFact]:
        """Write the finished part of the last message; the rest waits until it is finished or idle."""
        message, parts = self.state.own.get("message"), cast("list[Object]", self.state.own.get("parts", []))
        if isinstance(message, dict):
            known = cast(Object, message)
            written = _written(known, parts)
            if written is None:
                self.state.own["held"] = [self.state.own.pop("message"), self.state.own.pop("parts")]
            elif written < len(parts):
                self.state.own["held"] = [known, parts[written:]]
                self.state.own["parts"] = parts[:written]
        return super().finish()

    def standings(self) -> Sequence[f.Standing]:
        """Return the open turn, and what is held."""
        found = super().standings()
        if not self._holds_content():
            return found
        turn = self.state.turn
        held = f.Standing(
            session=self.ref, turn=turn.request_id if turn else "",
            last_at=self.state.newest_at or self.state.at, quiet=True, ends_as="observed",
        )  # fmt: skip
        return (*found, held)

    def end_idle(self, sessions: Iterable[f.VendorSession] | None = None) -> Sequence[f.AnyFact]:
        """Write what is held, because nothing follows, and end the open turn."""
        chosen = None if sessions is None else set(sessions)
        if self._holds_content() and (chosen is None or self.ref in chosen):
            message, parts = self.state.own.pop("held")
            self._write_message(message, parts)
            self.give_fields()
        return super().end_idle(chosen)

    def _holds_content(self) -> bool:
        """Return True if something is held that may be written; a prompt whose text is not there yet says nothing."""
        held = self.state.own.get("held")
        return held is not None and _written(*held) is not None

    def complete(self) -> None:
        message = self.state.own.pop("message", None)
        parts = self.state.own.pop("parts", [])
        if isinstance(message, dict):
            self._write_message(cast(Object, message), cast("list[Object]", parts))

    def _session(self, data: Object) -> None:
        time = object_in(data, "time")
        self.set_time(time.get("created"))
        self.open_session(
            text_in(data, "id"), started=utc(time.get("created")), cwd=text_in(data, "directory"),
            version=text_in(data, "version"), parent=text_in(data, "parentID"),
        )  # fmt: skip
        title = text_in(data, "title")
        if title is not None and not _NO_TITLE.fullmatch(title):
            self.rename(title, f.TitleSource.GENERATED)

    def _message(self, data: Object) -> None:
        self.complete()
        self.open_session(text_in(data, "sessionID"))
        self.state.own["message"] = bounded(data)
        self.state.own["parts"] = []

    def _part(self, data: Object) -> None:
        self.open_session(text_in(data, "sessionID"))
        if "message" in self.state.own:
            self.state.own["parts"].append(bounded(data))
        else:
            self._write_part(data, "", "part")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _write_message(self, message: Object, parts: list[Object]) -> None:
        time = object_in(message, "time")
        self.set_time(time.get("created"))
        role, name = message.get("role"), text_in(message, "id") or ""
        if role == "user":
            self._prompt(message, name, parts)
        elif role == "assistant":
            model = object_in(message, "model")
            self.use_model(text_in(message, "modelID") or text_in(model, "modelID"))
            for part in parts:
                self._write_part(part, name, "model")
            self._use(message, name)
            self._end(message, time)
        else:
            self.unknown(f"message/{role if isinstance(role, str) else ''}", as_raw(message))

    def _prompt(self, message: Object, name: str, parts: list[Object]) -> None:
        texts = [part for part in parts if part.get("type") == "text"]
        typed = [text for part in texts if part.get("synthetic") is not True and (text := text_in(part, "text"))]
        summary = object_in(message, "summary")
        prompt = "\n".join(typed) or text_in(summary, "body", "title") or ""
        images = tuple(image for part in parts if (image := self._image(part)) is not None)
        self.begin_turn(name or None, prompt, images)
        for part in parts:
            if part.get("type") != "text" or part.get("synthetic") is True:
                self._write_part(part, name, "user")

    def _image(self, part: Object) -> f.Image | None:
        url = text_in(part, "url") if part.get("type") == "file" else None
        return image_from_url(url, keep=self.hints.keep_images) if url else None

    def _end(self, message: Object, time: Object) -> None:
        self.set_time(time.get("completed"))
        error = object_in(message, "error")
        turn = self.state.turn
        name = text_in(error, "name")
        if name == _ABORTED:
            self.end_turn(note="Turn aborted: interrupted")
        elif turn is not None:
            turn.has_model = True
            turn.failure = (text_in(object_in(error, "data"), "message") or name) if name else None
            turn.failure_code = name

    def _use(self, message: Object, name: str) -> None:
        tokens = object_in(message, "tokens")
        cache = object_in(tokens, "cache")
        vendor: Object = {word: tokens_in(tokens, word) for word in ("input", "output", "reasoning")}
        vendor |= {f"cache_{word}": tokens_in(cache, word) for word in ("read", "write")}
        cost = message.get("cost")
        spent = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < 1e9 else None
        if spent is not None:
            vendor["cost_source"] = "vendor"
        key: f.Key = ("use", self.ref.vendor_id, name or self.unnamed("use", repr(sorted(vendor.items()))))
        self.use(
            key, vendor, model=text_in(message, "modelID") or text_in(object_in(message, "model"), "modelID"),
            message_id=f"{key[1]}:{key[2]}",
            input_tokens=vendor["input"], output_tokens=vendor["output"], reasoning_tokens=vendor["reasoning"],
            cached_input_tokens=vendor["cache_read"], cache_creation_tokens=vendor["cache_write"], cost_usd=spent,
            tier=billing_tier(None, vendor["input"] + vendor["cache_read"] + vendor["cache_write"]),
        )  # fmt: skip

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _write_part(self, part: Object, message: str, role: str) -> None:
        kind, name = text_in(part, "type"), text_in(part, "id")
        key: f.Key | None = ("p", self.ref.vendor_id, name) if name is not None else None
        self.set_time(object_in(part, "time").get("start"))
        record = f.RecordIds(message_id=message or None, uuid=name)
        if kind == "text" and role == "user":
            self.say("system", text_in(part, "text") or "", key, record=record, injected=True)
        elif kind == "text":
            self.say("model", text_in(part, "text") or "", key, message=message, record=record)
        elif kind == "reasoning":
            self.say("model", text_in(part, "text") or "", key, reasoning=True, record=record)
        elif kind == "tool":
            self._tool(part, record)
        elif kind == "file":
            if self._image(part) is None and (path := text_in(part, "filename", "url")) is not None:
                self.add("context_list", path if "://" in path else relative_path(path, self.state.cwd))
        elif kind == "patch":
            for path in list_in(part, "files"):
                if isinstance(path, str) and path:
                    self.add("files_modified", relative_path(path, self.state.cwd))
        elif kind == "compaction":
            note: Object = {"compaction": {"auto": part.get("auto") is True}}
            turn = self.state.turn and self.state.turn.request_id
            key = key or self.line_key("compaction", message)
            self.out.append(
                f.Note(session=self.ref, key=key, at=self.state.at, turn=turn, kind="compaction", body=note)
            )
        elif kind not in _COUNTED:
            self.unknown(f"part/{kind or ''}", as_raw(part))

    def _tool(self, part: Object, record: f.RecordIds) -> None:
        tool, state = text_in(part, "tool") or "unknown", object_in(part, "state")
        given = state.get("input")
        call_id = self.call(text_in(part, "callID", "id"), tool, given, record=record)
        metadata = object_in(state, "metadata")
        child = text_in(metadata, "sessionId", "sessionID")
        if tool == "task" and child is not None:
            turn = self.state.turn and self.state.turn.request_id
            link = f.ChildLink(
                session=self.ref, key=("child", self.ref.vendor_id, call_id), at=self.state.at, turn=turn,
                call_id=call_id, child_thread_id=child, rank=0,
            )  # fmt: skip
            self.out.append(link)
        status = text_in(state, "status") or ""
        if status not in _ENDED:
            return
        time = object_in(state, "time")
        begun, ended = whole_in(time, "start"), whole_in(time, "end")
        duration = ended - begun if begun is not None and ended is not None and ended >= begun else None
        self.set_time(time.get("end"))
        code = whole_in(metadata, "exit")
        failed = status in ("error", "failed") or tool == "invalid" or code not in (None, 0)
        text = text_in(state, "output", "error") or ""
        if self.answer(call_id, text, is_error=failed, exit_code=code, duration_ms=duration):
            self._act(call_id, tool, cast(Object, given) if isinstance(given, dict) else {}, metadata, failed=failed)

    def _act(self, call_id: str, tool: str, given: Object, metadata: Object, *, failed: bool) -> None:
        path = text_in(given, "filePath", "file_path", "path")
        if tool in ("edit", "write", "multiedit", "patch") and path is not None:
            diff = text_in(metadata, "diff")
            approximate = diff is None
            if diff is None and tool == "edit":
                pair = (text_in(given, "oldString") or "", text_in(given, "newString") or "")
                diff = diff_of_replacements(relative_path(path, self.state.cwd), [pair])
            created = tool == "write" and metadata.get("exists") is False
            self.edit(call_id, path, created=created, failed=failed, diff=diff, approximate=approximate)
        elif tool == "read" and path is not None and not failed:
            self.add("context_list", relative_path(path, self.state.cwd))
        elif tool in ("webfetch", "websearch") and not failed:
            address = text_in(given, "url") or f"search: {text_in(given, 'query') or ''}"
            self.act(call_id, "web", type="web_reference", description=address)
