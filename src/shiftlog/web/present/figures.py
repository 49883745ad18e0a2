"""Figures as people read them: tokens, money, durations, sizes and times. The JSON twins show them as they are."""

from datetime import UTC, date, datetime

from shiftlog.model.times import parse


def short(number: object) -> str:
    """Return a count in at most four characters or so: 950, 12.3k, 4.1M."""
    if not isinstance(number, int | float):
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * 0.9995:  # what would be rounded to a thousand of the unit below
            value = number / size
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.1f}{unit}".replace(f".0{unit}", unit)
    return f"{number:g}"


def money(dollars: object) -> str:
    """Return a cost in dollars; cents below a hundred, more where it would read as nothing."""
    if not isinstance(dollars, int | float):
        return ""
    if 0 < dollars < 0.005:
        return "<$0.01"
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:,.2f}"


def duration(seconds: object) -> str:
    """Return a duration in its two largest units."""
    if not isinstance(seconds, int | float):
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 s"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left} s" if minutes < 10 and left else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def millis(value: object) -> str:
    """Return a duration that is given in milliseconds."""
    if not isinstance(value, int | float):
        return ""
    return duration(value / 1000) if value >= 1 else "under 1 ms"


def size(count: object) -> str:
    """Return a number of bytes."""
    if not isinstance(count, int | float):
        return ""
    for bytes_, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}".replace(".0 ", " ")
    return f"{count:g} B"


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
