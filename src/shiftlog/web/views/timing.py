"""The time of a turn, divided: tools, waiting for a person, and the model for the rest."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shiftlog.model.entry import Kind
from shiftlog.model.nouns import Turn
from shiftlog.model.times import millis

Item = dict[str, Any]
_WORKING = ("command", "tool", "child")
SHOWN = 200
LONGEST = 12
# A span that takes less of its turn is not worth a line.
SEEN = 0.01


def timing_of(turn: Turn, steps: Sequence[Mapping[str, Any]]) -> Item | None:
    """Return the sums in milliseconds and the spans to draw; None for a turn without any time.

    A transcript's clock may run backwards: every span is kept inside its turn.
    """
    begin, end = millis(turn.begun_at), millis(turn.finished_at or turn.last_updated)
    ends = [int(step["to_ms"]) for step in steps if step["type"] in _WORKING]
    end = max([end, *ends]) if not turn.finished_at else end
    if end - begin < 1_000:
        return None
    spans = [span for span in _spans(steps, begin, end) if span["to"] > span["from"]]
    waiting = _covered(span for span in spans if span["kind"] == "waiting")
    busy = _covered(spans)
    return {
        "total_ms": end - begin,
        "tools_ms": busy - waiting,
        "waiting_ms": waiting,
        "model_ms": end - begin - busy,
        "begin": begin,
        "spans": spans[:SHOWN],
        "longest": _longest(spans, begin, end),
    }


def _spans(steps: Sequence[Mapping[str, Any]], begin: int, end: int) -> Iterable[Item]:
    asked: Mapping[str, Any] | None = None
    for step in steps:
        kind = step.get("kind")
        if kind == Kind.COMMAND_ASKED:
            asked = step
        elif kind == Kind.COMMAND_DECIDED and asked is not None:
            yield _span(asked, "waiting", "Waited for approval", begin, end, until=int(step["from_ms"]))
            asked = None
        elif step["type"] in _WORKING:
            name = step.get("command") or step.get("tool") or step.get("title") or ""
            yield _span(step, "bad" if step["error"] else "tool", str(name), begin, end)


def _longest(spans: Sequence[Item], begin: int, end: int) -> list[Item]:
    """Return the longest spans in the order of time, the model's own time between them included."""
    between: list[Item] = []
    reached = begin
    for span in sorted(spans, key=lambda one: one["from"]):
        if span["from"] > reached:
            between.append({"from": reached, "to": span["from"], "kind": "thinking", "says": "Model", "seq": None})
        reached = max(reached, span["to"])
    if end > reached:
        between.append({"from": reached, "to": end, "kind": "thinking", "says": "Model", "seq": None})
    least = (end - begin) * SEEN
    long = [span for span in (*spans, *between) if span["to"] - span["from"] >= least]
    ranked = sorted(long, key=lambda one: one["from"] - one["to"])[:LONGEST]
    return sorted(ranked, key=lambda one: (one["from"], one["to"]))


def _span(step: Mapping[str, Any], kind: str, says: str, begin: int, end: int, until: int | None = None) -> Item:
    first = min(max(int(step["from_ms"]), begin), end)
    last = min(max(int(step["to_ms"]) if until is None else until, first), end)
    spent = {name: step.get(name) for name in ("tokens", "cost_usd")}
    return {"from": first, "to": last, "kind": kind, "says": says[:80], "seq": step["seq"], **spent}


def _covered(spans: Iterable[Item]) -> int:
    """Return how much time spans cover together; where they overlap it counts once."""
    total, reached = 0, 0
    for span in sorted(spans, key=lambda one: one["from"]):
        first = max(span["from"], reached)
        if span["to"] > first:
            total += span["to"] - first
            reached = span["to"]
    return total
