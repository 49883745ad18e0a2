"""`assistant` records of Claude Code: texts, thinking, tool calls and tokens."""

from typing import Any, cast

import msgspec

from shiftlog.facts.transcript import Disposition, Key, Mac, ToolCall, UsageFact
from shiftlog.ingest.readers import actions
from shiftlog.ingest.readers.claude import results as claude_results
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.children import link_by_task
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.state import MAX_PENDING_CALLS, ClaudeCall, ClaudeTurn, Strand
from shiftlog.ingest.readers.records import Object, bounded, call_line, object_in, size_and_digest, text_in, tokens_in
from shiftlog.model.prices import billing_tier

SYNTHETIC = "<synthetic>"
DEFAULT_ERROR = "api_error"

_KEEPS_INPUT = frozenset(
    "Edit MultiEdit Write NotebookEdit Bash Task Agent Workflow WebFetch WebSearch ExitPlanMode AskUserQuestion Read"
    " web_search web_fetch".split()
)
_COUNTERS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class ModelReply(msgspec.Struct, frozen=True, gc=False):
    """The response of which an `assistant` record is one line."""

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


def reply_of(record: Object) -> ModelReply:
    """Return the response of an `assistant` record."""
    message = object_in(record, "message")
    usage = object_in(message, "usage")
    served = object_in(usage, "server_tool_use")
    return ModelReply(
        message,
        text_in(message, "id"),
        text_in(record, "requestId"),
        text_in(message, "model"),
        usage,
        tokens_in(served, "web_search_requests") if served else 0,
    )


