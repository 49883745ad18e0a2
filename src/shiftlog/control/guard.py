"""Questions about the guard for agents' own tools: its modes, and the switch, which only a person may use."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftlog.app.app import App
from shiftlog.app.guard_state import AgentGuard, GuardState, guarded_kinds
from shiftlog.control.questions import Params, Question
from shiftlog.link import processes
from shiftlog.model.caller import Caller
from shiftlog.model.errors import Unauthorized
from shiftlog.store.protocol import Filter, Page

LOOKED_AT = 200
DEEPEST = 64
# Variables that agents set for the programs that they start.
AGENTS_VARIABLES = (b"CLAUDECODE=", b"CODEX_SANDBOX=", b"CODEX_THREAD_ID=", b"CODEX_CI=", b"GEMINI_CLI=", b"OPENCODE=")


async def _status(app: App, params: Params, caller: Caller) -> object:
    return {"agents": app.hooks.guard.status()}


async def _switch(app: App, params: Params, caller: Caller) -> object:
    """Switch the guard, unless the caller is a program that an agent started."""
    if await _is_of_an_agent(app, caller):
        raise _an_agents()
    app.hooks.guard.switch(params)
    return await _status(app, params, caller)


def switch_off_alone(home: Path, agents: Sequence[str]) -> dict[str, Any]:
    """Switch the guard off without a daemon, for example if the settings keep the daemon from starting."""
    if any(_has_agents_environment(pid) for pid, _ in processes.lineage(os.getpid())):
        raise _an_agents()
    state = GuardState(home)
    for kind in guarded_kinds(agents):
        state.put(kind, AgentGuard())
    return {"agents": state.shown(os.environ)}


def _an_agents() -> Unauthorized:
    return Unauthorized(
        "Only a person switches the guard, and this program was started by an agent",
        hint="Run it in a terminal of your own, outside of the agent",
    )


async def _is_of_an_agent(app: App, caller: Caller) -> bool:
    """Return True if a caller is below the process of a recorded agent, or has an agent's environment."""
    if caller.pid is None:
        return False
    where = Filter(states=frozenset({"open", "suspended"}), with_run=True)
    rows = await app.store.read(lambda reader: reader.find_sessions(where, Page(limit=LOOKED_AT), by_activity=True))
    runs = [row.session.run for row in rows]
    agents = {(run.pid, run.pid_started) for run in runs if run is not None and run.pid is not None}
    pid: int | None = caller.pid
    for _ in range(DEEPEST):
        if not pid or pid == 1:
            break
        if (pid, processes.started(pid)) in agents:
            return True
        pid = processes.parent(pid)
    return _has_agents_environment(caller.pid)


def _has_agents_environment(pid: int) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable.startswith(AGENTS_VARIABLES) for variable in variables)


QUESTIONS: dict[str, Question] = {"guard": _status, "guard_switch": _switch}
