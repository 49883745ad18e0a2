"""The operator's policy on shells: what may be opened, and the guard that every shell gets.

Text is judged by the guard's policy; on this machine the kernel layer judges what the text leaves open. What a shell
asks for only tightens: nothing here can be loosened by an argument.
"""

import asyncio
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from shiftlog.guard.policy.files import DEFAULT_PATH, LocalFiles, NoFiles
from shiftlog.guard.policy.found import Definitions
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.lists import ShellRules
from shiftlog.guard.policy.operator import SANDBOXES, OperatorPolicy, shell_rules
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import (
    SandboxNotAllowed,
    SandboxUnavailable,
    TransportNotAllowed,
    WorkspaceInvalid,
)
from shiftlog.shell.engine.local import Launcher
from shiftlog.shell.guarding import Enforcement, Judged, SyntaxFault
from shiftlog.shell.outputs.view import shown_name
from shiftlog.shell.sandbox.judging import exec_rules, judge_spec
from shiftlog.shell.sandbox.sandbox import Launch, Mode, Sandbox, SandboxSpec
from shiftlog.shell.sandbox.starts import PROGRAMS_KEPT, ProgramStart

FULL_ACCESS = "full-access"
REMOTE_NOTE = "only the command text is checked here: the target's kernel is out of reach"
DEAD_NOTE = "The supervisor of program starts has ended, so no program can start here; open a new shell."


@dataclass(slots=True, kw_only=True)
class PolicyGuard:
    """The guard of one shell: its rules, what its commands have defined so far, and its way into the kernel layer."""

    judge_of: Judge
    rules: ShellRules
    redactor: Redactor
    sandbox: str
    enforcement: Enforcement
    said: str | None
    launcher: Launcher | None
    defers: bool
    _known: Definitions = field(default_factory=Definitions)
    _current: str = ""
    _roots: Callable[[], Mapping[int, str]] = dict[int, str]
    _starts: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _copies: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def note(self) -> str | None:
        """Say what of the rules does not hold here; or that nothing can start any more."""
        if isinstance(self.launcher, Launch) and not self.launcher.alive:
            return DEAD_NOTE
        return self.said

    def judge(self, text: str, cwd: str, behind: Judged | None = None) -> Judged:
        """Judge a command before it runs; without any rule the shell itself finds what is wrong with a text."""
        known = self._known if behind is None else behind.after
        found = self.judge_of.judge(text, known, cwd=cwd)
        fault = found.syntax_error
        return Judged(
            verdict=found.verdict,
            refusal=found.violations[0].as_error() if found.violations else None,
            syntax=None if fault is None else SyntaxFault(line=fault.line, column=fault.column, message=fault.message),
            read_only=found.read_only,
            learned=found.learned,
            asks=[
                {"entry": ask.entry.text, "program": ask.program, "message": ask.message, "line": ask.line}
                for ask in found.asks
            ],
            cwd=cwd,
            before=known,
            after=found.definitions,
            after_stop=found.definitions_if_stopped,
        )

    def still_holds(self, judged: Judged, cwd: str) -> bool:
        """Tell whether the shell stands where it stood and has defined nothing since."""
        return judged.before is self._known and judged.cwd == cwd

    def ran(self, judged: Judged, *, to_its_end: bool) -> None:
        """Remember what a command defined, as far as it is sure to have come there."""
        self._known = judged.after if to_its_end else judged.after_stop

    def command_began(self, command_id: str, permitted: list[str]) -> None:
        """Count the next program starts to this command, and let what was approved for it pass."""
        self._current = command_id
        if isinstance(self.launcher, Launch):
            self.launcher.permit(permitted)

    def copy_began(self, command_id: str, permitted: list[str]) -> None:
        """Keep what was approved for a command that runs in a copy of the shell to the processes of that copy."""
        root = next((pid for pid, one in self._roots().items() if one == command_id), None)
        if permitted and root is not None and isinstance(self.launcher, Launch):
            self._copies[command_id] = root
            self.launcher.permit(permitted, root)
            self.launcher.permit([])

    def watch(self, roots: Callable[[], Mapping[int, str]]) -> None:
        """Learn how to ask for the processes of commands that run in a copy of the shell, and their ids."""
        self._roots = roots

    def on_start(self, start: ProgramStart) -> None:
        """Keep a program start with its command: the one whose process stands above it, else the one in front."""
        roots = self._roots()
        above = (roots[pid] for pid in (start.pid, *start.parents) if pid in roots)
        command_id = next(above, self._current)
        self._counts[command_id] = self._counts.get(command_id, 0) + 1
        kept = self._starts.setdefault(command_id, [])
        if len(kept) < PROGRAMS_KEPT:
            path = self.redactor.text(shown_name(start.path), by_rule=True).text
            argv = _masked_argv([shown_name(word) for word in start.argv], self.redactor)
            kept.append({"path": path, "argv": argv, "verdict": start.verdict})

    def programs(self, command_id: str) -> list[dict[str, Any]] | None:
        """Return the program starts of a command, None where nobody watches."""
        if not isinstance(self.launcher, Launch) or not self.defers:
            return None
        self.launcher.drain()
        return self._starts.get(command_id, [])

    def programs_total(self, command_id: str) -> int:
        """Count all program starts of a command, those beyond the kept ones too."""
        return self._counts.get(command_id, 0)

    def forget(self, command_id: str) -> None:
        """Let go of a command whose starts are recorded."""
        self._starts.pop(command_id, None)
        self._counts.pop(command_id, None)
        root = self._copies.pop(command_id, None)
        if root is not None and isinstance(self.launcher, Launch):
            self.launcher.permit([], root)

    async def close(self) -> None:
        """Let go of the launcher where no shell was started through it."""
        if isinstance(self.launcher, Launch):
            self.launcher.close()


