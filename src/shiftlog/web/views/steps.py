"""Entries joined into steps: a call, its result and its changes are one step on the page.

Pure. A step is a dictionary with a `type` that names the template's block, the entries it is made of (`seqs`), and
`error` if something went wrong; the keyboard jumps between errors.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session
from shiftlog.model.times import shown

Step = dict[str, Any]

# Names that agents have for the tool that runs a command, folded to lower case without underscores.
SHELL_TOOLS = frozenset(
    {
        "bash",
        "shell",
        "localshell",
        "execcommand",
        "runcommand",
        "runshellcommand",
        "runterminalcmd",
        "terminal",
        "exec",
    }
)
QUIET = frozenset(
    {Kind.USAGE, Kind.RUN_UPDATED, Kind.SESSION_UPDATED, Kind.CLIENT_JOINED, Kind.LEASE_TAKEN, Kind.CAPSULE_SAVED}
)
_HEADS = frozenset({Kind.TURN_BEGUN, Kind.TURN_COMPLETED, Kind.TURN_FAILED})
SAYS = {
    Kind.SESSION_OPENED: "Session opened",
    Kind.SESSION_SUSPENDED: "Session suspended",
    Kind.SESSION_RESUMED: "Session resumed",
    Kind.SESSION_CLOSED: "Session closed",
    Kind.SHELL_OPENED: "Shell opened",
    Kind.SHELL_ENDED: "Shell ended",
    Kind.COMMAND_INPUT: "Input",
    Kind.COMMAND_ASKED: "Approval asked for",
    Kind.COMMAND_DECIDED: "Approval decided",
    Kind.HANDOFF_OFFERED: "Hand-over offered",
    Kind.HANDOFF_ACCEPTED: "Hand-over accepted",
    Kind.HANDOFF_ENDED: "Hand-over ended",
    Kind.TOKEN_REISSUED: "Recovery token reissued",
    Kind.IMPORT_NOTED: "Noted by the import",
    Kind.ERASED: "Bodies erased",
    Kind.USAGE: "Usage",
    Kind.RUN_UPDATED: "Run updated",
    Kind.SESSION_UPDATED: "Session updated",
    Kind.CLIENT_JOINED: "Client joined",
    Kind.LEASE_TAKEN: "Lease taken",
    Kind.CAPSULE_SAVED: "Capsule saved",
    Kind.TURN_UPDATED: "Turn updated",
}


def steps_of(entries: Sequence[Entry], children: Iterable[Session] = ()) -> list[Step]:
    """Join entries to steps, in the order of the journal; children follow the call that spawned them."""
    steps: list[Step] = []
    calls: dict[str, Step] = {}
    commands: dict[str, Step] = {}
    for entry in entries:
        if entry.body is not None and (entry.kind in _HEADS or entry.facts.get("type") == "command"):
            continue  # the turn's head shows the one, the command's own entries the other
        step = _joined(entry, calls, commands) or _answered(entry, steps) or _step(entry)
        if step["seqs"][0] != entry.seq:
            continue  # it completed an earlier one
        if entry.kind is Kind.DIALOG and entry.facts.get("call_id"):
            calls.setdefault(str(entry.facts["call_id"]), step)
        if step["type"] == "command" and step.get("command_id"):
            commands[step["command_id"]] = step
        steps.append(step)
    for child in children:
        _place_child(steps, calls, child)
    return _gathered(steps)


def _joined(entry: Entry, calls: Mapping[str, Step], commands: Mapping[str, Step]) -> Step | None:
    """Add an entry to the earlier step that it completes, and return that step."""
    facts = entry.facts
    if entry.kind is Kind.COMMAND_FINISHED and (step := commands.get(str(facts.get("command_id")))) is not None:
        seqs = step["seqs"]
        step.update(_command(entry), seq=step["seq"], seqs=[*seqs, entry.seq], at=step["at"])
        return step
    step = calls.get(str(facts.get("call_id"))) if facts.get("call_id") else None
    if step is None:
        return None
    if entry.kind is Kind.ACTION:
        step["actions"].append(_action(entry))
    elif entry.kind is Kind.DIALOG and facts.get("category") == "tool_result" and "result" not in step:
        _add_result(step, facts)
    else:
        return None
    step["seqs"].append(entry.seq)
    step["error"] = step["error"] or (entry.kind is Kind.ACTION and facts.get("status") == "failed")
    return step


def _answered(entry: Entry, steps: Sequence[Step]) -> Step | None:
    """Add a result without a call id to the call right before it, and return that step."""
    facts = entry.facts
    if entry.kind is not Kind.DIALOG or facts.get("category") != "tool_result" or facts.get("call_id") or not steps:
        return None
    last = steps[-1]
    if last["type"] != "tool" or last.get("call_id") or "result" in last:
        return None
    _add_result(last, facts)
    last["seqs"].append(entry.seq)
    return last


def _add_result(step: Step, facts: Mapping[str, Any]) -> None:
    step["result"] = facts.get("content", "")
    step["exit_code"] = facts.get("exit_code")
    step["duration_ms"] = facts.get("duration_ms")
    step["denied"] = bool(facts.get("denied"))
    step["error"] = bool(facts.get("is_error") or facts.get("exit_code") or facts.get("denied"))
    if step["type"] == "command":
        step |= {"stdout": step["result"], "state": "failed" if step["error"] else "exited"}


def _step(entry: Entry) -> Step:
    if entry.body is None:
        return _made(entry, "erased")
    match entry.kind:
        case Kind.DIALOG:
            return _dialog(entry)
        case Kind.ACTION:
            return _made(entry, "action", actions=[_action(entry)], error=entry.facts.get("status") == "failed")
        case Kind.COMMAND_STARTED | Kind.COMMAND_FINISHED:
            return _command(entry)
        case Kind.CHECKPOINT_SAVED | Kind.CHECKPOINT_RESTORED:
            return _checkpoint(entry)
        case _:
            return _note(entry)


def _made(entry: Entry, type_: str, **more: Any) -> Step:
    return {
        "type": type_,
        "seq": entry.seq,
        "seqs": [entry.seq],
        "kind": str(entry.kind),
        "at": shown(entry.at),
        "error": False,
        "children": [],
        **more,
    }


def _dialog(entry: Entry) -> Step:
    facts = entry.facts
    category, role, content = facts.get("category"), facts.get("role"), facts.get("content", "")
    if category == "tool_call":
        tool, given = str(facts.get("tool") or "Call"), facts.get("input")
        command = _command_text(tool, given)
        step = _made(entry, "tool", tool=tool, content=content, input=given, actions=[], call_id=facts.get("call_id"))
        if command is not None:
            step |= {"type": "command", "command": command, "command_id": "", "state": "unknown"}
            step |= {"stdout": "", "stderr": "", "exit_code": None, "duration_ms": None, "live": False, "cwd": None}
        return step
    if category == "tool_result":
        step = _made(entry, "tool", tool=str(facts.get("tool") or "Result"), content="", input=None, actions=[])
        _add_result(step, facts)
        return step
    if category in ("reasoning", "decision"):
        return _made(entry, str(category), role=role, content=content)
    return _made(entry, "say", role=role, content=content)


def _command_text(tool: str, given: object) -> str | None:
    if tool.casefold().replace("_", "").replace("-", "") not in SHELL_TOOLS or not isinstance(given, dict):
        return None
    facts = cast(dict[str, object], given)
    command = facts.get("command") or facts.get("cmd")
    if isinstance(command, list):
        words = [str(word) for word in cast(list[object], command)]
        # `bash -lc TEXT` is how an agent says TEXT.
        return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return command if isinstance(command, str) else None


def _action(entry: Entry) -> Step:
    facts = entry.facts
    names = ("description", "status", "file_path", "diff", "moved_from", "sha", "branch", "approximate")
    return {"seq": entry.seq, "what": facts.get("type"), **{name: facts.get(name) for name in names}}


def _command(entry: Entry) -> Step:
    facts = entry.facts
    state = str(facts.get("state") or "running")
    running = entry.kind is Kind.COMMAND_STARTED
    return _made(
        entry,
        "command",
        command=str(facts.get("command", "")),
        command_id=str(facts.get("command_id") or ""),
        state="running" if running else state,
        live=running,
        cwd=facts.get("cwd"),
        stdout=facts.get("stdout", ""),
        stderr=facts.get("stderr", ""),
        exit_code=facts.get("exit_code"),
        signal=facts.get("signal"),
        duration_ms=facts.get("duration_ms"),
        output=facts.get("output"),
        refusal=facts.get("refusal"),
        checkpoint_id=facts.get("checkpoint_id"),
        background=bool(facts.get("background")),
        actions=[],
        error=not running and (bool(facts.get("exit_code")) or state not in ("exited", "completed", "ok", "finished")),
    )


def _checkpoint(entry: Entry) -> Step:
    facts = entry.facts
    restored = entry.kind is Kind.CHECKPOINT_RESTORED
    cause = cast(dict[str, Any], facts.get("cause") or {})
    back_to = facts.get("safety_checkpoint_id") if restored else facts.get("id")
    since = facts.get("checkpoint_id") if restored else facts.get("id")
    place = f" -w {shlex.quote(str(facts['workspace']))}" if facts.get("workspace") and not facts.get("target") else ""
    return _made(
        entry,
        "checkpoint",
        restored=restored,
        checkpoint_id=facts.get("checkpoint_id") or facts.get("id"),
        label=facts.get("label"),
        reason=facts.get("kind"),
        workspace=facts.get("workspace"),
        files=facts.get("files"),
        files_changed=facts.get("files_changed"),
        paths=[str(path) for path in facts.get("paths") or ()][:200],
        safety_checkpoint_id=facts.get("safety_checkpoint_id"),
        before_command=cause.get("command_id"),
        by=cause.get("by"),
        restore_command=f"shiftlog undo --to {shlex.quote(str(back_to))}{place}" if back_to else None,
        diff_command=f"shiftlog diff {shlex.quote(str(since))} -p{place}" if since else None,
        error=bool(facts.get("failed")),
    )


def _note(entry: Entry) -> Step:
    facts = entry.facts
    decisions = facts.get("add", {}).get("design_decisions") if entry.kind is Kind.TURN_UPDATED else None
    if decisions:
        return _made(entry, "decision", role="model", content="\n".join(f"- {text}" for text in decisions))
    if entry.kind is Kind.RUN_UPDATED:
        return _run(entry)
    quiet = entry.kind in QUIET or entry.kind in (Kind.TURN_UPDATED, Kind.IMPORT_NOTED)
    says = SAYS.get(entry.kind, str(entry.kind))
    return _made(entry, "note", says=says, facts=_plain(facts), quiet=quiet)


def _run(entry: Entry) -> Step:
    """Return the step of a run update; one that failed is shown openly, its outcome before its figures."""
    status = entry.facts.get("status")
    first = {name: entry.facts[name] for name in ("status", "returncode", "error") if name in entry.facts}
    facts = _plain({name: value for name, value in (first | dict(entry.facts)).items() if name != "derived"})
    bad = status in ("failed", "orphaned")
    return _made(entry, "note", says=SAYS[entry.kind], facts=facts, quiet=not bad, error=status == "failed")


def _plain(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a note that fit on a line."""
    lines: list[tuple[str, str]] = []
    for name, value in facts.items():
        if name in ("test_clock", "vendor", "title_source", "capsule", "raw") or value in (None, "", [], {}, False):
            continue
        if isinstance(value, dict | list):
            said = ", ".join(_texts(cast(object, value)))
        else:
            said = str(cast(object, value))
        lines.append((name.replace("_", " "), said[:400]))
    return lines


