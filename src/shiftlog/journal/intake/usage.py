"""Rules for counting the tokens that transcripts report: each response once, in any order of any number of reports.

`maximum`: the lines of one response are states of it, so each counter takes its largest value; a line without request
id belongs to the one response of its session with the same message id. `first`: a report is the growth up to a total,
and the same total again, also in a fork, is the same report. Each change becomes a usage entry of the response's owner,
so totals are sums of entries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shiftlog.facts.batch import COUNTERS, UsageBody

ALONE = ""

Counts = list[int]
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The usage that one report adds to its owner; negative where it had been counted elsewhere."""

    session_id: str
    turn: str | None
    model: str | None
    counts: Counts
    tier: str | None = None
    cost_usd: float | None = None
    copied: bool = False
    vendor: Document | None = None

    def body(self) -> Document:
        """Return the body of the usage entry."""
        body: Document = {name: count for name, count in zip(COUNTERS, self.counts, strict=True) if count}
        if self.cost_usd is not None:
            body |= {"cost_usd": self.cost_usd, "cost_source": "vendor"}
        if self.model:
            body["model"] = self.model
        if self.tier:
            body["tier"] = self.tier
        if self.copied:
            body["copied"] = True
        if self.vendor:
            body["vendor"] = self.vendor
        return body


def whole_entry(report: Document) -> UsageBody:
    """Return the body of the entry for a report that counts whole, as the first of its response."""
    find = report.get
    cost = find("cost_usd")
    return UsageBody(
        cache_creation_1h_tokens=find("cache_creation_1h_tokens", 0),
        cache_creation_tokens=find("cache_creation_tokens", 0),
        cached_input_tokens=find("cached_input_tokens", 0),
        copied=bool(find("copied")),
        cost_source=None if cost is None else "vendor",
        cost_usd=cost,
        input_tokens=find("input_tokens", 0),
        model=find("model") or None,
        output_tokens=find("output_tokens", 0),
        reasoning_tokens=find("reasoning_tokens", 0),
        tier=find("tier") or None,
        vendor=find("vendor") or None,
        web_searches=find("web_searches", 0),
    )


def counts_of(report: Document) -> Counts:
    """Return a report's counters in their order."""
    find = report.get
    return [find(name) or 0 for name in COUNTERS]


def tokens_in(counts: Counts) -> int:
    """Return the tokens of all classes; some counters are parts of others."""
    return counts[0] + counts[1] + counts[2] + counts[4]


def is_lone(report: Document, counts: Counts) -> bool:
    """Return True if the prepared usage entry holds all of a first report: its request id, no copy, no cost."""
    if not report.get("request_id") or report.get("copied") or report.get("cost_usd") is not None:
        return False
    return any(counts)


# -- the largest value of each counter ---------------------------------------------------------------------------------
#
# The document of a message id: `keys` maps a request id (ALONE where there was none) to its owner and counters;
# `seen` maps a session to the request ids that it has shown; `bare` maps a session to its counters without request id.


def count_maximum(known: Document | None, report: Document, session_id: str, turn: str | None) -> tuple[Document, bool]:
    """Return the document of a message id after one more report, and whether a response came to be known by it."""
    document: Document = known or {"keys": {}, "seen": {}, "bare": {}}
    keys, seen, bare = dict(document["keys"]), dict(document["seen"]), dict(document["bare"])
    counts = counts_of(report)
    request = report.get("request_id") or ALONE
    owner = {"session": session_id, "turn": turn, "model": report.get("model"), "tier": report.get("tier")}
    if report.get("vendor"):
        owner["vendor"] = report["vendor"]
    if request == ALONE:
        bare[session_id] = _largest(bare.get(session_id), counts)
        keys.setdefault(ALONE, {**owner, "counts": [0] * len(COUNTERS)})
    else:
        before = keys.get(request)
        if before is None and len(seen.get(session_id, ())) == 0 and session_id in bare:
            # The response was known without its request id: it keeps its owner.
            owner = {name: value for name, value in keys[ALONE].items() if name != "counts"}
            owner |= {name: report.get(name) for name in ("model", "tier")}
        keys[request] = {**(before or owner), "counts": _largest(before["counts"] if before else None, counts)}
        shown: list[str] = seen.get(session_id, [])
        seen[session_id] = shown if request in shown else [*shown, request]
    spent = report.get("cost_usd")
    if spent is not None:
        keys[request] = {**keys[request], "cost": max(spent, keys[request].get("cost") or 0.0)}
    before_total = len(_values(document))
    after: Document = {"keys": keys, "seen": seen, "bare": bare}
    return after, len(_values(after)) > before_total


