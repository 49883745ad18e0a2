"""The operator's policy on shells: what may be opened, and the guard that every shell gets.

The guard judges command text by the operator's policy; on this machine the kernel layer judges what the text leaves
open. The arguments of a shell can only tighten these rules, never loosen them.
"""

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shiftlog.guard.bash.script import SyntaxFault
from shiftlog.guard.directories import OpenDirectory, links_to
from shiftlog.guard.policy.code_files import CodeFile, code_files, runs_code
from shiftlog.guard.policy.files import DEFAULT_PATH, LocalFiles, NoFiles
from shiftlog.guard.policy.found import Definitions, told_definitions
from shiftlog.guard.policy.judge import Ask, Judge, Verdict
from shiftlog.guard.policy.lists import ShellRules
from shiftlog.guard.policy.operator import SANDBOXES, OperatorPolicy, Unjudged, shell_rules
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.shell_errors import (
    SandboxNotAllowed,
    TransportNotAllowed,
    WorkspaceInvalid,
)
from shiftlog.shell.engine.reaper import below, process_table
from shiftlog.shell.outputs.text import shown_name
from shiftlog.shell.sandbox.detect import programs_may_change_their_shell
from shiftlog.shell.sandbox.judging import exec_rules, judge_spec
from shiftlog.shell.sandbox.sandbox import Launch, Sandbox
from shiftlog.shell.sandbox.spec import Enforcement, Mode, SandboxSpec, is_below, operators_path, unavailable
from shiftlog.shell.sandbox.starts import PROGRAMS_KEPT, ProgramStart
from shiftlog.shell.sandbox.supervision import HeldLaunch, Supervision
from shiftlog.shell.temps import OWN_NOTE, PRIVATE_NOTE, missing_hint, missing_path

if TYPE_CHECKING:
    from shiftlog.shell.notes import ShellNote

FULL_ACCESS: Mode = "full-access"
REMOTE_NOTE = "only the command text is checked here: the target's kernel is out of reach"
DEAD_NOTE = "The supervisor of program starts has ended, so no program can start here; open a new shell."


def is_looser(mode: str | None, than: str) -> bool:
    """Return True if a sandbox mode permits more than another."""
    return SANDBOXES.index(mode or FULL_ACCESS) > SANDBOXES.index(than)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandJudgement:
    """The guard's decision about a command text; `refusal` is raised instead of running it.

    It holds for one directory and for the definitions that the shell had `before`; `after` are its definitions once
    the command ran to its end, `after_stop` those it has wherever the command broke off.
    """

    verdict: Verdict
    refusal: ShiftlogError | None = None
    syntax: SyntaxFault | None = None
    read_only: bool = False
    learned: frozenset[str] = frozenset()
    asks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cwd: str = ""
    before: Definitions = field(default_factory=Definitions)
    after: Definitions = field(default_factory=Definitions)
    after_stop: Definitions = field(default_factory=Definitions)
    files: tuple[CodeFile, ...] = ()
    """The files that the command runs as code, where only their text can be judged."""
    runs_code: str | None = None
    """A program of the command that runs code which cannot be judged."""


