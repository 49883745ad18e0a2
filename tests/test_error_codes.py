"""The code that each face gives an error: JSON-RPC code, HTTP status, exit status. Clients rely on them."""

from shiftlog.cli.errors import exit_status
from shiftlog.mcp.errors import protocol_error
from shiftlog.model.errors import leaves
from shiftlog.web.answers import status_of

CODES = {
    "agent_not_entitled": (-32602, 403, 1),
    "approval_declined": (-32602, 403, 126),
    "approval_required": (-32602, 403, 126),
    "budget_exceeded": (-32602, 403, 1),
    "budget_invalid": (-32602, 400, 2),
    "checkpoint_not_found": (-32602, 404, 1),
    "checkpoint_too_large": (-32602, 409, 1),
    "command_not_found": (-32602, 404, 1),
    "command_not_running": (-32602, 409, 1),
    "command_timeout": (-32603, 504, 1),
    "command_too_large": (-32602, 400, 1),
    "container_not_allowed": (-32602, 403, 1),
    "container_not_running": (-32602, 409, 1),
    "cursor_invalid": (-32602, 400, 2),
    "docker_unavailable": (-32603, 503, 1),
    "fingerprint_mismatch": (-32602, 403, 1),
    "git_missing": (-32603, 503, 1),
    "host_key_mismatch": (-32602, 403, 1),
    "host_key_unknown": (-32602, 403, 1),
    "host_not_allowed": (-32602, 403, 1),
    "idempotency_conflict": (-32602, 409, 1),
    "internal_error": (-32603, 500, 1),
    "invalid_config": (-32603, 500, 1),
    "invalid_parameter": (-32602, 400, 2),
    "invalid_request_id": (-32602, 400, 2),
    "invalid_session_id": (-32602, 400, 2),
    "journal_tampered": (-32603, 409, 1),
    "journal_unavailable": (-32603, 503, 1),
    "legal_hold": (-32602, 409, 1),
    "lease_lost": (-32602, 409, 1),
    "no_resumable_session": (-32602, 404, 1),
    "nothing_to_restore": (-32602, 404, 1),
    "open_failed": (-32603, 502, 1),
    "output_expired": (-32602, 410, 1),
    "policy_denied": (-32602, 403, 126),
    "policy_undecidable": (-32602, 403, 126),
    "recovery_token_expired": (-32602, 403, 1),
    "recovery_token_invalid": (-32602, 403, 1),
    "recovery_token_mismatch": (-32602, 403, 1),
    "recovery_token_required": (-32602, 403, 1),
    "recovery_token_used": (-32602, 403, 1),
    "restore_incomplete": (-32603, 409, 1),
    "sandbox_not_allowed": (-32602, 403, 1),
    "sandbox_unavailable": (-32603, 503, 1),
    "session_already_closed": (-32602, 409, 1),
    "session_already_exists": (-32602, 409, 1),
    "session_closed": (-32602, 409, 1),
    "session_held": (-32602, 409, 1),
    "session_not_found": (-32602, 404, 1),
    "session_sealed": (-32602, 409, 1),
    "session_succeeded": (-32602, 409, 1),
    "shell_busy": (-32602, 409, 1),
    "shell_ended": (-32602, 409, 1),
    "shell_limit": (-32602, 409, 1),
    "shell_lost": (-32603, 409, 1),
    "shell_not_found": (-32602, 404, 1),
    "ssh_auth_failed": (-32602, 403, 1),
    "ssh_connect_failed": (-32603, 502, 1),
    "ssh_key_not_permitted": (-32602, 403, 1),
    "stdin_closed": (-32602, 409, 1),
    "storage_error": (-32603, 503, 1),
    "too_many_connections": (-32603, 503, 1),
    "transcript_not_found": (-32602, 404, 2),
    "transcript_unreadable": (-32603, 409, 1),
    "transport_not_allowed": (-32602, 403, 1),
    "turn_already_exists": (-32602, 409, 1),
    "turn_immutable": (-32602, 409, 1),
    "turn_not_found": (-32602, 404, 1),
    "unauthorized": (-32602, 401, 1),
    "unknown_tool": (-32602, 404, 1),
    "transfer_failed": (-32603, 409, 1),
    "workspace_invalid": (-32602, 400, 1),
    "workspace_required": (-32602, 400, 1),
}


def test_every_error_has_the_codes_that_clients_rely_on() -> None:
    errors = [leaf("what happened") for leaf in leaves()]
    found = {error.code: (protocol_error(error).error.code, status_of(error), exit_status(error)) for error in errors}
    assert found == CODES


def test_every_error_states_its_category() -> None:
    assert [leaf for leaf in leaves() if "category" not in vars(leaf)] == []
