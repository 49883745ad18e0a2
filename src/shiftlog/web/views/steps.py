"""Entries joined into steps: a call, its result and its changes are one step on the page.

Pure. A step is a dictionary with a `type` that names the template's block, the entries it is made of (`seqs`), and
`error` if something went wrong; the keyboard jumps between errors.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from shiftlog.journal.runs.service import PricedResponse
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import millis, shown
from shiftlog.web.views.endings import ending_of, failing
from shiftlog.web.views.notes import note_of, plain_facts

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
_HEADS = frozenset({Kind.TURN_BEGUN, Kind.TURN_COMPLETED, Kind.TURN_FAILED})
TASKS_MOST = 100
# Steps that no response led to.
_BESIDE = ("note", "checkpoint", "erased")
_NOT_SAID = ("tool_call", "tool_result", "reasoning", "decision")


def steps_of(
    entries: Sequence[Entry],
    children: Iterable[Session] = (),
    turn: Turn | None = None,
    responses: Iterable[PricedResponse] = (),
) -> list[Step]:
    """Join entries to steps, in the order given; children follow the call that spawned them.

    What the head of `turn` shows, its request and its response, is left out. The step that a response led to tells
    what it used.
    """
    steps: list[Step] = []
    calls: dict[str, Step] = {}
    commands: dict[str, Step] = {}
    decided: set[str] = set()
    for entry in entries:
        if entry.body is not None and (entry.kind in _HEADS or entry.facts.get("type") == "command"):
            continue  # the turn's head shows the one, the command's own entries the other
        if turn is not None and is_in_head(turn, entry):
            continue
        if _is_decided_again(entry, decided):
            continue
        step = _joined(entry, calls, commands) or _answered(entry, steps) or _step(entry)
        if step["seqs"][0] != entry.seq:
            continue  # it completed an earlier one
        if entry.kind is Kind.DIALOG and entry.facts.get("call_id"):
            calls.setdefault(str(entry.facts["call_id"]), step)
        if step["type"] == "command" and step.get("command_id"):
            commands[step["command_id"]] = step
        steps.append(step)
    _count_tokens(steps, responses)
    for child in children:
        _place_child(steps, calls, child)
    return _gathered(steps)


def is_in_head(turn: Turn, entry: Entry) -> bool:
    """Return True if a dialog item repeats the request or the response that the head of its turn shows."""
    facts = entry.facts
    if entry.kind is not Kind.DIALOG or facts.get("category") in _NOT_SAID:
        return False
    shown = {"user": turn.query_text or turn.query_title, "model": turn.response}.get(str(facts.get("role")), "")
    return bool(shown) and str(facts.get("content", "")).strip() == shown.strip()


def _is_decided_again(entry: Entry, decided: set[str]) -> bool:
    """Return True if an entry states only decisions that were told before; remember what it states."""
    facts = entry.facts
    if entry.kind is Kind.DIALOG and facts.get("category") == "decision":
        stated = {compared_decision(facts.get("content", ""))}
    elif entry.kind is Kind.TURN_UPDATED:
        stated = {compared_decision(text) for text in facts.get("add", {}).get("design_decisions") or ()}
    else:
        return False
    again = bool(stated) and stated <= decided
    decided |= stated
    return again


def compared_decision(text: object) -> str:
    """Return a decision as it is compared with others: case, spaces and a full stop make no other decision."""
    return " ".join(str(text).split()).rstrip(".").casefold()


def _count_tokens(steps: Sequence[Step], responses: Iterable[PricedResponse]) -> None:
    """Add the tokens and the cost of each response to the last step that had begun when it came."""
    worked = [step for step in steps if step["type"] not in _BESIDE]
    for response in responses:
        step = next((one for one in reversed(worked) if one["from_ms"] <= millis(response.at)), None)
        if step is not None:
            step["tokens"] = step.get("tokens", 0) + response.tokens
            if response.cost_usd is not None:
                step["cost_usd"] = (step.get("cost_usd") or 0.0) + response.cost_usd


def _joined(entry: Entry, calls: Mapping[str, Step], commands: Mapping[str, Step]) -> Step | None:
    """Add an entry to the earlier step that it completes, and return that step."""
    facts = entry.facts
    if entry.kind is Kind.COMMAND_FINISHED and (step := commands.get(str(facts.get("command_id")))) is not None:
        before = {name: step[name] for name in ("seq", "at", "from_ms")}
        step.update(_command(entry), **before, seqs=[*step["seqs"], entry.seq], to_ms=millis(entry.at))
        return step
    step = calls.get(str(facts.get("call_id"))) if facts.get("call_id") else None
    if step is None:
        return None
    if entry.kind is Kind.ACTION:
        step["actions"].append(_action(entry))
    elif entry.kind is Kind.DIALOG and facts.get("category") == "tool_result" and "result" not in step:
        _add_result(step, entry)
    else:
        return None
    step["seqs"].append(entry.seq)
    if entry.kind is Kind.ACTION and (how := failing(entry)):
        step |= {"error": True, "outcome": step["outcome"] or how}
    return step


def _answered(entry: Entry, steps: Sequence[Step]) -> Step | None:
    """Add a result without a call id to the call right before it, and return that step."""
    facts = entry.facts
    if entry.kind is not Kind.DIALOG or facts.get("category") != "tool_result" or facts.get("call_id") or not steps:
        return None
    last = steps[-1]
    if last["type"] != "tool" or last.get("call_id") or "result" in last:
        return None
    _add_result(last, entry)
    last["seqs"].append(entry.seq)
    return last


def _add_result(step: Step, entry: Entry) -> None:
    facts = entry.facts
    step["result"] = facts.get("content", "")
    step["result_seq"] = entry.seq
    step["exit_code"] = facts.get("exit_code")
    step["outcome"] = failing(entry)
    step["error"] = step["outcome"] is not None
    step["images"] = step.get("images", []) + images_of(entry)
    lasted = facts.get("duration_ms")
    step["to_ms"] = max(millis(entry.at), step["from_ms"] + (lasted if isinstance(lasted, int) else 0))
    # A vendor that gives no duration gives times: between call and result the tool worked.
    measured = step["to_ms"] - step["from_ms"] if step["seq"] != entry.seq else None
    step["duration_ms"] = lasted if lasted is not None else measured or None
    if step["type"] == "command":
        step |= {"stdout": step["result"], "state": "failed" if step["error"] else "exited"}


def images_of(entry: Entry) -> list[Step]:
    """Return the images that an entry names; `kept` says whether their bytes are there."""
    listed = cast(list[dict[str, Any]], entry.facts.get("images") or [])
    return [
        {
            "seq": entry.seq,
            "number": number,
            "media_type": str(image.get("media_type") or "image"),
            "bytes": image.get("bytes"),
            "kept": bool(image.get("data")),
        }
        for number, image in enumerate(listed)
    ]


def _step(entry: Entry) -> Step:
    if entry.body is None:
        return _made(entry, "erased")
    match entry.kind:
        case Kind.DIALOG:
            return _dialog(entry)
        case Kind.ACTION:
            how = failing(entry)
            return _made(entry, "action", actions=[_action(entry)], error=how is not None, outcome=how)
        case Kind.COMMAND_STARTED | Kind.COMMAND_FINISHED:
            return _command(entry)
        case Kind.CHECKPOINT_SAVED | Kind.CHECKPOINT_RESTORED:
            return _checkpoint(entry)
        case _:
            return _made(entry, **note_of(entry))


def _made(entry: Entry, type_: str, **more: Any) -> Step:
    return {
        "type": type_,
        "seq": entry.seq,
        "seqs": [entry.seq],
        "kind": str(entry.kind),
        "at": shown(entry.at),
        "from_ms": millis(entry.at),
        "to_ms": millis(entry.at),
        "error": False,
        "outcome": None,
        "images": images_of(entry),
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
        step |= {"tasks": _tasks(given), "glance": _glance(str(content).removeprefix(f"{tool}: "), given)}
        if command is not None:
            step |= {"type": "command", "command": command, "command_id": "", "state": "unknown"}
            step |= {"stdout": "", "stderr": "", "exit_code": None, "duration_ms": None, "live": False, "cwd": None}
            step["is_vouched"] = True
        return step
    if category == "tool_result":
        step = _made(entry, "tool", tool=str(facts.get("tool") or "Result"), content="", input=None, actions=[])
        step["images"] = []
        _add_result(step, entry)
        return step
    if category in ("reasoning", "decision"):
        return _made(entry, str(category), role=role, content=content)
    return _made(entry, "say", role=role, content=content)


def _tasks(given: object) -> list[Step]:
    """Return the list of tasks that a call writes, as agents name it: `todos` or `plan`."""
    facts = cast(dict[str, object], given) if isinstance(given, dict) else {}
    listed = facts.get("todos") or facts.get("plan")
    found: list[Step] = []
    for task in cast(list[object], listed)[:TASKS_MOST] if isinstance(listed, list) else ():
        if isinstance(task, dict):
            told = cast(dict[str, object], task)
            text, status = told.get("content") or told.get("step") or "", told.get("status") or "pending"
            found.append({"text": str(text), "status": str(status)})
    return found


def _glance(content: str, given: object) -> str:
    """Return a call on one line; arguments that are only known as JSON are named, not printed."""
    if not content.startswith("{") or not isinstance(given, dict):
        return content
    told: list[str] = []
    for name, value in cast(dict[str, object], given).items():
        if isinstance(value, dict | list):
            held = cast(dict[object, object] | list[object], value)
            told.append(f"{name} ({len(held)})")
        else:
            told.append(f"{name} {value}")
    return ", ".join(told)


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
    how = None if running else ending_of(facts)
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
        is_vouched=facts.get("exit_code_vouched") is not False,
        signal=facts.get("signal"),
        duration_ms=facts.get("duration_ms"),
        output=facts.get("output"),
        refusal=facts.get("refusal"),
        checkpoint_id=facts.get("checkpoint_id"),
        background=bool(facts.get("background")),
        actions=[],
        outcome=how,
        error=how is not None,
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
        # A state that is as it was before is bookkeeping.
        quiet=not restored
        and facts.get("kind") != "manual"
        and (bool(facts.get("reused")) or not facts.get("files_changed") or _ends_turn(entry)),
    )


def _ends_turn(entry: Entry) -> bool:
    """Return True for the checkpoint after a turn, whose files the turn itself lists."""
    cause = cast(dict[str, Any], entry.facts.get("cause") or {})
    return entry.turn is None and entry.facts.get("kind") == "end" and bool(cause.get("request_id"))


def _place_child(steps: list[Step], calls: Mapping[str, Step], child: Session) -> None:
    step = calls.get(child.parent_call) if child.parent_call else None
    card = child_card(child)
    if step is not None:
        step["children"].append(card)
    else:
        at = shown(child.started)
        moment = {"at": at, "from_ms": millis(child.started), "to_ms": millis(child.last_activity)}
        made: Step = {"type": "child", "seq": 0, "seqs": [], "kind": "child", "error": False, **moment, **card}
        later = (number for number, one in enumerate(steps) if one["from_ms"] > moment["from_ms"])
        steps.insert(next(later, len(steps)), made)


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
        if step["type"] in ("note", "checkpoint") and step["quiet"]:
            if step["type"] == "checkpoint":
                known = {name: step[name] for name in ("checkpoint_id", "workspace") if step[name]}
                step = {**step, "type": "note", "says": "Checkpoint", "facts": plain_facts(known)}
            if gathered and gathered[-1]["type"] == "quiet":
                gathered[-1]["notes"].append(step)
                gathered[-1]["seqs"] += step["seqs"]
                continue
            step = {**step, "type": "quiet", "notes": [step]}
        gathered.append(step)
    return gathered
