"""The report of an import: totals, figures by agent and by file, what was skipped and why.

Every face shows the same report; nothing here reads a file.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shiftlog.model.errors import ShiftlogError

Shown = dict[str, Any]

FIGURES = tuple(
    "files changed sessions sessions_new child_sessions turns entries tool_calls unknown_records bad_lines "
    "partial_tails duplicates copied_records redactions usage_responses usage_tokens".split()
)
CHANGED = frozenset({"imported", "grown", "rewritten", "renamed", "copied"})


@dataclass(slots=True, kw_only=True)
class FileReport:
    """The result of one file."""

    path: str
    agent: str | None = None
    status: str = "imported"
    reason: str | None = None
    sessions: dict[str, bool] = field(default_factory=dict[str, bool])
    new: set[str] = field(default_factory=set[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    redactions: Counter[str] = field(default_factory=Counter[str])
    unknown: Counter[str] = field(default_factory=Counter[str])
    cursor: int = 0
    bytes_read: int = 0
    warnings: list[Shown] = field(default_factory=list[Shown])
    error: Shown | None = None
    known: tuple[str, ...] = ()
    places: dict[str, list[dict[str, str | None]]] = field(default_factory=dict[str, list[dict[str, str | None]]])

    def skip(self, reason: str) -> None:
        """Mark the file as skipped."""
        self.status, self.reason = "skipped", reason

    def fail(self, error: ShiftlogError, reason: str | None = None) -> None:
        """Mark the file as failed; what was read before stays counted, and the first error is kept."""
        self.status, self.reason = "failed", reason or self.reason
        if self.error is None:
            detail = error.details.get("reason")
            says = f"{error.message}: {detail}" if detail else error.message
            self.error = {"path": self.path, "code": error.code, "message": says}

    def shown(self) -> Shown:
        """Return the file as results list it."""
        shown: Shown = {
            "path": self.path,
            "agent": self.agent,
            "status": self.status,
            "sessions": list(self.sessions or self.known),
            "turns": self.counts["turns"],
            "entries": self.counts["entries"],
            "bad_lines": self.counts["bad_lines"],
            "cursor": self.cursor,
            "warnings": self.warnings,
        }
        return {**shown, "reason": self.reason} if self.reason else shown


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """The result of an import."""

    dry_run: bool = False
    duration_s: float = 0.0
    interrupted: bool = False
    files: list[FileReport] = field(default_factory=list[FileReport])
    warnings: list[Shown] = field(default_factory=list[Shown])

    @property
    def errors(self) -> list[Shown]:
        """Return the errors of single files."""
        return [file.error for file in self.files if file.error is not None]

    @property
    def ok(self) -> bool:
        """Return True if no file failed."""
        return not self.errors

    def shown(self, max_files: int | None = None, *, unchanged: bool = True) -> Shown:
        """Return the report as JSON; unchanged files come last, or not at all."""
        agents = sorted({file.agent for file in self.files if file.agent})
        read = sum(file.bytes_read for file in self.files)
        unknown: Counter[str] = Counter()
        redactions: Counter[str] = Counter()
        skipped: Counter[str] = Counter({"unchanged": 0})
        for file in self.files:
            unknown.update({f"{file.agent}/{name}": count for name, count in file.unknown.items()})
            redactions.update(file.redactions)
            reason = "unchanged" if file.status == "unchanged" else file.reason
            skipped.update([reason] if reason else ())
        files = sorted(self.files, key=lambda file: file.status == "unchanged")
        listed = [file.shown() for file in files if unchanged or file.status != "unchanged"]
        cut = listed if max_files is None else listed[:max_files]
        next_call = f'query_history {{"agent":"{agents[0]}","limit":10}}' if agents else None
        shown: Shown = {
            "ok": self.ok,
            "dry_run": self.dry_run,
            "duration_s": round(self.duration_s, 3),
            "bytes_read": read,
            "mb_per_s": round(read / 1e6 / self.duration_s, 1) if self.duration_s else 0.0,
            "totals": _figures(self.files),
            "by_agent": {
                agent: _figures(file for file in self.files if file.agent == agent)
                | {"bytes_read": sum(file.bytes_read for file in self.files if file.agent == agent)}
                | {"skipped": sum(file.status == "skipped" for file in self.files if file.agent == agent)}
                for agent in agents
            },
            "unknown": dict(sorted(unknown.items())),
            "redactions": dict(sorted(redactions.items())),
            "skipped": dict(sorted(skipped.items())),
            "files": cut,
            "files_left_off": len(listed) - len(cut),
            "errors": self.errors,
            "warnings": self.warnings,
            "next": next_call,
        }
        return {**shown, "interrupted": True} if self.interrupted else shown


def _figures(files: Iterable[FileReport]) -> dict[str, int]:
    sessions: dict[str, bool] = {}
    new: set[str] = set()
    total: Counter[str] = Counter()
    for file in files:
        total["files"] += 1
        total["changed"] += file.status in CHANGED
        sessions.update(file.sessions)
        new |= file.new
        total.update(file.counts)
        total["redactions"] += file.redactions.total()
    total["sessions"] = sum(not child for child in sessions.values())
    total["child_sessions"] = sum(sessions.values())
    total["sessions_new"] = sum(not sessions.get(name) for name in new)
    return {name: total[name] for name in FIGURES}
