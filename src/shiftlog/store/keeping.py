"""Legal holds, archives and bytes of sessions.

Other packages import these from `protocol`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import Session

Scope = Literal["session", "project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A legal hold on a session, by its id, or on a project, by its name or path; lifted once `lifted_at` is set.

    A lifted hold stays as the record of who set and who lifted it.
    """

    scope: Scope
    name: str
    reason: str
    by: str
    at: datetime
    lifted_at: datetime | None = None
    lifted_by: str | None = None
    lifted_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A session whose entries are in a file; the session as it was, and the head of its chain."""

    session: Session
    file: str
    digest: str
    at: datetime


def is_archived(session_id: str) -> StorageError:
    """Return the error for a session whose entries are archived."""
    return StorageError(
        "The session is archived",
        details={"reason": f"the entries of {session_id} are in an archive", "session_id": session_id},
        hint="Run shiftlog store restore with the file that `shiftlog show` names",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBytes:
    """The bytes of a session in the store, without indexes: entries, long texts, and rows for lists and pages.

    A long text that several sessions have is stored once and counts for each of them.
    """

    entries: int
    texts: int
    projections: int

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.entries + self.texts + self.projections