@dataclass(slots=True, kw_only=True)
class Policing:
    """What the operator set, applied to shells that are to be opened."""

    policy: OperatorPolicy
    state_dir: Path
    redactor: Redactor
    environment: Mapping[str, str]
    make_sandbox: Callable[[], Sandbox] = Sandbox
    _sandbox: list[Sandbox] = field(default_factory=list[Sandbox])

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Refuse what the operator does not permit, and fill in the sandbox mode that follows from the rest."""
        transport = values["transport"]
        if transport not in self.policy.transports:
            raise TransportNotAllowed(
                f"transport '{transport}' is not permitted by the operator",
                details={"kind": "transport", "value": transport},
            )
        if values.get("workspace") is not None and transport == "local":
            self.check_workspace(values["workspace"], caller)
        values["sandbox"] = await self._mode(values)

    def check_workspace(self, workspace: str, caller: Caller) -> None:
        """Refuse a directory of this machine, by its real path, that may not be named as a workspace."""
        lists = self.policy.workspaces
        if lists is None:
            if self.policy.sandbox_max == FULL_ACCESS:
                return
            own = caller.workspace or caller.cwd
            lists = ((own,),) if own else ((),)
        for listed in lists:
            if not any(_covers(pattern, workspace) for pattern in listed):
                why = "the operator does not permit it"
                raise WorkspaceInvalid(f"workspace {workspace} cannot be used: {why}", details={"why": why})

    async def _mode(self, values: Mapping[str, Any]) -> str:
        asked = values.get("sandbox")
        most = self.policy.sandbox_max
        if values["transport"] != "local":
            if asked not in (None, FULL_ACCESS):
                why = "the kernel of another host or container is out of reach"
                raise SandboxUnavailable(
                    f"sandbox '{asked}' cannot be enforced here: {why}", details={"mode": asked, "why": why}
                )
            return FULL_ACCESS
        if asked is not None:
            if SANDBOXES.index(asked) > SANDBOXES.index(most):
                raise SandboxNotAllowed(f"sandbox '{asked}' is not permitted", details={"mode": asked, "max": most})
            return asked
        usual = self.policy.sandbox_default
        if usual is None:
            confined = values.get("workspace") is not None and not values.get("dialect")
            usual = "workspace-write" if confined and (await self.sandbox()).capabilities.any_kernel else FULL_ACCESS
        return usual if SANDBOXES.index(usual) <= SANDBOXES.index(most) else most

    async def sandbox(self) -> Sandbox:
        """Return what this machine offers, found out by trying once."""
        if not self._sandbox:
            made = await asyncio.to_thread(self.make_sandbox)
            if not self._sandbox:
                self._sandbox.append(made)
        return self._sandbox[0]

    async def guard(self, values: Mapping[str, Any], caller: Caller) -> PolicyGuard:
        """Return the guard of a shell that is about to open; raises `SandboxUnavailable` where it cannot hold."""
        local = values["transport"] == "local"
        # The server's own: a PATH that the agent gives must not decide which file an operator's entry means.
        path = self.environment.get("PATH", DEFAULT_PATH)
        rules = shell_rules(
            self.policy,
            allow=values.get("allow", ()),
            deny=values.get("deny", ()),
            path=path,
            home=self.environment.get("HOME") if local else None,
        )
        guard = PolicyGuard(
            judge_of=Judge(rules, kernel=False, files=LocalFiles(path) if local else NoFiles()),
            rules=rules,
            redactor=self.redactor,
            sandbox=values.get("sandbox", FULL_ACCESS),
            enforcement="syntax" if rules.has_lists else "none",
            said=REMOTE_NOTE if rules.has_lists and not local else None,
            launcher=None,
            defers=False,
        )
        if local:
            await self._confine(guard, values)
        elif self.policy.require_kernel:
            why = "the operator requires the kernel layer"
            raise SandboxUnavailable(
                f"sandbox '{FULL_ACCESS}' cannot be enforced here: {why}", details={"mode": FULL_ACCESS, "why": why}
            )
        refusal = None if guard.defers or not rules.has_lists else _env_refusal(guard.judge_of, values.get("env", {}))
        if refusal is not None:
            await guard.close()
            raise refusal
        return guard

    async def _confine(self, guard: PolicyGuard, values: Mapping[str, Any]) -> None:
        rules = guard.rules
        if guard.sandbox == FULL_ACCESS and not rules.has_lists and not self.policy.require_kernel:
            return
        sandbox = await self.sandbox()
        spec = SandboxSpec(
            mode=cast(Mode, guard.sandbox),
            state_dir=str(self.state_dir),
            workspace=values.get("workspace"),
            cwd=values.get("cwd"),
            rules=exec_rules(rules),
            judge=judge_spec(rules),
            network=self.policy.sandbox_network,
            write_extra=tuple(str(Path(place).expanduser()) for place in self.policy.sandbox_write),
            require_kernel=self.policy.require_kernel,
            shows_cwd=self.policy.sandbox_max == FULL_ACCESS,
        )
        launch = sandbox.prepare(spec, guard.on_start)
        guard.enforcement, guard.said = sandbox.enforcement(spec)
        guard.launcher = launch
        guard.defers = launch is not None and launch.defers
        files = guard.judge_of.files
        guard.judge_of = Judge(rules, kernel=guard.defers, files=files)

    def close(self) -> None:
        """End the supervisor of program starts."""
        for sandbox in self._sandbox:
            sandbox.close()


def _masked_argv(argv: list[str], redactor: Redactor) -> list[str]:
    """Mask the secrets of arguments, also those that only the word before gives away (`-p word`)."""
    masked = redactor.text(shlex.join(argv), by_rule=True)
    if not masked.count:
        return argv
    try:
        return shlex.split(masked.text)
    except ValueError:  # a quote went with what was masked
        return masked.text.split()


def _env_refusal(judge: Judge, env: Mapping[str, str]) -> ShiftlogError | None:
    """Refuse variables that start programs, or decide which a name means, as a command that exports them is refused."""
    for name, value in env.items():
        found = judge.judge(f"export {name}={shlex.quote(value)}")
        if found.violations:
            refusal = found.violations[0].as_error()
            refusal.details.update({"line": None, "column": None})
            return refusal
    return None


def _covers(pattern: str, workspace: str) -> bool:
    """Tell whether a glob names a directory, or one above it."""
    path = str(Path(pattern).expanduser())
    above = [workspace, *(str(parent) for parent in Path(workspace).parents)]
    return any(fnmatchcase(place, path) for place in above)
