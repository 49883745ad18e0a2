"""Times: aware UTC datetimes inside, RFC 3339 text with whole seconds outside, compact form in ids."""

from datetime import UTC, datetime

COMPACT = "%Y%m%dT%H%M%SZ"


def shown(at: datetime) -> str:
    """Return a time as every result shows it: UTC, whole seconds, `Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_or_none(at: datetime | None) -> str | None:
    """Return `shown`, or None for a time that is not known."""
    return None if at is None else shown(at)


def precise(at: datetime) -> str:
    """Return a time as the journal hashes and sorts it: UTC, milliseconds, fixed width."""
    at = at.astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def compact(at: datetime) -> str:
    """Return the time part of an id."""
    return at.astimezone(UTC).strftime(COMPACT)


def parse(text: str) -> datetime:
    """Read an ISO 8601 time that has a zone; raise ValueError for anything else."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time with a zone is expected")
    return at.astimezone(UTC)


def millis(at: datetime) -> int:
    """Return milliseconds since the epoch, the sort key of the stores."""
    return int(at.timestamp() * 1000)


def truncated(at: datetime) -> datetime:
    """Cut to milliseconds, the resolution that the journal keeps."""
    return at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)
