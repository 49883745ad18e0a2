"""`assistant` records of Claude Code: texts, thinking, tool calls and the tokens that they took."""

from typing import Any, Literal, cast

import msgspec

from shiftlog.facts.transcript import Disposition, Key, Mac, ToolCall, Usage
from shiftlog.ingest.readers import actions
from shiftlog.ingest.readers.claude import results as claude_results
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.children import link_by_task
from shiftlog.ingest.readers.claude.context import Desk
from shiftlog.ingest.readers.claude.state import MAX_PENDING_CALLS, Call, Strand, Turn
from shiftlog.ingest.readers.records import Object, bounded, call_line, object_in, size_and_digest, text_in, tokens_in

SYNTHETIC = "<synthetic>"
DEFAULT_ERROR = "api_error"

_KEEPS_INPUT = frozenset(
    "Edit MultiEdit Write NotebookEdit Bash Task Agent Workflow WebFetch WebSearch ExitPlanMode AskUserQuestion Read"
    " web_search web_fetch".split()
)
_COUNTERS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What an `assistant` record says of the response that it is a line of."""

    message: Object
    message_id: str | None
    request_id: str | None
    model: str | None
    usage: Object
    searches: int

    @property
    def key(self) -> str | None:
        """Return `<message.id>/<requestId>`, None for a message without id."""
        return None if self.message_id is None else f"{self.message_id}/{self.request_id or ''}"


def reply_of(record: Object) -> Reply:
    """Return what an `assistant` record says of its response."""
    message = object_in(record, "message")
    usage = object_in(message, "usage")
    served = object_in(usage, "server_tool_use")
    return Reply(
        message,
        text_in(message, "id"),
        text_in(record, "requestId"),
        text_in(message, "model"),
        usage,
        tokens_in(served, "web_search_requests") if served else 0,
    )


def read_assistant(desk: Desk, strand: Strand, record: Object, reply: Reply, *, nested: bool = False) -> Disposition:
    """Read an `assistant` record; `nested` ones come from progress records and never touch a turn."""
    message, model = reply.message, reply.model
    desk.message_id, desk.request_id = reply.message_id, reply.request_id
    is_error = record.get("isApiErrorMessage") is True
    if model == SYNTHETIC and not is_error:
        return desk.counted("assistant/synthetic")
    content = message.get("content")
    blocks: list[Any] = cast("list[Any]", content) if isinstance(content, list) else []
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    turn = None if nested else _turn_for(desk, strand)
    if turn is not None:
        _mark(desk, strand, turn, record, model)
    use = None if reply.searches else reply.key
    kept = 0
    for at, block in enumerate(blocks):
        if isinstance(block, dict):
            kept += _read_block(desk, strand, turn, block, at, use=use, is_error=is_error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            desk.unknown(strand, "assistant/None", f"n{at}")
    if turn is not None and turn.error_code is not None and not turn.error_text:
        turn.error_text = "\n".join(turn.response)
    if kept or not blocks:
        return Disposition.MAPPED
    # Nothing but blocks that no rule knows; each was noted by its own name.
    return Disposition.UNKNOWN


def _turn_for(desk: Desk, strand: Strand) -> Turn:
    # An error of the API is the answer to a command too: it says nothing of the turn before.
    return claude_turns.open_held(desk, strand) or claude_turns.ensure_turn(desk, strand)


def _mark(desk: Desk, strand: Strand, turn: Turn, record: Object, model: str | None) -> None:
    turn.has_model = True
    turn.last = "other"
    if desk.message_id is None or desk.message_id != turn.message_id:
        turn.message_id, turn.response = desk.message_id, []
    if record.get("isApiErrorMessage") is True or record.get("isAbortedMidStream") is True:
        turn.error_code = text_in(record, "error") or DEFAULT_ERROR
        turn.error_text = ""
    else:
        turn.error_code = None
    if model is not None and model != SYNTHETIC:
        _follow_model(desk, strand, turn, model)
    effort = text_in(record, "effort")
    if effort is not None and strand.known.get("reasoning_effort") != effort:
        strand.known["reasoning_effort"] = effort
        desk.run(strand, {"reasoning_effort": effort})


def _follow_model(desk: Desk, strand: Strand, turn: Turn, model: str) -> None:
    if turn.model != model:
        turn.model = model
        turn.sets["model"] = model
    if strand.model != model:
        strand.model = model
        desk.run(strand, {"model": model})


def _read_block(
    desk: Desk, strand: Strand, turn: Turn | None, block: Object, at: int, *, use: str | None, is_error: bool
) -> bool:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        if isinstance(text, str):
            _read_text(desk, strand, turn, text, at, is_error=is_error)
    elif kind == "thinking":
        _read_thinking(desk, strand, block, at)
        _last(turn, "other")
    elif kind == "redacted_thinking":
        _last(turn, "other")
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        _read_call(desk, strand, turn, block, at, use=use)
    elif isinstance(kind, str) and kind.endswith("tool_result"):
        claude_results.read_result(desk, strand, {}, block, at, {}, nested=turn is None)
    elif kind == "fallback":
        if (model := text_in(block, "to")) is not None and turn is not None:
            _follow_model(desk, strand, turn, model)
    else:
        desk.unknown(strand, f"assistant/{kind if isinstance(kind, str) else 'None'}", f"n{at}")
        return False
    return True


def _last(turn: Turn | None, kind: Literal["text", "call", "other"]) -> None:
    if turn is not None:
        turn.last = kind


def _read_text(desk: Desk, strand: Strand, turn: Turn | None, text: str, at: int, *, is_error: bool) -> None:
    _last(turn, "text")
    if not text:
        return
    if is_error:
        desk.say(strand, "system", "observation", text, block=at)
        if turn is not None:
            turn.error_text = text
        return
    is_decision = actions.is_decision(text)
    category = "decision" if is_decision else "observation"
    desk.say(strand, "model", category, text, block=at, aliases=_aliases(desk, strand, "text", text))
    if turn is None:
        return
    turn.response.append(text)
    if not turn.interpreted:
        turn.interpreted = True
        turn.sets["interpretation"] = text
    if is_decision:
        turn.add("design_decisions", text)
    for requirement in actions.requirement_ids(text):
        turn.add("requirements_discovered", requirement)


def _read_thinking(desk: Desk, strand: Strand, block: Object, at: int) -> None:
    text = block.get("thinking")
    if not isinstance(text, str) or not text:
        names = desk.state.counts.counted_names
        names["thinking/empty"] = names.get("thinking/empty", 0) + 1
        return
    extra: Object = {}
    if signature := text_in(block, "signature"):
        extra["signature"] = size_and_digest(signature)
    aliases = _aliases(desk, strand, "thinking", text)
    desk.say(strand, "model", "reasoning", text, block=at, aliases=aliases, extra=extra)


def _aliases(desk: Desk, strand: Strand, kind: str, text: str) -> tuple[Key, ...]:
    # Only what a child says reaches us twice under different uuids: in its file and in its parent's progress records.
    if strand.ref.agent_id is None or desk.message_id is None:
        return ()
    return (("mb", desk.message_id, kind, Mac(text)),)


def _read_call(desk: Desk, strand: Strand, turn: Turn | None, block: Object, at: int, *, use: str | None) -> None:
    tool = text_in(block, "name") or "unknown"
    call_id = text_in(block, "id")
    value: object = bounded(block.get("input"))
    arguments = cast("Object", value) if isinstance(value, dict) else {}
    _last(turn, "call")
    if call_id is None:
        # Nothing can ever answer it, so it is told but no call.
        extra: Object = {"tool": tool, "input": value}
        desk.say(strand, "tool", "observation", call_line(tool, cast("object", value)), block=at, extra=extra)
        return
    name, alias = desk.call_name(strand, call_id)
    kept = arguments if tool in _KEEPS_INPUT else None
    strand.calls[call_id] = Call(tool=tool, input=kept, use=use, name=name, alias=alias)
    if len(strand.calls) > MAX_PENDING_CALLS:
        del strand.calls[next(iter(strand.calls))]
    if turn is not None:
        turn.calls.add(call_id)
    desk.emit(
        strand,
        ToolCall(
            session=strand.ref,
            turn=turn.id if turn is not None else None,
            key=("call", name),
            aliases=(("call", alias),) if alias else (),
            at=desk.at,
            record=desk.ids(at),
            tool=tool,
            call_id=call_id,
            content=call_line(tool, cast("object", value)),
            input=value,
            nested=turn is None,
            extra={"server": True} if block.get("type") == "server_tool_use" else {},
        ),
    )
    link_by_task(desk, strand, tool, arguments, call_id)


# -- usage -------------------------------------------------------------------------------------------------------------


def read_usage(desk: Desk, strand: Strand, reply: Reply, *, nested: bool = False) -> None:
    """Give the tokens of a model message; every line of it repeats them, the largest counts."""
    usage = reply.usage
    key = reply.key if usage else None
    report = (strand.index, key, reply.model, usage)
    if key is None or report == desk.reported:
        return
    desk.reported = report
    given, output, created, cached = [tokens_in(usage, name) for name in _COUNTERS]
    split = object_in(usage, "cache_creation")
    if split:
        created = max(created, sum([tokens_in(split, name) for name in split]))
    searches = reply.searches
    if not (given or output or created or cached or searches):
        return
    model = reply.model
    mark = f"{key} {given} {output} {created} {cached} {searches} {model}"
    if strand.used == mark:
        return
    strand.used = mark
    turn = strand.turn
    desk.emit(
        strand,
        Usage(
            session=strand.ref,
            turn=turn.id if turn is not None and not nested else None,
            key=("use", key),
            at=desk.at,
            model=model if model != SYNTHETIC else None,
            input_tokens=given,
            cached_input_tokens=cached,
            cache_creation_tokens=created,
            cache_creation_1h_tokens=min(tokens_in(split, "ephemeral_1h_input_tokens"), created),
            output_tokens=output,
            web_searches=searches,
            message_id=key.rpartition("/")[0],
            joins=key.endswith("/"),
            vendor=_as_written(usage),
        ),
    )


def _as_written(usage: Object) -> Object:
    return bounded({name: value for name, value in usage.items() if value and not isinstance(value, list)})
