"""Handlers of Codex response items: messages, reasoning, tool calls and their outputs."""

from collections.abc import Callable
from typing import Any, cast

from shiftlog.facts.transcript import Disposition, RecordIds
from shiftlog.ingest.readers.codex.calls import answer, emit_action, open_call
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.state import HeldMessage
from shiftlog.ingest.readers.codex.text import Output, content_of, is_injected, output_of
from shiftlog.ingest.readers.codex.turns import named_turn
from shiftlog.ingest.readers.records import (
    Object,
    image_from_base64,
    list_in,
    object_in,
    objects_in,
    parsed_arguments,
    text_in,
)

Handler = Callable[[Rollout, Object], Disposition | None]
"""Reads a record; None counts it as mapped."""

MAPPED, COUNTED, DUPLICATE = Disposition.MAPPED, Disposition.COUNTED, Disposition.DUPLICATE


def _ids(payload: Object) -> RecordIds | None:
    item_id = text_in(payload, "id")
    return RecordIds(message_id=item_id) if item_id else None


def on_message(rollout: Rollout, payload: Object, *, bare: bool = False) -> None:
    """Take a message of a user, the model or the client."""
    role = payload.get("role")
    text, images = content_of(payload.get("content"), keep=rollout.hints.keep_images)
    if role == "assistant":
        phase = text_in(payload, "phase")
        turn = rollout.place(payload)
        rollout.hear_model(text, turn, event=False, phase=phase, record=_ids(payload), images=images)
    elif role == "user" and not is_injected(text):
        held = HeldMessage(
            text=text, at=rollout.at, event=bare, images=images, message_id=text_in(payload, "id"),
            turn_hint=named_turn(payload),
        )  # fmt: skip
        if bare and rollout.state.held:
            rollout.release()
        rollout.hear_user(held)
    elif text:
        rollout.observe(text, rollout.place(payload), injected=True)


def _on_reasoning(rollout: Rollout, payload: Object) -> Disposition | None:
    """Take a reasoning: its summaries and, if they are not encrypted, its contents."""
    texts = [text for name in ("summary", "content") for text in _texts(payload, name)]
    rollout.hear_reasoning(texts, rollout.place(payload), event=False)
    return None if texts else COUNTED


def _texts(payload: Object, name: str) -> list[str]:
    value = payload.get(name)
    if isinstance(value, str):
        return [value]
    found: list[str] = []
    for part in list_in(payload, name):
        text = cast(Object, part).get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text:
            found.append(text)
    return found


def _on_function_call(rollout: Rollout, payload: Object) -> Disposition:
    tool = text_in(payload, "name") or "unknown"
    extra = {"namespace": namespace} if (namespace := text_in(payload, "namespace")) else {}
    return _opened(rollout, payload, tool, parsed_arguments(payload.get("arguments")), record=_ids(payload), **extra)


def _on_custom_call(rollout: Rollout, payload: Object) -> Disposition:
    tool = text_in(payload, "name") or "unknown"
    given = payload.get("input")
    given = given if tool in ("apply_patch", "exec") else parsed_arguments(given)
    return _opened(rollout, payload, tool, given, record=_ids(payload))


def _on_local_shell(rollout: Rollout, payload: Object) -> Disposition:
    return _opened(rollout, payload, "local_shell", object_in(payload, "action"), record=_ids(payload))


def _opened(rollout: Rollout, payload: Object, tool: str, given: Any, **extra: Any) -> Disposition:
    call_id = text_in(payload, "call_id", "id")
    opened = open_call(rollout, call_id, tool, given, rollout.place(payload), **extra)
    return MAPPED if opened else DUPLICATE


def _on_tool_search(rollout: Rollout, payload: Object) -> Disposition:
    """Take a search for tools, which the client does itself."""
    return _opened(rollout, payload, "tool_search", parsed_arguments(payload.get("arguments")), nested=True)


def _on_tool_search_output(rollout: Rollout, payload: Object) -> Disposition:
    """Take the names of the tools found, not their descriptions."""
    names = [name for tool in objects_in(payload, "tools") if (name := text_in(tool, "name"))]
    known = answer(rollout, text_in(payload, "call_id", "id"), Output(", ".join(names)), rollout.place(payload))
    return MAPPED if known else DUPLICATE


def _on_tool_call(rollout: Rollout, payload: Object) -> Disposition:
    """Take a call of an early release: without an id, so that results pair by order."""
    tool = text_in(object_in(payload, "function"), "name") or text_in(payload, "name", "tool") or "unknown"
    given = parsed_arguments(payload.get("arguments", payload.get("input")))
    return _opened(rollout, payload, tool, given)


