"""Handlers of Codex events, and of the items in paginated mode: turns, messages, results, reviews, children."""

from functools import partial
from typing import Any, cast

from shiftlog.facts.transcript import ChildLink, Disposition
from shiftlog.ingest.readers.codex.calls import (
    SCRIPT_TOOLS,
    answer,
    conclude_session,
    open_call,
    shown_path,
    write_changes,
)
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.items import COUNTED, DUPLICATE, MAPPED, Handler, on_image_generation, on_web_search
from shiftlog.ingest.readers.codex.patch import changes_of_event
from shiftlog.ingest.readers.codex.state import CodexTurn, HeldMessage
from shiftlog.ingest.readers.codex.text import Output, content_of, images_of, milliseconds, output_of
from shiftlog.ingest.readers.codex.thread import on_goal, on_name, on_settings, on_token_count
from shiftlog.ingest.readers.codex.turns import named_turn
from shiftlog.ingest.readers.records import (
    Object,
    list_in,
    object_in,
    objects_in,
    parsed_arguments,
    text_in,
    utc,
    whole_in,
)

# -- turns -------------------------------------------------------------------------------------------------------------


def _on_task_started(rollout: Rollout, payload: Object) -> Disposition:
    """Open a turn; the open one ends."""
    state = rollout.state
    name = named_turn(payload)
    if name is not None and name in state.known:
        return DUPLICATE
    if state.turn is not None:
        rollout.supersede(state.turn)
    state.modern = True
    turn = rollout.start_turn(name, utc(payload.get("started_at")) or rollout.at)
    rollout.hand_over(turn)
    return MAPPED


def _on_task_complete(rollout: Rollout, payload: Object) -> Disposition:
    """Complete the turn, or fail it if the event has an error."""
    turn = _ending(rollout, payload)
    if turn is None:
        return COUNTED
    duration = whole_in(payload, "duration_ms")
    error = payload.get("error")
    if error:
        details = cast(Object, error) if isinstance(error, dict) else {}
        note = text_in(details, "message") or (error if isinstance(error, str) else "Turn failed")
        code = text_in(details, "codex_error_info", "code", "kind") or "api_error"
        rollout.fail(turn, note, code, duration)
    else:
        rollout.complete(turn, text_in(payload, "last_agent_message"), duration)
    return MAPPED


def _on_turn_aborted(rollout: Rollout, payload: Object) -> Disposition:
    turn = _ending(rollout, payload)
    if turn is None:
        return COUNTED
    reason = text_in(payload, "reason") or "interrupted"
    rollout.fail(turn, f"Turn aborted: {reason}", None, whole_in(payload, "duration_ms"))
    return MAPPED


def _ending(rollout: Rollout, payload: Object) -> CodexTurn | None:
    turn, name = rollout.state.turn, named_turn(payload)
    return turn if turn is not None and (name is None or turn.vendor_id in (name, None)) else None


def _on_rolled_back(rollout: Rollout, payload: Object) -> None:
    rollout.abandon(whole_in(payload, "num_turns") or 0)


# -- messages ----------------------------------------------------------------------------------------------------------


def _on_user_message(rollout: Rollout, payload: Object) -> None:
    keep = rollout.hints.keep_images
    text = text_in(payload, "message", "text") or ""
    images = (*images_of(payload.get("images"), keep=keep), *images_of(payload.get("local_images"), keep=keep))
    if text or images:
        rollout.hear_user(
            HeldMessage(text=text, at=rollout.at, event=True, images=images, turn_hint=named_turn(payload))
        )


def _on_agent_message(rollout: Rollout, payload: Object) -> None:
    text = text_in(payload, "message", "text") or ""
    rollout.hear_model(text, rollout.place(payload), event=True, phase=text_in(payload, "phase"))


def _on_agent_reasoning(rollout: Rollout, payload: Object) -> None:
    text = text_in(payload, "text", "message")
    rollout.hear_reasoning([text] if text else [], rollout.place(payload), event=True)


# -- ends of tools -----------------------------------------------------------------------------------------------------


def _call_id(payload: Object) -> str | None:
    return text_in(payload, "call_id", "callId", "id")


