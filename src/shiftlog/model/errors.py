"""Every error that Shiftlog answers with, and nothing else.

ShiftlogError                    code, message, details, hint, retryable
├── SessionNotFound              session_not_found        LookupError
├── SessionAlreadyExists         session_already_exists   ValueError
├── SessionAlreadyClosed         session_already_closed   ValueError
├── SessionClosed                session_closed           ValueError
├── SessionSealed                session_sealed           ValueError
├── SessionSucceeded             session_succeeded        ValueError
├── SessionHeld                  session_held             PermissionError
├── LegalHold                    legal_hold               PermissionError
├── NoResumableSession           no_resumable_session     LookupError
├── InvalidSessionId             invalid_session_id       ValueError
├── InvalidRequestId             invalid_request_id       ValueError
├── TurnNotFound                 turn_not_found           LookupError
├── TurnAlreadyExists            turn_already_exists      ValueError
├── TurnImmutable                turn_immutable           ValueError
├── InvalidParameter             invalid_parameter        ValueError
├── ConfigError                  invalid_config           ValueError
├── IdempotencyConflict          idempotency_conflict     ValueError
├── LeaseLost                    lease_lost               PermissionError
├── AgentNotEntitled             agent_not_entitled       PermissionError
├── RecoveryTokenRequired        recovery_token_required  PermissionError
├── RecoveryTokenInvalid         recovery_token_invalid   PermissionError
├── RecoveryTokenExpired         recovery_token_expired   PermissionError
├── RecoveryTokenUsed            recovery_token_used      PermissionError
├── RecoveryTokenMismatch        recovery_token_mismatch  PermissionError
├── JournalTampered              journal_tampered         ValueError
├── Unauthorized                 unauthorized             PermissionError
├── UnknownTool                  unknown_tool             LookupError
├── TranscriptNotFound           transcript_not_found     LookupError
├── TranscriptUnreadable         transcript_unreadable    OSError
├── SpendingLimitExceeded        budget_exceeded          PermissionError
├── StorageError                 storage_error            OSError
├── TooManyConnections           too_many_connections     OSError
├── CommandTimeout               command_timeout          TimeoutError
└── InternalError                internal_error           RuntimeError
"""

import errno
import math
import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import ClassVar, cast

Details = Mapping[str, object]

SHOWN_CHARS = 200


class Category(StrEnum):
    """The meaning of an error for its caller; each face takes its own code from this."""

    INVALID = "invalid"  # the request is malformed: correct it
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"  # the state of the thing does not allow it
    FORBIDDEN = "forbidden"  # this caller may not
    DENIED = "denied"  # the command policy or an approver said no
    FAILED = "failed"  # it was tried and did not work
    UNAVAILABLE = "unavailable"  # something that it needs is missing or too slow
    INTERNAL = "internal"  # a defect, or a broken installation


class ShiftlogError(Exception):
    """An error with a stable code; what was accepted before it stays accepted."""

    code: ClassVar[str] = "internal_error"
    category: ClassVar[Category] = Category.INTERNAL
    hint: str | None = None
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, details: Details | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, object] = dict(details or {})
        if hint is not None:
            self.hint = hint

    def as_dict(self) -> dict[str, object]:
        """Return the five keys that every face shows."""
        return {
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "hint": self.hint,
            "retryable": self.retryable,
        }


class SessionNotFound(ShiftlogError, LookupError):
    code = "session_not_found"
    category = Category.NOT_FOUND
    hint = "Call open_session first"


class SessionAlreadyExists(ShiftlogError, ValueError):
    code = "session_already_exists"
    category = Category.CONFLICT
    hint = "Use a new session ID"


class SessionAlreadyClosed(ShiftlogError, ValueError):
    code = "session_already_closed"
    category = Category.CONFLICT
    hint = "The figures of the first close stay; read them with query_history"


class SessionClosed(ShiftlogError, ValueError):
    code = "session_closed"
    category = Category.CONFLICT
    hint = "Call resume_session"


class SessionSealed(ShiftlogError, ValueError):
    code = "session_sealed"
    category = Category.CONFLICT
    hint = "Read it with query_history; open a new session to work"


class SessionSucceeded(ShiftlogError, ValueError):
    code = "session_succeeded"
    category = Category.CONFLICT
    hint = "Continue in the successor session"


class SessionHeld(ShiftlogError, PermissionError):
    code = "session_held"
    category = Category.CONFLICT
    hint = "Pass on_held: take_over, fork or read_only"
    retryable = True


class NoResumableSession(ShiftlogError, LookupError):
    code = "no_resumable_session"
    category = Category.NOT_FOUND
    hint = "Widen lookback_days, pass session_id, or call open_session"


class InvalidSessionId(ShiftlogError, ValueError):
    code = "invalid_session_id"
    category = Category.INVALID
    hint = "Use <Agent>-<yyyyMMddTHHmmssZ>-<suffix>, or leave session_id out of open_session"


