"""The reader of Gemini CLI: chats as lines with edits, and older ones as one document."""

import re
from typing import Any, cast

from shiftlog.facts.transcript import Disposition, Image, Key, Mac, Note, RecordIds, Subagent, TitleSource
from shiftlog.ingest.readers.actions import diff_of_created, diff_of_replacements
from shiftlog.ingest.readers.plain.conversation import ConversationReader, as_raw
from shiftlog.ingest.readers.records import (
    Object,
    bounded,
    image_from_base64,
    list_in,
    object_in,
    objects_in,
    relative_path,
    text_in,
    tokens_in,
)
from shiftlog.model.agents import GEMINI
from shiftlog.model.prices import billing_tier

_COUNTERS = ("input", "output", "cached", "thoughts", "tool", "total")
_MODEL = frozenset({"gemini", "model"})
_NOTICES = frozenset({"info", "error", "warning"})
# How the client opens a conversation, in the name of its user.
_CONTEXT = "<session_context>"
_EXIT_CODE = re.compile(r"(?:^|\n|\\n)Exit Code: (-?\d{1,9})")
_MAX_KNOWN = 100_000
# What a hook of its start adds stands before the first prompt.
_HOOK_CONTEXT = re.compile(r"\s*<hook_context>(.*?)</hook_context>\s*", re.DOTALL)


def without_hook_context(prompt: str) -> tuple[str, str]:
    """Return a prompt without what a hook put before it, and that."""
    found = _HOOK_CONTEXT.match(prompt)
    return (prompt[found.end() :], found[1]) if found else (prompt, "")


