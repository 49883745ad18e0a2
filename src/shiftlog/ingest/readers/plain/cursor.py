"""The reader of Cursor agent transcripts, which have no times, ids or tokens."""

from typing import cast

from shiftlog.facts.transcript import Disposition, Image
from shiftlog.ingest.readers.plain.conversation import ConversationReader, as_raw
from shiftlog.ingest.readers.records import Object, image_from_base64, list_in, object_in, text_in
from shiftlog.model.agents import CURSOR

_OPEN, _CLOSE = "<user_query>", "</user_query>"
_WRITES = {"Write": True, "Edit": False, "MultiEdit": False, "StrReplace": False, "edit_file": False, "write": True}
_GOOD_ENDS = frozenset({"success", "completed", "ok", "done", ""})
_MODEL_ROLES = frozenset({"assistant", "model"})


class CursorReader(ConversationReader):
    """Reads one agent transcript; children have files of their own, known from the caller's hint."""

    AGENT = CURSOR
    BACKEND = "cursor"
    SHELL_TOOLS = frozenset({"Bash", "Shell", "run_terminal_cmd", "run_terminal_command_v2"})

    def read_record(self, record: Object) -> Disposition:
        self.set_time(record.get("timestamp"))
        self.open_session()
        kind = text_in(record, "type")
        if kind == "turn_ended":
            status = text_in(record, "status") or ""
            is_good = status.lower() in _GOOD_ENDS
            self.end_turn(completed=is_good, note=None if is_good else f"Turn aborted: {status}")
            return Disposition.MAPPED
        if kind == "metadata":
            return self.counted(kind)  # an overview of the texts that follow
        role = record.get("role")
        message = object_in(record, "message")
        content = message.get("content", record.get("content"))
        if role == "user":
            self._user(_blocks(content))
        elif isinstance(role, str) and role in _MODEL_ROLES:
            self.use_model(text_in(record, "model"))
            self._model(_blocks(content))
        elif role == "system":
            self.say("system", "\n".join(filter(None, (text_in(block, "text") for block in _blocks(content)))))
        else:
            return self.unknown(kind or "(none)")
        return Disposition.MAPPED

    def _user(self, blocks: list[Object]) -> None:
        texts: list[str] = []
        images: list[Image] = []
        for block in blocks:
            kind = text_in(block, "type")
            if kind == "text":
                texts.append(text_in(block, "text") or "")
            elif kind == "tool_result":
                self._result(block)
            elif kind == "image":
                images += self._images([block])
            else:
                self._odd(block)
        text = "\n".join(filter(None, texts))
        if text.strip() or images:
            prompt, around = _query(text)
            self.begin_turn(None, prompt, tuple(images))
            if around:
                self.add("context_list", around)

    def _model(self, blocks: list[Object]) -> None:
        message = str(self.state.counts.lines)
        for block in blocks:
            kind = text_in(block, "type")
            if kind == "text":
                # Results are rarely written; the model goes on when it has them.
                if self.state.turn is not None:
                    self.state.turn.calls.clear()
                self.say("model", text_in(block, "text") or "", message=message)
            elif kind == "thinking":
                self.say("model", text_in(block, "thinking", "text") or "", reasoning=True)
            elif kind == "tool_use":
                self._call(block)
            else:
                self._odd(block)

    def _call(self, block: Object) -> None:
        tool = text_in(block, "name") or "unknown"
        given = block.get("input")
        call_id = self.call(text_in(block, "id"), tool, given)
        if tool in _WRITES and isinstance(given, dict):
            path = text_in(cast(Object, given), "file_path", "path", "target_file")
            if path is not None:
                # Results are rarely written, so the call stands for the edit.
                self.edit(call_id, path)

    def _result(self, block: Object) -> None:
        parts = _blocks(block.get("content"))
        text = "\n".join(filter(None, (text_in(part, "text") for part in parts)))
        failed = block.get("is_error") is True
        self.answer(text_in(block, "tool_use_id"), text, is_error=failed, images=tuple(self._images(parts)))

    def _images(self, blocks: list[Object]) -> list[Image]:
        found: list[Image] = []
        for block in blocks:
            source = object_in(block, "source")
            data = text_in(source, "data")
            if data is not None:
                found.append(image_from_base64(data, text_in(source, "media_type"), keep=self.hints.keep_images))
        return found

    def _odd(self, block: Object) -> None:
        self.unknown(f"block/{text_in(block, 'type') or ''}", as_raw(block))


def _blocks(content: object) -> list[Object]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [cast(Object, block) for block in list_in({"content": content}, "content") if isinstance(block, dict)]


def _query(text: str) -> tuple[str, str]:
    """Return the user's query, and the editor's text around it."""
    before, opened, rest = text.partition(_OPEN)
    if not opened:
        return text, ""
    inner, _, after = rest.partition(_CLOSE)
    return inner.strip(), "\n".join(filter(None, (before.strip(), after.strip())))
