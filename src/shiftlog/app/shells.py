"""Shells, joined with the journal, the operator's rules and the places where they may live."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiftlog.app.checkpoint_log import JournalCheckpointLog
from shiftlog.app.workspaces import Workspaces
from shiftlog.guard.policy.operator import OperatorPolicy
from shiftlog.link import processes
from shiftlog.shell.guard import Policing
from shiftlog.shell.opening import Opener, Places
from shiftlog.shell.outputs.keeper import OutputKeeper, OutputLimits
from shiftlog.shell.places import LocalPlaces
from shiftlog.shell.remote.carrier import carry
from shiftlog.shell.remote.docker.places import DockerPlaces
from shiftlog.shell.remote.settings import DockerSettings, SshSettings
from shiftlog.shell.remote.shell import InbandShell
from shiftlog.shell.remote.ssh.places import SshPlaces
from shiftlog.shell.service import ShellLimits, Shells
from shiftlog.shell.state import Shell
from shiftlog.workspace.ports import Limits as CheckpointLimits
from shiftlog.workspace.ports import Ran, Runner
from shiftlog.workspace.runner import CommandRunner, LocalRunner

if TYPE_CHECKING:
    from shiftlog.app.app import App

OUTPUTS = "outputs"


def build_shells(app: "App") -> tuple[Shells, Workspaces]:
    """Join what shells and checkpoints need; nothing is opened or recorded before the first one."""
    policy = app.policy or OperatorPolicy()
    limits = policy.limits
    policing = Policing(policy=policy, state_dir=app.home, redactor=app.redactor, environment=app.environ)
    log = app.shell_log
    workspaces = Workspaces(
        log=JournalCheckpointLog(app.store, log),
        shell_log=log,
        shells=lambda: shells,  # shells ask for checkpoints, and a checkpoint is of a shell's workspace
        redactor=app.redactor,
        runner_of=_runner_of,
        permit=policing.check_workspace,
        sandbox_max=policy.sandbox_max,
        data=app.home,
        now=app.clock.now,
        limits=_checkpoints(limits),
    )
    shells = Shells(
        journal=log,
        outputs=OutputKeeper(app.home / OUTPUTS, app.redactor, limits=_outputs(limits), now=app.clock.now),
        opener=Opener(
            journal=log,
            places=_places(app, policy),
            rules=policing,
            data=app.home,
            ready_s=limits.get("ready_s", 8),
        ),
        redactor=app.redactor,
        now=app.clock.now,
        limits=_shells(limits),
        snapshots=workspaces,
        on_close=policing.close,
        is_inside=processes.descends_from,
    )
    app.journal.turn_began = workspaces.turn_began
    return shells, workspaces


def _runner_of(shell: Shell) -> Runner | None:
    """Return what reaches the files of a shell: this machine, or its host by a program at a time."""
    if shell.transport == "local":
        return LocalRunner()
    if not isinstance(shell.live, InbandShell):
        return None
    host = shell.live.host

    async def carried(argv: Sequence[str], stdin: bytes) -> Ran:
        ran = await carry(host, argv, stdin)
        return Ran(exit_code=ran.exit_code, stdout=ran.stdout, stderr=ran.stderr)

    return CommandRunner(f"{shell.transport}:{shell.target}", carried)


def _places(app: "App", policy: OperatorPolicy) -> dict[str, Places]:
    """Return the places of the transports that the operator permits."""
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
    every: dict[str, Places] = {
        "local": LocalPlaces(app.environ, policy.env_pass),
        "ssh": SshPlaces(ssh),
        "docker": DockerPlaces(DockerSettings(containers=policy.containers), app.environ),
    }
    return {name: places for name, places in every.items() if name in policy.transports}


def _shells(limits: Mapping[str, int]) -> ShellLimits:
    usual = ShellLimits()
    return ShellLimits(
        timeout_s_max=limits.get("timeout_s_max", usual.timeout_s_max),
        shells=limits.get("shells", usual.shells),
        session_shells=limits.get("session_shells", usual.session_shells),
        background=limits.get("background", usual.background),
        idle_ttl_s=limits.get("idle_ttl_s", usual.idle_ttl_s),
    )


def _outputs(limits: Mapping[str, int]) -> OutputLimits:
    usual = OutputLimits()
    return OutputLimits(
        command_bytes=limits.get("spool_command_bytes", usual.command_bytes),
        total_bytes=limits.get("spool_total_bytes", usual.total_bytes),
        days=limits.get("spool_days", usual.days),
    )


def _checkpoints(limits: Mapping[str, int]) -> CheckpointLimits:
    usual = CheckpointLimits()
    return CheckpointLimits(
        file_bytes=limits.get("checkpoint_file_bytes", usual.file_bytes),
        tree_files=limits.get("checkpoint_files", usual.tree_files),
        tree_bytes=limits.get("checkpoint_tree_bytes", usual.tree_bytes),
        automatic_kept=limits.get("checkpoints_auto", usual.automatic_kept),
    )
