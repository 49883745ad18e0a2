"""The error body of close_session and resume_session: our code, and the code that Delx clients know."""

from typing import Any, cast

from shiftlog.dialects.delx.requests import CLOSE_SESSION, RESUME_SESSION
from shiftlog.model.errors import InvalidParameter, ShiftlogError
from shiftlog.params.fields import Record

IDENTITY = "DELX-IDENTITY-401"
# Our code → the code that Delx clients know; absent: ours.
DELX_CODES = {
    "unknown_tool": "DELX-1002",
    "invalid_session_id": "DELX-1004",
    "session_not_found": "DELX-404",
    "session_closed": "DELX-1010",
    "no_resumable_session": "DELX-404",
    "recovery_token_required": IDENTITY,
    "recovery_token_invalid": IDENTITY,
    "recovery_token_expired": IDENTITY,
    "recovery_token_used": IDENTITY,
    "recovery_token_mismatch": IDENTITY,
    "storage_error": "DELX-1500",
    "internal_error": "DELX-1999",
}
DELX_MESSAGES = {"session_closed": "session is closed"}
RETRYABLE = frozenset({"session_held", "storage_error", "invalid_parameter"})
_PARAMS = {"close_session": CLOSE_SESSION, "resume_session": RESUME_SESSION}
FIELDS_HINT = "Fix the fields listed in fields"


def refusal(tool: str, error: ShiftlogError) -> dict[str, Any]:
    """Return an error of a tool as every face shows it."""
    params = _PARAMS.get(tool, Record(fields={}))
    parameter, missing, fields = _parameter(error)
    details = {} if isinstance(error, InvalidParameter) else error.details
    hint = FIELDS_HINT if fields else error.hint
    if error.code == "session_not_found":
        hint = "Call resume_session with your agent_id"
    retryable = error.code in RETRYABLE
    code, message = _delx(error, missing)
    allowed = error.details.get("allowed") if isinstance(error, InvalidParameter) else None
    return {
        "ok": False,
        "code": error.code,
        "status": error.code,
        "tool_name": tool,
        "message": error.message,
        "hint": hint,
        "retryable": retryable,
        "missing": missing,
        "required": [name for name, field in params.fields.items() if field.required],
        "fields": fields,
        "details": details,
        "error": {
            "code": code,
            "message": message,
            "param": parameter,
            "hint": hint,
            "retryable": retryable,
            "allowed": allowed,
        },
    }


def _parameter(error: ShiftlogError) -> tuple[str | None, list[str], dict[str, str]]:
    if not isinstance(error, InvalidParameter):
        return None, [], {}
    name = cast(str, error.details.get("parameter", ""))
    # A list, because under the name of a secret (`recovery_token`) what is wrong with it would be masked as one.
    faults = cast("list[dict[str, str]]", error.details.get("faults", [error.details]))
    missing = [fault["parameter"] for fault in faults if fault.get("problem") == "missing"]
    wrong = (fault for fault in faults if fault.get("problem") != "missing")
    fields = {fault.get("parameter", ""): fault.get("constraint", "") for fault in wrong}
    return name, missing, fields


def _delx(error: ShiftlogError, missing: list[str]) -> tuple[str, str]:
    if isinstance(error, InvalidParameter):
        if error.details.get("problem") == "missing":
            return "DELX-1001", f"missing required parameter(s): {', '.join(missing)}"
        code = "DELX-1003" if "allowed" in error.details else "DELX-1005"
        return code, "validation failed for one or more fields"
    return DELX_CODES.get(error.code, error.code), DELX_MESSAGES.get(error.code, error.message)
