"""Times as the page shows them, in UTC; the browser shows the local ones."""

from datetime import UTC, date, datetime

from shiftlog.model.times import parse


def clock(stamp: object) -> str:
    """Return the time of day of a stamp, UTC; the browser shows the local one."""
    return parse(stamp).strftime("%H:%M") if isinstance(stamp, str) and stamp else ""


def moment(stamp: object) -> str:
    """Return date and time of day of a stamp, UTC."""
    return parse(stamp).strftime("%Y-%m-%d %H:%M") if isinstance(stamp, str) and stamp else ""


def day_name(day: date, today: date) -> str:
    """Return a day as a heading: Today, Yesterday, Monday 3 August, 3 August 2025."""
    distance = (today - day).days
    if distance in (0, 1):
        return ("Today", "Yesterday")[distance]
    if day.year == today.year:
        return f"{day:%A} {day.day} {day:%B}"
    return f"{day.day} {day:%B} {day.year}"


def between(start: str, end: str | None, now: datetime) -> float:
    """Return the seconds between two stamps, until now where there is no end."""
    last = parse(end) if end else now.astimezone(UTC)
    return max(0.0, (last - parse(start)).total_seconds())