@dataclass(slots=True, kw_only=True)
class ShellGuard:
    """The guard of one shell: its rules, what its commands have defined so far, and its launcher into the sandbox."""

    judge_of: Judge
    rules: ShellRules
    redactor: Redactor
    sandbox: str
    enforcement: Enforcement
    rules_note: str | None
    launcher: Launch | HeldLaunch | None = None
    temp: str | None = None
    unjudged: Unjudged = "allow"
    vouches: bool = True
    """False if a program could change the exit code that its shell reports."""
    _defined: Definitions = field(default_factory=Definitions)
    _current: str = ""
    _copies: dict[int, str] = field(default_factory=dict[int, str])
    _starts: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _approved: tuple[int, frozenset[int]] | None = None  # the shell's holder, and what ran before an approved command

    @property
    def defined(self) -> Definitions:
        """The functions and aliases that commands of the shell defined."""
        return self._defined

    @property
    def note(self) -> str | None:
        """Return which rules do not hold here, or that no program can start any more."""
        if self.launcher is not None and not self.launcher.alive:
            return DEAD_NOTE
        return self.rules_note

    @property
    def tmp_note(self) -> str | None:
        """Return what a confined shell must know of its temporary directory."""
        if self.temp is None or self.launcher is None:
            return None
        return PRIVATE_NOTE if self.launcher.private_tmp else OWN_NOTE

    def tmp_hint(self, said: str, shown: tuple[str, ...]) -> str | None:
        """Return a hint if a message names a path of this machine's /tmp that the private one lacks."""
        if self.temp is None or self.launcher is None or not self.launcher.private_tmp:
            return None
        path = missing_path(self.temp, said, shown)
        return None if path is None else missing_hint(path)

    def judge(self, text: str, cwd: str, behind: CommandJudgement | None = None) -> CommandJudgement:
        """Judge a command before it runs; with `behind`, as if that other command had run to its end."""
        known = self._defined if behind is None else behind.after
        found = self.judge_of.judge(text, known, cwd=cwd)
        return CommandJudgement(
            verdict=found.verdict,
            refusal=found.violations[0].as_error() if found.violations else None,
            syntax=found.syntax_error,
            read_only=found.read_only,
            learned=found.learned,
            asks=[shown_ask(ask) for ask in found.asks],
            cwd=cwd,
            before=known,
            after=found.definitions,
            after_stop=found.definitions_if_stopped,
            files=code_files(found.starts, cwd) if self.reads_files else (),
            runs_code=next((start.name for start in found.starts if runs_code(start)), None),
        )

    @property
    def reads_files(self) -> bool:
        """Return True if nothing but text is checked here, so that the files a command runs are read first."""
        return self.rules.has_lists and not self.judge_of.kernel

    def still_holds(self, judgement: CommandJudgement, cwd: str) -> bool:
        """Return True if the shell is in the same directory and has defined nothing since."""
        return judgement.before is self._defined and judgement.cwd == cwd

    def ran(self, judgement: CommandJudgement, *, to_its_end: bool) -> None:
        """Remember the functions and aliases that a command in the shell itself defined for certain."""
        self._defined = judgement.after if to_its_end else judgement.after_stop

    def command_began(self, command_id: str, permitted: list[str], holder: int | None = None) -> None:
        """Count the next program starts to this command, and allow the `ask` entries approved for it.

        With `holder`, the process from which all of the shell's descend, those that run already get nothing of it.
        """
        self._current = command_id
        self._approved = (holder, _below(holder)) if permitted and holder is not None else None
        if self.launcher is not None:
            self.launcher.permit(permitted, earlier=None if self._approved is None else self._approved[1])

    def command_resumed(self, command_id: str, root: int | None) -> None:
        """Count program starts to a command of an earlier server again; its approvals still hold."""
        if root is None:
            self._current = command_id
        else:
            self._copies[root] = command_id

    def copy_began(self, command_id: str, permitted: list[str], root: int) -> None:
        """Allow the approved entries to the processes of the copy of the shell that the command runs in."""
        self._copies[root] = command_id
        if permitted and self.launcher is not None:
            self.launcher.permit(permitted, root)

    def on_start(self, start: ProgramStart) -> None:
        """Keep a program start with its command: the copy it descends from, else the foreground command."""
        above = (self._copies[pid] for pid in (start.pid, *start.parents) if pid in self._copies)
        command_id = next(above, self._current)
        self._counts[command_id] = self._counts.get(command_id, 0) + 1
        kept = self._starts.setdefault(command_id, [])
        if len(kept) < PROGRAMS_KEPT:
            path = self.redactor.text(shown_name(start.path), by_rule=True).text
            argv = _masked_argv([shown_name(word) for word in start.argv], self.redactor)
            said = {"reason": self.redactor.text(start.reason, by_rule=True).text} if start.reason else {}
            kept.append({"path": path, "argv": argv, "verdict": start.verdict, **said})

    def command_ended(self, command_id: str) -> tuple[list[dict[str, Any]] | None, int]:
        """Return and forget a command's program starts and their total; None if the kernel layer does not watch."""
        programs = None
        if self.launcher is not None and self.launcher.defers:
            self.launcher.drain()
            programs = self._starts.pop(command_id, [])
        if self._approved is not None and command_id == self._current and self.launcher is not None:
            holder, earlier = self._approved
            if _below(holder) <= earlier:  # else its own leftover processes have it until the next command
                self.launcher.permit([])
        root = next((pid for pid, one in self._copies.items() if one == command_id), None)
        if root is not None:
            del self._copies[root]
            if self.launcher is not None:
                self.launcher.permit([], root)
        return programs, self._counts.pop(command_id, 0)

    def close(self) -> None:
        """Release the launcher if no shell was started through it."""
        if self.launcher is not None:
            self.launcher.close()


