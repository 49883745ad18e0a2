"""Other records of Claude Code: system, attachments, titles, modes, links."""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from shiftlog.facts.transcript import Action, Disposition, Note, TitleSource, VendorSession
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.state import Strand
from shiftlog.ingest.readers.claude.user import read_queued
from shiftlog.ingest.readers.records import Object, bounded, list_in, object_in, relative_path, text_in, whole_in

Rule = Callable[[Context, Strand, Object], Disposition]

_SYSTEM_TEXTS = frozenset(
    "api_error error api_refusal model_refusal_fallback away_summary informational local_command bridge_status".split()
)
_SYSTEM_COUNTED = frozenset({"microcompact_boundary", "session_start"})
_ATTACHED_TEXTS = frozenset(
    "hook_additional_context hook_system_message hook_non_blocking_error hook_blocking_error".split()
)
_ATTACHED_FILES = frozenset("edited_text_file file nested_memory compact_file_reference".split())
_ATTACHED_COUNTED = frozenset(
    "hook_success task_reminder todo_reminder task_status skill_listing invoked_skills dynamic_skill "
    "deferred_tools_delta agent_listing_delta mcp_instructions_delta command_permissions auto_mode auto_mode_exit "
    "date_change read_truncation_notice ultra_effort_enter ultra_effort_exit total_tokens_reminder "
    "batching_reminder_sent silent_turn_reminder date environment model prompt_snapshot remote_session_change "
    "session_context".split()
)
_PATHS = ("filename", "path", "displayPath", "filePath")
_ERROR_TEXTS = ("content", "message", "formatted", "apiRefusalExplanation", "cause", "stderr", "stdout", "text")
_MAX_SUMMARIES = 10_000


# -- system ------------------------------------------------------------------------------------------------------------


def read_system(context: Context, strand: Strand, record: Object) -> Disposition:
    """Read a `system` record by its subtype."""
    subtype = text_in(record, "subtype")
    if subtype == "turn_duration":
        claude_turns.end_turn(context, strand, "completed", at=context.at, duration_ms=whole_in(record, "durationMs"))
    elif subtype == "compact_boundary":
        compaction = bounded(object_in(record, "compactMetadata"))
        if (parent := text_in(record, "logicalParentUuid")) is not None:
            compaction = {**compaction, "logical_parent_uuid": parent}
        text = _text_of(record) or "Conversation compacted"
        context.say(strand, "system", "observation", text, extra={"compaction": compaction})
    elif subtype == "stop_hook_summary":
        return _read_stop_hooks(context, strand, record)
    elif subtype in _SYSTEM_COUNTED:
        return context.counted(f"system/{subtype}")
    elif subtype in _SYSTEM_TEXTS:
        context.say(strand, "system", "observation", _text_of(record) or subtype or "")
    elif not record.get("subtype") and (text := _text_of(record)):
        context.say(strand, "system", "observation", text)
    else:
        return context.unknown(strand, f"system/{subtype or 'None'}")
    return Disposition.MAPPED


def _read_stop_hooks(context: Context, strand: Strand, record: Object) -> Disposition:
    errors = list_in(record, "hookErrors")
    if not errors and record.get("preventedContinuation") is not True:
        return context.counted("system/stop_hook_summary")
    texts = [error if isinstance(error, str) else msgspec.json.encode(bounded(error)).decode() for error in errors]
    texts += [reason] if (reason := text_in(record, "stopReason")) else []
    context.say(strand, "system", "observation", "\n".join(texts) or "A stop hook prevented continuation")
    return Disposition.MAPPED


def _text_of(record: Object) -> str:
    """Return the text of a system record or attachment, also from nested errors."""
    found: Any = record
    for _ in range(6):
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return "\n".join(part for part in cast("list[Any]", found) if isinstance(part, str))
        if not isinstance(found, dict):
            return ""
        holder = cast("Object", found)
        for name in _ERROR_TEXTS:
            value = holder.get(name)
            if value and isinstance(value, str | list):
                text = value if isinstance(value, str) else _text_of({"content": None, "error": value})
                if text:
                    return text
        found = holder.get("error") or holder.get("blockingError")
    return ""


# -- attachments -------------------------------------------------------------------------------------------------------


def read_attachment(context: Context, strand: Strand, record: Object) -> Disposition:
    """Read an `attachment` by its own type."""
    attachment = object_in(record, "attachment")
    kind = text_in(attachment, "type") or "None"
    if kind in _ATTACHED_COUNTED:
        return context.counted(f"attachment/{kind}")
    if kind == "queued_command":
        return read_queued(context, strand, attachment)
    if kind in _ATTACHED_TEXTS:
        return _read_hook(context, strand, attachment, kind)
    if kind in _ATTACHED_FILES:
        _add_context(strand, text_in(attachment, *_PATHS))
    elif kind.startswith("plan_mode"):
        if (path := text_in(attachment, "planFilePath")) is not None:
            path = relative_path(path, strand.first_cwd)
            if strand.turn is not None:
                strand.turn.sets["plan_file"] = path
            else:
                strand.plan_file = path
    elif kind == "goal_status":
        goal = {name: attachment[name] for name in ("condition", "met") if name in attachment}
        context.change(strand, "goal", bounded(goal))
    elif kind == "budget_usd":
        body = {"budget_usd": {name: bounded(value) for name, value in attachment.items() if name != "type"}}
        key, turn = context.key("run"), strand.turn_id
        note = Note(session=strand.ref, turn=turn, key=key, at=context.at, kind="run", body=body)
        context.emit_quietly(strand, note)
    else:
        return context.unknown(strand, f"attachment/{kind}")
    return Disposition.MAPPED