def _own(rollout: Rollout, payload: Object, tool: str, given: Any, output: Output) -> None:
    """Join an event to its call; without one it becomes a call of its own."""
    call_id, turn = _call_id(payload), rollout.place(payload)
    call = rollout.state.calls.get(call_id or "")
    if call is not None and not call.nested:
        call.exit_code = output.exit_code if output.exit_code is not None else call.exit_code
        call.duration_ms = output.duration_ms if output.duration_ms is not None else call.duration_ms
        call.failed = call.failed or output.is_error
        if call.session is not None and output.exit_code is not None:
            conclude_session(rollout, call.session, output, turn)
        return
    if call is None and call_id is not None and call_id in rollout.state.answered:
        return
    for script in rollout.state.calls.values():
        # The steps of a script replace its text, so that nothing is reported twice.
        if script.tool in SCRIPT_TOOLS:
            script.commands, script.patched = [], script.patched or tool == "apply_patch"
    call_id = call_id or rollout.unnamed_id(turn, tool, repr(given))
    open_call(rollout, call_id, tool, given, turn, nested=True)
    answer(rollout, call_id, output, turn)


def _on_exec_end(rollout: Rollout, payload: Object) -> None:
    text = text_in(payload, "aggregated_output", "formatted_output")
    if text is None:
        text = "\n".join(part for name in ("stdout", "stderr") if (part := text_in(payload, name)))
    code = whole_in(payload, "exit_code")
    output = Output(
        text, exit_code=code, duration_ms=milliseconds(payload.get("duration")), is_error=code not in (None, 0)
    )
    given = {"command": payload.get("command"), "cwd": payload.get("cwd")}
    _own(rollout, payload, "exec_command", given, output)


def _on_patch_end(rollout: Rollout, payload: Object) -> None:
    """Take the files of a patch that did not fail."""
    call_id, turn = _call_id(payload), rollout.place(payload)
    failed = payload.get("success") is False or payload.get("status") in ("failed", "declined")
    changes = () if failed else changes_of_event(payload.get("changes"), payload.get("stdout"))
    call = rollout.state.calls.get(call_id or "")
    if call is not None and not call.nested:
        call.patched, call.failed = True, call.failed or failed
    else:
        text = text_in(payload, "stderr" if failed else "stdout") or ""
        paths = [shown_path(rollout, change.path, None) for change in changes]
        _own(rollout, payload, "apply_patch", {"files": paths}, Output(text, is_error=failed))
    if changes:
        write_changes(rollout, call_id or rollout.unnamed_id(turn, "patch", repr(payload)), changes, turn)


def _on_mcp_end(rollout: Rollout, payload: Object) -> None:
    invocation = object_in(payload, "invocation") or payload
    result = object_in(payload, "result")
    failure = result.get("Err", payload.get("error"))
    value = failure or result.get("Ok", result)
    output = output_of(value, keep=rollout.hints.keep_images)
    output = output._replace(
        duration_ms=milliseconds(payload.get("duration")), is_error=output.is_error or bool(failure)
    )
    tool = ".".join(filter(None, (text_in(invocation, "server"), text_in(invocation, "tool")))) or "mcp"
    _own(rollout, payload, tool, parsed_arguments(invocation.get("arguments")), output)


def _on_dynamic_request(rollout: Rollout, payload: Object) -> None:
    call_id = _call_id(payload)
    if call_id in rollout.state.calls or call_id in rollout.state.answered:
        return
    tool, given = text_in(payload, "tool") or "dynamic", parsed_arguments(payload.get("arguments"))
    open_call(rollout, call_id, tool, given, rollout.place(payload), nested=True)


def _on_dynamic_response(rollout: Rollout, payload: Object) -> None:
    output = output_of(payload.get("content_items", payload.get("contentItems")), keep=rollout.hints.keep_images)
    failed = payload.get("success") is False or bool(payload.get("error"))
    text = output.text or (text_in(payload, "error") or "")
    output = output._replace(text=text, is_error=failed, duration_ms=milliseconds(payload.get("duration")))
    tool, given = text_in(payload, "tool") or "dynamic", parsed_arguments(payload.get("arguments"))
    _own(rollout, payload, tool, given, output)


def _on_view_image(rollout: Rollout, payload: Object) -> None:
    """Take the path of a local image that the model viewed."""
    path = text_in(payload, "path") or ""
    turn = rollout.place(payload)
    _own(rollout, payload, "view_image", {"path": path}, Output(""))
    if turn is not None and path:
        rollout.update_turn(turn, {}, {"context_list": [shown_path(rollout, path, None)]})


# -- children ----------------------------------------------------------------------------------------------------------


