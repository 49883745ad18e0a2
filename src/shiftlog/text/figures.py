"""Figures as people read them: counts, bytes, money and durations. JSON carries the plain numbers instead.

The page calls these from templates, so its functions take any value and return "" for one that is not a number.
"""


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 turn`, `2,000 turns`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def short_count(number: object) -> str:
    """Return a count in about four characters: 950, 12.3k, 4.1M."""
    if not isinstance(number, int | float):
        return ""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * 0.9995:  # below that it would be rounded to 1000 of the smaller unit
            value = number / size
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.1f}{unit}".replace(f".0{unit}", unit)
    return f"{number:g}"


def tokens(number: int) -> str:
    """Return a number of tokens: `950 tokens`, `4.12 M tokens`."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.2f} {unit} tokens"
    return f"{number} tokens"


def money(dollars: object) -> str:
    """Return a cost in dollars: with cents below a thousand, `<$0.01` where it would read as nothing."""
    if not isinstance(dollars, int | float):
        return ""
    if 0 < dollars < 0.005:
        return "<$0.01"
    return f"${dollars:,.0f}" if dollars >= 1000 else f"${dollars:,.2f}"


def exact_money(dollars: float) -> str:
    """Return a cost in dollars with four decimals below one dollar."""
    if 0 < dollars < 0.00005:
        return "<$0.0001"
    return f"${dollars:,.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def size(number: float) -> str:
    """Return a number of bytes in decimal units: `82.4 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def binary_size(number: object) -> str:
    """Return a number of bytes in units of 1,024: `1.5 KB`."""
    if not isinstance(number, int | float):
        return ""
    for unit_bytes, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if number >= unit_bytes:
            return f"{number / unit_bytes:.1f} {unit}".replace(".0 ", " ")
    return f"{number:g} B"


def duration(seconds: object) -> str:
    """Return a duration in its two largest units: `250 ms`, `4.2 s`, `3 h 5 min`."""
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


def milliseconds(value: object) -> str:
    """Return a duration that is given in milliseconds."""
    if not isinstance(value, int | float):
        return ""
    return duration(value / 1000) if value >= 1 else "under 1 ms"


def largest_unit(seconds: float) -> str:
    """Return a duration in the largest unit that fits: `5 s`, `12 min`, `3 h`, `4 d`."""
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {name}"
    return f"{max(0, int(seconds))} s"


def stopwatch(value_ms: int | None) -> str:
    """Return a duration in milliseconds as a stopwatch shows it: `4.2 s`, `3:05`, `1:03:05`."""
    if value_ms is None:
        return ""
    seconds = value_ms // 1000
    if seconds < 60:
        return f"{value_ms / 1000:.1f} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes}:{seconds:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
