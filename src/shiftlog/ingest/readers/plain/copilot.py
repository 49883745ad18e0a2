"""The reader of Copilot CLI: events of a session, one per line."""

from collections.abc import Callable
from typing import Any, cast

from shiftlog.facts.transcript import Disposition, Key, RecordIds
from shiftlog.ingest.readers.plain.conversation import ConversationReader
from shiftlog.ingest.readers.records import (
    Object,
    bounded,
    object_in,
    objects_in,
    parsed_arguments,
    relative_path,
    text_in,
    tokens_in,
    utc,
    whole_in,
)
from shiftlog.model.agents import COPILOT

_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_WRITES = {"create": True, "edit": False, "str_replace": False, "write": False, "insert": False}
_READS = frozenset({"view", "read", "read_file"})
_OBSERVED = frozenset(
    "session.info session.warning session.error session.truncation session.compaction_complete session.handoff "
    "system.message system.notification subagent.started subagent.completed subagent.failed".split()
)
_COUNTED = frozenset(
    "assistant.turn_start assistant.intent assistant.usage session.idle session.auto_mode_resolved "
    "session.usage_checkpoint session.usage_info session.compaction_start session.snapshot_rewind "
    "tool.user_requested tool.execution_progress tool.execution_partial_result".split()
)


class CopilotReader(ConversationReader):
    """Reads `events.jsonl` of one session."""

    AGENT = COPILOT
    BACKEND = "copilot_cli"
    SHELL_TOOLS = frozenset({"bash", "shell", "powershell", "run_in_terminal"})

    def read_record(self, record: Object) -> Disposition:
        kind = text_in(record, "type") or "(none)"
        data = object_in(record, "data")
        at = self.set_time(record.get("timestamp"))
        if kind == "session.start":
            self._start(data, at)
            return Disposition.MAPPED
        if kind.startswith("hook."):
            return self.counted(kind)
        self.open_session()
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, record, data)
            return Disposition.MAPPED
        if kind in _OBSERVED:
            words = [text_in(data, "message", "content"), text_in(data, "reason", "agentDisplayName", "agentName")]
            self.say("system", next(filter(None, words), kind), self._key(record), kind=kind)
            return Disposition.MAPPED
        return self.counted(kind) if kind in _COUNTED else self.unknown(kind)

    def _key(self, record: Object, part: str = "0") -> Key | None:
        event = text_in(record, "id")
        return ("e", self.ref.vendor_id, f"{event}/{part}") if event is not None else None

    def _start(self, data: Object, at: str | None) -> None:
        context = object_in(data, "context")
        repository = text_in(context, "repository")
        host = text_in(context, "repositoryHost") or "github.com"
        self.open_session(
            text_in(data, "sessionId"), started=utc(data.get("startTime")) or at, cwd=text_in(context, "cwd"),
            branch=text_in(context, "branch"), version=text_in(data, "copilotVersion"),
            repository=f"https://{host}/{repository}" if repository else None,
        )  # fmt: skip
        self.use_model(text_in(data, "selectedModel"))

    def prompt(self, record: Object, data: Object) -> None:
        """Open a turn with the text the user typed, not the client's version of it."""
        self.begin_turn(text_in(record, "id"), text_in(data, "content") or "")
        for attached in objects_in(data, "attachments"):
            if (path := text_in(attached, "path", "displayName")) is not None:
                self.add("context_list", relative_path(path, self.state.cwd))

    def message(self, record: Object, data: Object) -> None:
        """Take a model message and its tool requests."""
        aside = text_in(data, "parentToolCallId")
        ids = RecordIds(
            uuid=text_in(record, "id"), parent_uuid=text_in(record, "parentId"), message_id=text_in(data, "messageId")
        )  # fmt: skip
        extra: Object = {"parent_call": aside} if aside else {}
        if aside is None:
            self.use_model(text_in(data, "model"))
        if (reasoning := text_in(data, "reasoningText")) is not None:
            self.say("model", reasoning, self._key(record, "r"), reasoning=True, aside=aside is not None, **extra)
        text = text_in(data, "content") or ""
        self.say("model", text, self._key(record), record=ids, message=text_in(record, "id") or "",
                 aside=aside is not None, **extra)  # fmt: skip
        self.touch(model=aside is None, quiet=bool(text) and aside is None)
        for request in objects_in(data, "toolRequests"):
            self._call(text_in(request, "toolCallId"), text_in(request, "name"), request.get("arguments"), aside)

    def reason(self, record: Object, data: Object) -> None:
        """Take a reasoning text."""
        self.say("model", text_in(data, "content") or "", self._key(record), reasoning=True)

    def start_tool(self, _record: Object, data: Object) -> None:
        """Take a call that the client starts."""
        aside = text_in(data, "parentToolCallId")
        self._call(text_in(data, "toolCallId"), text_in(data, "toolName"), data.get("arguments"), aside)

    def _call(self, call_id: str | None, tool: str | None, given: Any, aside: str | None) -> None:
        name, arguments = tool or "unknown", parsed_arguments(given)
        extra: Object = {"parent_call": aside} if aside else {}
        known = call_id is not None and (call_id in self.state.calls or call_id in self.state.answered)
        made = self.call(call_id, name, arguments, **extra)
        if not known and (name in _WRITES or name in _READS) and isinstance(arguments, dict):
            path = text_in(cast(Object, arguments), "path", "file_path", "filePath")
            if path is not None:
                self.state.own[made] = [path, _WRITES.get(name)]

    def finish_tool(self, record: Object, data: Object) -> None:
        """Take the result of a call, and the call itself if it is new."""
        self.start_tool(record, data)
        call_id = text_in(data, "toolCallId")
        result = object_in(data, "result")
        error = object_in(data, "error")
        text = (
            text_in(result, "content", "detailedContent") or text_in(data, "result") or text_in(error, "message") or ""
        )
        failed = data.get("success") is False
        duration = whole_in(object_in(object_in(data, "toolTelemetry"), "metrics"), "durationMs")
        self.answer(call_id, text, is_error=failed, duration_ms=duration)
        touched = self.state.own.pop(call_id, None) if call_id is not None else None
        if call_id is not None and isinstance(touched, list):
            path, created = cast("list[Any]", touched)
            if created is not None:
                self.edit(call_id, path, created=bool(created), failed=failed)
            elif not failed:
                self.add("context_list", relative_path(path, self.state.cwd))

    def end_step(self, _record: Object, _data: Object) -> None:
        """Take the end of a model step; it may be the last if every call is answered."""
        turn = self.state.turn
        self.touch(quiet=turn is not None and turn.has_model and not turn.calls)

    def resume(self, _record: Object, data: Object) -> None:
        """Take the directory and branch of a resumed session."""
        context = object_in(data, "context")
        self.change(cwd=text_in(context, "cwd"), branch=text_in(context, "branch"))

    def abort(self, _record: Object, data: Object) -> None:
        """Take a stop by the user."""
        self.end_turn(note=f"Turn aborted: {text_in(data, 'reason') or 'interrupted'}")

    def change_model(self, _record: Object, data: Object) -> None:
        """Take a change of model."""
        self.use_model(text_in(data, "newModel"))
        self.run(reasoning_effort=text_in(data, "reasoningEffort"))

    def shut_down(self, record: Object, data: Object) -> None:
        """Take the end of the client, with the tokens since its start."""
        for model, metrics in object_in(data, "modelMetrics").items():
            used = object_in(cast(Object, metrics), "usage") if isinstance(metrics, dict) else {}
            given, output, read, written, reasoning = (tokens_in(used, name) for name in _USAGE)
            key: Key = ("use", self.ref.vendor_id, text_in(record, "id") or self.state.at or "", model)
            self.use(
                key, bounded(used), rule="first", model=model, input_tokens=given, output_tokens=output,
                cached_input_tokens=read, cache_creation_tokens=written, reasoning_tokens=reasoning,
            )  # fmt: skip
        turn = self.state.turn
        if turn is not None and turn.quiet and not turn.calls:
            self.end_turn()
        self.run(ended=self.state.at)


_HANDLERS: dict[str, Callable[[CopilotReader, Object, Object], None]] = {
    "user.message": CopilotReader.prompt,
    "assistant.message": CopilotReader.message,
    "assistant.reasoning": CopilotReader.reason,
    "assistant.turn_end": CopilotReader.end_step,
    "tool.execution_start": CopilotReader.start_tool,
    "tool.execution_complete": CopilotReader.finish_tool,
    "session.model_change": CopilotReader.change_model,
    "session.resume": CopilotReader.resume,
    "session.shutdown": CopilotReader.shut_down,
    "abort": CopilotReader.abort,
}