class InvalidRequestId(ShiftlogError, ValueError):
    code = "invalid_request_id"
    category = Category.INVALID
    hint = "Use req-<yyyyMMddTHHmmssZ>-<slug>, or leave request_id out"


class TurnNotFound(ShiftlogError, LookupError):
    code = "turn_not_found"
    category = Category.NOT_FOUND
    hint = "Call begin_turn first"


class TurnAlreadyExists(ShiftlogError, ValueError):
    code = "turn_already_exists"
    category = Category.CONFLICT
    hint = "Use a new request ID"


class TurnImmutable(ShiftlogError, ValueError):
    code = "turn_immutable"
    category = Category.CONFLICT
    hint = "Begin a new turn instead"


class InvalidParameter(ShiftlogError, ValueError):
    """A parameter that is missing, malformed or unknown; `details.parameter` is its path."""

    code = "invalid_parameter"
    category = Category.INVALID
    hint = "Correct the named parameter and call again"

    @classmethod
    def missing(cls, name: str) -> "InvalidParameter":
        """Say that a required parameter is absent or blank."""
        return cls(
            f"Parameter '{name}' cannot be null or empty",
            details={"parameter": name, "value": None, "constraint": "required", "problem": "missing"},
        )

    @classmethod
    def invalid(
        cls, name: str, constraint: str, value: object = None, allowed: list[str] | None = None
    ) -> "InvalidParameter":
        """Say which rule a parameter breaks; the value is cut to 200 characters."""
        details: dict[str, object] = {
            "parameter": name,
            "value": shown_value(value),
            "constraint": constraint,
            "problem": "invalid",
        }
        if allowed is not None:
            details["allowed"] = allowed
        return cls(f"Parameter '{name}' is invalid: {constraint}", details=details)

    @classmethod
    def unknown(cls, name: str, nearest: str | None, known: Iterable[str] = ()) -> "InvalidParameter":
        """Say that no such parameter exists and name the nearest one that does; if `known` are given, none is alike."""
        constraint, names = "unknown parameter", ", ".join(known)
        if nearest:
            constraint += (
                f"; the nearest is '{nearest}', known are {names}" if names else f"; did you mean '{nearest}'?"
            )
        details: dict[str, object] = {"parameter": name, "constraint": constraint, "problem": "unknown"}
        if nearest:
            details["nearest"] = nearest
        return cls(f"Parameter '{name}' is invalid: {constraint}", details=details)


class ConfigError(ShiftlogError, ValueError):
    """A setting that is unknown, of the wrong type or out of range; `details.source` is file or variable."""

    code = "invalid_config"
    category = Category.INTERNAL
    hint = "Correct what is named here and start again; docs/configuration.md lists every setting"

    @classmethod
    def invalid(cls, source: str, key: str, constraint: str, value: object = None) -> "ConfigError":
        """Say which rule a setting breaks."""
        shown = InvalidParameter.invalid(key, constraint, value).details["value"]
        details = {"source": source, "key": key, "constraint": constraint, "value": shown}
        given = "" if shown is None else f", not {shown!r}"
        return cls(f"{_where(source, key)}: {constraint}{given}", details=details)

    @classmethod
    def unknown(cls, source: str, key: str, nearest: str) -> "ConfigError":
        """Say that no such setting exists, naming the nearest one that does."""
        says = f"unknown key '{key}'; the nearest valid key is '{nearest}'"
        if source == key:
            says = f"unknown setting; the nearest valid one is {nearest}"
        return cls(f"{source}: {says}", details={"source": source, "key": key, "nearest": nearest})


def _where(source: str, key: str) -> str:
    return source if source == key else f"{source}: '{key}'"


class LegalHold(ShiftlogError, PermissionError):
    code = "legal_hold"
    category = Category.CONFLICT
    hint = "A person lifts it with `shiftlog hold lift`"


class IdempotencyConflict(ShiftlogError, ValueError):
    code = "idempotency_conflict"
    category = Category.CONFLICT
    hint = "Use a new idempotency_key for other arguments"


class LeaseLost(ShiftlogError, PermissionError):
    code = "lease_lost"
    category = Category.CONFLICT
    hint = "Call resume_session to become the holder again"


class AgentNotEntitled(ShiftlogError, PermissionError):
    code = "agent_not_entitled"
    category = Category.FORBIDDEN
    hint = "Only the agents named in details.entitled may do this"


class RecoveryTokenRequired(ShiftlogError, PermissionError):
    code = "recovery_token_required"
    category = Category.FORBIDDEN
    hint = "Pass the recovery_token of the last close or resume; an operator may issue another: shiftlog token reissue"


class RecoveryTokenInvalid(ShiftlogError, PermissionError):
    code = "recovery_token_invalid"
    category = Category.FORBIDDEN
    hint = "Pass the newest recovery_token of the session unchanged"


