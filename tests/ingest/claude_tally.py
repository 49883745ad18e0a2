"""A small accumulator over facts: each key once, usage by its rule. It stands in for the store in tests of readers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from shiftlog.ingest.claude import ClaudeReader
from shiftlog.ingest.facts import (
    Action,
    AnyFact,
    ChildLink,
    DialogItem,
    Hints,
    Key,
    Note,
    SessionOpened,
    SessionRef,
    SessionUpdated,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
    Usage,
)

COUNTERS = ("input_tokens", "output_tokens", "cache_creation_tokens", "cached_input_tokens")


@dataclass(slots=True)
class Tally:
    """Facts added so far, each once by key and aliases."""

    facts: list[AnyFact] = field(default_factory=list[AnyFact])
    known: set[Key] = field(default_factory=set[Key])
    used: dict[tuple[str, str], tuple[SessionRef, list[int]]] = field(
        default_factory=dict[tuple[str, str], tuple[SessionRef, list[int]]]
    )

    def add(self, facts: Iterable[AnyFact]) -> "Tally":
        for fact in facts:
            if isinstance(fact, Usage):
                self._use(fact)
                continue
            keys = (fact.key, *fact.aliases)
            if not self.known.isdisjoint(keys):
                continue
            self.known.update(keys)
            self.facts.append(fact)
        return self

    def _use(self, fact: Usage) -> None:
        message, _, request = str(fact.key[1]).rpartition("/")
        counters = [getattr(fact, name) for name in COUNTERS]
        _, known = self.used.setdefault((message, request), (fact.session, [0] * len(COUNTERS)))
        known[:] = map(max, known, counters)

    def usage(self) -> tuple[int, list[int]]:
        """Return (responses, totals); a response without request id joins the only one of its message and session."""
        merged: dict[tuple[str, str], list[int]] = {key: list(used) for key, (_, used) in self.used.items()}
        for (message, request), (session, used) in self.used.items():
            if request:
                continue
            others = [
                key for key, (owner, _) in self.used.items() if key[0] == message and key[1] and owner == session
            ]
            if len(others) == 1:
                merged[others[0]] = list(map(max, merged[others[0]], used))
                del merged[message, request]
        counted = [used for used in merged.values() if any(used)]
        return len(counted), [sum(column) for column in zip(*counted, strict=True)] or [0] * len(COUNTERS)

    def of[F: AnyFact](self, kind: type[F], session: SessionRef | None = None) -> list[F]:
        return [f for f in self.facts if isinstance(f, kind) and (session is None or f.session == session)]
