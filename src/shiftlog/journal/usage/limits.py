"""Spending limits: what a day may cost, for all agents or for one, and what happens beyond that.

A limit warns from four fifths on. If the operator says so, no session is opened once it is spent; work that has begun
is never interrupted. Use counts on its day (UTC), as in `usage/service.py`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from shiftlog.journal.runs.service import Runs
from shiftlog.journal.usage.service import TODAY, runs_filter, total_usage
from shiftlog.journal.usage.totals import TOKENS
from shiftlog.model.errors import SpendingLimitExceeded
from shiftlog.model.ids import agent_key
from shiftlog.model.prices import DECIMALS
from shiftlog.model.times import shown
from shiftlog.store.protocol import Reader

OK, NEAR, EXCEEDED = "ok", "near", "exceeded"
NEAR_FROM = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limits of a day, in US dollars and in tokens of all classes; 0 sets no limit."""

    day_usd: float = 0.0
    day_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimits:
    """The limits that are set: one for everything, and one for each agent id that has its own."""

    total: Limit = Limit()
    agents: Mapping[str, Limit] = field(default_factory=dict[str, Limit])
    refuse: bool = False

    def check(self, reader: Reader, runs: Runs, agent_id: str, now: datetime) -> list[dict[str, Any]]:
        """Return warnings about limits that are nearly or wholly spent; raise SpendingLimitExceeded if one refuses."""
        key = agent_key(agent_id)
        own = {name: limit for name, limit in self.agents.items() if agent_key(name) == key}
        states = [state for state in self._states(reader, runs, own, now) if state["level"] != OK]
        for state in states:
            if self.refuse and state["level"] == EXCEEDED:
                midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
                details = {**state, "resets_at": shown(midnight + timedelta(days=1))}
                raise SpendingLimitExceeded(f"Budget exceeded: {state['message']}", details=details)
        return [{"code": f"budget_{state['level']}", "message": state["message"]} for state in states]

    def states(self, reader: Reader, runs: Runs, now: datetime) -> list[dict[str, Any]]:
        """Return every limit with what is used of it today."""
        return list(self._states(reader, runs, self.agents, now))

    def _states(
        self, reader: Reader, runs: Runs, agents: Mapping[str, Limit], now: datetime
    ) -> Iterator[dict[str, Any]]:
        for agent_id, limit in [(None, self.total), *agents.items()]:
            if not limit.day_usd and not limit.day_tokens:
                continue
            where = runs_filter(reader, {"day": TODAY, "agent_id": agent_id}, now)
            used = total_usage(reader, runs, where, ())["total"]
            # An agent can delete its sessions, but not what they cost.
            deleted = total_usage(reader, runs, replace(where, hidden=True), ())["total"]
            used = {name: (used[name] or 0) + (deleted[name] or 0) for name in used}
            if limit.day_usd:
                yield _state(agent_id, "usd", limit.day_usd, float(used["cost_usd"]), unknown=used["cost_unknown"])
            if limit.day_tokens:
                yield _state(agent_id, "tokens", limit.day_tokens, sum(used[name] for name in TOKENS))


def _state(agent_id: str | None, unit: str, limit: float, used: float, *, unknown: int = 0) -> dict[str, Any]:
    # Four fifths of ten cents are eight cents, which binary fractions do not know.
    level = EXCEEDED if used >= limit else NEAR if round(used - NEAR_FROM * limit, DECIMALS) >= 0 else OK
    whose = f"agent '{agent_id}' has used" if agent_id else "all agents together have used"
    amounts = f"${used:.2f} of ${limit:.2f}" if unit == "usd" else f"{used:,} of {limit:,} tokens"
    at_least = "at least " if unknown else ""  # what has no price, or still runs, counts as nothing yet
    message = f"{whose} {at_least}{amounts} today (UTC)"
    return {"agent_id": agent_id, "unit": unit, "limit": limit, "used": used, "level": level, "message": message}