class RecoveryTokenExpired(ShiftlogError, PermissionError):
    code = "recovery_token_expired"
    category = Category.FORBIDDEN
    hint = "Leave recovery_token out where none is needed; an operator may issue another: shiftlog token reissue"


class RecoveryTokenUsed(ShiftlogError, PermissionError):
    code = "recovery_token_used"
    category = Category.FORBIDDEN
    hint = "Each resume returns a fresh recovery_token; pass that one"


class RecoveryTokenMismatch(ShiftlogError, PermissionError):
    code = "recovery_token_mismatch"
    category = Category.FORBIDDEN
    hint = "The token was issued for another agent, session or state; details.reason says which"


class JournalTampered(ShiftlogError, ValueError):
    code = "journal_tampered"
    category = Category.FAILED
    hint = "Run shiftlog verify and keep a copy of the state directory"


class Unauthorized(ShiftlogError, PermissionError):
    code = "unauthorized"
    category = Category.FORBIDDEN
    hint = "An operator may do this from outside the shells that Shiftlog opened"


class UnknownTool(ShiftlogError, LookupError):
    code = "unknown_tool"
    category = Category.NOT_FOUND
    hint = "See tools/list"


class TranscriptNotFound(ShiftlogError, LookupError):
    code = "transcript_not_found"
    category = Category.NOT_FOUND
    hint = "Check the path; without one the known folders are searched"


class TranscriptUnreadable(ShiftlogError, OSError):
    code = "transcript_unreadable"
    category = Category.FAILED
    hint = "Check the file's permissions and whether it is whole"


class SpendingLimitExceeded(ShiftlogError, PermissionError):
    code = "budget_exceeded"
    category = Category.FORBIDDEN
    hint = "The operator's budget is spent; wait until details.resets_at or ask the operator"
    retryable = True


class StorageError(ShiftlogError, OSError):
    code = "storage_error"
    category = Category.UNAVAILABLE
    hint = "Nothing was recorded; try again, and run shiftlog doctor if it stays"
    retryable = True


class TooManyConnections(ShiftlogError, OSError):
    code = "too_many_connections"
    category = Category.UNAVAILABLE
    hint = "Nothing was recorded; send it again in a moment, or to another replica"
    retryable = True


class CommandTimeout(ShiftlogError, TimeoutError):
    code = "command_timeout"
    category = Category.UNAVAILABLE
    hint = "Nothing was recorded; try again"
    retryable = True


class InternalError(ShiftlogError, RuntimeError):
    code = "internal_error"
    category = Category.INTERNAL
    hint = "This is a defect of Shiftlog; please report it"


# Error numbers for which the machine is at fault: its disk, or another shortage.
DISK_FULL = "the disk is full"
# The details by which a store says that its disk or a lack of memory is at fault.
_OF_STORE = frozenset({"disk", "memory"})
DISK_TROUBLES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})
# Python's error where the limit of memory or processes allows no further thread.
NO_THREAD = "can't start new thread"
_TROUBLES = DISK_TROUBLES | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS}


def is_of_the_machine(error: BaseException) -> bool:
    """Return True if the disk or the machine is at fault, so that the same work may succeed later."""
    return trouble(error) is not None or (isinstance(error, StorageError) and not _OF_STORE.isdisjoint(error.details))


def trouble(error: BaseException) -> StorageError | None:
    """Return the StorageError for an error that the machine caused; None for any other error."""
    if isinstance(error, MemoryError):
        hint = "This may have been recorded: look before you repeat it. Free memory first"
        return StorageError(
            "Storage error: no memory", details={"reason": os.strerror(errno.ENOMEM), "applied": None}, hint=hint
        )
    number = error.errno if isinstance(error, OSError) else None
    if type(error) is RuntimeError and str(error) == NO_THREAD:
        number = errno.EAGAIN
    if number not in _TROUBLES:
        return None
    hint = "Free what the machine is short of, then try again; shiftlog doctor looks at the disk"
    return StorageError("Storage error", details={"reason": os.strerror(number)}, hint=hint)


def shown_value(value: object, chars: int = SHOWN_CHARS) -> str | int | float | bool | None:
    """Return a refused value as errors show it: plain JSON, at most 200 characters, never half a word.

    Half a secret would not be recognised as one any more.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else f"(integer of {value.bit_length()} bits)"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return f"(object with {len(cast(Mapping[object, object], value))} keys)"
    if not isinstance(value, str):
        return f"({type(value).__name__})"
    text = value[: chars + 1].encode("utf-8", "replace").decode("utf-8")
    if len(text) <= chars:
        return text
    words = text[:chars].rsplit(maxsplit=1)
    return (words[0] if len(words) > 1 else "") + "…"


def leaves() -> list[type[ShiftlogError]]:
    """List every error class, so that each face can prove its table complete."""
    import_module("shiftlog.model.shell_errors")  # the subclasses there count too

    return sorted(ShiftlogError.__subclasses__(), key=lambda leaf: leaf.code)
