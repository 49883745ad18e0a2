"""Hook events as facts: which fields of an event count, and the tool calls in it.

Sans-I/O: a spooled line in, a `HookFact` out. A call becomes records of the agent's transcript, which the agent's own
reader reads; so the transcript later gives the same facts under the same keys.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from shiftlog.facts.batch import Batch
from shiftlog.facts.hook import HookFact
from shiftlog.facts.transcript import Action, AnyFact, Hints, ToolCall, ToolResult, TurnUpdated
from shiftlog.ingest.importing.composer import Composer
from shiftlog.ingest.importing.masking import MAX_TEXT_CHARS
from shiftlog.ingest.readers.claude.text import without_context
from shiftlog.ingest.readers.codex.text import split_prompt
from shiftlog.ingest.readers.codex.turns import turn_name
from shiftlog.ingest.readers.formats import reader_for
from shiftlog.ingest.readers.plain.gemini import without_hook_context
from shiftlog.ingest.readers.records import first_line, read_line, text_in
from shiftlog.link.hook import SAME_EVENTS
from shiftlog.model.agents import AGENTS, CLAUDE, CODEX, GEMINI, OWN_CALLS
from shiftlog.model.ids import is_call_id
from shiftlog.model.limits import PATH_CHARS
from shiftlog.model.times import parse, precise
from shiftlog.text.guarded_command import with_own_command

HOOKED = frozenset(agent.kind for agent in AGENTS.values() if agent.hooks)
ALIASES = {"subagentComplete": "SubagentStop", **SAME_EVENTS}
CALLS = ("PostToolUse", "PostToolUseFailure")
UNANSWERED = "PreToolUse"
TURNS = ("UserPromptSubmit", "Stop", "StopFailure")
SESSIONS = ("SessionStart", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd")
EVENTS = frozenset((*CALLS, UNANSWERED, *TURNS, *SESSIONS))
RAW_CHARS = 65_536
MAX_ID_CHARS = 200
_FAILED_CODE = 1
_OWN = re.compile(OWN_CALLS, re.ASCII)
_CHANGING = ("edit", "create", "delete")

Event = dict[str, Any]


class Spooled(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the spool, as the hook wrote it."""

    id: str
    at: str
    agent: str
    event: Event
    ppid: int | None = None
    ppid_started: str | None = None


def read_spooled(line: bytes) -> Spooled | None:
    """Return the content of a spool line; None if it is torn or not ours."""
    read = read_line(line)
    record = read.record if read is not None else None
    if record is None:
        return None
    name, at, agent, event = (record.get(key) for key in ("id", "at", "agent", "event"))
    if not (isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARS and isinstance(at, str)):
        return None
    if agent not in HOOKED or not isinstance(event, dict):
        return None
    try:
        at = precise(parse(at))
    except ValueError:
        return None
    started, pid = record.get("ppid_started"), record.get("ppid")
    return Spooled(
        id=name,
        at=at,
        agent=cast(str, agent),
        event=cast(Event, event),
        ppid=pid if type(pid) is int else None,
        ppid_started=str(started) if isinstance(started, str | int) else None,
    )


def name_of(event: Event) -> str:
    """Return the name of an event, in one spelling."""
    given = text_in(event, "hook_event_name") or ("unreadable" if event.get("unreadable") else "unknown")
    return ALIASES.get(given, given)


def is_own_call(tool: object) -> bool:
    """Return True if a tool, as an agent names it, is one of ours whose caller must be known."""
    return isinstance(tool, str) and _OWN.fullmatch(tool) is not None


def fact_of(spooled: Spooled, composer: Composer) -> HookFact:
    """Return an event as the journal stores it."""
    event, agent = spooled.event, spooled.agent
    name = name_of(event)
    vendor = text_in(event, "session_id") or ""
    composer.begin(agent)
    turn_id = text_in(event, "turn_id")
    named = None
    if turn_id and agent == CODEX:
        named = ":".join(map(str, turn_name(text_in(event, "agent_id") or vendor, turn_id)))
    prompt, context = _without_editor_context(agent, text_in(event, "prompt"))
    error = event.get("error")
    fact = HookFact(
        id=spooled.id,
        at=spooled.at,
        agent=agent,
        name=name,
        vendor_id=vendor[:MAX_ID_CHARS],
        agent_id=text_in(event, "agent_id"),
        agent_type=_masked(composer, text_in(event, "agent_type")),
        cwd=composer.path(cwd) if (cwd := text_in(event, "cwd")) and len(cwd) <= PATH_CHARS else None,
        transcript_path=text_in(event, "transcript_path"),
        source=text_in(event, "source"),
        model=text_in(event, "model"),
        permission_mode=text_in(event, "permission_mode"),
        turn_name=named,
        vendor_turn_id=turn_id,
        prompt_id=_prompt_id(event, agent),
        prompt=_masked(composer, prompt),
        prompt_title=first_line(composer.text(prompt or "", counted=False)),
        prompt_name=composer.prompt_name(*_session_of(event, agent), prompt) if prompt is not None else None,
        context=tuple(composer.text(one) for one in context),
        trigger=_masked(composer, text_in(event, "trigger")),
        reason=_masked(composer, text_in(event, "reason")),
        error=_masked(composer, error if isinstance(error, str) or error is None else json.dumps(error)),
        response=_masked(composer, text_in(event, "last_assistant_message", "prompt_response")),
        call_id=text_in(event, "tool_use_id"),
        pid=spooled.ppid,
        pid_started=spooled.ppid_started,
        is_own_call=is_own_call(event.get("tool_name")),
        raw=None if name in EVENTS else composer.text(json.dumps(event, ensure_ascii=False))[:RAW_CHARS],
    )
    fact = msgspec.structs.replace(fact, masked=composer.masked())
    return msgspec.structs.replace(fact, calls=_calls(spooled, name, composer)) if name in CALLS else fact


