"""An open turn as every reader drafts it: the fields it gathers until they are written."""

from typing import Any

import msgspec

from shiftlog.facts.transcript import Key, Mac, SessionRef, TurnUpdated
from shiftlog.ingest.readers.actions import requirement_ids

_RECENT = 64


class TurnDraft(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn and its fields gathered since they were last written."""

    request_id: str
    ordinal: int = 1
    last_at: str | None = None
    model: str | None = None
    interpreted: bool = False
    sets: dict[str, Any] = {}
    adds: dict[str, list[Any]] = {}

    def add(self, name: str, *items: Any) -> bool:
        """Append items to one of the turn's lists, each once; return True if the last one was new."""
        listed = self.adds.setdefault(name, [])
        is_new = False
        for item in items:
            is_new = item not in listed[-_RECENT:]
            if is_new:
                listed.append(item)
        return is_new

    def learn(self, text: str, *, is_decision: bool) -> None:
        """Gather what a model text says about the turn: its interpretation, a decision, requirement ids."""
        if not self.interpreted:
            self.interpreted = True
            self.sets["interpretation"] = text
        if is_decision:
            self.add("design_decisions", text)
        if ids := requirement_ids(text):
            self.add("requirements_discovered", *ids)

    def take_fields(self, session: SessionRef, name: Key, *, ends: bool) -> TurnUpdated | None:
        """Return the gathered fields as a fact and forget them; `name` begins its key, `ends` marks a last blocker."""
        if not self.sets and not self.adds:
            return None
        sets, adds = self.sets, self.adds
        self.sets, self.adds = {}, {}
        text = msgspec.json.encode({"sets": sets, "adds": adds}, order="deterministic").decode("utf-8", "replace")
        key = (*name, Mac(text))
        turn = self.request_id
        return TurnUpdated(session=session, turn=turn, key=key, at=self.last_at, sets=sets, adds=adds, ends=ends)
