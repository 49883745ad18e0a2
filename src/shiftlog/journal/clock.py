"""The clock of the process that owns the store; a test clock only where the environment asks for one twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shiftlog.model.times import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Tells the time: the real one, or `setting` (an ISO UTC time, or `@<file>` that holds one)."""

    setting: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "Clock":
        """Take SHIFTLOG_NOW as the clock, only with SHIFTLOG_TEST=1."""
        if environ.get("SHIFTLOG_TEST") == "1":
            return cls(setting=environ.get("SHIFTLOG_NOW") or None)
        return cls()

    @property
    def is_test(self) -> bool:
        """Tell whether entries must say that they were written under a test clock."""
        return self.setting is not None

    def now(self) -> datetime:
        """Return the present time in UTC."""
        if self.setting is None:
            return datetime.now(UTC)
        text = self.setting
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8").strip()
        return parse(text)
