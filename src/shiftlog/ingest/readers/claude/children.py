"""Links from Claude Code sessions to their children: by results, progress, notices, task tools and prompts."""

from shiftlog.facts.transcript import ChildLink, VendorSession
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.state import Strand
from shiftlog.ingest.readers.records import Object, object_in, text_in

TASK_TOOLS = frozenset({"Task", "Agent"})

BY_RESULT, BY_PROGRESS, BY_TASK, BY_WORKFLOW, BY_PROMPT = 1, 2, 3, 4, 5


def link(
    context: Context,
    strand: Strand,
    child: str | None,
    *,
    rank: int,
    call_id: str | None = None,
    run_id: str | None = None,
    name: str | None = None,
    description: str | None = None,
) -> None:
    """Link a child to the open turn and a call, once per way of knowing it."""
    target = child or run_id
    if target is None or (mark := f"{rank}/{target}") in strand.linked:
        return
    strand.linked.add(mark)
    fact = ChildLink(
        session=strand.ref,
        turn=strand.turn_id,
        key=("link", strand.ref.vendor_id, target, rank),
        at=context.at,
        call_id=call_id,
        child_agent_id=child,
        run_id=run_id,
        name=name,
        description=description,
        rank=rank,
    )
    context.emit(strand, fact)


def link_by_task(context: Context, strand: Strand, tool: str, value: Object, call_id: str | None) -> None:
    """Link the child that a task tool (`TaskOutput`, `TaskStop` …) names."""
    task = text_in(value, "task_id", "taskId") if tool.startswith(("Task", "Agent")) else None
    # Plain numbers are items of a to-do list, not agents.
    if task is not None and not task.isdigit():
        link(context, strand, task, rank=BY_TASK, call_id=call_id)


def link_by_result(
    context: Context, strand: Strand, tool: str | None, value: Object, details: Object, call_id: str
) -> None:
    """Link the child, or the workflow's children, that a result names."""
    if tool in TASK_TOOLS and (agent := text_in(details, "agentId")) is not None:
        name = text_in(value, "subagent_type") or text_in(details, "agentType")
        description = text_in(value, "description")
        link(context, strand, agent, rank=BY_RESULT, call_id=call_id, name=name, description=description)
    elif tool == "Workflow" and (run := text_in(details, "runId")) is not None:
        link(context, strand, None, rank=BY_WORKFLOW, call_id=call_id, run_id=run)


def link_by_prompt(context: Context, child: Strand, text: str) -> None:
    """Link an inline side chain to the latest unanswered call with the same prompt."""
    parent = context.strands.get(VendorSession(child.ref.vendor_id))
    if parent is None:
        return
    wanted = text.strip()
    for call_id, call in reversed(parent.calls.items()):
        if call.tool not in TASK_TOOLS:
            continue
        value = object_in({"input": call.input}, "input")
        if (text_in(value, "prompt") or "").strip() == wanted:
            name = text_in(value, "subagent_type")
            child.known["parent_call"] = call_id
            link(context, parent, child.ref.agent_id, rank=BY_PROMPT, call_id=call_id, name=name)
            return