def _link_child(
    rollout: Rollout, turn: CodexTurn | None, rank: int, thread: str, call_id: str | None, name: str | None
) -> None:
    key = rollout.line_key(turn, "child", thread, call_id or "")
    fact = ChildLink(
        session=rollout.ref, key=key, at=rollout.at, turn=turn and turn.request_id, call_id=call_id,
        child_thread_id=thread, name=name, rank=rank,
    )  # fmt: skip
    rollout.emit(fact, turn)


def _on_sub_agent(rollout: Rollout, payload: Object) -> None:
    """Take an activity of a child; its start links it to the call."""
    turn = rollout.place(payload)
    thread, kind = text_in(payload, "agent_thread_id", "agentThreadId"), text_in(payload, "kind") or "activity"
    path = text_in(payload, "agent_path", "agentPath")
    if thread is not None and kind == "started":
        _link_child(rollout, turn, 0, thread, text_in(payload, "event_id", "call_id", "id"), None)
    rollout.observe(f"Subagent {kind}: {path or thread or ''}".strip(), turn)


def _on_collab_end(rollout: Rollout, payload: Object) -> None:
    """Take the end of a call to another agent; a spawn links the child."""
    turn = rollout.place(payload)
    thread = text_in(payload, "new_thread_id", "newThreadId")
    if thread is not None:
        name = text_in(payload, "new_agent_nickname", "new_agent_role")
        _link_child(rollout, turn, 1, thread, _call_id(payload), name)
    what = (text_in(payload, "type", "tool") or "collab").removesuffix("_end")
    parts = [f"{what}: {_status(payload.get('status'))}".rstrip(": "), text_in(payload, "prompt")]
    for other in objects_in(payload, "agent_statuses"):
        name = text_in(other, "agent_nickname", "thread_id") or "agent"
        parts.append(f"{name}: {_status(other.get('status'))}")
    rollout.observe("\n".join(filter(None, parts)), turn)


def _status(value: object) -> str:
    if isinstance(value, dict):
        pairs = cast(Object, value).items()
        return "; ".join(f"{name} {text}".strip() for name, text in pairs if isinstance(text, str))
    return value if isinstance(value, str) else ""


# -- observations ------------------------------------------------------------------------------------------------------


def _on_error(rollout: Rollout, payload: Object) -> None:
    error = object_in(payload, "error")
    text = text_in(payload, "message", "text") or text_in(error, "message") or "Error"
    rollout.observe(text, rollout.place(payload), error=True)


def _on_review(rollout: Rollout, payload: Object) -> None:
    """Take the start or the outcome of a review, with findings and explanation."""
    review = object_in(payload, "review_output")
    if not review:
        target = object_in(payload, "target")
        words = [text_in(target, name) for name in ("type", "instructions", "branch", "sha", "title")]
        text = text_in(payload, "prompt", "user_facing_hint", "review") or " ".join(filter(None, words))
        rollout.observe(f"Review: {text}" if text else "Review", rollout.place(payload))
        return
    parts = [text_in(review, "overall_correctness"), text_in(review, "overall_explanation")]
    for finding in objects_in(review, "findings"):
        place = object_in(finding, "code_location")
        lines = object_in(place, "line_range")
        where = f"{text_in(place, 'absolute_file_path') or ''}:{lines.get('start', '')}".rstrip(":")
        parts += [f"- {text_in(finding, 'title') or 'Finding'} ({where})", text_in(finding, "body")]
    rollout.observe("\n".join(filter(None, parts)), rollout.place(payload))


def _on_guardian(rollout: Rollout, payload: Object) -> None:
    action = object_in(payload, "action")
    words = [text_in(payload, "status"), text_in(payload, "risk_level"), text_in(action, "type")]
    what = text_in(action, "command", "tool_name", "server", "path")
    parts = [f"Guardian: {', '.join(filter(None, words))}", what, text_in(payload, "rationale")]
    rollout.observe("\n".join(filter(None, parts)), rollout.place(payload))


def _on_undo(rollout: Rollout, payload: Object) -> None:
    rollout.observe(text_in(payload, "message") or "Undo completed", rollout.place(payload))


def _on_compacted(rollout: Rollout, payload: Object) -> None:
    rollout.observe("Context compacted", rollout.place(payload))


# -- items of the paginated mode, which replace the events of older releases -----------------------------------------