def _read_hook(context: Context, strand: Strand, attachment: Object, kind: str) -> Disposition:
    text = _text_of(attachment)
    if not text:
        return context.counted(f"attachment/{kind}")
    hook = text_in(attachment, "hookName")
    context.say(strand, "system", "observation", text, extra={"hook": hook} if hook else {})
    if kind == "hook_blocking_error" and strand.turn is not None:
        strand.turn.add("blockers", text)
    return Disposition.MAPPED


def _add_context(strand: Strand, path: str | None) -> None:
    if path is None:
        return
    path = relative_path(path, strand.first_cwd)
    if strand.turn is not None:
        strand.turn.add("context_list", path)
    elif path not in strand.context[-64:]:
        strand.context.append(path)


# -- titles and small changes ------------------------------------------------------------------------------------------


def read_summary(context: Context, strand: Strand, record: Object) -> Disposition:
    """Read a `summary`: the title of the session with its leaf, often another session."""
    title, leaf = text_in(record, "summary"), text_in(record, "leafUuid")
    if title is None or leaf is None:
        return context.counted("summary")
    position = context.seen.position(leaf)
    if position is not None:
        context.rename(context.state.strands[position[0]], title, TitleSource.SUMMARY)
    elif len(context.state.summaries) < _MAX_SUMMARIES:
        context.state.summaries[leaf] = title
    return Disposition.MAPPED


def _title(name: str, source: TitleSource) -> Rule:
    def read(context: Context, strand: Strand, record: Object) -> Disposition:
        context.rename(strand, text_in(record, name) or "", source)
        return Disposition.MAPPED

    return read


def _change(theirs: str, ours: str) -> Rule:
    def read(context: Context, strand: Strand, record: Object) -> Disposition:
        context.change(strand, ours, record.get(theirs))
        return Disposition.MAPPED

    return read


def _count(name: str) -> Rule:
    def read(context: Context, _strand: Strand, _record: Object) -> Disposition:
        return context.counted(name)

    return read


def _read_pull_request(context: Context, strand: Strand, record: Object) -> Disposition:
    number, url = whole_in(record, "prNumber"), text_in(record, "prUrl")
    facts = {"number": number, "url": url, "repository": text_in(record, "prRepository")}
    pull = {name: value for name, value in facts.items() if value is not None}
    context.change(strand, "pr", pull)
    action = Action(
        session=strand.ref,
        turn=strand.turn_id,
        key=("pr", strand.ref.vendor_id, url or number or 0),
        at=context.at,
        type="pr_comment",
        description=" ".join(part for part in (f"#{number}" if number is not None else "", url or "") if part),
        extra=pull,
    )
    context.emit_quietly(strand, action)
    return Disposition.MAPPED


def _read_workflow(context: Context, strand: Strand, record: Object) -> Disposition:
    agent = text_in(record, "agentId")
    if agent is None or strand.ref.vendor_id == "unknown":
        return context.counted(f"workflow/{record.get('type')}")
    facts: Object = {"workflow": record.get("type"), "key": text_in(record, "key"), "run": context.hints.run_id}
    if "result" in record:
        facts["result"] = bounded(record["result"])
    body = {name: value for name, value in facts.items() if value is not None}
    child = VendorSession(strand.ref.vendor_id, agent)
    context.out.append(Note(session=child, key=context.key("child"), at=context.at, kind="child", body=body))
    return Disposition.MAPPED


SMALL: dict[str, Rule] = {
    "summary": read_summary,
    "custom-title": _title("customTitle", TitleSource.CUSTOM),
    "ai-title": _title("aiTitle", TitleSource.GENERATED),
    "agent-name": _change("agentName", "agent_name"),
    "mode": _change("mode", "mode"),
    "permission-mode": _change("permissionMode", "permission_mode"),
    "relocated": _change("relocatedCwd", "relocated_cwd"),
    "worktree-state": _change("worktreeSession", "worktree"),
    "pr-link": _read_pull_request,
    "last-prompt": _count("last-prompt"),
    "queue-operation": _count("queue-operation"),
    "file-history-snapshot": _count("file-history-snapshot"),
    # The requests to the model, which repeat the conversation, and totals that follow from its messages.
    "api-request": _count("api-request"),
    "api-request-blob": _count("api-request-blob"),
    "api-request-shape": _count("api-request-shape"),
    "cost-state": _count("cost-state"),
    "tools-used": _count("tools-used"),
    "atis-latch": _count("atis-latch"),
    "started": _read_workflow,
    "result": _read_workflow,
}
"""Records outside the conversation, by `type`."""