def read_assistant(
    context: Context, strand: Strand, record: Object, reply: ModelReply, *, nested: bool = False
) -> Disposition:
    """Read an `assistant` record; `nested` ones come from progress records and never touch a turn."""
    message, model = reply.message, reply.model
    context.message_id, context.request_id = reply.message_id, reply.request_id
    is_error = record.get("isApiErrorMessage") is True
    if model == SYNTHETIC and not is_error:
        return context.counted("assistant/synthetic")
    content = message.get("content")
    blocks: list[Any] = cast("list[Any]", content) if isinstance(content, list) else []
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    turn = None
    if not nested:
        # An API error answers a held command too; it says nothing about the turn before.
        turn = claude_turns.open_held(context, strand) or claude_turns.ensure_turn(context, strand)
        _mark(context, strand, turn, record, model)
    use = None if reply.searches else reply.key
    kept = 0
    for at, block in enumerate(blocks):
        if isinstance(block, dict):
            kept += _read_block(context, strand, turn, block, at, use=use, is_error=is_error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            context.unknown(strand, "assistant/None", f"n{at}")
    if turn is not None and turn.error_code is not None and not turn.error_text:
        turn.error_text = "\n".join(turn.response)
    if kept or not blocks:
        return Disposition.MAPPED
    # Only unknown blocks; each was noted by its own name.
    return Disposition.UNKNOWN


def _mark(context: Context, strand: Strand, turn: ClaudeTurn, record: Object, model: str | None) -> None:
    turn.has_model = True
    turn.last = "other"
    if context.message_id is None or context.message_id != turn.message_id:
        turn.message_id, turn.response = context.message_id, []
    if record.get("isApiErrorMessage") is True or record.get("isAbortedMidStream") is True:
        turn.error_code = text_in(record, "error") or DEFAULT_ERROR
        turn.error_text = ""
    else:
        turn.error_code = None
    if model is not None and model != SYNTHETIC:
        _follow_model(context, strand, turn, model)
    effort = text_in(record, "effort")
    if effort is not None and strand.known.get("reasoning_effort") != effort:
        strand.known["reasoning_effort"] = effort
        context.run(strand, {"reasoning_effort": effort})


def _follow_model(context: Context, strand: Strand, turn: ClaudeTurn, model: str) -> None:
    if turn.model != model:
        turn.model = model
        turn.sets["model"] = model
    if strand.model != model:
        strand.model = model
        context.run(strand, {"model": model})


def _read_block(
    context: Context,
    strand: Strand,
    turn: ClaudeTurn | None,
    block: Object,
    at: int,
    *,
    use: str | None,
    is_error: bool,
) -> bool:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        if isinstance(text, str):
            _read_text(context, strand, turn, text, at, is_error=is_error)
    elif kind in ("thinking", "redacted_thinking"):
        if kind == "thinking":
            _read_thinking(context, strand, block, at)
        if turn is not None:
            turn.last = "other"
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        _read_call(context, strand, turn, block, at, use=use)
    elif isinstance(kind, str) and kind.endswith("tool_result"):
        claude_results.read_result(context, strand, {}, block, at, {}, nested=turn is None)
    elif kind == "fallback":
        if (model := text_in(block, "to")) is not None and turn is not None:
            _follow_model(context, strand, turn, model)
    else:
        context.unknown(strand, f"assistant/{kind if isinstance(kind, str) else 'None'}", f"n{at}")
        return False
    return True


def _read_text(
    context: Context, strand: Strand, turn: ClaudeTurn | None, text: str, at: int, *, is_error: bool
) -> None:
    if turn is not None:
        turn.last = "text"
    if not text:
        return
    if is_error:
        context.say(strand, "system", "observation", text, block=at)
        if turn is not None:
            turn.error_text = text
        return
    is_decision = actions.is_decision(text)
    category = "decision" if is_decision else "observation"
    context.say(strand, "model", category, text, block=at, aliases=_aliases(context, strand, "text", text))
    if turn is not None:
        turn.response.append(text)
        turn.learn(text, is_decision=is_decision)


def _read_thinking(context: Context, strand: Strand, block: Object, at: int) -> None:
    text = block.get("thinking")
    if not isinstance(text, str) or not text:
        context.counted("thinking/empty")
        return
    extra: Object = {}
    if signature := text_in(block, "signature"):
        extra["signature"] = size_and_digest(signature)
    aliases = _aliases(context, strand, "thinking", text)
    context.say(strand, "model", "reasoning", text, block=at, aliases=aliases, extra=extra)


def _aliases(context: Context, strand: Strand, kind: str, text: str) -> tuple[Key, ...]:
    # Texts of a child alone come twice under different uuids: in its file and in its parent's progress records.
    if strand.ref.agent_id is None or context.message_id is None:
        return ()
    return (("mb", context.message_id, kind, Mac(text)),)


def _read_call(
    context: Context, strand: Strand, turn: ClaudeTurn | None, block: Object, at: int, *, use: str | None
) -> None:
    tool = text_in(block, "name") or "unknown"
    call_id = text_in(block, "id")
    value: object = bounded(block.get("input"))
    arguments = cast("Object", value) if isinstance(value, dict) else {}
    if turn is not None:
        turn.last = "call"
    if call_id is None:
        # No result can name it, so it is an observation, not a call.
        extra: Object = {"tool": tool, "input": value}
        context.say(strand, "tool", "observation", call_line(tool, cast("object", value)), block=at, extra=extra)
        return
    name, alias = context.call_name(strand, call_id)
    kept = arguments if tool in _KEEPS_INPUT else None
    strand.calls[call_id] = ClaudeCall(tool=tool, input=kept, use=use, name=name, alias=alias)
    if len(strand.calls) > MAX_PENDING_CALLS:
        del strand.calls[next(iter(strand.calls))]
    if turn is not None:
        turn.calls.add(call_id)
    fact = ToolCall(
        session=strand.ref,
        turn=turn and turn.request_id,
        key=("call", name),
        aliases=(("call", alias),) if alias else (),
        at=context.at,
        record=context.ids(at),
        tool=tool,
        call_id=call_id,
        content=call_line(tool, cast("object", value)),
        input=value,
        nested=turn is None,
        extra={"server": True} if block.get("type") == "server_tool_use" else {},
    )
    context.emit(strand, fact)
    link_by_task(context, strand, tool, arguments, call_id)


def _service(usage: Object) -> str | None:
    """Return the service that a response was billed for, where it is not the standard one."""
    return text_in(usage, "speed") if text_in(usage, "speed") == "fast" else text_in(usage, "service_tier")


# -- usage -------------------------------------------------------------------------------------------------------------


def read_usage(context: Context, strand: Strand, reply: ModelReply, *, nested: bool = False) -> None:
    """Give the tokens of a model message; each of its lines repeats them, and the largest count."""
    usage = reply.usage
    key = reply.key if usage else None
    report = (strand.index, key, reply.model, usage)
    if key is None or report == context.reported:
        return
    context.reported = report
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
    used = UsageFact(
        session=strand.ref,
        turn=None if nested else strand.turn_id,
        key=("use", key),
        at=context.at,
        model=model if model != SYNTHETIC else None,
        input_tokens=given,
        cached_input_tokens=cached,
        cache_creation_tokens=created,
        cache_creation_1h_tokens=min(tokens_in(split, "ephemeral_1h_input_tokens"), created),
        output_tokens=output,
        web_searches=searches,
        tier=billing_tier(_service(usage), given + cached + created),
        message_id=key.rpartition("/")[0],
        joins=key.endswith("/"),
        vendor=bounded({name: value for name, value in usage.items() if value and not isinstance(value, list)}),
    )
    context.emit(strand, used)