def _on_item_completed(rollout: Rollout, payload: Object) -> Disposition | None:
    item = object_in(payload, "item")
    handler = PAGE_ITEMS.get(text_in(item, "type") or "")
    if handler is None:
        return Disposition.UNKNOWN
    turn = named_turn(payload)
    return handler(rollout, {**item, "turn_id": turn} if turn else item)


def _user_item(rollout: Rollout, item: Object) -> None:
    text, images = content_of(item.get("content"), keep=rollout.hints.keep_images)
    hint = named_turn(item)
    rollout.hear_user(
        HeldMessage(text=text, at=rollout.at, event=True, images=images, message_id=text_in(item, "id"), turn_hint=hint)
    )


def _agent_item(rollout: Rollout, item: Object) -> None:
    text, images = content_of(item.get("content", item.get("text")), keep=rollout.hints.keep_images)
    rollout.hear_model(text, rollout.place(item), event=True, phase=text_in(item, "phase"), images=images)


def _reasoning_item(rollout: Rollout, item: Object) -> Disposition | None:
    texts = [text for name in ("summary_text", "raw_content") for text in list_in(item, name) if isinstance(text, str)]
    rollout.hear_reasoning(texts, rollout.place(item), event=True)
    return None if texts else COUNTED


def _plan_item(rollout: Rollout, item: Object) -> None:
    rollout.decide(text_in(item, "text") or "", rollout.place(item))


def _hook_item(rollout: Rollout, item: Object) -> None:
    texts = [text for part in objects_in(item, "fragments") if (text := text_in(part, "text"))]
    rollout.observe("\n".join(texts) or (text_in(item, "text") or ""), rollout.place(item), hook=True)


def _collab_item(rollout: Rollout, item: Object) -> None:
    threads = [one for name in ("receiver_thread_ids", "receiverThreadIds") for one in list_in(item, name)]
    tool = (text_in(item, "tool") or "").lower().replace("_", "")
    if tool in ("spawnagent", "spawn"):
        for thread in threads:
            if isinstance(thread, str):
                _link_child(rollout, rollout.place(item), 1, thread, text_in(item, "id"), None)
    _on_collab_end(rollout, {**item, "type": text_in(item, "tool") or "collab"})


PAGE_ITEMS: dict[str, Handler] = {
    "UserMessage": _user_item,
    "AgentMessage": _agent_item,
    "Reasoning": _reasoning_item,
    "Plan": _plan_item,
    "CommandExecution": _on_exec_end,
    "FileChange": _on_patch_end,
    "McpToolCall": _on_mcp_end,
    "DynamicToolCall": _on_dynamic_response,
    "WebSearch": partial(on_web_search, event=True),
    "ImageView": _on_view_image,
    "ImageGeneration": partial(on_image_generation, event=True),
    "CollabAgentToolCall": _collab_item,
    "SubAgentActivity": _on_sub_agent,
    "EnteredReviewMode": _on_review,
    "ExitedReviewMode": _on_review,
    "ContextCompaction": _on_compacted,
    "HookPrompt": _hook_item,
}
EVENTS: dict[str, Handler] = {
    "item_completed": _on_item_completed,
    "task_started": _on_task_started,
    "turn_started": _on_task_started,
    "task_complete": _on_task_complete,
    "turn_complete": _on_task_complete,
    "turn_aborted": _on_turn_aborted,
    "thread_rolled_back": _on_rolled_back,
    "user_message": _on_user_message,
    "agent_message": _on_agent_message,
    "agent_reasoning": _on_agent_reasoning,
    "agent_reasoning_raw_content": _on_agent_reasoning,
    "token_count": on_token_count,
    "exec_command_end": _on_exec_end,
    "patch_apply_end": _on_patch_end,
    "mcp_tool_call_end": _on_mcp_end,
    "dynamic_tool_call_request": _on_dynamic_request,
    "dynamic_tool_call_response": _on_dynamic_response,
    "view_image_tool_call": _on_view_image,
    "image_generation_end": partial(on_image_generation, event=True),
    "web_search_end": partial(on_web_search, event=True),
    "sub_agent_activity": _on_sub_agent,
    "collab_end": _on_collab_end,
    "entered_review_mode": _on_review,
    "exited_review_mode": _on_review,
    "guardian_assessment": _on_guardian,
    "error": _on_error,
    "undo_completed": _on_undo,
    "context_compacted": _on_compacted,
    "thread_name_updated": on_name,
    "thread_goal_updated": on_goal,
    "thread_settings_applied": on_settings,
}
STARTS = frozenset({"task_started", "turn_started"})
