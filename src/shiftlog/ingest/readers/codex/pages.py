"""Items of Codex's paginated mode, which replace the events of older releases."""

from shiftlog.facts.transcript import Disposition
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.events import (
    link_child,
    on_collab_end,
    on_compacted,
    on_dynamic_response,
    on_exec_end,
    on_image_end,
    on_mcp_end,
    on_patch_end,
    on_review,
    on_sub_agent,
    on_view_image,
    on_web_end,
)
from shiftlog.ingest.readers.codex.items import COUNTED, MAPPED, Handler
from shiftlog.ingest.readers.codex.state import HeldMessage
from shiftlog.ingest.readers.codex.text import content_of
from shiftlog.ingest.readers.codex.turns import named_turn
from shiftlog.ingest.readers.records import Object, list_in, object_in, objects_in, text_in


def on_item_completed(rollout: Rollout, payload: Object) -> Disposition:
    """Take a completed item by its type."""
    item = object_in(payload, "item")
    handler = PAGE_ITEMS.get(text_in(item, "type") or "")
    if handler is None:
        return Disposition.UNKNOWN
    turn = named_turn(payload)
    return handler(rollout, {**item, "turn_id": turn} if turn else item)


def _user_item(rollout: Rollout, item: Object) -> Disposition:
    text, images = content_of(item.get("content"), keep=rollout.keep_images)
    hint = named_turn(item)
    rollout.hear_user(
        HeldMessage(text=text, at=rollout.at, event=True, images=images, message_id=text_in(item, "id"), turn_hint=hint)
    )
    return MAPPED


def _agent_item(rollout: Rollout, item: Object) -> Disposition:
    text, images = content_of(item.get("content", item.get("text")), keep=rollout.keep_images)
    rollout.hear_model(text, rollout.place(item), event=True, phase=text_in(item, "phase"), images=images)
    return MAPPED


def _reasoning_item(rollout: Rollout, item: Object) -> Disposition:
    texts = [text for name in ("summary_text", "raw_content") for text in list_in(item, name) if isinstance(text, str)]
    rollout.hear_reasoning(texts, rollout.place(item), event=True)
    return MAPPED if texts else COUNTED


def _plan_item(rollout: Rollout, item: Object) -> Disposition:
    rollout.decide(text_in(item, "text") or "", rollout.place(item))
    return MAPPED


def _hook_item(rollout: Rollout, item: Object) -> Disposition:
    texts = [text for part in objects_in(item, "fragments") if (text := text_in(part, "text"))]
    rollout.observe("\n".join(texts) or (text_in(item, "text") or ""), rollout.place(item), hook=True)
    return MAPPED


def _collab_item(rollout: Rollout, item: Object) -> Disposition:
    threads = [one for name in ("receiver_thread_ids", "receiverThreadIds") for one in list_in(item, name)]
    tool = (text_in(item, "tool") or "").lower().replace("_", "")
    if tool in ("spawnagent", "spawn"):
        for thread in threads:
            if isinstance(thread, str):
                link_child(rollout, rollout.place(item), 1, thread, text_in(item, "id"), None)
    return on_collab_end(rollout, {**item, "type": text_in(item, "tool") or "collab"})


PAGE_ITEMS: dict[str, Handler] = {
    "UserMessage": _user_item,
    "AgentMessage": _agent_item,
    "Reasoning": _reasoning_item,
    "Plan": _plan_item,
    "CommandExecution": on_exec_end,
    "FileChange": on_patch_end,
    "McpToolCall": on_mcp_end,
    "DynamicToolCall": on_dynamic_response,
    "WebSearch": on_web_end,
    "ImageView": on_view_image,
    "ImageGeneration": on_image_end,
    "CollabAgentToolCall": _collab_item,
    "SubAgentActivity": on_sub_agent,
    "EnteredReviewMode": on_review,
    "ExitedReviewMode": on_review,
    "ContextCompaction": on_compacted,
    "HookPrompt": _hook_item,
}
