"""Read from the calls of an agent's own tools what a capsule needs: the commands that they ran, and the agent's plan.

Readers of transcripts and hooks record such a call as a dialog item with its tool and input, and its result likewise.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

_SHELLS = frozenset(
    "bash shell exec_command local_shell local_shell_call container.exec shell_command run_terminal_cmd "
    "run_terminal_command_v2 run_shell_command execute_command".split()
)
_PLANS = frozenset({"todowrite", "todo_write", "write_todos", "update_plan"})
_NEW_TASK, _CHANGED_TASK = "taskcreate", "taskupdate"
_TASK_ID = re.compile(r"Task #(\w+)")
# Codex writes about the run before what it printed.
_PRINTED = "\nOutput:\n"
_INTERPRETERS = frozenset({"bash", "sh", "zsh"})


@dataclass(slots=True)
class Step:
    """One step of a plan, with the entry that told of it last."""

    text: str
    status: str
    seq: int


@dataclass(slots=True)
class OwnTools:
    """The plan as the agent's own tools told it last. One way of planning replaces another."""

    plan: list[Step] = field(default_factory=list[Step])
    _tasks: dict[str, Step] = field(default_factory=dict[str, Step])
    _new_tasks: dict[str, Step] = field(default_factory=dict[str, Step])

    def call(self, facts: Mapping[str, Any], seq: int) -> bool:
        """Note a call; return True if it is about the plan."""
        tool, given = _tool(facts), _input(facts)
        if tool in _PLANS:
            told: object = given.get("todos") or given.get("plan")
            steps = cast("list[object]", told) if isinstance(told, list) else []
            self.plan = [step for item in steps if (step := _step(item, seq))]
            return True
        if tool == _NEW_TASK:
            self._new_tasks[_text(facts, "call_id")] = Step(_text(given, "subject"), "pending", seq)
            return True
        if tool == _CHANGED_TASK:
            self._change(given, seq)
            return True
        return False

    def result(self, facts: Mapping[str, Any]) -> bool:
        """Note a result; return True if it is about the plan."""
        tool = _tool(facts)
        if tool == _NEW_TASK:
            step = self._new_tasks.pop(_text(facts, "call_id"), None)
            named = _TASK_ID.search(_text(facts, "content"))
            if step is not None and step.text and named:
                self._tasks[named[1]] = step
                self.plan = list(self._tasks.values())
        return tool in _PLANS or tool in (_NEW_TASK, _CHANGED_TASK)

    def _change(self, given: Mapping[str, Any], seq: int) -> None:
        step = self._tasks.get(str(given.get("taskId")))
        if step is not None:
            step.text = _text(given, "subject") or step.text
            step.status, step.seq = _text(given, "status") or step.status, seq


def command_of(facts: Mapping[str, Any]) -> str | None:
    """Return the command that a call runs; None if its tool is no shell."""
    given = _input(facts)
    if _tool(facts) not in _SHELLS:
        return None
    command = given.get("command") or given.get("cmd")
    if isinstance(command, list):
        words = [str(word) for word in cast("list[object]", command)]
        is_script = len(words) == 3 and words[0].rpartition("/")[2] in _INTERPRETERS and words[1].startswith("-")
        command = words[2] if is_script else shlex.join(words)
    return command.strip() or None if isinstance(command, str) else None


def directory_of(facts: Mapping[str, Any]) -> str:
    """Return the directory that a call names for its command, empty if none."""
    return _text(_input(facts), "workdir") or _text(_input(facts), "cwd")


def printed_by(facts: Mapping[str, Any]) -> str:
    """Return what a command printed, from the result of its call."""
    content = _text(facts, "content")
    return content.partition(_PRINTED)[2] if _PRINTED in f"{content}\n" else content


def _tool(facts: Mapping[str, Any]) -> str:
    return _text(facts, "tool").casefold()


def _input(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    given: object = facts.get("input")
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else {}


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return value.strip() if isinstance(value, str) else ""


def _step(item: object, seq: int) -> Step | None:
    if not isinstance(item, dict):
        return None
    facts = cast("dict[str, Any]", item)
    text = _text(facts, "content") or _text(facts, "step") or _text(facts, "text")
    return Step(text, _text(facts, "status") or "pending", seq) if text else None
