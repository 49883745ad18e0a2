"""The sandbox of a local shell: from mode, lists and machine to a launcher that the engine starts its shell through.

It fails closed: a mode or list that cannot be held here is `SandboxUnavailable`, never a weaker sandbox. The engine
calls `Launch.wrap` for its command line, starts that, and calls `close` when the shell is over.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import shiftlog
from shiftlog.model.shell_errors import SandboxUnavailable
from shiftlog.shell.sandbox import landlock, mounts, seccomp
from shiftlog.shell.sandbox.detect import Capabilities, detect
from shiftlog.shell.sandbox.plan import LaunchPlan, encode
from shiftlog.shell.sandbox.programs import ExecRules, RuleFiles, find_files
from shiftlog.shell.sandbox.starts import BrokerRules, JudgeSpec, ProgramStart, StartedFile
from shiftlog.shell.sandbox.supervision import Supervision

Mode = Literal["read-only", "workspace-write", "full-access"]
Enforcement = Literal["none", "syntax", "kernel", "syntax+kernel"]

ALLOW_ALL = JudgeSpec(factory="shiftlog.shell.sandbox.sandbox:AllowAll")
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from shiftlog.shell.sandbox.launcher import main; main()"
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service: what builds run as root need.
_KEPT_CONFINED = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 10))
# sys_module, sys_rawio, sys_ptrace, mac_override, mac_admin, perfmon, bpf: each is a way around the rules.
_DROPPED_ALWAYS = sum(1 << number for number in (16, 17, 19, 32, 33, 38, 39))
_ALL = (1 << 64) - 1


class AllowAll:
    """The judge of a shell without lists: its starts are recorded, none is refused."""

    def judge_start(
        self, path: str, argv: Sequence[str], cwd: str, file: StartedFile
    ) -> tuple[bool, str, str, str | None]:
        """Allow the start."""
        return True, "allowed", os.path.basename(path), None

    def permit(self, entries: Sequence[str]) -> None:
        """Nothing is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What a shell is to be held to; paths are absolute."""

    mode: Mode
    state_dir: str
    workspace: str | None = None
    cwd: str | None = None
    rules: ExecRules | None = None
    judge: JudgeSpec = ALLOW_ALL
    network: bool = True
    write_extra: tuple[str, ...] = ()
    require_kernel: bool = False
    require_bwrap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedStart:
    """How to start the shell: command line, environment and descriptors of the first process."""

    argv: list[str]
    env: dict[str, str]
    pass_fds: tuple[int, ...]


class Sandbox:
    """Makes launchers for this machine; one supervisor serves all of them and starts with the first."""

    def __init__(
        self, capabilities: Capabilities | None = None, *, use_bwrap: bool = True, runtime_dir: Path | None = None
    ) -> None:
        self.capabilities = capabilities or detect()
        self.runtime_base = runtime_dir or _memory_dir()
        self._use_bwrap = use_bwrap
        self._supervision: Supervision | None = None

    @property
    def supervision(self) -> Supervision:
        """The running supervisor, started anew when the last one is gone."""
        if self._supervision is not None:
            self._supervision.drain()
            if not self._supervision.alive:
                self._supervision.close()
                self._supervision = None
        if self._supervision is None:
            self._supervision = Supervision(in_process=not self.capabilities.supervisor_process)
        return self._supervision

    def prepare(self, spec: SandboxSpec, on_start: Callable[[ProgramStart], None] | None = None) -> Launch | None:
        """Return the launcher for a shell, or None when no kernel rules are asked for or none exist here.

        Raises `SandboxUnavailable` when what is asked cannot be held.
        """
        asked = spec.mode != "full-access" or spec.rules is not None or spec.require_kernel
        if not asked or not self._check(spec):
            return None
        return Launch(self, spec, on_start or _forget)

    def enforcement(self, spec: SandboxSpec) -> tuple[Enforcement, str | None]:
        """Say which layers hold for such a shell, and what of them does not."""
        asked = spec.mode != "full-access" or spec.rules is not None or spec.require_kernel
        syntax = spec.rules is not None
        if not asked:
            return "none", None
        if not self._check(spec):
            reasons = "; ".join(dict.fromkeys(self.capabilities.why.values()))
            return "syntax", f"only the command text is checked here: {reasons}"
        return ("syntax+kernel" if syntax else "kernel"), " ".join(self._notes(spec)) or None

    def uses_bwrap(self, spec: SandboxSpec) -> bool:
        """Say whether this shell gets its own mounts."""
        return spec.mode != "full-access" and self._use_bwrap and self.capabilities.bwrap is not None

    def close(self) -> None:
        """End the supervisor."""
        if self._supervision is not None:
            self._supervision.close()
            self._supervision = None

    def _check(self, spec: SandboxSpec) -> bool:
        """Say whether the kernel holds anything of it; raises where something that must hold would not."""
        machine = self.capabilities
        if spec.mode != "full-access":
            self._check_mode(spec)
        if spec.require_kernel and not machine.any_kernel:
            raise _unavailable(spec.mode, "; ".join(dict.fromkeys(machine.why.values())))
        return machine.any_kernel or spec.mode != "full-access"

    def _check_mode(self, spec: SandboxSpec) -> None:
        machine = self.capabilities
        bwrap = self.uses_bwrap(spec)
        if not machine.landlock_abi and not bwrap:
            raise _unavailable(spec.mode, machine.why.get("landlock", "no Landlock"))
        if not machine.seccomp:
            raise _unavailable(spec.mode, machine.why.get("seccomp", "no seccomp filter"))
        if spec.require_bwrap and not bwrap:
            raise _unavailable(spec.mode, machine.why.get("bwrap", "bubblewrap is switched off"))
        if spec.mode == "workspace-write" and spec.workspace is None:
            raise _unavailable(spec.mode, "it needs a workspace")
        if bwrap and spec.cwd is not None:
            cwd, workspace = os.path.realpath(spec.cwd), os.path.realpath(spec.workspace or "/nonexistent")
            if mounts.is_private(cwd) and not _is_below(cwd, workspace):
                # Showing it would show the sockets in it, and who opens the shell chooses it.
                raise _unavailable(spec.mode, f"{cwd} is in a directory that the sandbox replaces; name a workspace")
        state = os.path.realpath(spec.state_dir)
        for place in _writable(spec):
            if _is_below(place, state):
                raise _unavailable(spec.mode, f"{place} is inside shiftlog's data")
            if _is_below(state, place) and not bwrap:
                raise _unavailable(spec.mode, f"{place} contains shiftlog's data, which only bubblewrap could hide")

    def _notes(self, spec: SandboxSpec) -> list[str]:
        machine, notes = self.capabilities, list[str]()
        confined = spec.mode != "full-access"
        if not machine.exec_broker:
            why = machine.why.get("exec_broker", "no exec broker")
            notes.append(f"Program starts are neither judged one by one nor recorded: {why}.")
        if not machine.landlock_abi:
            notes.append(f"Denied program files stay readable: {machine.why.get('landlock', 'no Landlock')}.")
        if confined and not self.uses_bwrap(spec):
            why = machine.why.get("bwrap", "bubblewrap is switched off")
            notes.append(f"Sockets that have a path (containers, agents, tmux) stay reachable: {why}.")
        if confined and 0 < machine.landlock_abi < 6:
            notes.append("This kernel does not confine signals and abstract sockets.")
        if confined and machine.landlock_abi == 1:
            notes.append("This kernel refuses to move files between directories inside the sandbox.")
        return notes


class Launch:
    """One shell's way into its sandbox. `close` it when the shell is over; it then removes the private temp."""

    def __init__(self, sandbox: Sandbox, spec: SandboxSpec, on_start: Callable[[ProgramStart], None]) -> None:
        self._sandbox = sandbox
        self._spec = spec
        self._on_start = on_start
        self._machine = sandbox.capabilities
        self._confined = spec.mode != "full-access"
        self._bwrap = sandbox.uses_bwrap(spec)
        self._supervision: Supervision | None = None
        self._number: int | None = None
        self._fds: list[int] = []
        self._temp = os.path.realpath(tempfile.mkdtemp(prefix="shiftlog-shell-")) if self._confined else None
        self._runtime = None
        if self._confined:
            self._runtime = os.path.realpath(tempfile.mkdtemp(prefix="shiftlog-run-", dir=sandbox.runtime_base))
        self.enforcement, self.note = sandbox.enforcement(spec)
        self.defers = self._machine.exec_broker

    @property
    def temp_dir(self) -> str | None:
        """The private temp directory; None in full-access."""
        return self._temp

    @property
    def runtime_dir(self) -> Path | None:
        """Where the engine must keep its pipes so that the shell can reach them; None where it may choose."""
        return None if self._runtime is None else Path(self._runtime)

    @property
    def shell_pid(self) -> int | None:
        """The pid of the shell itself, once it runs; bubblewrap's is another."""
        if self._supervision is None or self._number is None:
            return None
        self._supervision.drain()
        return self._supervision.shell_pid(self._number)

    def wrap(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> WrappedStart:
        """Return what to start instead of `argv`; the environment reaches the shell only after the rules do."""
        shell = shutil.which(argv[0], path=env.get("PATH"))
        if shell is None:
            raise _unavailable(self._spec.mode, f"{argv[0]} was not found")
        shell = os.path.realpath(shell)
        files = find_files(self._spec.rules or ExecRules(), shell)
        if self._spec.rules is None:
            files = RuleFiles(denied=(), executable=None, interpreters=(), named=())
        shell_env = {**env, **({"TMPDIR": self._temp} if self._temp else {})}
        plan = self._plan(shell, argv, shell_env, files, cwd)
        descriptor = os.memfd_create("shiftlog-plan", 0)
        os.write(descriptor, encode(plan))
        os.lseek(descriptor, 0, os.SEEK_SET)
        self._fds.append(descriptor)
        package = str(Path(shiftlog.__file__).parent.parent)
        python = os.path.realpath(sys.executable)
        command = [python, "-I", "-S", "-c", _BOOT, package, str(descriptor)]
        if self._bwrap:
            command = mounts.arguments(self._machine.bwrap or "", self._view(python, package), cwd) + command
        own = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
        return WrappedStart(argv=command, env=own, pass_fds=tuple(self._fds))

    def started(self) -> None:
        """Let go of the descriptors that the started process now has itself."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def drain(self) -> None:
        """Bring in every start recorded so far; after a command's end these are all of its own."""
        if self._supervision is not None:
            self._supervision.drain()

    def permit(self, entries: Sequence[str]) -> None:
        """Let what these `ask` entries match start from now on; an approved command needs it while it runs."""
        if self._supervision is not None and self._number is not None:
            self._supervision.permit(self._number, entries)

    @property
    def problem(self) -> str | None:
        """Why the supervisor could not take the shell, when it could not."""
        if self._supervision is None or self._number is None:
            return None
        self._supervision.drain()
        return self._supervision.problem(self._number)

    def close(self) -> None:
        """Stop supervising and remove the private temp directory; call it when no process of the shell is left."""
        self.started()
        if self._supervision is not None and self._number is not None:
            self._supervision.close_shell(self._number)
            self._number = None
        for place in (self._temp, self._runtime):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)

    def _plan(self, shell: str, argv: Sequence[str], env: Mapping[str, str], files: RuleFiles, cwd: str) -> LaunchPlan:
        channel = -1
        if self._machine.exec_broker:
            channel = self._supervise(shell, files)
        rules = self._landlock(files)
        return LaunchPlan(
            program=os.fsencode(shell),
            arguments=[os.fsencode(word) for word in argv],
            environment={os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            ruleset=None if rules is None else rules.ruleset,
            rules=() if rules is None else rules.rules,
            filter_program=seccomp.build(self._filter()) if self._machine.seccomp else b"",
            filter_flags=self._machine.filter_flags if self._machine.exec_broker else 0,
            socket=channel,
            keep_capabilities=self._kept_capabilities(),
        )

    def _supervise(self, shell: str, files: RuleFiles) -> int:
        ours, theirs = socket.socketpair()
        rules = BrokerRules(
            shell=shell,
            helper=self._helper(),
            lists=self._spec.rules is not None,
            named=files.named,
            denied=files.denied,
            interpreters=files.interpreters,
            writable=self._writable() if self._filter().metadata == "broker" else None,
        )
        supervision = self._sandbox.supervision
        self._number = supervision.open(ours, self._spec.judge, rules, self._on_start)
        self._supervision = supervision
        descriptor = theirs.detach()
        self._fds.append(descriptor)
        return descriptor

    def _filter(self) -> seccomp.FilterOptions:
        abi, broker = self._machine.landlock_abi, self._machine.exec_broker
        watched = self._confined and not self._bwrap  # read-only mounts refuse these by themselves
        return seccomp.FilterOptions(
            broker=broker,
            confined=self._confined,
            network=self._spec.network or not self._confined,
            metadata=("broker" if broker else "refused") if watched else "free",
            guard_truncate=watched and abi < 3,
        )

    def _landlock(self, files: RuleFiles) -> landlock.LandlockPlan | None:
        abi = self._machine.landlock_abi
        if not abi or (not self._confined and abi < 2 and self._machine.exec_broker):
            return (
                None  # version 1 would refuse every move between directories, for a list that the broker holds anyway
            )
        state = () if self._bwrap or not self._confined else (os.path.realpath(self._spec.state_dir),)
        shared = ("/dev/shm",) if self._bwrap and self._spec.mode == "workspace-write" else ()
        return landlock.make_plan(
            landlock.FileRules(
                abi=abi,
                confined=self._confined,
                writable=(*self._writable(), *shared),
                hidden=(*self._hidden_programs(files), *state),
                executable=self._executable(files),
                network=self._spec.network or not self._confined,
            )
        )

    def _helper(self) -> tuple[str, ...]:
        """How the engine's terminal helper begins its command line."""
        return (
            os.path.realpath(sys.executable),
            "-I",
            "-S",
            str(Path(shiftlog.__file__).parent / "shell/terminal_helper.py"),
        )

    def _executable(self, files: RuleFiles) -> tuple[str, ...] | None:
        if files.executable is None or not self._machine.exec_broker:
            return files.executable
        return (*files.executable, self._helper()[0])  # as the helper alone: the broker sees to that

    def _hidden_programs(self, files: RuleFiles) -> list[str]:
        """List the denied files to hide. Beside a hidden file nothing new can be read, so where the shell works and
        makes new files the broker alone must do."""
        if not self._machine.exec_broker:
            return list(files.denied)
        python = self._helper()[0]  # the engine's own helper, like the shell, must be able to start
        busy = [
            *self._writable(),
            *(os.path.realpath(place) for place in (self._spec.workspace, self._spec.cwd) if place),
        ]
        return [
            path
            for path in files.denied
            if path != python and not any(_is_below(path, place) for place in busy if place != "/")
        ]

    def _writable(self) -> tuple[str, ...]:
        own = tuple(place for place in (self._temp, self._runtime) if place is not None)
        return (*own, *(place for place in _writable(self._spec) if os.path.isdir(place)))

    def _view(self, python: str, package: str) -> mounts.View:
        workspace = () if self._spec.workspace is None else (os.path.realpath(self._spec.workspace),)
        return mounts.View(
            temp=self._temp or "",
            writable=self._writable(),
            hidden=(os.path.realpath(self._spec.state_dir),),
            visible=(*workspace, python, sys.base_prefix, package, *_program_dirs()),
            shared_memory=self._spec.mode == "workspace-write",
        )

    def _kept_capabilities(self) -> int | None:
        if os.geteuid() != 0:
            return None
        return _KEPT_CONFINED if self._confined else _ALL & ~_DROPPED_ALWAYS


def _writable(spec: SandboxSpec) -> tuple[str, ...]:
    if spec.mode != "workspace-write" or spec.workspace is None:
        return ()
    places = (spec.workspace, *(os.path.expanduser(place) for place in spec.write_extra))
    return tuple(dict.fromkeys(os.path.realpath(place) for place in places))


def _program_dirs() -> list[str]:
    """List the server's own program directories; on some systems they are below /run."""
    return [os.path.realpath(place) for place in os.environ.get("PATH", "").split(":") if os.path.isdir(place)]


def _memory_dir() -> Path:
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _unavailable(mode: Mode, why: str) -> SandboxUnavailable:
    return SandboxUnavailable(f"sandbox '{mode}' cannot be enforced here: {why}", details={"mode": mode, "why": why})


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _forget(_start: ProgramStart) -> None:
    return
