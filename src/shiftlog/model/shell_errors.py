"""The errors of shells, command policy, sandbox and checkpoints; the family itself is in `errors`.

ShiftlogError
├── BudgetInvalid        budget_invalid         ValueError
├── JournalUnavailable   journal_unavailable    OSError
├── ShellNotFound        shell_not_found        LookupError
├── ShellBusy            shell_busy             RuntimeError
├── ShellEnded           shell_ended            RuntimeError
├── ShellLost            shell_lost             ConnectionError
├── ShellLimit           shell_limit            RuntimeError
├── OpenFailed           open_failed            OSError
├── TransportNotAllowed  transport_not_allowed  PermissionError
├── HostNotAllowed       host_not_allowed       PermissionError
├── ContainerNotAllowed  container_not_allowed  PermissionError
├── HostKeyUnknown       host_key_unknown       PermissionError
├── HostKeyMismatch      host_key_mismatch      PermissionError
├── FingerprintMismatch  fingerprint_mismatch   PermissionError
├── SshConnectFailed     ssh_connect_failed     ConnectionError
├── SshAuthFailed        ssh_auth_failed        PermissionError
├── SshKeyNotPermitted   ssh_key_not_permitted  PermissionError
├── DockerUnavailable    docker_unavailable     OSError
├── ContainerNotRunning  container_not_running  LookupError
├── SandboxNotAllowed    sandbox_not_allowed    PermissionError
├── SandboxUnavailable   sandbox_unavailable    OSError
├── PolicyDenied         policy_denied          PermissionError
├── PolicyUndecidable    policy_undecidable     PermissionError
├── ApprovalRequired     approval_required      PermissionError
├── ApprovalDeclined     approval_declined      PermissionError
├── CommandTooLarge      command_too_large      ValueError
├── CommandNotFound      command_not_found      LookupError
├── CommandNotRunning    command_not_running    RuntimeError
├── StdinClosed          stdin_closed           RuntimeError
├── CursorInvalid        cursor_invalid         ValueError
├── OutputExpired        output_expired         LookupError
├── TransferFailed       transfer_failed        OSError
├── WorkspaceRequired    workspace_required     ValueError
├── WorkspaceInvalid     workspace_invalid      ValueError
├── GitMissing           git_missing            OSError
├── CheckpointNotFound   checkpoint_not_found   LookupError
├── NothingToRestore     nothing_to_restore     LookupError
├── CheckpointTooLarge   checkpoint_too_large   ValueError
└── RestoreIncomplete    restore_incomplete     OSError
"""

from typing import Self

from shiftlog.model.errors import Category, ShiftlogError


class BudgetInvalid(ShiftlogError, ValueError):
    code = "budget_invalid"
    category = Category.INVALID
    hint = 'For example {"keep": {"mode": "tail", "n": 50}} or {"grep": {"pattern": "error"}, "max_chars": 5000}'


class JournalUnavailable(ShiftlogError, OSError):
    code = "journal_unavailable"
    category = Category.UNAVAILABLE
    hint = "Nothing was run; free space on the disk or check the store with shiftlog doctor"
    retryable = True


class ShellNotFound(ShiftlogError, LookupError):
    code = "shell_not_found"
    category = Category.NOT_FOUND
    hint = "Call list_shells for the live ones"


class ShellBusy(ShiftlogError, RuntimeError):
    code = "shell_busy"
    category = Category.CONFLICT
    hint = "Pass wait_idle_s, read on with read_output, or open another shell"
    retryable = True


class ShellEnded(ShiftlogError, RuntimeError):
    code = "shell_ended"
    category = Category.CONFLICT
    hint = "Open a new shell with this cwd"


def ended_because(why: str) -> ShellEnded:
    """Return the error for a shell that the engine had to end before a command ran."""
    return ShellEnded(f"the shell was ended: {why}", details={"why": why})


class ShellLost(ShiftlogError, ConnectionError):
    code = "shell_lost"
    category = Category.FAILED
    hint = "Check the target, then open a new shell; the last command is never rerun"


class ShellLimit(ShiftlogError, RuntimeError):
    code = "shell_limit"
    category = Category.CONFLICT
    hint = "Close what is unused"
    retryable = True


class OpenFailed(ShiftlogError, OSError):
    code = "open_failed"
    category = Category.FAILED
    hint = "Check cwd and the target's shell"

    @classmethod
    def because(cls, reason: str) -> Self:
        """Say why a shell could not be started."""
        return cls(f"shell could not be started: {reason}", details={"reason": reason, "stderr": ""})


class TransportNotAllowed(ShiftlogError, PermissionError):
    code = "transport_not_allowed"
    category = Category.FORBIDDEN
    hint = "Ask the operator"


class HostNotAllowed(ShiftlogError, PermissionError):
    code = "host_not_allowed"
    category = Category.FORBIDDEN
    hint = "Ask the operator"


class ContainerNotAllowed(ShiftlogError, PermissionError):
    code = "container_not_allowed"
    category = Category.FORBIDDEN
    hint = "Ask the operator"