def compacted(document: Document) -> tuple[str, str | None, Document]:
    """Return the owner of a message's first response, and the document as it is kept: short for the one usual case."""
    keys = document["keys"]
    request = next(iter(keys))
    owner = keys[request]
    session_id, turn = owner["session"], owner["turn"]
    if len(keys) == 1 and request != ALONE and document["seen"] == {session_id: [request]} and not document["bare"]:
        short = {"r": request, "c": owner["counts"], "m": owner.get("model")}
        more = {"t": owner.get("tier"), "u": owner.get("cost")}
        return session_id, turn, short | {name: value for name, value in more.items() if value is not None}
    kept = {name: {k: v for k, v in key.items() if k != "vendor"} for name, key in keys.items()}
    return session_id, turn, {**document, "keys": kept}


def expanded(session_id: str, turn: str | None, kept: Document) -> Document:
    """Return the document that `compacted` made short."""
    if "r" not in kept:
        return kept
    key = {"session": session_id, "turn": turn, "model": kept["m"], "tier": kept.get("t"), "counts": kept["c"]}
    if "u" in kept:
        key["cost"] = kept["u"]
    return {"keys": {kept["r"]: key}, "seen": {session_id: [kept["r"]]}, "bare": {}}


def growth_of_maximum(before: Document | None, after: Document) -> Iterator[Growth]:
    """Yield what changed between two documents of a message id, once for each owner."""
    old, new = _values(before) if before else {}, _values(after)
    nothing = [0] * len(COUNTERS)
    grown: dict[tuple[str, str | None, str | None, str | None], tuple[Counts, Document | None, float | None]] = {}
    for request in new | old:
        counts = [a - b for a, b in zip(new.get(request, nothing), old.get(request, nothing), strict=True)]
        owner = after["keys"][request]
        place = (owner["session"], owner["turn"], owner.get("model"), owner.get("tier"))
        vendor: Document | None = owner.get("vendor") if request not in old else None
        cost = _more_spent(before, owner, request)
        known, counters, spent = grown.get(place, (nothing, None, None))
        together = cost if spent is None or cost is None else spent + cost
        grown[place] = [a + b for a, b in zip(known, counts, strict=True)], vendor or counters, together or spent
    for (session_id, turn, model, tier), (counts, vendor, cost) in grown.items():
        if any(counts) or cost:
            yield Growth(
                session_id=session_id, turn=turn, model=model, tier=tier, counts=counts, cost_usd=cost, vendor=vendor
            )


def _more_spent(before: Document | None, owner: Document, request: str) -> float | None:
    """Return the growth of the vendor's cost of a response; None if there is none."""
    spent: float | None = owner.get("cost")
    known: Document = before["keys"].get(request, {}) if before else {}
    more = None if spent is None else spent - (known.get("cost") or 0.0)
    return more or None


def _values(document: Document) -> dict[str, Counts]:
    """Return the counters of each response of a message id; all zeros are no response."""
    values: dict[str, Counts] = {
        request: list(key["counts"]) for request, key in document["keys"].items() if request != ALONE
    }
    alone: Counts | None = None
    for session_id, counts in document["bare"].items():
        shown = document["seen"].get(session_id, ())
        if len(shown) == 1:
            values[shown[0]] = _largest(values[shown[0]], counts)
        else:
            alone = _largest(alone, counts)
    if alone is not None:
        values[ALONE] = alone
    return {request: counts for request, counts in values.items() if any(counts)}


def _largest(one: Counts | None, other: Counts) -> Counts:
    return list(other) if one is None else list(map(max, one, other))


# -- the first report of a total ---------------------------------------------------------------------------------------


def count_first(
    known: Document | None, report: Document, session_id: str, turn: str | None
) -> tuple[Document | None, list[Growth]]:
    """Return the document of a total after one more report (None: unchanged) and what it changes.

    A copied report counts until a session brings the total as its own; then it counts there.
    """
    copied = bool(report.get("copied"))
    if known is not None and (copied or not known.get("copied")):
        return None, []
    document: Document = {
        "session": session_id,
        "turn": turn,
        "model": report.get("model"),
        "tier": report.get("tier"),
        "counts": counts_of(report),
        "cost_usd": report.get("cost_usd"),
        "copied": copied,
    }
    growths = [_whole(document, vendor=report.get("vendor"))]
    if known is not None:
        growths.insert(0, taken_back(known))
    return document, [growth for growth in growths if any(growth.counts) or growth.cost_usd]


def taken_back(document: Document) -> Growth:
    """Return the growth that takes back a total which is counted elsewhere."""
    return _whole(document, sign=-1)


def _whole(document: Document, sign: int = 1, vendor: Document | None = None) -> Growth:
    cost = document.get("cost_usd")
    return Growth(
        session_id=document["session"],
        turn=document["turn"],
        model=document.get("model"),
        tier=document.get("tier"),
        counts=[sign * count for count in document["counts"]],
        cost_usd=None if cost is None else sign * cost,
        copied=bool(document.get("copied")),
        vendor=vendor,
    )
