"""The launch of one sandboxed shell: from a specification and a machine to the command line that the engine starts.

Everything is worked out here, outside the sandbox; the launcher inside only applies it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import shiftlog
from shiftlog.guard.directories import OpenDirectory, real_path
from shiftlog.link.wire import http_port_path
from shiftlog.shell.engine.reaper import remove_tree
from shiftlog.shell.sandbox import landlock, mounts, seccomp
from shiftlog.shell.sandbox.detect import Capabilities
from shiftlog.shell.sandbox.launcher import LaunchPlan, encode
from shiftlog.shell.sandbox.programs import RuleFiles, find_files
from shiftlog.shell.sandbox.spec import Enforcement, SandboxSpec, between, is_below, open_place, unavailable
from shiftlog.shell.sandbox.starts import BrokerRules, ProgramStart
from shiftlog.shell.sandbox.supervision import LaunchFacts, SupervisedShell, Supervision

_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from shiftlog.shell.sandbox.launcher import main; main()"
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service: builds that run as root need them.
_KEPT_CONFINED = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 10))
# sys_module, sys_rawio, sys_ptrace, mac_override, mac_admin, perfmon, bpf: each is a way around the rules.
_DROPPED_ALWAYS = sum(1 << number for number in (16, 17, 19, 32, 33, 38, 39))
_ALL = (1 << 64) - 1
_NO_FILES = RuleFiles(denied=(), executable=None, interpreters=(), named=())


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedStart:
    """The way to start the shell: command line, environment and descriptors of the first process."""

    argv: list[str]
    env: dict[str, str]
    pass_fds: tuple[int, ...]


class Launch:
    """The launch of one shell. `close` it when the shell has ended; that removes a temp directory of its own."""

    def __init__(
        self,
        spec: SandboxSpec,
        machine: Capabilities,
        on_start: Callable[[ProgramStart], None],
        *,
        bwrap: bool,
        runtime_base: Path,
        make_supervision: Callable[[], Supervision],
        enforcement: Enforcement,
        note: str | None,
    ) -> None:
        self._spec = spec
        self._machine = machine
        self._on_start = on_start
        self._bwrap = bwrap
        self._make_supervision = make_supervision
        self._supervision: Supervision | None = None
        self._shell: SupervisedShell | None = None
        self._fds: list[int] = []
        self._temp: str | None = spec.temp if spec.confined else None
        self._runtime: str | None = None
        self._places: tuple[OpenDirectory, ...] = ()
        self._pinned: tuple[OpenDirectory, ...] = ()
        if spec.confined:
            self._temp = self._temp or os.path.realpath(tempfile.mkdtemp(prefix="shiftlog-shell-"))
            self._runtime = os.path.realpath(tempfile.mkdtemp(prefix="shiftlog-run-", dir=runtime_base))
            try:
                self._places = self._open_places()
                self._pinned = self._pin() if bwrap else ()
            except BaseException:
                self.close()
                raise
        self.enforcement = enforcement
        self.note = note
        self.defers = machine.exec_broker

    @property
    def own_terminals(self) -> bool:
        """Return True if the shell has terminals that no other program has."""
        return self._bwrap or (self._spec.confined and self._machine.own_terminals)

    @property
    def can_be_held(self) -> bool:
        """Return True if the shell can outlive this server: what judges its program starts must do so too."""
        return not self._machine.exec_broker or self._machine.supervisor_process

    @property
    def supervision(self) -> Supervision | None:
        """The supervisor that answers for the shell, if one does."""
        return self._supervision

    @property
    def facts(self) -> LaunchFacts:
        """Return the facts of this launch that a later server needs."""
        return LaunchFacts(
            number=0 if self._shell is None else self._shell.number,
            shell_pid=self.shell_pid,
            private_tmp=self.private_tmp,
            own_terminals=self.own_terminals,
            defers=self.defers,
            directories=self.directories,
        )

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories that the launch made for this shell alone."""
        own = None if self._temp == self._spec.temp else self._temp
        return tuple(filter(None, (own, self._runtime)))

    @property
    def private_tmp(self) -> bool:
        """Return True if the shell sees its temp directory as /tmp."""
        return self._bwrap

    @property
    def runtime_dir(self) -> Path | None:
        """Return where the engine must keep its pipes so that the shell can reach them; None if it may choose."""
        return None if self._runtime is None else Path(self._runtime)

    @property
    def shell_pid(self) -> int | None:
        """The pid of the shell itself once it runs; bubblewrap has another one."""
        self.drain()
        return None if self._shell is None else self._shell.pid

    def _open_places(self) -> tuple[OpenDirectory, ...]:
        """Open every directory that the shell may write to; those of the operator that do not exist are left out."""
        paths = filter(None, (self._temp, self._runtime, *self._spec.writable_paths()))
        found = tuple(filter(None, map(open_place, paths)))
        self._fds += [place.descriptor for place in found]
        judged = self._spec.opened
        for place in found:
            if judged is not None and place.path == judged.path and not place.is_same(judged):
                raise unavailable(self._spec.mode, f"{place.path} was replaced while the shell opened")
        return found

    def _pin(self) -> tuple[OpenDirectory, ...]:
        """Open the directories in writable places that lead to Shiftlog's data and to the operator's policy."""
        places = self._writable()
        kept = (os.path.realpath(self._spec.state_dir), *self._spec.protected)
        above = dict.fromkeys(path for one in kept for path in between(one, places))
        found = tuple(filter(None, map(open_place, above)))
        self._fds += [place.descriptor for place in found]
        return found

    def wrap(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> WrappedStart:
        """Return the command to start instead of `argv`; the environment reaches the shell only after the rules."""
        shell = shutil.which(argv[0], path=env.get("PATH"))
        if shell is None:
            raise unavailable(self._spec.mode, f"{argv[0]} was not found")
        shell = os.path.realpath(shell)
        files = _NO_FILES if self._spec.rules is None else find_files(self._spec.rules, shell)
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
            command = self._mounts(python, package, cwd) + command
        own = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
        return WrappedStart(argv=command, env=own, pass_fds=tuple(self._fds))

    def started(self) -> None:
        """Close the descriptors that the started process now has."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def drain(self) -> None:
        """Receive every start recorded so far; after a command's end these include all of its own."""
        if self._supervision is not None:
            self._supervision.drain()

    @property
    def alive(self) -> bool:
        """True if starts are still answered; otherwise all are refused and the shell should be reopened."""
        if self._supervision is None:
            return not self._machine.exec_broker
        self._supervision.drain()
        return self._supervision.alive

    def permit(
        self, entries: Sequence[str], below: int | None = None, *, earlier: Collection[int] | None = None
    ) -> None:
        """Let programs that match these `ask` entries start from now on; an approved command needs it while it runs.

        A command in a copy of the shell has it `below` the process of that copy only, one in the shell itself not below
        the processes that ran `earlier`.
        """
        if self._supervision is not None and self._shell is not None:
            self._supervision.permit(self._shell, entries, below, earlier)

    def close(self) -> None:
        """Stop supervising and remove what the launch made, once no process of the shell is left."""
        self.started()
        if self._supervision is not None and self._shell is not None:
            self._supervision.close_shell(self._shell)
            self._shell = None
        for path in self.directories:
            remove_tree(path)

    def _plan(self, shell: str, argv: Sequence[str], env: Mapping[str, str], files: RuleFiles, cwd: str) -> LaunchPlan:
        channel = self._supervise(shell, files) if self._machine.exec_broker else -1
        rules = self._landlock(files)
        kept = _KEPT_CONFINED if self._spec.confined else _ALL & ~_DROPPED_ALWAYS
        return LaunchPlan(
            program=os.fsencode(shell),
            arguments=[os.fsencode(word) for word in argv],
            environment={os.fsencode(name): os.fsencode(value) for name, value in env.items()},
            ruleset=None if rules is None else rules.ruleset,
            rules=() if rules is None else rules.rules,
            filter_program=seccomp.build(self._filter()) if self._machine.seccomp else b"",
            filter_flags=self._machine.filter_flags if self._machine.exec_broker else 0,
            socket=channel,
            keep_capabilities=None if os.geteuid() else kept,
            places=self._mounted() if self._bwrap else None,
            own_terminals=self.own_terminals and not self._bwrap,
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
            reachable=self._reachable() if self._filter().sockets else None,
            http_port=http_port_path(os.path.realpath(self._spec.state_dir)),
            compares=self._spec.rules is not None and self._machine.traces,
        )
        supervision = self._make_supervision()
        self._shell = supervision.open(ours, self._spec.judge, rules, self._on_start)
        self._supervision = supervision
        try:
            supervision.attach(asyncio.get_running_loop())
        except RuntimeError:
            pass  # a caller without an event loop drains by hand
        descriptor = theirs.detach()
        self._fds.append(descriptor)
        return descriptor

    def _filter(self) -> seccomp.FilterOptions:
        abi, broker = self._machine.landlock_abi, self._machine.exec_broker
        watched = self._spec.confined and not self._bwrap  # read-only mounts refuse these calls anyway
        return seccomp.FilterOptions(
            broker=broker,
            confined=self._spec.confined,
            network=self._spec.network or not self._spec.confined,
            metadata=("broker" if broker else "refused") if watched else "free",
            guard_truncate=watched and abi < 3,
            sockets=self._spec.confined and broker and self._machine.takes_sockets,
            own_ipc=self.own_terminals or not self._spec.confined,
        )

    def _landlock(self, files: RuleFiles) -> landlock.LandlockPlan | None:
        abi = self._machine.landlock_abi
        if not abi or (not self._spec.confined and abi < 2 and self._machine.exec_broker):
            # Version 1 would refuse every move between directories, and the broker enforces the lists anyway.
            return None
        hidden = self._hidden_programs(files)
        if self._spec.confined and not self._bwrap:
            hidden += [os.path.realpath(self._spec.state_dir), *landlock.devices()]
            hidden += [] if self.own_terminals else ["/dev/pts"]
        executable = files.executable
        if executable is not None and self._machine.exec_broker:
            executable = (*executable, self._helper()[0])  # only as the helper, which the broker ensures
        shared = (b"/dev/shm",) if self._bwrap and self._spec.mode == "workspace-write" else ()
        return landlock.make_plan(
            landlock.FileRules(
                abi=abi,
                confined=self._spec.confined,
                writable=tuple(place.descriptor for place in self._places) + shared,
                hidden=tuple(hidden),
                executable=executable,
                network=self._spec.network or not self._spec.confined,
                terminals=self.own_terminals,
            )
        )

    def _helper(self) -> tuple[str, ...]:
        """Return the beginning of the command line of the engine's terminal helper."""
        helper = Path(shiftlog.__file__).parent / "shell/engine/terminal_helper.py"
        return os.path.realpath(sys.executable), "-I", "-S", str(helper)

    def _hidden_programs(self, files: RuleFiles) -> list[str]:
        """List the denied files to hide.

        New files beside a hidden file cannot be read, so where the shell works only the broker enforces.
        """
        if not self._machine.exec_broker:
            return list(files.denied)
        python = self._helper()[0]  # the engine's own helper must be able to start, like the shell
        own = [real_path(place) for place in (self._spec.workspace, self._spec.cwd) if place]
        busy = [place for place in (*self._writable(), *own) if place != "/"]
        return [path for path in files.denied if path != python and not any(is_below(path, place) for place in busy)]

    def _writable(self) -> tuple[str, ...]:
        return tuple(place.path for place in self._places)

    def _reachable(self) -> tuple[str, ...]:
        """Return the directories, as the shell sees them, whose sockets it may connect to.

        Not the operator's extra ones: in ~/.cache services of the desktop listen.
        """
        private = (*mounts.PRIVATE, "/dev/shm") if self._bwrap else ()
        own = {self._temp, self._runtime, self._spec.workspace}
        return (*(path for path in self._writable() if path in own), *private)

    def _mounted(self) -> dict[bytes, int]:
        """Return the writable mounts of bubblewrap, each with the descriptor of what it must show."""
        own = {os.fsencode(path): -1 for path in mounts.OWN}
        return own | {os.fsencode(place.path): place.descriptor for place in (*self._places, *self._pinned)}

    def _mounts(self, python: str, package: str, cwd: str) -> list[str]:
        shown = self._spec.cwd if self._spec.shows_cwd else None
        places = [real_path(place) for place in (self._spec.workspace, shown) if place is not None]
        # The server's own program directories; on some systems they are below /run.
        programs = [os.path.realpath(place) for place in os.environ.get("PATH", "").split(":") if os.path.isdir(place)]
        return mounts.arguments(
            self._machine.bwrap or "",
            cwd,
            temp=self._temp or "",
            writable=(*self._writable(), *(place.path for place in self._pinned)),
            hidden=os.path.realpath(self._spec.state_dir),
            protected=tuple(path for path in self._spec.protected if any(is_below(path, p) for p in self._writable())),
            visible=(*places, python, sys.base_prefix, package, *programs),
            shared_memory=self._spec.mode == "workspace-write",
        )
