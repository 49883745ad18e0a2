"""The sandbox of local shells: checks what this machine can enforce, and makes the launchers that enforce it.

It fails closed: a mode that cannot be enforced raises `SandboxUnavailable`. The engine starts the command line of
`Launch.wrap`, and calls `close` when the shell has ended.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import shiftlog
from shiftlog.guard.directories import real_path
from shiftlog.shell.sandbox import mounts
from shiftlog.shell.sandbox.detect import Capabilities, detect
from shiftlog.shell.sandbox.launch import Launch
from shiftlog.shell.sandbox.programs import ExecRules
from shiftlog.shell.sandbox.spec import ALLOW_ALL, Enforcement, Mode, SandboxSpec, is_below, linked, unavailable
from shiftlog.shell.sandbox.starts import JudgeSpec, ProgramStart
from shiftlog.shell.sandbox.supervision import Supervision

__all__ = ["ALLOW_ALL", "Enforcement", "ExecRules", "JudgeSpec", "Launch", "Mode", "Sandbox", "SandboxSpec"]


# Where the code of this server lies: its package, and the packages beside its interpreter.
_OWN_CODE = (os.path.realpath(Path(shiftlog.__file__).parent), os.path.realpath(sys.prefix))


class Sandbox:
    """Makes launchers for this machine; one supervisor, started with the first, serves all of them."""

    def __init__(
        self, capabilities: Capabilities | None = None, *, use_bwrap: bool = True, runtime_dir: Path | None = None
    ) -> None:
        self.capabilities = capabilities or detect()
        memory = Path("/dev/shm")
        in_memory = os.access(memory, os.W_OK | os.X_OK)
        self._runtime_base = runtime_dir or (memory if in_memory else Path(tempfile.gettempdir()))
        self._use_bwrap = use_bwrap
        self._supervision: Supervision | None = None

    @property
    def supervision(self) -> Supervision:
        """The running supervisor; a new one if the last one is gone."""
        if self._supervision is not None:
            self._supervision.drain()
            if not self._supervision.alive:
                self._supervision.close()
                self._supervision = None
        if self._supervision is None:
            self._supervision = Supervision(in_process=not self.capabilities.supervisor_process)
        return self._supervision

    def prepare(self, spec: SandboxSpec, on_start: Callable[[ProgramStart], None] | None = None) -> Launch | None:
        """Return the launcher for a shell; None if no kernel rules are requested, or none exist here.

        Raises `SandboxUnavailable` if the request cannot be enforced.
        """
        if not spec.asks_for_kernel or not self._check(spec):
            return None
        enforcement, note = self.enforcement(spec)
        return Launch(
            spec,
            self.capabilities,
            on_start or (lambda _: None),
            bwrap=self.uses_bwrap(spec),
            runtime_base=self._runtime_base,
            make_supervision=lambda: self.supervision,
            enforcement=enforcement,
            note=note,
        )

    def enforcement(self, spec: SandboxSpec) -> tuple[Enforcement, str | None]:
        """Return the layers that hold for such a shell, and a note about those that do not."""
        syntax = spec.rules is not None
        if not spec.asks_for_kernel:
            return "none", None
        if not self._check(spec):
            reasons = "; ".join(dict.fromkeys(self.capabilities.why.values()))
            return "syntax", f"only the command text is checked here: {reasons}"
        return ("syntax+kernel" if syntax else "kernel"), " ".join(self._notes(spec)) or None

    def uses_bwrap(self, spec: SandboxSpec) -> bool:
        """Return True if this shell gets its own mounts."""
        return spec.confined and self._use_bwrap and self.capabilities.bwrap is not None

    def close(self) -> None:
        """End the supervisor."""
        if self._supervision is not None:
            self._supervision.close()
            self._supervision = None

    def _check(self, spec: SandboxSpec) -> bool:
        """Return True if the kernel enforces any of it; raise if something required cannot be enforced."""
        machine = self.capabilities
        if spec.confined:
            self._check_mode(spec)
        if spec.require_kernel and not machine.any_kernel:
            raise unavailable(spec.mode, "; ".join(dict.fromkeys(machine.why.values())))
        return machine.any_kernel or spec.confined

    def _check_mode(self, spec: SandboxSpec) -> None:
        machine = self.capabilities
        bwrap = self.uses_bwrap(spec)
        if not machine.landlock_abi and not bwrap:
            raise unavailable(spec.mode, machine.why.get("landlock", "no Landlock"))
        if not machine.seccomp:
            raise unavailable(spec.mode, machine.why.get("seccomp", "no seccomp filter"))
        if spec.require_bwrap and not bwrap:
            raise unavailable(spec.mode, machine.why.get("bwrap", "bubblewrap is switched off"))
        if spec.mode == "workspace-write" and spec.workspace is None:
            raise unavailable(spec.mode, "it needs a workspace", hint="Name the directory to work in as the workspace")
        if bwrap and spec.cwd is not None:
            cwd, workspace = real_path(spec.cwd), real_path(spec.workspace or "/nonexistent")
            shown = is_below(cwd, workspace) or (spec.shows_cwd and cwd not in mounts.PRIVATE)
            if mounts.is_private(cwd) and not shown:
                # Showing it would show its sockets, and the caller chooses it.
                raise unavailable(spec.mode, f"{cwd} is in a directory that the sandbox replaces; name a workspace")
        state = os.path.realpath(spec.state_dir)
        for place in spec.writable_paths():
            if is_below(place, state):
                raise unavailable(spec.mode, f"{place} is inside shiftlog's data")
            if is_below(state, place) and not bwrap:
                raise unavailable(spec.mode, f"{place} contains shiftlog's data, which only bubblewrap could hide")
            if any(is_below(link, place) for link in spec.links):
                raise unavailable(spec.mode, f"{place} contains a link on the way to shiftlog's data or a policy file")
            if not bwrap and any(is_below(path, place) for path in spec.protected):
                raise unavailable(spec.mode, f"{place} contains a policy file, which only bubblewrap could protect")

    def _notes(self, spec: SandboxSpec) -> list[str]:
        machine, notes = self.capabilities, list[str]()
        confined = spec.confined
        if not machine.exec_broker:
            why = machine.why.get("exec_broker", "no exec broker")
            notes.append(f"Program starts are neither judged one by one nor recorded: {why}.")
        elif spec.rules is not None and not machine.traces:
            why = machine.why.get("tracing", "no tracing")
            notes.append(f"A program that exchanges files while it starts them can escape argument rules: {why}.")
        if not machine.landlock_abi:
            notes.append(f"Denied program files stay readable: {machine.why.get('landlock', 'no Landlock')}.")
        if confined and not (machine.exec_broker and machine.takes_sockets):
            why = machine.why.get("sockets" if machine.exec_broker else "exec_broker", "no broker")
            notes.append(f"Sockets that have a path (containers, agents, tmux) stay reachable: {why}.")
        if confined and not self.uses_bwrap(spec) and not machine.own_terminals:
            notes.append(f"Commands cannot have a terminal: {machine.why.get('terminals', 'no terminals')}.")
        for path in linked(spec.write_extra) if spec.mode == "workspace-write" else ():
            notes.append(f"{path} is not writable, because there is a link in it; sandbox_write must name the target.")
        for path in spec.writable_paths():
            if any(is_below(own, path) for own in _OWN_CODE):
                notes.append(f"Shiftlog itself is installed in {path}, where this shell may change it.")
        if confined and machine.landlock_abi < 6:
            notes.append("This kernel does not confine signals and abstract sockets.")
        if confined and machine.landlock_abi == 1:
            notes.append("This kernel refuses to move files between directories inside the sandbox.")
        return notes
