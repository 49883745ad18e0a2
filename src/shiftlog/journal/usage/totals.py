"""Sums of what sessions used: from the store's tallies if they suffice, else session by session.

Both ways give the same figures. A run that is still going counts as running, and its cost as unknown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import fsum
from pathlib import PurePosixPath
from typing import Any

from shiftlog.journal.history.items import Item
from shiftlog.journal.runs.service import Runs
from shiftlog.model.moves import RunStatus
from shiftlog.model.nouns import Session, Usage
from shiftlog.model.prices import DECIMALS, Price, listed_name
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.store.tallies import STATED_PARTS, Basis, Figures, TallyKey, goes_beyond, is_spread

DIMENSIONS = ("day", "model", "agent", "caller", "project")
READ_AT_ONCE = 500
TOKENS = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens")
# The field of a tally's key for each dimension; models are kept apart anyway.
_OF_KIN = {"day": "day", "agent": "agent_id", "caller": "caller", "project": "workspace"}

# The dimensions of several tables.
Groupings = Sequence[Sequence[str]]
Group = tuple[str | None, ...]
# A cost that is exact: what was stated, in STATED_PARTS of a dollar, and what the prices say, in billionths.
Cost = tuple[int, int]
NOTHING: Cost = (0, 0)


@dataclass(slots=True, kw_only=True)
class Totals:
    """The sum of some sessions; `cost_unknown` counts those without a known or final cost."""

    sessions: int = 0
    statuses: dict[str, int] = field(default_factory=lambda: {str(status): 0 for status in RunStatus})
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOKENS, 0))
    costs: list[float] = field(default_factory=list[float])
    tallied: Cost | None = None
    cost_unknown: int = 0

    def add(self, session: Session, used: Usage | None, sessions: int = 1, first: int = 1) -> None:
        """Count one more session, a running one with what it used so far.

        `sessions` is 0 where it started elsewhere, `first` where a part of it was counted here.
        """
        cost = used.cost_usd if used else None
        status = str(session.run.status) if session.run else None
        self._count(status, sessions, first, is_known=cost is not None)
        if used is not None:
            self._use(used)
        if cost is not None:
            self.costs.append(cost)

    def add_tally(self, status: str | None, sessions: int, used: Usage, cost: Cost | None) -> None:
        """Count sessions that have the same status; None is a cost that is unknown for each of them."""
        self._count(status, sessions, sessions, is_known=cost is not None)
        self._use(used)
        if cost is not None:
            before = self.tallied or NOTHING
            self.tallied = before[0] + cost[0], before[1] + cost[1]

    def _count(self, status: str | None, sessions: int, first: int, *, is_known: bool) -> None:
        self.sessions += sessions
        if status is not None:
            self.statuses[status] += sessions
        if not is_known or status == RunStatus.RUNNING:
            self.cost_unknown += first

    def _use(self, used: Usage) -> None:
        for name in TOKENS:
            self.tokens[name] += getattr(used, name)

    @property
    def cost_usd(self) -> float | None:
        """Return the known cost; None if it is unknown."""
        if self.tallied is None:
            return round(fsum(self.costs), DECIMALS) if self.costs else None
        stated, billionths = self.tallied
        if not stated and not self.costs:
            return billionths / 10**DECIMALS
        exact = Fraction(stated, STATED_PARTS) + Fraction(billionths, 10**DECIMALS) + sum(map(Fraction, self.costs))
        return round(float(exact), DECIMALS)

    def as_item(self) -> Item:
        """Return the totals as results show them."""
        return {
            "sessions": self.sessions,
            **self.statuses,
            **self.tokens,
            "cost_usd": self.cost_usd,
            "cost_unknown": self.cost_unknown,
        }


class UsageTable:
    """Totals by group and in all, and the models without a price. With `only`, just the usage of that model counts.

    Usage counts on its day, a session on the day on which it started; `where` bounds both.
    """

    def __init__(self, runs: Runs, by: Sequence[str], where: Filter) -> None:
        self._runs = runs
        self._by = by
        self._only = where.model
        self._from, self._to = where.started_from, where.to
        self._apart: set[str] = set()
        self._groups: dict[Group, Totals] = {}
        self._total = Totals()
        self._unpriced: Counter[str] = Counter()
        self._prices: dict[tuple[str | None, str], Price | None] = {}
        self._changing: dict[str | None, bool] = {}

    def add_session(self, session: Session, reader: Reader) -> None:
        """Count a session, unless it has neither a run nor usage."""
        if is_spread(session) or goes_beyond(session):
            self._add_daily(session, reader)
            return
        used = self._runs.usage_of(session, reader)
        if (session.run is None and used is None) or not self._is_asked(session, None):
            return
        self._unpriced.update(model for model in self._runs.unpriced(session) if self._only in (None, model))
        parts: Sequence[tuple[str | None, Usage | None]] = ()
        if "model" in self._by or self._only is not None:
            parts = self._runs.parts_of(session, reader)
        counted: set[tuple[str | None, ...]] = set()
        for model, part in parts or ((None, used),):
            if self._only not in (None, _value(session, "model", model)):
                continue
            group = tuple(_value(session, name, model) for name in self._by)
            once = int(group not in counted)  # usage without a model counts to the session's own
            counted.add(group)
            self._groups.setdefault(group, Totals()).add(session, part, once, once)
            if self._only is not None:
                self._total.add(session, part, once, once)
        if self._only is None:
            self._total.add(session, used)

    def _add_daily(self, session: Session, reader: Reader) -> None:
        daily = self._runs.daily_parts_of(session, reader)
        is_known = all(part.cost_usd is not None for days in daily for _, _, part in days)
        start = session.started.date().isoformat()
        first = 1
        counted: set[str | None] = set()
        for place, days in enumerate(daily):
            shown = _value(session, "model", days[0][1]) if days else None
            once = first_of_model = int(shown not in counted)  # usage without a model counts to the session's own
            counted.add(shown)
            for number, (day, model, part) in enumerate(days):
                if not self._is_asked(session, None if day == start else day):
                    continue
                if model and part.cost_usd is None and self._only in (None, model):
                    self._unpriced[model] += first_of_model
                if self._only not in (None, _value(session, "model", model)):
                    continue
                group = tuple(day if name == "day" else _value(session, name, model) for name in self._by)
                of_model = part, once * int(number == 0), first_of_model
                of_session = part if is_known else replace(part, cost_usd=None), int(place == number == 0), first
                first = first_of_model = 0
                alone = self._only is not None
                totals = self._groups.setdefault(group, Totals())
                totals.add(session, *(of_model if alone or "model" in self._by else of_session))
                self._total.add(session, *(of_model if alone else of_session))

    def _is_asked(self, session: Session, later: str | None) -> bool:
        """Return True if the start of a session, or a later day of it, is among the days that are asked for."""
        if later is None:
            return self._from is None or session.started >= self._from
        days = [at.astimezone(UTC).date().isoformat() if at is not None else later for at in (self._from, self._to)]
        return days[0] <= later <= days[1]

    def add_apart(self, session_id: str, reader: Reader) -> None:
        """Count a session that only itself can tell of, once."""
        session = None if session_id in self._apart else reader.session(session_id)
        self._apart.add(session_id)
        if session is not None:
            self.add_session(session, reader)

    def add_tally(self, kin: TallyKey, figures: Figures) -> bool:
        """Count the sessions of a tally; say no where only they themselves can tell what they cost, or which do not."""
        billed, basis = kin.parts[kin.part]
        model = billed and listed_name(billed)
        if self._only not in (None, model):
            return True
        if basis is Basis.PRICED and not kin.day and self._changes(billed):
            return False
        used = self._used(kin, figures)
        # A session counts once in a row, though long prompts are billed under a name of their own.
        listed = 0 if model in {name and listed_name(name) for name, _ in kin.parts[: kin.part]} else figures.sessions
        cost = (figures.stated_cost, 0) if basis is Basis.STATED else None
        price = self._price_of(billed, kin.day) if basis is Basis.PRICED else None
        if price is not None:
            billionths = price.billionths_of(used)
            if billionths is None or not price.knows(used):
                return False
            cost = (0, billionths)
        if cost is None and model and basis is not Basis.SILENT:
            self._unpriced[model] += listed
        # A session's cost is known if each of its parts' is, and its first part stands for it where it is counted.
        whole = cost if cost is not None and self._are_known(kin) else None
        first = figures.sessions if kin.part == 0 else 0
        if not first and self._from is not None and (whole is None or kin.run_status == RunStatus.RUNNING):
            return False  # how many sessions of unknown cost started before, only they can tell
        of_session, of_model = (first, used, whole), (listed, used, cost)
        group = tuple(_tallied(kin, name) for name in self._by)
        totals = self._groups.setdefault(group, Totals())
        totals.add_tally(kin.run_status, *(of_model if self._only is not None or "model" in self._by else of_session))
        self._total.add_tally(kin.run_status, *(of_model if self._only is not None else of_session))
        return True

    def _are_known(self, kin: TallyKey) -> bool:
        return all(
            basis is Basis.STATED or (basis is Basis.PRICED and self._price_of(billed, kin.day) is not None)
            for billed, basis in kin.parts
        )

    def _price_of(self, billed: str | None, day: str) -> Price | None:
        """Return the price on a day; prices change at midnight (UTC), so each of its responses has it."""
        key = billed, day if self._changes(billed) else ""
        if key not in self._prices:
            at = datetime.fromisoformat(day).replace(tzinfo=UTC) if key[1] else None
            self._prices[key] = self._runs.prices.price_of(billed, at)
        return self._prices[key]

    def _changes(self, billed: str | None) -> bool:
        """Return True if the price of a model ever changed."""
        if billed not in self._changing:
            self._changing[billed] = bool(self._runs.prices.changes(billed))
        return self._changing[billed]

    def _used(self, kin: TallyKey, figures: Figures) -> Usage:
        within = kin.reported and self._runs.cached_in_input(kin.backend, kin.agent)
        return Usage(
            input_tokens=figures.beyond_cache if within else figures.input_tokens,
            cached_input_tokens=figures.cached_input_tokens,
            cache_creation_tokens=figures.cache_creation_tokens,
            cache_creation_1h_tokens=figures.cache_creation_1h_tokens,
            output_tokens=figures.output_tokens,
        )

    def as_item(self) -> dict[str, Any]:
        """Return the totals as results show them: days by time, anything else by what it cost."""
        named = _with_names(self._groups, self._by)
        rows = sorted(named.items(), key=_by_time if self._by[:1] == ["day"] else _by_cost)
        return {
            "by": list(self._by),
            "rows": [{**dict(zip(self._by, group, strict=True)), **sums.as_item()} for group, sums in rows],
            "total": self._total.as_item(),
            "warnings": [_unpriced(model, count) for model, count in sorted(self._unpriced.items())],
        }


def tables_of_sessions(
    reader: Reader, runs: Runs, where: Filter, groupings: Sequence[Sequence[str]]
) -> list[UsageTable]:
    """Add up sessions one by one, for several groupings at once."""
    tables = [UsageTable(runs, list(by), where) for by in groupings]
    # One that started before the days that are asked for may have gone on into them.
    since = max(filter(None, (where.from_, where.started_from)), default=None)
    for session in _sessions(reader, replace(where, model=None, started_from=None, from_=since)):
        for table in tables:
            table.add_session(session, reader)
    return tables


def tables_of_tallies(
    reader: Reader, runs: Runs, where: Filter, groupings: Sequence[Sequence[str]]
) -> list[UsageTable] | None:
    """Add up the tallies of sessions, for several groupings at once; None if they do not suffice."""
    read = _Tallies(reader, where)
    tables: list[UsageTable] = []
    for by in groupings:
        asked = [_OF_KIN[name] for name in by if name in _OF_KIN]
        table = _added_up(read, reader, runs, where, by, asked)
        if table is None and "day" not in asked:
            # If a price changed, only the sums by day give the cost.
            table = _added_up(read, reader, runs, where, by, [*asked, "day"])
        if table is None:
            return None
        tables.append(table)
    return tables


class _Tallies:
    """The tallies of a filter; those that several groupings need are read once."""

    def __init__(self, reader: Reader, where: Filter) -> None:
        self._reader = reader
        # A session may have used several models; which it used last decides nothing here.
        self._where = replace(where, model=None)
        self._known: dict[frozenset[str], list[tuple[TallyKey, Figures]] | None] = {}

    def kept_apart(self, names: Sequence[str]) -> list[tuple[TallyKey, Figures]] | None:
        """Return the tallies summed up except for these names; None if tallies cannot answer the filter."""
        key = frozenset(names)
        if key not in self._known:
            self._known[key] = self._reader.tallies(self._where, names)
        return self._known[key]


def _added_up(
    read: _Tallies, reader: Reader, runs: Runs, where: Filter, by: Sequence[str], kept: list[str]
) -> UsageTable | None:
    tallies = read.kept_apart(kept)
    if tallies is None:
        return None
    table = UsageTable(runs, list(by), where)
    for kin, figures in tallies:
        model, basis = kin.parts[0]
        if basis is Basis.APART:
            table.add_apart(model or "", reader)
        elif not table.add_tally(kin, figures):
            return None
    return table


def _sessions(reader: Reader, where: Filter) -> Iterator[Session]:
    after: tuple[int, int] | None = None
    while rows := reader.find_sessions(where, Page(limit=READ_AT_ONCE, after=after)):
        yield from (row.session for row in rows)
        after = rows[-1].at


def _unpriced(model: str, sessions: int) -> Item:
    message = f"The model {model} has no price; what it used is not in the cost"
    return {"code": "unknown_model_price", "message": message, "model": model, "sessions": sessions}


def _by_time(row: tuple[Group, Totals]) -> list[str]:
    return [value or "" for value in row[0]]


def _by_cost(row: tuple[Group, Totals]) -> tuple[float, int, list[str]]:
    group, sums = row
    return -(sums.cost_usd or 0.0), -sum(sums.tokens.values()), [value or "" for value in group]


def _value(session: Session, name: str, part: str | None = None) -> str | None:
    run = session.run
    match name:
        case "day":
            return session.started.date().isoformat()
        case "model":
            return part or (run.model if run else None) or session.model
        case "agent":
            return session.agent_id
        case "caller":
            return run.caller if run else None
        case _:
            return _folder(session.workspace)


def _tallied(kin: TallyKey, name: str) -> str | None:
    if name == "model":
        billed = kin.parts[kin.part][0]
        return billed and listed_name(billed)
    value: str | None = getattr(kin, _OF_KIN[name])
    return _folder(value) if name == "project" else value


def _folder(workspace: str | None) -> str | None:
    return (workspace.rstrip("/") or workspace) if workspace else None


def _with_names(groups: dict[Group, Totals], by: Sequence[str]) -> dict[Group, Totals]:
    """Return groups with projects by their names, or by their paths where several go by one name."""
    if "project" not in by:
        return groups
    at = list(by).index("project")
    paths = {group[at] for group in groups}
    alike = Counter(map(project_of, paths))
    names = {path: name if alike[name := project_of(path)] == 1 else path for path in paths}
    return {(*group[:at], names[group[at]], *group[at + 1 :]): sums for group, sums in groups.items()}


def project_of(workspace: str | None) -> str | None:
    """Return the name by which a workspace is shown."""
    return PurePosixPath(workspace).name or workspace if workspace else None
