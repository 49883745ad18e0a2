"""Records about a Codex thread as a whole: header, settings, title, goal, compaction and tokens."""

from typing import Any

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.state import CodexTurn
from shiftlog.ingest.readers.codex.text import text_of
from shiftlog.ingest.readers.codex.turns import named_turn
from shiftlog.ingest.readers.records import (
    Object,
    bounded,
    list_in,
    object_in,
    size_and_digest,
    text_in,
    tokens_in,
    utc,
    whole_in,
)
from shiftlog.model.prices import billing_tier

_COUNTERS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")
_CACHE_WRITES = "cache_write_input_tokens"
SPAWNED = "thread_spawn"
WORDS = ("review", "compact", "memory_consolidation")
_KINDS = (SPAWNED, *WORDS, "other")

# -- the header --------------------------------------------------------------------------------------------------------


def on_session_meta(rollout: Rollout, payload: Object) -> f.Disposition:
    """Take the header; later headers of a file repeat it or come from an ancestor."""
    state = rollout.state
    if state.thread is not None:
        learn_ancestor(rollout, payload)
        return f.Disposition.COUNTED
    rollout.name_session(text_in(payload, "id") or rollout.hints.session_id or "unknown")
    git = object_in(payload, "git")
    state.meta_at = utc(payload.get("timestamp")) or rollout.at
    state.cwd = text_in(payload, "cwd")
    state.forked_from = text_in(payload, "forked_from_id")
    state.family = state.forked_from or state.thread
    base = object_in(payload, "history_base")
    # A file with numbered lines names its own first line.
    state.history_start = whole_in(payload, "subagent_history_start_ordinal")
    state.undecided = state.forked_from is not None and state.history_start is None and not base
    spawn, subagent = _subagent(payload)
    state.agent_path = text_in(payload, "agent_path") or text_in(spawn, "agent_path")
    parent = text_in(payload, "parent_thread_id") or text_in(spawn, "parent_thread_id")
    if parent is not None and subagent is None:
        subagent = f.Subagent(kind=SPAWNED, name=text_in(payload, "agent_nickname"))
    version = text_in(payload, "cli_version")
    # A reverted thread continues an earlier rollout of its own; that is not a fork.
    continued = thread if (thread := text_in(base, "thread_id")) != rollout.ref.vendor_id else None
    state.written |= {name: value for name, value in (("cwd", state.cwd), ("version", version)) if value}
    opened = f.SessionOpened(
        session=rollout.ref, key=("session", rollout.ref.vendor_id), at=state.meta_at, agent=rollout.AGENT,
        cwd=state.cwd, branch=text_in(git, "branch"), version=version, repository=text_in(git, "repository_url"),
        parent=f.Parent(session=f.VendorSession(parent)) if parent is not None else None,
        forked_from=state.forked_from or continued, subagent=subagent,
        extra=_extra(payload, git, base),
    )  # fmt: skip
    rollout.out.append(opened)
    headless = subagent is not None or payload.get("source") in ("exec", "mcp")
    rollout.run(
        backend="codex", cwd=state.cwd, version=version, started=state.meta_at,
        session_type="headless" if headless else "interactive_desktop",
    )  # fmt: skip
    if base:
        shared = {"session": text_in(base, "thread_id"), "until_ordinal": whole_in(base, "end_ordinal_exclusive")}
        note = f.Note(
            session=rollout.ref, key=("base", rollout.ref.vendor_id), at=rollout.at, kind="shared",
            body={"shared": shared},
        )  # fmt: skip
        rollout.out.append(note)
    return f.Disposition.MAPPED


def _subagent(payload: Object) -> tuple[Object, f.Subagent | None]:
    source = object_in(payload, "source")
    given = source.get("subagent", source.get("subAgent"))
    spawn: Object = {}
    if isinstance(given, str):
        kind = given
    elif isinstance(given, dict):
        named = object_in(source, "subagent" if "subagent" in source else "subAgent")
        kind = next((name for name in _KINDS if name in named), next(iter(named), "subagent"))
        spawn = object_in(named, kind)
        if kind == "other":
            kind = text_in(named, "other") or "other"
    else:
        return {}, None
    return spawn, f.Subagent(
        kind=kind,
        name=text_in(payload, "agent_nickname") or text_in(spawn, "agent_nickname"),
        role=text_in(payload, "agent_role") or text_in(spawn, "agent_role"),
        depth=whole_in(spawn, "depth"),
    )


def _extra(payload: Object, git: Object, base: Object) -> Object:
    extra: Object = {}
    for name in ("originator", "model_provider", "history_mode", "thread_source", "session_id", "agent_path"):
        if (value := text_in(payload, name)) is not None:
            extra[name] = value
    if (commit := text_in(git, "commit_hash")) is not None:
        extra["commit"] = commit
    source = payload.get("source")
    if isinstance(source, str):
        extra["source"] = source
    if base:
        extra["history_base"] = bounded(base)
    for name in ("base_instructions", "dynamic_tools", "instructions"):
        if payload.get(name):
            extra[name] = size_and_digest(text_of(payload[name]))
    return extra


def learn_ancestor(rollout: Rollout, payload: Object) -> None:
    """Follow the chain of forks up through the copied headers."""
    state = rollout.state
    above = text_in(payload, "forked_from_id")
    if above is not None and state.forked_from is not None and text_in(payload, "id") == state.family:
        state.family = above


# -- settings ----------------------------------------------------------------------------------------------------------


