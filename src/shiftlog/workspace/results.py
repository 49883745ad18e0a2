"""What the checkpoint tools answer; `as_dict` is the JSON of the contract, key by key."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from shiftlog.model.times import precise
from shiftlog.workspace.ports import Kind, Saved

MOST_PATHS = 1_000

Status = Literal["added", "modified", "deleted", "type_changed", "mode_changed"]
Action = Literal["written", "created", "deleted", "mode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """What a checkpoint leaves out; an excluded directory counts once."""

    ignored: int = 0
    secret: int = 0
    too_large: int = 0

    def as_dict(self) -> dict[str, object]:
        """Return the three counts."""
        return {"ignored": self.ignored, "secret": self.secret, "too_large": self.too_large}


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The answer of `create_checkpoint`, and of every automatic one."""

    checkpoint_id: str
    label: str
    kind: Kind
    created_at: datetime
    request_id: str | None
    command_id: str | None
    unchanged: bool
    files: int
    not_covered: NotCovered | None  # counted for manual ones only: counting walks what is left out

    def as_dict(self) -> dict[str, object]:
        """Return the result as JSON shows it."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "label": self.label,
            "kind": self.kind,
            "created_at": precise(self.created_at),
            "request_id": self.request_id,
            "command_id": self.command_id,
            "unchanged": self.unchanged,
            "files": self.files,
            "not_covered": None if self.not_covered is None else self.not_covered.as_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of `list_checkpoints`."""

    saved: Saved
    current: bool

    def as_dict(self) -> dict[str, object]:
        """Return the line as JSON shows it."""
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
    """The answer of `list_checkpoints`, newest first."""

    checkpoints: tuple[Listed, ...]
    next_cursor: str | None

    def as_dict(self) -> dict[str, object]:
        """Return the result as JSON shows it."""
        return {"checkpoints": [line.as_dict() for line in self.checkpoints], "next_cursor": self.next_cursor}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """How one file differs between two states."""

    path: str
    status: Status
    insertions: int
    deletions: int
    binary: bool

    def as_dict(self) -> dict[str, object]:
        """Return the line as JSON shows it."""
        return {
            "path": self.path,
            "status": self.status,
            "insertions": self.insertions,
            "deletions": self.deletions,
            "binary": self.binary,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The answer of `diff_checkpoint` before any budget: `truncated` says that the patch was cut."""

    from_id: str
    to_id: str | None
    files: tuple[FileDiff, ...]
    files_changed: int
    patch: str | None
    truncated: bool

    def as_dict(self) -> dict[str, object]:
        """Return the result as JSON shows it; `budget` belongs to the face that shapes the patch."""
        return {
            "from": self.from_id,
            "to": self.to_id,
            "files": [line.as_dict() for line in self.files[:MOST_PATHS]],
            "files_changed": self.files_changed,
            "patch": self.patch,
            "truncated": self.truncated or len(self.files) > MOST_PATHS,
            "budget": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a restore did to one path."""

    path: str
    action: Action

    def as_dict(self) -> dict[str, object]:
        """Return the line as JSON shows it."""
        return {"path": self.path, "action": self.action}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A path that a restore had to leave as it is."""

    path: str
    reason: str

    def as_dict(self) -> dict[str, object]:
        """Return the line as JSON shows it."""
        return {"path": self.path, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The answer of `restore_checkpoint`; the tuples are whole, their JSON is cut at 1,000."""

    restored_to: str
    changes: tuple[Change, ...]
    left_in_place: tuple[str, ...]
    safety_checkpoint_id: str | None
    not_covered: NotCovered
    failed: tuple[Failure, ...]
    dry_run: bool

    @property
    def files_changed(self) -> int:
        """Count the paths that were changed, or would be."""
        return len(self.changes)

    @property
    def hint(self) -> str | None:
        """Say how to remove what was left, or which checkpoint holds what was replaced."""
        count = len(self.left_in_place)
        if not count:
            return None
        subject = "1 file is" if count == 1 else f"{count} files are"
        return f"{subject} newer than the checkpoint; pass clean=true to remove {'it' if count == 1 else 'them'}"

    def as_dict(self) -> dict[str, object]:
        """Return the result as JSON shows it."""
        return {
            "restored_to": self.restored_to,
            "files_changed": self.files_changed,
            "changes": [change.as_dict() for change in self.changes[:MOST_PATHS]],
            "changes_truncated": len(self.changes) > MOST_PATHS,
            "left_in_place": {"count": len(self.left_in_place), "paths": list(self.left_in_place[:MOST_PATHS])},
            "safety_checkpoint_id": self.safety_checkpoint_id,
            "not_covered": self.not_covered.as_dict(),
            "failed": [failure.as_dict() for failure in self.failed[:MOST_PATHS]],
            "dry_run": self.dry_run,
            "hint": self.hint,
        }
