"""The results of the checkpoint tools; `as_dict` returns the JSON of the contract."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from shiftlog.model.times import precise
from shiftlog.workspace.ports import CheckpointKind, Saved

MOST_PATHS = 1_000
FAILURES_NAMED = 3

Status = Literal["added", "modified", "deleted", "type_changed", "mode_changed"]
Action = Literal["written", "created", "deleted", "mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """The counts of files that a checkpoint leaves out; an excluded directory counts once."""

    ignored: int = 0
    secret: int = 0
    too_large: int = 0

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The result of `create_checkpoint` and of every automatic checkpoint."""

    checkpoint_id: str
    label: str
    kind: CheckpointKind
    created_at: datetime
    request_id: str | None
    command_id: str | None
    unchanged: bool
    files: int
    not_covered: NotCovered | None  # only for manual checkpoints, because counting walks the excluded files

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "created_at": precise(self.created_at)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One row of `list_checkpoints`."""

    saved: Saved
    current: bool

    def as_dict(self) -> dict[str, object]:
        return {
            "checkpoint_id": self.saved.checkpoint_id,
            "label": self.saved.label,
            "kind": self.saved.kind,
            "created_at": precise(self.saved.at),
            "request_id": self.saved.cause.request_id,
            "command_id": self.saved.cause.command_id,
            "files_changed": self.saved.files_changed,
            "current": self.current,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The result of `list_checkpoints`, newest first."""

    checkpoints: tuple[Listed, ...]
    next_cursor: str | None

    def as_dict(self) -> dict[str, object]:
        return {"checkpoints": [line.as_dict() for line in self.checkpoints], "next_cursor": self.next_cursor}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The difference of one file between two states."""

    path: str
    status: Status
    insertions: int
    deletions: int
    binary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDiff:
    """The result of `diff_checkpoint` before any budget; `truncated` means that the patch was cut."""

    from_id: str
    to_id: str | None
    files: tuple[FileDiff, ...]
    files_changed: int
    patch: str | None
    truncated: bool

    def as_dict(self) -> dict[str, object]:
        """Return the result for JSON; the caller fills in `budget` when it shapes the patch."""
        return {
            "from": self.from_id,
            "to": self.to_id,
            "files": [asdict(file) for file in self.files[:MOST_PATHS]],
            "files_changed": self.files_changed,
            "patch": self.patch,
            "truncated": self.truncated or len(self.files) > MOST_PATHS,
            "budget": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change that a restore made to one path."""

    path: str
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A path that a restore could not change."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of `restore_checkpoint`; the tuples are complete, their JSON is cut at 1,000."""

    restored_to: str
    changes: tuple[Change, ...]
    left_in_place: tuple[str, ...]
    safety_checkpoint_id: str | None
    not_covered: NotCovered
    failed: tuple[Failure, ...]
    dry_run: bool

    @property
    def files_changed(self) -> int:
        """The number of paths that were changed, or would be."""
        return len(self.changes)

    @property
    def failure_text(self) -> str:
        """The paths that could not be restored, with the reason, and where the state before the restore is."""
        shown = [f"{failure.path} ({failure.reason})" for failure in self.failed[:FAILURES_NAMED]]
        more = len(self.failed) - len(shown)
        named = ", ".join(shown) + (f" and {more} more" if more else "")
        where = f"what was overwritten is in checkpoint {self.safety_checkpoint_id}"
        return f"{len(self.failed)} files could not be restored: {named}; {where}"

    @property
    def hint(self) -> str | None:
        """Return how to remove the files that were left in place."""
        count = len(self.left_in_place)
        if not count:
            return None
        subject = "1 file is" if count == 1 else f"{count} files are"
        return f"{subject} newer than the checkpoint; pass clean=true to remove {'it' if count == 1 else 'them'}"

    def as_dict(self) -> dict[str, object]:
        return {
            "restored_to": self.restored_to,
            "files_changed": self.files_changed,
            "changes": [asdict(change) for change in self.changes[:MOST_PATHS]],
            "changes_truncated": len(self.changes) > MOST_PATHS,
            "left_in_place": {"count": len(self.left_in_place), "paths": list(self.left_in_place[:MOST_PATHS])},
            "safety_checkpoint_id": self.safety_checkpoint_id,
            "not_covered": self.not_covered.as_dict(),
            "failed": [asdict(failure) for failure in self.failed[:MOST_PATHS]],
            "dry_run": self.dry_run,
            "hint": self.hint,
        }