def _prompt_id(event: Event, agent: str) -> str | None:
    """Return the client's own id of a prompt; Codex has one for each turn."""
    found = text_in(event, "turn_id" if agent == CODEX else "prompt_id")
    return found if found is not None and is_call_id(found) else None


def _session_of(event: Event, agent: str) -> tuple[str, str | None]:
    """Return the session of a prompt as its transcript names it: subagents of Claude Code alone have no own id."""
    vendor, subagent = text_in(event, "session_id") or "", text_in(event, "agent_id")
    return (vendor, subagent) if agent == CLAUDE or subagent is None else (subagent, None)


def _without_editor_context(agent: str, prompt: str | None) -> tuple[str | None, Sequence[str]]:
    """Return a prompt as the transcript will have it, and the editor context before it."""
    if prompt is None:
        return None, ()
    if agent == CLAUDE:
        prompt_text, around = without_context(prompt)
    else:
        prompt_text, before = (without_hook_context if agent == GEMINI else split_prompt)(prompt)
        around = [before] if before else []
    return (prompt_text, around) if prompt_text and around else (prompt, ())


def _masked(composer: Composer, text: str | None) -> str | None:
    return None if text is None else composer.text(text)[:MAX_TEXT_CHARS]


# Calls


def _calls(spooled: Spooled, name: str, composer: Composer) -> Batch | None:
    event = _as_called(spooled.event)
    if not text_in(event, "tool_use_id") or not text_in(event, "tool_name"):
        return None
    records = (_claude_records if spooled.agent == CLAUDE else _codex_records)(event, spooled.at, name)
    reader = reader_for(spooled.agent)(Hints(session_id=text_in(event, "session_id")))
    facts = [fact for record in records for fact in reader.feed(json.dumps(record).encode())]
    facts.extend(reader.finish())
    of_call = [fact for fact in facts if isinstance(fact, ToolCall | ToolResult | Action)]
    told = [*(msgspec.structs.replace(fact, record=None) for fact in of_call), *_touched(of_call, event)]
    items = composer.compose(told)
    return Batch(
        agent=spooled.agent,
        sessions=composer.sessions,
        items=items,
        cursor=0,
        tail="",
        state=b"",
        first=False,
        last=False,
    )


def _as_called(event: Event) -> Event:
    """Return an event with the command that the agent called, where the guard rewrote it."""
    return {**event, "tool_input": with_own_command(event["tool_input"])} if "tool_input" in event else event


def _touched(facts: Sequence[AnyFact], event: Event) -> Iterator[TurnUpdated]:
    """Yield what a call adds to the lists of its turn, as the transcript would: files changed and commits made."""
    done = [fact for fact in facts if isinstance(fact, Action) and fact.status == "completed"]
    files = [fact.file_path for fact in done if fact.type in _CHANGING and fact.file_path]
    commits = [
        {**fact.extra, "message": fact.description.removeprefix("git: ")} for fact in done if fact.extra.get("sha")
    ]
    adds = {name: list(items) for name, items in (("files_modified", files), ("commits", commits)) if items}
    if adds:
        key = ("hook", str(event["tool_use_id"]), *adds)
        yield TurnUpdated(session=done[0].session, key=key, at=done[0].at, adds=adds)


def _claude_records(event: Event, at: str, name: str) -> Sequence[Event]:
    call, response = event["tool_use_id"], event.get("tool_response")
    failed = name == "PostToolUseFailure"
    common = {
        "timestamp": at,
        "sessionId": event.get("session_id"),
        "cwd": event.get("cwd"),
        "isSidechain": False,
    }
    if event.get("agent_id"):
        common |= {"isSidechain": True, "agentId": event["agent_id"]}
    use = {"type": "tool_use", "id": call, "name": event["tool_name"], "input": event.get("tool_input")}
    text = str(event.get("error") or "") if failed else _response_text(response)
    result: Event = {"type": "tool_result", "tool_use_id": call, "content": text}
    if failed:
        result["is_error"] = True
    return (
        {**common, "type": "assistant", "message": {"role": "assistant", "content": [use]}},
        {
            **common,
            "type": "user",
            "message": {"role": "user", "content": [result]},
            "toolUseResult": response,
        },
    )


def _codex_records(event: Event, at: str, name: str) -> Sequence[Event]:
    call, given = event["tool_use_id"], event.get("tool_input")
    arguments = given if isinstance(given, str) else json.dumps(given)
    output = _response_text(event.get("tool_response")) or str(event.get("error") or "")
    if name == "PostToolUseFailure":
        output = f"Exit code: {_FAILED_CODE}\n{output}"
    session = {"id": event.get("session_id"), "timestamp": at, "cwd": event.get("cwd")}
    turn = {"type": "task_started", "turn_id": event.get("turn_id") or "hook"}
    items: tuple[tuple[str, Event], ...] = (
        ("session_meta", session),
        ("event_msg", turn),
        (
            "response_item",
            {"type": "function_call", "name": event["tool_name"], "arguments": arguments, "call_id": call},
        ),
        ("response_item", {"type": "function_call_output", "call_id": call, "output": output}),
    )
    return tuple({"timestamp": at, "type": kind, "payload": payload} for kind, payload in items)


def _response_text(response: object) -> str:
    """Return a tool's response as the agent would have read it."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        given = cast(Event, response)
        parts = [given[name] for name in ("stdout", "stderr") if isinstance(given.get(name), str) and given[name]]
        if parts or "stdout" in given:
            return "\n".join(parts)
        for name in ("content", "output", "result", "text"):
            if isinstance(given.get(name), str):
                return given[name]
    return "" if response is None else json.dumps(response, ensure_ascii=False)
