"""Shells, joined with the journal, the operator's rules and the targets on which they may open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from shiftlog.app.checkpoint_log import JournalCheckpointLog
from shiftlog.app.policy import policy_files
from shiftlog.app.workspaces import Workspaces
from shiftlog.guard.policy.operator import OperatorPolicy
from shiftlog.link import processes
from shiftlog.shell.approvals import Approvals
from shiftlog.shell.askpass.prompts import PasswordPrompts
from shiftlog.shell.commands import CommandLimits, Commands
from shiftlog.shell.guard import ShellPolicy
from shiftlog.shell.opening import LocalTargets, Opener
from shiftlog.shell.outputs.keeper import OutputKeeper, OutputLimits
from shiftlog.shell.ports import Targets
from shiftlog.shell.registry import ShellRegistry
from shiftlog.shell.remote.carrier import carry
from shiftlog.shell.remote.docker.targets import DockerTargets
from shiftlog.shell.remote.settings import DockerSettings, SshSettings
from shiftlog.shell.remote.shell import RemoteShell
from shiftlog.shell.remote.ssh.targets import SshTargets
from shiftlog.shell.service import ShellLimits, Shells
from shiftlog.shell.state import Shell
from shiftlog.shell.temps import SessionTemps
from shiftlog.shell.transfers import Transfers
from shiftlog.workspace.ports import CheckpointLimits, Ran, Runner
from shiftlog.workspace.runner import CommandRunner, LocalRunner

if TYPE_CHECKING:
    from shiftlog.app.app import App

OUTPUTS = "outputs"
TEMPS = "temps"
L = TypeVar("L", ShellLimits, CommandLimits, OutputLimits, CheckpointLimits)


def build_shells(app: "App") -> tuple[Shells, Workspaces]:
    """Build the services of shells and checkpoints; nothing is opened or recorded before the first shell."""
    policy = app.policy or OperatorPolicy()
    limits = policy.limits
    shell_policy = ShellPolicy(
        policy=policy,
        state_dir=app.home,
        redactor=app.redactor,
        environment=app.environ,
        files=tuple(Path(name).expanduser() for name in policy_files(app.home, app.config, app.environ)),
    )
    log = app.shell_log
    approvals = Approvals(log, app.clock.now)
    registry = ShellRegistry(journal=log, approvals=approvals, now=app.clock.now, is_inside=processes.descends_from)
    output_limits = _limited(
        OutputLimits(),
        limits,
        command_bytes="spool_command_bytes",
        total_bytes="spool_total_bytes",
        days="spool_days",
    )
    outputs = OutputKeeper(app.home / OUTPUTS, app.redactor, limits=output_limits, now=app.clock.now)
    workspaces = Workspaces(
        log=JournalCheckpointLog(app.store, log),
        shell_log=log,
        shells=registry,
        redactor=app.redactor,
        runner_of=_runner_of,
        permit=shell_policy.check_workspace,
        sandbox_max=policy.sandbox_max,
        data=app.home,
        now=app.clock.now,
        limits=_limited(
            CheckpointLimits(),
            limits,
            file_bytes="checkpoint_file_bytes",
            tree_files="checkpoint_files",
            tree_bytes="checkpoint_tree_bytes",
            automatic_kept="checkpoints_auto",
        ),
    )
    commands = Commands(
        registry=registry,
        journal=log,
        outputs=outputs,
        snapshots=workspaces,
        approvals=approvals,
        limits=_limited(CommandLimits(), limits, timeout_s_max="timeout_s_max", background="background"),
        now=app.clock.now,
    )
    shells = Shells(
        registry=registry,
        commands=commands,
        transfers=Transfers(
            registry=registry,
            journal=log,
            outputs=outputs,
            snapshots=workspaces,
            policy=shell_policy,
            now=app.clock.now,
        ),
        approvals=approvals,
        prompts=PasswordPrompts(log, app.clock.now),
        journal=log,
        outputs=outputs,
        snapshots=workspaces,
        opener=Opener(
            journal=log,
            targets=_targets(app, policy),
            policy=shell_policy,
            data=app.home,
            temps=SessionTemps(app.home / TEMPS),
            now=app.clock.now,
            ready_s=limits.get("ready_s", 8),
        ),
        now=app.clock.now,
        connected=app.connected,
        holders=app.shell_holders,
        limits=_limited(
            ShellLimits(), limits, shells="shells", session_shells="session_shells", idle_ttl_s="idle_ttl_s"
        ),
    )
    return shells, workspaces


def _runner_of(shell: Shell) -> Runner | None:
    """Return the runner for the files of a shell: on this machine, or on its host with one program per call."""
    if shell.transport == "local":
        return LocalRunner()
    if not isinstance(shell.live, RemoteShell):
        return None
    host = shell.live.host

    async def carried(argv: Sequence[str], stdin: bytes) -> Ran:
        exit_code, stdout, stderr = await carry(host, argv, stdin)
        return Ran(exit_code=exit_code, stdout=stdout, stderr=stderr)

    return CommandRunner(f"{shell.transport}:{shell.target}", carried)


def _targets(app: "App", policy: OperatorPolicy) -> dict[str, Targets]:
    """Return the targets of the transports that the operator permits."""
    key_dir = Path(policy.key_dir).expanduser() if policy.key_dir else Path(app.environ.get("HOME", "~"), ".ssh")
    ssh = SshSettings(
        key_dir=key_dir.expanduser(),
        known_hosts=Path(policy.known_hosts).expanduser() if policy.known_hosts else None,
        hosts=policy.hosts,
        accept_new_host_keys=policy.accept_new_host_keys,
        require_known_hosts=policy.require_known_hosts is not False,
        trusting_dialect=policy.require_known_hosts is None,
        password_auth=policy.password_auth,
        agent_path=app.environ.get("SSH_AUTH_SOCK") if policy.ssh_agent else None,
        connect_s=policy.limits.get("ssh_connect_s", 15),
    )
    every: dict[str, Targets] = {
        "local": LocalTargets(app.environ, policy.env_pass, app.shell_holders),
        "ssh": SshTargets(ssh),
        "docker": DockerTargets(DockerSettings(containers=policy.containers), app.environ),
    }
    return {name: targets for name, targets in every.items() if name in policy.transports}


def _limited(usual: L, given: Mapping[str, int], **names: str) -> L:
    """Return the usual limits with the operator's in their place; `names` are what a policy calls them."""
    return replace(usual, **{field: given[name] for field, name in names.items() if name in given})
