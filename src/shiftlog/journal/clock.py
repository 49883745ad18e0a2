"""The clock of the process that owns the store. A test clock needs two settings in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from shiftlog.model.times import parse, read_iso


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Tells the time: the real one, or `setting` (an ISO UTC time, or `@<file>` that holds one)."""

    setting: str | None = None
    _seen: list[datetime] = field(default_factory=list[datetime], compare=False, repr=False)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Clock":
        """Take SHIFTLOG_NOW as the clock, only with SHIFTLOG_TEST=1."""
        if environ.get("SHIFTLOG_TEST") == "1":
            return cls(setting=environ.get("SHIFTLOG_NOW") or None)
        return cls()

    @property
    def is_test(self) -> bool:
        """Return True if entries must say that they were written under a test clock."""
        return self.setting is not None

    def now(self) -> datetime:
        """Return the present time in UTC."""
        if self.setting is None:
            return datetime.now(UTC)
        try:
            self._seen[:] = [_read(self.setting)]
        except (OSError, ValueError):
            # A test may be writing the file at this moment; the time stands still until it is done.
            if not self._seen:
                raise
        return self._seen[0]


def _read(setting: str) -> datetime:
    text = setting
    if text.startswith("@"):
        text = Path(text[1:]).read_text(encoding="utf-8").strip()
    at = read_iso(text)
    return parse(text) if at.tzinfo is not None else at.replace(tzinfo=UTC)
