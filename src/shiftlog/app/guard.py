"""The guard for the tools that agents bring themselves: answers a hook before a tool call, and records the answer.

`watch` only records, `ask` answers with the client's own prompt or a refusal, `enforce` also rewrites commands so that
they run in our sandbox. The modes are in `guard_state`, the verdicts come from `guard_rules`, and the commands run in
`shell.client_runs`.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shiftlog.app.guard_rules import GuardedCall, GuardRules, ToolVerdict
from shiftlog.app.guard_state import (
    MODES,
    AgentGuard,
    GuardMode,
    GuardState,
    changed_settings,
    guarded_kinds,
    installed_settings,
)
from shiftlog.app.turn_checkpoints import HookedTurn
from shiftlog.journal.intake.hooks import HookIntake
from shiftlog.journal.sessions import workspace_of
from shiftlog.link import wire
from shiftlog.model.agents import AGENTS, CODEX
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.model.shell_errors import SandboxNotAllowed
from shiftlog.model.times import precise
from shiftlog.shell.client_runs import SOCKET, ClientRuns, EndedRun, OfferedRun
from shiftlog.shell.guard import is_looser
from shiftlog.shell.results import vouching
from shiftlog.text.guarded_command import wrapped
from shiftlog.text.printable import one_line

if TYPE_CHECKING:
    from shiftlog.app.app import App

Output = dict[str, Any]

COMMAND_CHARS = 2_000
# Named if no hook has reported the session.
UNRECORDED = "guard"
NO_PROMPT = "has no prompt for this; a person can run it, or change the policy"


class Guard:
    """The guard of one state directory."""

    def __init__(self, app: "App", intake: HookIntake, state: GuardState) -> None:
        self._app = app
        self._intake = intake
        self.state = state
        self._rules: GuardRules | None = None
        self._runs: ClientRuns | None = None
        # Changes of settings that were reported already, by file and digest.
        self._reported: set[tuple[str, str]] = set()

    @property
    def rules(self) -> GuardRules:
        """Return the operator's rules, read with the first call that is judged."""
        if self._rules is None:
            self._rules = GuardRules(self._app)
        return self._rules

    @property
    def runs(self) -> ClientRuns:
        """Return the service that runs commands of clients in sandboxes."""
        if self._runs is None:
            opener = self._app.shells.opener
            place = Path(wire.socket_path(str(self._app.home))).with_name(SOCKET)
            self._runs = ClientRuns(place, opener.policy, opener.temps.open, begun=self._begun, over=self._over)
        return self._runs

    async def aclose(self) -> None:
        """End the commands that run."""
        if self._runs is not None:
            await self._runs.aclose()

    # The person's side

    def switch(self, params: Mapping[str, Any]) -> list[str]:
        """Switch the guard of the named agents, or of all that have hooks; return their kinds."""
        mode: GuardMode = params.get("mode") or "off"
        if mode not in (*MODES, "off"):
            raise InvalidParameter.invalid("mode", ", ".join((*MODES, "off")), mode)
        sandbox = str(params.get("sandbox") or "workspace-write")
        most = self.rules.policy.sandbox_max
        if mode != "off" and is_looser(sandbox, most):
            raise SandboxNotAllowed(f"sandbox '{sandbox}' is not permitted", details={"mode": sandbox, "max": most})
        kinds = guarded_kinds(params.get("agents") or ())
        for kind in kinds:
            installed = installed_settings(kind, self._app.home, self._app.environ, None) if mode != "off" else {}
            since = precise(datetime.now(UTC))
            self.state.put(kind, AgentGuard(mode=mode, sandbox=sandbox, since=since, installed=installed))
        self._reported.clear()
        return kinds

    def status(self) -> list[dict[str, Any]]:
        """Return the mode of each agent that has hooks, and the settings that are not as they were installed."""
        return self.state.shown(self._app.environ)

    # The hook's side

    async def answer(self, agent: str, event: Mapping[str, Any], turn: HookedTurn | None) -> Output | None:
        """Return the text that a hook prints before a tool call; None for nothing."""
        guard = self.state.of(agent)
        if guard.mode == "off":
            return None
        cwd = str(event.get("cwd") or "/")
        given: Any = event.get("tool_input")
        call = GuardedCall(
            agent=agent,
            name=str(event.get("tool_name") or ""),
            input=cast("dict[str, Any]", given) if isinstance(given, dict) else {},
            cwd=cwd,
            workspace=turn.workspace if turn is not None else workspace_of(cwd),
            sandbox=guard.sandbox,
        )
        verdict = await self.rules.judge(call)
        call_id = str(event.get("tool_use_id") or "")
        if guard.mode == "watch":
            await self._note(turn, call, call_id, verdict, _would(verdict))
            return None
        can_ask = AGENTS[agent].has_prompt
        answered = verdict.decision
        if guard.mode == "ask" and verdict.undecided:
            answered = "ask"
        if answered == "ask" and not can_ask:
            answered = "deny"
        if answered != "allow":
            await self._note(turn, call, call_id, verdict, "denied" if answered == "deny" else "asked")
        if answered == "deny":
            is_asked = verdict.decision != "deny"
            return _decided("deny", _reason(verdict) + (f". {AGENTS[agent].title} {NO_PROMPT}" if is_asked else ""))
        output = _decided("ask", _reason(verdict)) if answered == "ask" else {}
        if guard.mode == "enforce" and call.command is not None:
            output |= self._rewritten(call, call_id, verdict, turn)
            if agent == CODEX:  # it takes a rewritten input only with its permission
                output["permissionDecision"] = "allow"
        return output or None

    def _rewritten(self, call: GuardedCall, call_id: str, verdict: ToolVerdict, turn: HookedTurn | None) -> Output:
        run = OfferedRun(
            text=call.command or "",
            workspace=call.workspace,
            sandbox=call.sandbox,
            session_id=turn.session_id if turn is not None else UNRECORDED,
            permitted=verdict.entries,
            command_id=call_id or secrets.token_hex(8),
        )
        token = self.runs.offer(run)
        kind = AGENTS[call.agent]
        command = wrapped(
            run.text,
            self.runs.command(token),
            keeps_directory=kind.keeps_directory,
            has_definitions=kind.has_definitions,
        )
        return {"updatedInput": {**call.input, "command": command}}

    async def changed(self, agent: str, event: Mapping[str, Any], turn: HookedTurn | None) -> str | None:
        """Record settings that are no longer as they were installed, each change once; return what to tell the user."""
        guard = self.state.of(agent)
        if guard.mode == "off":
            return None
        project = turn.workspace if turn is not None else str(event.get("cwd") or "") or None
        now = installed_settings(agent, self._app.home, self._app.environ, project)
        fresh = [path for path in changed_settings(guard, now) if (path, now[path]) not in self._reported]
        for path in fresh:
            self._reported.add((path, now[path]))
            if turn is not None:
                await self._intake.note(turn.session_id, turn.request_id, {"guard": "guard_changed", "path": path})
        if not fresh:
            return None
        return f"Shiftlog guard: {', '.join(fresh)} changed since the guard was switched on; see shiftlog guard status"

    # The record

    async def _note(
        self, turn: HookedTurn | None, call: GuardedCall, call_id: str, verdict: ToolVerdict, said: str
    ) -> None:
        if turn is None:
            return
        what = call.command if call.command is not None else ", ".join(call.paths)
        mask = self._app.redactor
        facts = {
            "guard": said,
            "tool": call.name,
            "tool_use_id": call_id,
            "what": one_line(mask.text(what, by_rule=True).text, COMMAND_CHARS),
            "reason": mask.text(verdict.reason, by_rule=True).text or None,
            "rule": verdict.rule or None,
        }
        shown = {name: value for name, value in facts.items() if value is not None}
        await self._intake.note(turn.session_id, turn.request_id, shown)

    async def _begun(self, run: OfferedRun, cwd: str) -> None:
        if run.session_id != UNRECORDED:
            with suppress(ShiftlogError, LookupError):  # the session has ended; the command runs as it would without us
                await self._app.client_commands.started(run.session_id, self._facts(run) | {"cwd": cwd})

    async def _over(self, run: OfferedRun, ended: EndedRun) -> None:
        facts = self._facts(run) | {
            "state": ended.state,
            "exit_code": ended.exit_code,
            **vouching(is_vouched=ended.is_vouched),
            "cwd": ended.cwd,
            "duration_ms": ended.duration_ms,
            "programs": ended.programs,
            "programs_total": ended.programs_total,
        }
        if run.session_id != UNRECORDED:
            with suppress(ShiftlogError, LookupError):
                await self._app.client_commands.finished(run.session_id, facts)

    def _facts(self, run: OfferedRun) -> dict[str, Any]:
        return {
            "command_id": run.command_id,
            "tool_use_id": run.command_id,
            "command": run.text,
            "sandbox": run.sandbox,
        }


def _would(verdict: ToolVerdict) -> str:
    return "allow" if verdict.decision == "allow" else f"would_{verdict.decision}"


def _decided(decision: str, reason: str) -> Output:
    return {"permissionDecision": decision, "permissionDecisionReason": reason}


def _reason(verdict: ToolVerdict) -> str:
    rule = f" (rule: {verdict.rule})" if verdict.rule else ""
    return f"Shiftlog: {verdict.reason}{rule}"
