"""The agent's exam: forty tasks, solved by the calls that the reference shows, against schemas and for real.

A changed tool shows here which tasks change with it.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from shiftlog.config.tool_names import DEFAULT_TOOLSETS
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Registry, Reply
from tests.exam.tasks import SAMPLES, TASKS, Call, Task, filled
from tests.shell.rig import CLIENT, ShellRig, shell_rig

pytestmark = pytest.mark.anyio

NUMBERED = [pytest.param(task, id=f"{number:02}") for number, task in enumerate(TASKS, 1)]
ASK = '#!/bin/sh\nread -r name\necho "hello $name"\n'


@dataclass(slots=True)
class World:
    """What an agent in the middle of its work has: a session with a turn, a shell in a project, a command that ran."""

    rig: ShellRig
    registry: Registry

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool as the agent's client does; the answer fits its output schema."""
        found = next(each for each in self.registry.tools if each.name == tool)
        reply = await found.run(CLIENT, arguments)
        assert isinstance(reply, Reply)
        data = cast("dict[str, Any]", reply.data)
        jsonschema.validate(data, found.output or {})
        return data

    async def knowledge(self, task: Task) -> dict[str, object]:
        """Begin a session, and return what the agent of a task knows of it."""
        said = json.dumps([(call.tool, call.arguments) for call in task.calls])
        opened = await self.call("open_session", agent="Codex", title="T", agent_id="cart-fixer", model="m")
        session = opened["run_id"]
        turn = await self.call("begin_turn", session_id=session, query_title="Fix", query_text="Fix the total")
        known: dict[str, object] = {"$session": session, "$turn": turn["request_id"], "$workspace": str(self.rig.place)}
        if "$token" in said:
            closed = await self.call("close_session", session_id=session)
            known["$token"] = closed["data"]["recovery_token"]
        if not any(word in said for word in ("$shell", "$command", "list_shells")):
            return known
        shell = await self.call("open_shell", session_id=session, workspace=str(self.rig.place))
        ran = await self.call("run_command", shell_id=shell["shell_id"], command="echo new > NOTES.md; echo oops >&2")
        return known | {"$shell": shell["shell_id"], "$command": ran["command_id"]}


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    async with shell_rig(tmp_path_factory.mktemp("exam"), shell=False) as rig:
        for name, text in (("cart.py", "total = 0\n"), ("NOTES.md", "old\n"), ("build.log", "a\nerror\nb\n")):
            (rig.place / name).write_text(text)
        for name, text in (("build", "#!/bin/sh\necho built\n"), ("ask", ASK)):
            (rig.place / name).write_text(text)
            (rig.place / name).chmod(0o755)
        yield World(rig, registry_for(rig.app))


async def test_the_exam_has_forty_tasks_that_use_every_tool(world: World) -> None:
    assert len(TASKS) == 40
    assert len({task.ask for task in TASKS}) == 40
    used = {call.tool for task in TASKS for call in task.calls}
    served = {tool.name for tool in world.registry.tools if tool.toolset in DEFAULT_TOOLSETS and tool.listed}
    assert used | {"list_checkpoints"} == served


@pytest.mark.parametrize("task", NUMBERED)
async def test_the_calls_of_a_task_fit_the_listed_schemas(world: World, task: Task) -> None:
    listed = {tool.name: tool.as_listed() for tool in world.registry.tools}
    for call in task.calls:
        jsonschema.validate(filled(call.arguments, SAMPLES), listed[call.tool].input_schema)


@pytest.mark.parametrize("task", [param for param in NUMBERED if not cast(Task, param.values[0]).elsewhere])
async def test_the_calls_of_a_task_solve_it(world: World, task: Task) -> None:
    known = await world.knowledge(task)
    for number, call in enumerate(task.calls, 1):
        answer = await world.call(call.tool, **_arguments(call, known))
        known |= {f"${number}": answer}
    for shell in (await world.call("list_shells"))["shells"]:
        await world.call("close_shell", shell_id=shell["shell_id"])


def _arguments(call: Call, known: dict[str, object]) -> dict[str, Any]:
    """Return the arguments of a call with what earlier answers gave."""
    referred = {text: _followed(text, known) for text in re.findall(r'"(\$[0-9]+\.[^"]+)"', json.dumps(call.arguments))}
    return filled(call.arguments, known | referred)


def _followed(reference: str, known: dict[str, object]) -> object:
    first, *path = reference.split(".")

    def step(at: Any, name: str) -> Any:
        return cast("list[Any]", at)[int(name)] if isinstance(at, list) else at[name]

    return reduce(step, path, known[first])


# What the tasks left behind shows that the calls did what was asked.


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncGenerator[World]:
    async with shell_rig(tmp_path, shell=False) as rig:
        (rig.place / "NOTES.md").write_text("old\n")
        yield World(rig, registry_for(rig.app))


async def test_the_file_of_the_last_task_is_back_as_it_was(fresh: World) -> None:
    known = await fresh.knowledge(TASKS[-1])
    await fresh.call("close_shell", shell_id=known["$shell"])
    assert (fresh.rig.place / "NOTES.md").read_text() == "new\n"
    [call] = TASKS[-1].calls
    await fresh.call(call.tool, **_arguments(call, known))
    assert (fresh.rig.place / "NOTES.md").read_text() == "old\n"