def on_turn_context(rollout: Rollout, payload: Object) -> None:
    """Take the settings of a turn: model and effort for turn and run, changed ones for the session."""
    turn, name = rollout.state.turn, named_turn(payload)
    rollout.state.names_turns |= name is not None
    if turn is not None and name not in (None, turn.vendor_id):
        turn = None  # the settings of a later turn
    model = text_in(payload, "model")
    rollout.state.context_model = model or rollout.state.context_model
    rollout.state.service = text_in(payload, "service_tier") or rollout.state.service
    _set_model(rollout, turn, model, text_in(payload, "effort"))
    policy = payload.get("sandbox_policy")
    sandbox = text_in(object_in(payload, "sandbox_policy"), "type", "mode") if isinstance(policy, dict) else policy
    approval = payload.get("approval_policy")
    rollout.change(
        cwd=text_in(payload, "cwd"),
        approval_policy=approval if isinstance(approval, str) else None,
        sandbox_policy=sandbox if isinstance(sandbox, str) else None,
    )
    if rollout.state.cwd is None:
        rollout.state.cwd = text_in(payload, "cwd")


def on_settings(rollout: Rollout, payload: Object) -> None:
    """Take settings that the user changed."""
    settings = object_in(payload, "thread_settings")
    model, effort = text_in(settings, "model"), text_in(settings, "reasoning_effort", "effort")
    rollout.state.service = text_in(settings, "service_tier") or rollout.state.service
    _set_model(rollout, rollout.state.turn, model, effort)


def _set_model(rollout: Rollout, turn: CodexTurn | None, model: str | None, effort: str | None) -> None:
    state = rollout.state
    state.model, state.effort = model or state.model, effort or state.effort
    rollout.run(model=model, reasoning_effort=effort)
    if turn is None:
        return
    sets: dict[str, Any] = {}
    if model is not None and model != turn.model:
        turn.model = sets["model"] = model
    if effort is not None and effort != turn.effort:
        turn.effort = effort
        if turn.begun:
            sets["reasoning_effort"] = effort
    if sets:
        rollout.update_turn(turn, sets, {})


def on_name(rollout: Rollout, payload: Object) -> None:
    """Take the thread's name."""
    if (name := text_in(payload, "thread_name", "name")) is not None:
        rollout.rename(name, f.TitleSource.THREAD_NAME)


def on_goal(rollout: Rollout, payload: Object) -> None:
    """Take the thread's goal."""
    goal = payload.get("goal")
    rollout.change(goal=goal if isinstance(goal, str) else text_in(object_in(payload, "goal"), "objective"))


def on_compacted_history(rollout: Rollout, payload: Object) -> None:
    """Take a compaction: its summary is kept, the rewritten history is counted as copies."""
    turn = rollout.state.turn
    text = text_in(payload, "message")
    if text is not None:
        rollout.observe(text, turn, compaction=True)
    copies = len(list_in(payload, "replacement_history"))
    if text and not copies:
        return  # as exports write it: the summary tells all
    key = rollout.line_key(turn, "compacted", text or "", str(copies))
    body: Object = {"compaction": {"copies": copies}}
    note = f.Note(
        session=rollout.ref, key=key, at=rollout.at, turn=turn and turn.request_id, kind="compaction", body=body
    )  # fmt: skip
    rollout.emit(note, turn)


# -- tokens ------------------------------------------------------------------------------------------------------------


def on_token_count(rollout: Rollout, payload: Object, *, copied: bool = False) -> f.Disposition:
    """Take the tokens of a response; repeated totals and missing ones are only counted."""
    state = rollout.state
    info = object_in(payload, "info")
    total = object_in(info, "total_token_usage")
    counters = [tokens_in(total, name) for name in _COUNTERS]
    writes = tokens_in(total, _CACHE_WRITES)
    if not any(counters):
        return f.Disposition.COUNTED
    name = "/".join(map(str, counters)) + (f"/{writes}" if writes else "")
    if name == state.previous_total:
        return f.Disposition.COUNTED
    if isinstance(info.get("last_token_usage"), dict):
        given = object_in(info, "last_token_usage")
        used = [tokens_in(given, counter) for counter in (*_COUNTERS, _CACHE_WRITES)]
    else:
        before = state.previous_counters or [0] * 6
        used = [max(now - then, 0) for now, then in zip([*counters, writes], before, strict=True)]
    state.previous_total, state.previous_counters = name, [*counters, writes]
    _emit_usage(rollout, name, used, copied=copied)
    return f.Disposition.MAPPED


def _emit_usage(rollout: Rollout, total: str, used: list[int], *, copied: bool) -> None:
    state = rollout.state
    turn = None if copied else state.turn
    given, cached, output, reasoning, _, writes = used
    vendor: Object = dict(zip(_COUNTERS, used, strict=False))
    if writes:
        vendor[_CACHE_WRITES] = writes
    usage = f.UsageFact(
        session=rollout.ref, key=("use", state.family or rollout.ref.vendor_id, total), at=rollout.at,
        turn=turn and turn.request_id, model=state.context_model or state.model,
        input_tokens=max(given - cached - writes, 0), cached_input_tokens=cached, cache_creation_tokens=writes,
        output_tokens=output, reasoning_tokens=reasoning, rule="first", copied=copied, vendor=vendor,
        tier=billing_tier(state.service, given),
    )  # fmt: skip
    rollout.emit(usage, turn)
