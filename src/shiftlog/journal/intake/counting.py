"""Usage entries of one batch: gathers token reports by response and writes one entry for each response.

`usage.py` decides how reports of one response add up; this module knows the store and the batch.
"""

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from shiftlog.facts.batch import Incoming
from shiftlog.journal.encoding import salt_from
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.pen import IntakePen, Pens
from shiftlog.journal.intake.usage import (
    Growth,
    compacted,
    count_first,
    count_maximum,
    counts_of,
    expanded,
    growth_of_maximum,
    is_lone,
    taken_back,
    tokens_in,
    whole_entry,
)
from shiftlog.model.entry import Kind
from shiftlog.store.sources import Origin


class Response(NamedTuple):
    """A response before and after this batch, the latest fact about it and the session of that fact."""

    before: dict[str, Any] | None
    after: dict[str, Any]
    item: Incoming
    reported_by: str


class LoneResponse(NamedTuple):
    """A response that one report alone has spoken of, as nearly all are: its entry is the one prepared."""

    item: Incoming
    session_id: str
    turn: str | None
    counts: list[int]

    @property
    def report(self) -> dict[str, Any]:
        """Return the counters as they were reported."""
        assert self.item.body is not None
        return self.item.body


class Counting:
    """Adds up the token reports of one batch, also in `counts`."""

    def __init__(self, origins: Origins, pens: Pens, agent: str, counts: Counter[str]) -> None:
        self._origins = origins
        self._pens = pens
        self._agent = agent
        self._counts = counts
        self._responses: dict[str, Response | LoneResponse] = {}
        # Turns and counters of the lone responses whose entries are not stored before the batch ends.
        self._unstored: dict[str, tuple[str | None, dict[str, Any]]] = {}

    def take(self, item: Incoming, pen: IntakePen) -> None:
        """Take one report of tokens."""
        assert item.body is not None
        report = item.body
        turn = self._origins.turn_in(pen.id, item.turn) or item.turn if item.turn else None
        if turn is not None and not pen.has_turn(turn):
            turn = None
        if report.get("rule") == "first":
            key = self._origins.usage_key(item.key, report, pen.id)
            known = self._origins.origin(key)
            document, growths = count_first(known.doc if known else None, report, pen.id, turn)
            if document is not None:
                self._origins.put(key, Origin(session_id=pen.id, turn=turn, doc=document))
                self._counts["usage_responses"] += known is None
            for growth in growths:
                self._count(growth, item, pen.id)
            return
        if not report.get("message_id"):
            return
        name = f"msg:{report['message_id']}"
        waiting = self._responses.get(name)
        if waiting is None:
            known = self._origins.origin(name)
            if known is None and is_lone(report, counts := counts_of(report)):
                self._responses[name] = LoneResponse(item, pen.id, turn, counts)
                self._counts["usage_responses"] += 1
                return
            latest = before = self._counted(name, known, report) if known and known.doc else None
        elif isinstance(waiting, LoneResponse):
            before, latest = None, count_maximum(None, waiting.report, waiting.session_id, waiting.turn)[0]
        else:
            before, latest = waiting.before, waiting.after
        after, is_new = count_maximum(latest, report, pen.id, turn)
        if after != latest:
            self._responses[name] = Response(before, after, item, pen.id)
            self._counts["usage_responses"] += is_new

    def _counted(self, name: str, known: Origin, report: dict[str, Any]) -> dict[str, Any]:
        """Return the known reports about the responses of a message."""
        kept, turn = known.doc or {}, known.turn
        if "e" in kept:
            if name in self._unstored:
                turn, facts = self._unstored[name]
            else:
                entry = self._origins.entry(known.session_id, kept["e"])
                turn = entry.turn if entry else None
                # An erased entry counts as the whole response, or the response would be counted again.
                facts = report if entry is None or entry.body is None else entry.body
            kept = {"r": kept["r"], "c": counts_of(facts), "m": facts.get("model"), "t": facts.get("tier")}
        return expanded(known.session_id, turn, kept)

    def join_family(self, thread: str, parent: str, session_id: str, item: Incoming) -> None:
        """Record that a thread is a fork of another; totals that both have count once from now on."""
        for copy, other in self._origins.fork(thread, parent, session_id):
            one, two = self._origins.origin(copy), self._origins.origin(other)
            if one is None or two is None or one.doc is None or two.doc is None:
                continue
            if one.doc.get("copied"):
                again = one.doc
            else:
                again = two.doc
                self._origins.put(other, one)
            self._count(taken_back(again), item, session_id)

    def write_responses(self) -> None:
        """Write the sums of the reports since the last time: one entry for each response, not for each line."""
        responses, self._responses = self._responses, {}
        for name, response in responses.items():
            if isinstance(response, LoneResponse):
                self._count_lone(name, response)
                continue
            for growth in growth_of_maximum(response.before, response.after):
                self._count(growth, response.item, response.reported_by)
            session_id, turn, document = compacted(response.after)
            self._origins.put(name, Origin(session_id=session_id, turn=turn, doc=document))

    def _count_lone(self, name: str, response: LoneResponse) -> None:
        item, session_id, turn, counts = response
        pen = self._pens[session_id]
        request: dict[str, Any] = {"r": response.report["request_id"]}
        if item.prepared is not None and (turn is None or pen.is_open(turn)):
            pen.write_prepared(Kind.USAGE, response.report, turn, item.prepared, at=item.at)
            self._counts["usage_tokens"] += tokens_in(counts)
            # Its turn, model and counters are in its entry and rarely needed again.
            self._origins.put(name, Origin(session_id=session_id, doc=request | {"e": pen.next_seq - 1}))
            self._unstored[name] = turn, response.report
        else:
            model, tier, vendor = map(response.report.get, ("model", "tier", "vendor"))
            growth = Growth(session_id=session_id, turn=turn, model=model, tier=tier, counts=counts, vendor=vendor)
            self._count(growth, item, session_id)
            document = request | {"c": counts, "m": model} | ({"t": tier} if tier else {})
            self._origins.put(name, Origin(session_id=session_id, turn=turn, doc=document))

    def _count(self, growth: Growth, item: Incoming, reported_by: str) -> None:
        pen, at = self._pens[growth.session_id], item.at
        self._counts["usage_tokens"] += tokens_in(growth.counts)
        turn, body = growth.turn, growth.body()
        if pen.is_sealed:
            # A sealed session takes no entries; the reporting session counts it, so that totals are right.
            pen, turn = self._pens[reported_by], None
        if turn is not None and not pen.is_open(turn):
            # A terminal turn never changes; its session still counts what came later.
            turn, body = None, {**body, "request_id": turn}
        if item.prepared is not None and item.body is not None and body == msgspec.to_builtins(whole_entry(item.body)):
            pen.write_prepared(Kind.USAGE, body, turn, item.prepared, at=at)
        else:
            salt = salt_from(self._agent, pen.id, str(Kind.USAGE), str(pen.next_seq))
            pen.write(Kind.USAGE, body, turn, at=at, salt=salt)