@dataclass(slots=True, kw_only=True)
class ShellPolicy:
    """The operator's policy, applied to shells that are about to open; `files` are those it was read from."""

    policy: OperatorPolicy
    state_dir: Path
    redactor: Redactor
    environment: Mapping[str, str]
    files: tuple[Path, ...] = ()
    _sandbox: Sandbox | None = None

    @property
    def home(self) -> str:
        """The operator's home directory."""
        return self.environment.get("HOME") or str(Path.home())

    async def check(self, values: dict[str, Any], caller: Caller) -> None:
        """Reject what the operator does not permit, and fill in the sandbox mode."""
        transport = values["transport"]
        if transport not in self.policy.transports:
            raise transport_not_allowed(transport)
        if values.get("workspace") is not None and transport == "local":
            self.check_workspace(values["workspace"], caller)
        values["sandbox"] = await self._mode(values)
        if values["sandbox"] == "workspace-write" and values.get("workspace") is not None:
            self._check_contents(values["workspace"])

    def _check_contents(self, workspace: str) -> None:
        """Reject a writable workspace around the operator's files: a program in it could move and replace them."""
        for own, name in ((self.state_dir, "Shiftlog's state directory"), *((p, "a policy file") for p in self.files)):
            is_link = any(is_below(link, workspace) for link in links_to(str(own)))
            if is_link or own.resolve().is_relative_to(workspace):
                what = f"a link on the way to {name}" if is_link else name
                raise WorkspaceInvalid(
                    f"workspace {workspace} cannot be used: it contains {what}, which a program in it could replace",
                    details={"why": f"it contains {what}"},
                    hint='Name a directory below it, or ask for sandbox "read-only" or "full-access"',
                )

    def check_workspace(self, workspace: str, caller: Caller) -> None:
        """Reject a local directory, given by its real path, that the operator does not permit as a workspace."""
        lists = self.policy.workspaces
        if lists is None:
            if self.policy.sandbox_max == FULL_ACCESS:
                return
            own = caller.workspace or caller.cwd
            lists = ((own,),) if own else ((),)
        for listed in lists:
            if not any(_covers(pattern, workspace) for pattern in listed):
                raise unusable(workspace, "the operator does not permit it")

    async def _mode(self, values: Mapping[str, Any]) -> str:
        asked = values.get("sandbox")
        most = self.policy.sandbox_max
        if values["transport"] != "local":
            if asked not in (None, FULL_ACCESS):
                raise unavailable(asked, "the kernel of another host or container is out of reach")
            return FULL_ACCESS
        if asked is not None:
            if is_looser(asked, most):
                raise SandboxNotAllowed(f"sandbox '{asked}' is not permitted", details={"mode": asked, "max": most})
            return asked
        usual = self.policy.sandbox_default
        if usual is None:
            confined = values.get("workspace") is not None and not values.get("dialect")
            usual = "workspace-write" if confined and (await self.sandbox()).capabilities.any_kernel else FULL_ACCESS
        return most if is_looser(usual, most) else usual

    async def sandbox(self) -> Sandbox:
        """Return this machine's sandbox; what it supports is detected once, in a thread."""
        if self._sandbox is None:
            made = await asyncio.to_thread(Sandbox)
            self._sandbox = self._sandbox or made
        return self._sandbox

    async def guard(
        self, values: Mapping[str, Any], workspace: OpenDirectory | None = None, temp: str | None = None
    ) -> ShellGuard:
        """Return the guard of a shell that is about to open; raises `SandboxUnavailable` where it cannot hold.

        The sandbox takes the workspace by its descriptor, which stays open until the shell has started.
        """
        local = values["transport"] == "local"
        # The server's own PATH: one that the agent gives must not decide which file an operator's entry means.
        path = self.environment.get("PATH", DEFAULT_PATH)
        rules = shell_rules(
            self.policy,
            allow=values.get("allow", ()),
            deny=values.get("deny", ()),
            path=path,
            home=self.environment.get("HOME") if local else None,
        )
        guard = ShellGuard(
            judge_of=Judge(rules, kernel=False, files=LocalFiles(path) if local else NoFiles()),
            rules=rules,
            redactor=self.redactor,
            sandbox=values.get("sandbox", FULL_ACCESS),
            enforcement="syntax" if rules.has_lists else "none",
            rules_note=REMOTE_NOTE if rules.has_lists and not local else None,
            temp=temp,
            unjudged=self.policy.unjudged,
            vouches=_vouches(local=local, sandbox=values.get("sandbox")),
            _defined=Definitions(values=dict.fromkeys(values.get("env", {}))),
        )
        if local:
            await self._confine(guard, values, workspace)
        elif self.policy.require_kernel:
            raise unavailable(FULL_ACCESS, "the operator requires the kernel layer")
        judges_text = rules.has_lists and not guard.judge_of.kernel
        refusal = _env_refusal(guard.judge_of, values.get("env", {})) if judges_text else None
        if refusal is not None:
            guard.close()
            raise refusal
        return guard

    async def _confine(self, guard: ShellGuard, values: Mapping[str, Any], workspace: OpenDirectory | None) -> None:
        rules = guard.rules
        if guard.sandbox == FULL_ACCESS and not rules.has_lists and not self.policy.require_kernel:
            return
        sandbox = await self.sandbox()
        spec = SandboxSpec(
            mode=cast(Mode, guard.sandbox),
            state_dir=str(self.state_dir),
            workspace=values.get("workspace"),
            opened=workspace,
            cwd=values.get("cwd"),
            temp=guard.temp,
            rules=exec_rules(rules),
            judge=judge_spec(rules),
            network=self.policy.sandbox_network,
            write_extra=tuple(operators_path(path, self.home) for path in self.policy.sandbox_write),
            protected=tuple(str(path.resolve()) for path in self.files),
            links=tuple(link for path in (self.state_dir, *self.files) for link in links_to(str(path))),
            require_kernel=self.policy.require_kernel,
            shows_cwd=self.policy.sandbox_max == FULL_ACCESS,
        )
        guard.launcher = sandbox.prepare(spec, guard.on_start)
        guard.enforcement, guard.rules_note = sandbox.enforcement(spec)
        if guard.launcher is not None and guard.launcher.defers:
            guard.judge_of = Judge(rules, kernel=True, files=guard.judge_of.files)

    def resumed(self, note: "ShellNote", supervision: Supervision | None) -> ShellGuard:
        """Return the guard of a shell that an earlier server opened under the same policy."""
        path = self.environment.get("PATH", DEFAULT_PATH)
        rules = shell_rules(
            self.policy,
            allow=note.given.get("allow", ()),
            deny=note.given.get("deny", ()),
            path=path,
            home=self.environment.get("HOME"),
        )
        guard = ShellGuard(
            judge_of=Judge(rules, kernel=note.launch is not None and note.launch.defers, files=LocalFiles(path)),
            rules=rules,
            redactor=self.redactor,
            sandbox=note.given.get("sandbox", FULL_ACCESS),
            enforcement=note.enforcement,
            rules_note=note.rules_note,
            temp=note.temp,
            unjudged=self.policy.unjudged,
            vouches=_vouches(local=True, sandbox=note.given.get("sandbox")),
            _defined=told_definitions(note.functions, note.aliases),
        )
        if note.launch is not None:
            guard.launcher = HeldLaunch(note.launch, supervision, guard.on_start)
        return guard

    def close(self) -> None:
        """End the supervisor of program starts."""
        if self._sandbox is not None:
            self._sandbox.close()


