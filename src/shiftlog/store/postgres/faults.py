"""Faults of PostgreSQL and of the way to it: the errors that report them, and which of them are worth another try."""

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from shiftlog.model.errors import StorageError

SEND_AGAIN = "Nothing was recorded; send the request again"
ASK_OPERATOR = "Look at store.url in config.toml and at the log of PostgreSQL"

# Another transaction was in the way; the same work succeeds once that is over.
CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)
# The server has ended the connection, or refuses new ones for a moment.
_INTERRUPTIONS = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
)


def is_interruption(error: BaseException) -> bool:
    """Return True if the connection is at fault, so that the same work may succeed over another one."""
    if isinstance(error, (PoolTimeout, *_INTERRUPTIONS)):
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def timed_out() -> StorageError:
    """Return the error for a statement that took too long, mostly because it waited for a lock."""
    reason = "the database took too long: it is overloaded, or a lock is held there"
    return StorageError("Storage error", details={"reason": reason}, hint=SEND_AGAIN)


def storage_error(error: psycopg.Error) -> StorageError:
    """Return the error to raise for a fault of PostgreSQL."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, PoolClosed):
        return StorageError("Storage error", details={"reason": "the store is not open"})
    if isinstance(error, errors.DiskFull):
        return StorageError("Storage error: the disk of the database is full", details={"reason": reason})
    if isinstance(error, errors.InvalidAuthorizationSpecification | errors.InvalidCatalogName):
        return StorageError("Storage error", details={"reason": reason}, hint=ASK_OPERATOR)
    if isinstance(error, errors.QueryCanceled | errors.LockNotAvailable):
        return timed_out()
    if is_interruption(error) or isinstance(error, CONFLICTS):
        return StorageError("Storage error", details={"reason": reason}, hint=SEND_AGAIN)
    return StorageError("Storage error", details={"reason": reason})
