"""Times: aware UTC datetimes inside, RFC 3339 text with whole seconds outside, compact form in ids."""

import re
from datetime import UTC, datetime, timedelta

COMPACT = "%Y%m%dT%H%M%SZ"
AGES = "an age such as 7d, 12h or 30min"

_AGE = re.compile(r"([0-9]{1,5}) ?(s|m|min|h|d|w)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS = {"today": 0, "yesterday": 1}


def shown(at: datetime) -> str:
    """Return a time as every result shows it: UTC, whole seconds, `Z`."""
    # Not strftime, which writes years before 1000 with fewer than four digits.
    return at.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def shown_or_none(at: datetime | None) -> str | None:
    """Return `shown`, or None for a time that is not known."""
    return None if at is None else shown(at)


def shown_text(text: str) -> str:
    """Return a written time as every result shows it; a text that is no time stays as it is."""
    for read in (parse, _parse_of_git):
        try:
            return shown(read(text))
        except ValueError:
            continue
    return text


def _parse_of_git(text: str) -> datetime:
    """Read a time as git writes it by default, `Wed Jul 1 10:00:00 2026 +0200`; raise ValueError for anything else."""
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except (TypeError, IndexError, OverflowError):  # the standard library raises these for some texts
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError("no time as git writes it")
    return parse(at.isoformat())


def precise(at: datetime) -> str:
    """Return a time as the journal hashes and sorts it: UTC, milliseconds, fixed width."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def compact(at: datetime) -> str:
    """Return the time part of an id."""
    return at.astimezone(UTC).strftime(COMPACT)


def read_iso(text: str) -> datetime:
    """Read an ISO 8601 date or time, with its letters in either case; raise ValueError for anything else."""
    at = datetime.fromisoformat(text.upper() if text.endswith("z") else text)
    # The standard library takes any character between date and time.
    if text[8:9] not in ("T", "t", " ") and text[10:11] not in ("T", "t", " ", ""):
        raise ValueError("a 'T' between date and time is expected")
    return at


def parse(text: str) -> datetime:
    """Read an ISO 8601 time that has a zone; raise ValueError for anything else."""
    at = read_iso(text)
    if at.tzinfo is None:
        raise ValueError("a time with a zone is expected")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time between the years 1 and 9999 is expected") from None


def read_relative(text: str, now: datetime) -> datetime | str | None:
    """Read a time relative to now: an age such as `7d`, or the date of `today` or `yesterday` (UTC).

    Return None for any other text.
    """
    word = text.strip().lower()
    if word in _DAYS:
        return (now.astimezone(UTC) - timedelta(days=_DAYS[word])).date().isoformat()
    found = _AGE.fullmatch(word)
    return now.astimezone(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def millis(at: datetime) -> int:
    """Return milliseconds since the epoch, the sort key of the stores."""
    return int(at.timestamp() * 1000)


def truncated(at: datetime) -> datetime:
    """Cut to milliseconds, the resolution that the journal keeps."""
    return at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)