def on_output(rollout: Rollout, payload: Object) -> Disposition:
    """Take the output of a call."""
    value = payload.get("output", payload.get("result", payload.get("content")))
    output = output_of(value, keep=rollout.hints.keep_images)
    tool = text_in(payload, "name")
    known = answer(rollout, text_in(payload, "call_id"), output, rollout.place(payload), tool=tool)
    return MAPPED if known else DUPLICATE


def on_web_search(rollout: Rollout, payload: Object, *, event: bool = False) -> Disposition:
    """Take one half of a web search; the first half is written."""
    turn = rollout.place(payload)
    query_text = _query(payload)
    if not query_text:
        return COUNTED
    if rollout.pair(turn, "w", query_text, event=event) is None:
        return MAPPED
    call_id = text_in(payload, "call_id", "id") or rollout.unnamed_id(turn, "web", query_text)
    given = payload.get("action") or {"query": payload.get("query")}
    if open_call(rollout, call_id, "web_search", given, turn, nested=True) is None:
        return DUPLICATE
    results = objects_in(payload, "results")
    found = [" ".join(filter(None, (text_in(one, "title"), text_in(one, "url")))) for one in results]
    answer(rollout, call_id, Output("\n".join(filter(None, found))), turn)
    emit_action(rollout, call_id, turn, "web", type="web_reference", description=query_text)
    return MAPPED


def _query(payload: Object) -> str | None:
    action = object_in(payload, "action")
    if (url := text_in(action, "url")) is not None:
        return url
    queries = [query for query in list_in(action, "queries") if isinstance(query, str) and query]
    query = text_in(action, "query") or (queries[0] if queries else None) or text_in(payload, "query")
    if query is None:
        pattern = text_in(action, "pattern")
        return f"search: {pattern}" if pattern else None
    return query if query.startswith(("http://", "https://")) else f"search: {query}"


def on_image_generation(rollout: Rollout, payload: Object, *, event: bool = False) -> Disposition:
    """Take one half of a generated image: its digest, not its bytes."""
    turn = rollout.place(payload)
    prompt = text_in(payload, "revised_prompt") or ""
    call_id = text_in(payload, "call_id", "id")
    if rollout.pair(turn, "g", prompt or call_id or "", event=event) is None:
        return MAPPED
    call_id = call_id or rollout.unnamed_id(turn, "image", prompt)
    if open_call(rollout, call_id, "image_generation", {"prompt": prompt}, turn, nested=True) is None:
        return DUPLICATE
    data = text_in(payload, "result")
    images = (image_from_base64(data, "image/png", keep=rollout.hints.keep_images),) if data else ()
    answer(rollout, call_id, Output(text_in(payload, "saved_path") or "", images), turn)
    return MAPPED


def _on_agent_message(rollout: Rollout, payload: Object) -> None:
    """Take a message between agents; encrypted parts are left out."""
    text, _ = content_of(payload.get("content", payload.get("message")), keep=False)
    author, recipient = text_in(payload, "author", "sender"), text_in(payload, "recipient", "receiver")
    own = rollout.state.agent_path or "/root"
    inbound = author != own if recipient is None or recipient != own else True
    extra = {name: value for name, value in (("author", author), ("recipient", recipient)) if value}
    rollout.hear_agent(text, rollout.place(payload), inbound=inbound, extra=extra)


def _counted(_rollout: Rollout, _payload: Object) -> Disposition:
    return COUNTED


ITEMS: dict[str, Handler] = {
    "message": on_message,
    "reasoning": _on_reasoning,
    "function_call": _on_function_call,
    "custom_tool_call": _on_custom_call,
    "local_shell_call": _on_local_shell,
    "tool_search_call": _on_tool_search,
    "tool_search_output": _on_tool_search_output,
    "tool_call": _on_tool_call,
    "function_call_output": on_output,
    "custom_tool_call_output": on_output,
    "local_shell_call_output": on_output,
    "mcp_tool_call_output": on_output,
    "tool_result": on_output,
    "web_search_call": on_web_search,
    "image_generation_call": on_image_generation,
    "agent_message": _on_agent_message,
    "inter_agent_communication": _on_agent_message,
    "ghost_snapshot": _counted,
    "security_risk_score": _counted,
    "compaction": _counted,
    "context_compaction": _counted,
    "inter_agent_communication_metadata": _counted,
    "world_state": _counted,
    # `token_count`, which older releases write too, has the same figures.
    "token_usage_record": _counted,
}