class HostKeyUnknown(ShiftlogError, PermissionError):
    code = "host_key_unknown"
    category = Category.FORBIDDEN
    hint = "The operator must add the host's key to known_hosts; shiftlog doctor shows it"


class HostKeyMismatch(ShiftlogError, PermissionError):
    code = "host_key_mismatch"
    category = Category.FORBIDDEN
    hint = "This may be an attack; the operator must decide"


class FingerprintMismatch(ShiftlogError, PermissionError):
    code = "fingerprint_mismatch"
    category = Category.FORBIDDEN
    hint = "Drop or correct fingerprint"


class SshConnectFailed(ShiftlogError, ConnectionError):
    code = "ssh_connect_failed"
    category = Category.FAILED
    hint = "Check host and port"
    retryable = True


class SshAuthFailed(ShiftlogError, PermissionError):
    code = "ssh_auth_failed"
    category = Category.FORBIDDEN
    hint = "Check user and keys"


class SshKeyNotPermitted(ShiftlogError, PermissionError):
    code = "ssh_key_not_permitted"
    category = Category.FORBIDDEN
    hint = "Use a key in the operator's key directory"


class DockerUnavailable(ShiftlogError, OSError):
    code = "docker_unavailable"
    category = Category.UNAVAILABLE
    hint = "Start Docker or Podman"
    retryable = True


class ContainerNotRunning(ShiftlogError, LookupError):
    code = "container_not_running"
    category = Category.CONFLICT
    hint = "Start the container"
    retryable = True


class SandboxNotAllowed(ShiftlogError, PermissionError):
    code = "sandbox_not_allowed"
    category = Category.FORBIDDEN
    hint = "Choose a permitted mode"


class SandboxUnavailable(ShiftlogError, OSError):
    code = "sandbox_unavailable"
    category = Category.UNAVAILABLE
    hint = "Choose a mode that this machine can enforce; shiftlog doctor shows which"


class PolicyDenied(ShiftlogError, PermissionError):
    code = "policy_denied"
    category = Category.DENIED
    hint = "Use a permitted program or ask the operator"


class PolicyUndecidable(ShiftlogError, PermissionError):
    code = "policy_undecidable"
    category = Category.DENIED
    hint = "Write the program name literally"


class ApprovalRequired(ShiftlogError, PermissionError):
    code = "approval_required"
    category = Category.DENIED
    hint = "Have `shiftlog approve` run with this approval_id, then call again"
    retryable = True


class ApprovalDeclined(ShiftlogError, PermissionError):
    code = "approval_declined"
    category = Category.DENIED
    hint = "Choose another way"


class CommandTooLarge(ShiftlogError, ValueError):
    code = "command_too_large"
    category = Category.INVALID
    hint = "Put it in a file and run that"


class CommandNotFound(ShiftlogError, LookupError):
    code = "command_not_found"
    category = Category.NOT_FOUND
    hint = "Command ids come from run_command"


class CommandNotRunning(ShiftlogError, RuntimeError):
    code = "command_not_running"
    category = Category.CONFLICT
    hint = "Read what it wrote with read_output"


class StdinClosed(ShiftlogError, RuntimeError):
    code = "stdin_closed"
    category = Category.CONFLICT
    hint = 'Run the command with stdin: "open" or pty: true'


class CursorInvalid(ShiftlogError, ValueError):
    code = "cursor_invalid"
    category = Category.INVALID
    hint = "Read from the start"


class OutputExpired(ShiftlogError, LookupError):
    code = "output_expired"
    category = Category.NOT_FOUND
    hint = "The journal quotes its beginning and end; run the command again only if running it twice does no harm"


class TransferFailed(ShiftlogError, OSError):
    code = "transfer_failed"
    category = Category.FAILED
    hint = "Nothing was changed; check the path and the target, then copy again"


class WorkspaceRequired(ShiftlogError, ValueError):
    code = "workspace_required"
    category = Category.INVALID
    hint = "Set workspace in open_shell"


class WorkspaceInvalid(ShiftlogError, ValueError):
    code = "workspace_invalid"
    category = Category.INVALID
    hint = "Name an existing directory of the project"


class GitMissing(ShiftlogError, OSError):
    code = "git_missing"
    category = Category.UNAVAILABLE
    hint = "Install git 2.22 or newer on the target"


class CheckpointNotFound(ShiftlogError, LookupError):
    code = "checkpoint_not_found"
    category = Category.NOT_FOUND
    hint = "Call list_checkpoints"


class NothingToRestore(ShiftlogError, LookupError):
    code = "nothing_to_restore"
    category = Category.NOT_FOUND
    hint = "Call list_checkpoints, or name a checkpoint_id"


class CheckpointTooLarge(ShiftlogError, ValueError):
    code = "checkpoint_too_large"
    category = Category.CONFLICT
    hint = "Open a shell with paths or checkpoint_ignores that narrow it, or one without workspace to tidy up"


class RestoreIncomplete(ShiftlogError, OSError):
    code = "restore_incomplete"
    category = Category.FAILED
    hint = "What was overwritten is in safety_checkpoint_id"