class GeminiReader(ConversationReader):
    """Reads one chat. A message may be rewritten; its last version before the next message counts."""

    AGENT = GEMINI
    BACKEND = "gemini_cli"
    SHELL_TOOLS = frozenset({"run_shell_command", "shell"})

    def read_record(self, record: Object) -> Disposition:
        if "$set" in record:
            return self._set(object_in(record, "$set"))
        if "$rewindTo" in record:
            return self._rewind(record.get("$rewindTo"))
        if isinstance(record.get("messages"), list) or ("sessionId" in record and "type" not in record):
            self._head(record)
            return Disposition.MAPPED
        kind = text_in(record, "type")
        if kind is not None and (kind in _MODEL or kind in _NOTICES or kind == "user"):
            self._hold(record)
            return Disposition.MAPPED
        self.complete()
        return self.unknown(kind or "(none)")

    def complete(self) -> None:
        held = self.state.own.pop("message", None)
        if isinstance(held, dict):
            self._write_message(cast(Object, held))

    # -- records -------------------------------------------------------------------------------------------------------

    def _head(self, record: Object) -> None:
        started = self.set_time(record.get("startTime"))
        project = text_in(record, "projectHash")
        directories = [path for path in list_in(record, "directories") if isinstance(path, str)]
        self.open_session(
            text_in(record, "sessionId"), started=started, cwd=directories[0] if directories else None,
            extra={"project_hash": project} if project else {},
            subagent=Subagent(kind="subagent") if record.get("kind") == "subagent" else None,
        )  # fmt: skip
        if (summary := text_in(record, "summary")) is not None:
            self.rename(summary, TitleSource.SUMMARY)
        for message in objects_in(record, "messages"):
            self._hold(message)
        self.set_time(record.get("lastUpdated"))

    def _set(self, changes: Object) -> Disposition:
        messages = objects_in(changes, "messages")
        for message in messages:
            self._hold(message)
        self.set_time(changes.get("lastUpdated"))
        if (summary := text_in(changes, "summary")) is not None:
            self.open_session()
            self.rename(summary, TitleSource.SUMMARY)
            return Disposition.MAPPED
        return Disposition.MAPPED if messages else self.counted("$set")

    def _rewind(self, target: object) -> Disposition:
        self.complete()
        self.open_session()
        # The turns from that message on are abandoned, or all if it is unknown.
        turns: dict[str, str] = self.state.own.get("turns", {})
        abandoned: list[str] = self.state.own.setdefault("abandoned", [])
        order = self.state.turns
        start = order.index(turns[target]) if isinstance(target, str) and target in turns else 0
        gone = [turn for turn in order[start:] if turn not in abandoned]
        abandoned.extend(gone)
        if gone:
            key = self.line_key("rewind", *gone)
            body: Object = {"abandoned": gone}
            self.out.append(Note(session=self.ref, key=key, at=self.state.at, kind="abandoned", body=body))
        return Disposition.MAPPED

    def _hold(self, message: Object) -> None:
        held = self.state.own.get("message")
        name = text_in(message, "id")
        if isinstance(held, dict) and (name is None or cast(Object, held).get("id") != name):
            self.complete()
        self.state.own["message"] = bounded(message)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _write_message(self, message: Object) -> None:
        kind, name = text_in(message, "type"), text_in(message, "id")
        self.set_time(message.get("timestamp"))
        self.open_session()
        known: dict[str, Any] = self.state.own.setdefault("known", {})
        again = name is not None and name in known
        if name is not None and len(known) < _MAX_KNOWN:
            known[name] = kind
        text, images = self._content(message)
        if kind == "user" and text.startswith(_CONTEXT):
            self.say("system", text, self._key(name, "context", text), kind="context")
        elif kind == "user":
            prompt, context = without_hook_context(text)
            if not again and (prompt.strip() or images):
                self.begin_turn(name, prompt, images)
                if context:
                    self.add("context_list", context)
            elif not again and context:
                self.say("system", context, self._key(name, "context", context), kind="context")
        elif kind in _MODEL:
            self._answer(message, name, text, images, earlier=self._is_earlier(name))
        elif kind in _NOTICES:
            self.say("system", text, self._key(name, kind or "", text), kind=kind)
        else:
            self.unknown(f"message/{kind or ''}", as_raw(message))
        turn = self.state.turn
        if name is not None and turn is not None:
            self.state.own.setdefault("turns", {}).setdefault(name, turn.request_id)

    def _is_earlier(self, name: str | None) -> bool:
        """Return True if a rewritten message belongs to an earlier turn."""
        turn = self.state.turn
        known: str | None = self.state.own.get("turns", {}).get(name) if name is not None else None
        return known is not None and (turn is None or turn.request_id != known)

    def _answer(
        self, message: Object, name: str | None, text: str, images: tuple[Image, ...], *, earlier: bool
    ) -> None:  # fmt: skip
        # A list of all messages repeats earlier turns; their texts do not answer the open one.
        if not earlier:
            self.use_model(text_in(message, "model"))
        for thought in objects_in(message, "thoughts"):
            words = "\n".join(filter(None, (text_in(thought, "subject"), text_in(thought, "description"))))
            self.say("model", words, self._key(name, "thought", words), reasoning=True, aside=earlier)
        record = RecordIds(message_id=name) if name else None
        if (turn := self.state.turn) is not None and name is not None and turn.message == name:
            turn.texts = []  # it replaces its earlier version
        self.say("model", text, self._key(name, "text", text), message=name or "", images=images, record=record,
                 aside=earlier)  # fmt: skip
        self._use(message, name)
        for call in objects_in(message, "toolCalls"):
            self._tool(call)

    def _use(self, message: Object, name: str | None) -> None:
        tokens = object_in(message, "tokens")
        used = {counter: tokens_in(tokens, counter) for counter in _COUNTERS}
        key: Key = ("use", self.ref.vendor_id, name or self.unnamed("use", repr(sorted(tokens.items()))))
        # Gemini counts thoughts beside the output; the journal counts them in it.
        self.use(
            key, used, model=text_in(message, "model"), message_id=f"{key[1]}:{key[2]}",
            input_tokens=max(used["input"] - used["cached"], 0), cached_input_tokens=used["cached"],
            output_tokens=used["output"] + used["thoughts"], reasoning_tokens=used["thoughts"],
            tier=billing_tier(None, used["input"]),
        )  # fmt: skip

    def _key(self, name: str | None, part: str, text: str) -> Key | None:
        return ("m", self.ref.vendor_id, name, part, Mac(text)) if name is not None else None

    def _content(self, message: Object) -> tuple[str, tuple[Image, ...]]:
        content = message.get("content")
        if isinstance(content, str) and content:
            return content, ()
        texts: list[str] = []
        images: list[Image] = []
        parts: list[object] = list_in(message, "content") or list_in(message, "parts")
        if isinstance(content, dict):
            parts = [cast(object, content)]
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict):
                fields = cast(Object, part)
                texts.append(text_in(fields, "text") or "")
                inline = object_in(fields, "inlineData")
                if (data := text_in(inline, "data")) is not None:
                    keep = self.hints.keep_images
                    images.append(image_from_base64(data, text_in(inline, "mimeType"), keep=keep))
        return "\n".join(filter(None, texts)), tuple(images)

    # -- tools ---------------------------------------------------------------------------------------------------------

    def _tool(self, call: Object) -> None:
        tool, status = text_in(call, "name") or "unknown", text_in(call, "status")
        given = call.get("args")
        call_id = self.call(text_in(call, "id"), tool, given)
        if status not in ("success", "error", "cancelled") and not call.get("result"):
            return
        text = _result(call)
        failed = status in ("error", "cancelled")
        found = _EXIT_CODE.search(text[-2048:]) if tool in self.SHELL_TOOLS else None
        code = int(found[1]) if found else None
        if self.answer(call_id, text, is_error=failed, exit_code=code, interrupted=status == "cancelled"):
            self._act(call_id, tool, cast(Object, given) if isinstance(given, dict) else {}, call, failed=failed)

    def _act(self, call_id: str, tool: str, given: Object, call: Object, *, failed: bool) -> None:
        path = text_in(given, "file_path", "absolute_path", "path")
        if tool in ("write_file", "replace", "edit") and path is not None:
            shown = relative_path(path, self.state.cwd)
            display = object_in(call, "resultDisplay")
            created = display.get("isNewFile") is True or display.get("originalContent") == ""
            diff = text_in(display, "fileDiff")
            approximate = diff is None
            if diff is None and tool == "write_file" and created:
                diff = diff_of_created(shown, text_in(given, "content") or "")
            elif diff is None and tool != "write_file":
                pair = (text_in(given, "old_string") or "", text_in(given, "new_string") or "")
                diff = diff_of_replacements(shown, [pair])
            self.edit(call_id, path, created=created, failed=failed, diff=diff, approximate=approximate)
        elif tool in ("read_file", "read_many_files") and path is not None and not failed:
            self.add("context_list", relative_path(path, self.state.cwd))
        elif tool in ("web_fetch", "google_web_search") and not failed:
            address = text_in(given, "url") or f"search: {text_in(given, 'query', 'prompt') or ''}"
            self.act(call_id, "web", type="web_reference", description=address)


def _result(call: Object) -> str:
    texts: list[str] = []
    for part in objects_in(call, "result"):
        response = object_in(object_in(part, "functionResponse"), "response")
        texts.append(text_in(response, "output", "error", "result", "content") or text_in(part, "text") or "")
    joined = "\n".join(filter(None, texts))
    return joined or text_in(call, "result", "resultDisplay") or ""