def _vouches(*, local: bool, sandbox: str | None) -> bool:
    """Return True if no program can change the exit codes of a shell: a sandbox keeps them from its memory."""
    confined = (sandbox or FULL_ACCESS) != FULL_ACCESS
    return local and (confined or not programs_may_change_their_shell())


def _below(holder: int) -> frozenset[int]:
    return frozenset(process.pid for process in below(holder, process_table()))


def shown_ask(ask: Ask) -> dict[str, Any]:
    """Return a question about a program as approvals keep it."""
    return {"entry": ask.entry.text, "program": ask.program, "message": ask.message, "line": ask.line}


def transport_not_allowed(transport: str) -> TransportNotAllowed:
    """Return the error for a transport that the operator does not permit."""
    details = {"kind": "transport", "value": transport}
    return TransportNotAllowed(f"transport '{transport}' is not permitted by the operator", details=details)


def unusable(workspace: str, why: str) -> WorkspaceInvalid:
    """Return the error for a directory that cannot be a workspace."""
    return WorkspaceInvalid(f"workspace {workspace} cannot be used: {why}", details={"why": why})


def _masked_argv(argv: list[str], redactor: Redactor) -> list[str]:
    """Mask the secrets in arguments, also those that only the preceding word reveals (`-p word`)."""
    masked = redactor.text(shlex.join(argv), by_rule=True)
    if not masked.count:
        return argv
    try:
        return shlex.split(masked.text)
    except ValueError:  # masking removed a quote
        return masked.text.split()


def _env_refusal(judge: Judge, env: Mapping[str, str]) -> ShiftlogError | None:
    """Return the refusal for variables that start programs or redirect names, as for a command that exports them."""
    for name, value in env.items():
        found = judge.judge(f"export {name}={shlex.quote(value)}")
        if found.violations:
            refusal = found.violations[0].as_error()
            refusal.details.update({"line": None, "column": None})
            return refusal
    return None


def _covers(pattern: str, workspace: str) -> bool:
    """Return True if a glob matches a directory or one of its parents."""
    path = str(Path(pattern).expanduser())
    above = [workspace, *(str(parent) for parent in Path(workspace).parents)]
    return any(fnmatchcase(folder, path) for folder in above)
