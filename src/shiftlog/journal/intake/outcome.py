"""The outcome of one batch of imported facts, as the import reports it."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class BatchOutcome:
    """The outcome of a batch."""

    entries: int = 0
    sessions: dict[str, bool] = field(default_factory=dict[str, bool])
    """The sessions that the batch speaks of, and whether each is a child."""
    new: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])
    redactions: Counter[str] = field(default_factory=Counter[str])
    sealed: list[str] = field(default_factory=list[str])
    places: dict[str, list[dict[str, str | None]]] = field(default_factory=dict[str, list[dict[str, str | None]]])
