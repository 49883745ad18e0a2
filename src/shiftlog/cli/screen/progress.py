"""A progress line on standard error, drawn again and again in one place; only on a terminal, and not at once."""

import sys
import time

SHOWN_AFTER_S = 0.5


class ProgressLine:
    """A line that shows how far some work is."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._began = time.monotonic()
        self._drawn = False

    @property
    def passed_s(self) -> float | None:
        """Return the seconds since the work began, None as long as no line is shown."""
        passed = time.monotonic() - self._began
        return passed if self._shown and passed >= SHOWN_AFTER_S else None

    def draw(self, line: str) -> None:
        """Replace the line."""
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()
        self._drawn = True

    def clear(self) -> None:
        """Remove the line."""
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