def _texts(value: object, depth: int = 0) -> Iterable[str]:
    if isinstance(value, dict) and depth < 3:
        for name, item in cast(dict[str, object], value).items():
            if item not in (None, "", [], {}):
                yield f"{name} {' '.join(_texts(item, depth + 1))}"
    elif isinstance(value, list) and depth < 3:
        for item in cast(list[object], value)[:20]:
            yield from _texts(item, depth + 1)
    else:
        yield str(cast(object, value))[:200]


def _place_child(steps: list[Step], calls: Mapping[str, Step], child: Session) -> None:
    step = calls.get(child.parent_call) if child.parent_call else None
    card = child_card(child)
    if step is not None:
        step["children"].append(card)
    else:
        at = shown(child.started)
        steps.append({"type": "child", "seq": 0, "seqs": [], "kind": "child", "at": at, "error": False, **card})


def child_card(child: Session) -> Step:
    """Return a child session as its parent's timeline shows it."""
    return {
        "session_id": child.id,
        "title": child.title,
        "agent_id": child.agent_id,
        "name": child.subagent.get("name") or child.subagent.get("role") or child.subagent.get("kind"),
        "state": str(child.state),
        "turns": child.turns_total,
        "turns_failed": child.turns_failed,
        "tokens": child.tokens_total,
        "children": [],
    }


def _gathered(steps: list[Step]) -> list[Step]:
    """Group neighbouring minor notes under one line."""
    gathered: list[Step] = []
    for step in steps:
        if step["type"] == "note" and step["quiet"]:
            if gathered and gathered[-1]["type"] == "quiet":
                gathered[-1]["notes"].append(step)
                gathered[-1]["seqs"] += step["seqs"]
                continue
            step = {**step, "type": "quiet", "notes": [step]}
        gathered.append(step)
    return gathered
