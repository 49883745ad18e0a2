"""Runs: end one with its figures, price it, and notice that its process is gone.

The launcher of a run may end it here; `continuity` passes in the function that closes the session too. Sums over many
runs are in `usage`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import fsum
from typing import Any

import msgspec

from shiftlog.journal.journal import Answered, Journal, Request, find_session
from shiftlog.journal.pen import Pen
from shiftlog.journal.runs.requests import FIGURES
from shiftlog.model.entry import Kind
from shiftlog.model.errors import SessionAlreadyClosed, SessionNotFound
from shiftlog.model.moves import RunStatus, run_status_after
from shiftlog.model.nouns import Run, Session, Turn, Usage, changed
from shiftlog.model.prices import DECIMALS, Prices, billed_name, counted, listed_name
from shiftlog.model.resonance import Resonance
from shiftlog.model.times import precise
from shiftlog.store.protocol import Filter, Page, Reader, Writer
from shiftlog.store.tallies import goes_beyond, on_days

ERROR_CHARS = 65_536
DURATION_TOLERANCE = 0.1
LOOKED_AT_ONCE = 500

CLIENT, PRICED = "client", "prices"
TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens")
# Clients send these for "unknown"; as figures they count as absent.
_SILENT_WHEN_ZERO = frozenset({*TOKENS, "duration_ms"})

# Closes the session of a run for a reason; returns True if it did.
CloseSession = Callable[[Writer, Pen, str], bool]
Figures = dict[str, Any]
# The usage of a part of a session on a day: day, model, usage.
DayPart = tuple[str, str | None, Usage]

REASONS = {RunStatus.OK: "completed", RunStatus.FAILED: "failed", RunStatus.CANCELLED: "manual_close"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedResponse:
    """The tokens and the cost of one response of a model; an unknown cost is None."""

    at: datetime
    tokens: int
    cost_usd: float | None


def cost_of_turn(turn: Turn, responses: Iterable[PricedResponse]) -> float | None:
    """Return what a turn cost: as it was stated, else what its responses cost; None if one has no price."""
    used = turn.usage
    if used is None or used.cost_usd is not None or not used.tokens:
        return used.cost_usd if used else None
    return _sum_of(response.cost_usd for response in responses)


class Runs:
    """End runs, price them and watch their processes."""

    def __init__(
        self,
        journal: Journal,
        resonance: Resonance,
        prices: Prices,
        process_started: Callable[[int], str | None],
        host: str,
    ) -> None:
        self._journal = journal
        self._resonance = resonance
        self.prices = prices
        self._process_started = process_started
        self._host = host

    # Ending

    def end(self, pen: Pen, values: Mapping[str, Any]) -> None:
        """End the run of a session that closes; a warning names figures that cannot be used.

        Without figures a running run ends well, without a stated exit code.
        """
        figures = stated(values)
        run = pen.session.run
        if run is None or run.returncode is not None:
            self.warn_of_ignored(pen, values)
        elif figures or run.status is RunStatus.RUNNING:
            self._write(pen, run, figures, values)

    def warn_of_ignored(self, pen: Pen, values: Mapping[str, Any]) -> None:
        """Warn of figures that are ignored, unless they equal the stored ones."""
        figures, run = stated(values), pen.session.run
        if figures and run is None:
            pen.warn("no_run", "The session has no run; its figures were ignored")
        elif figures and run is not None and figures != stated_in(run):
            pen.warn("run_ended", "The run ended with an earlier close; its figures stay")

    def close(self, writer: Writer, request: Request, close_session: CloseSession) -> Answered:
        """End a run as its launcher reports it, and close its session.

        A run that was given up as orphaned, or that ended without figures, still takes them. The figures that are
        stored already change nothing; others raise SessionAlreadyClosed.
        """
        session = find_session(writer, request.values["session_id"])
        run = session.run
        if run is None:
            details = {"session_id": session.id, "reason": "the session has no run"}
            raise SessionNotFound(f"Session not found: {request.values['session_id']}", details=details)
        pen = self._journal.pen(writer, session.id, session)
        figures = {"returncode": 0, **stated(request.values)}
        if run.returncode is not None:
            _check_same(session, run, figures)
            outcome = "unchanged"
        else:
            self._write(pen, run, figures, request.values)
            outcome = "persisted"
            self._close_session(writer, pen, close_session)
        answered = _closed(pen.session, pen)
        receipt = {
            "code": outcome,
            "session_id": session.id,
            "seq": pen.session.head_seq,
            "hash": pen.session.head_hash,
        }
        self._journal.remember(writer, request, session.id, answered, receipt)
        return answered

    def _close_session(self, writer: Writer, pen: Pen, close_session: CloseSession) -> None:
        run = pen.session.run
        if not pen.session.is_live or run is None:
            pen.commit(writer)
        elif not close_session(writer, pen, REASONS[run.status]):
            pen.warn("session_held", "Somebody works in the session, so it stays open")
            pen.commit(writer)

    def _write(self, pen: Pen, run: Run, figures: Figures, values: Mapping[str, Any]) -> None:
        facts: Figures = {
            **figures,
            "status": str(run_status_after(figures.get("returncode", 0), figures.get("error", ""))),
            "ended": precise(pen.now),
            "derived": [],
        }
        if _tokens(figures):
            facts |= {name: 0 for name in TOKENS if values.get(name) == 0}
        self._put_duration(pen, run, facts)
        self._put_cost(pen, facts)
        pen.write(Kind.RUN_UPDATED, facts)

    def _put_duration(self, pen: Pen, run: Run, facts: Figures) -> None:
        seen = max(int((pen.now - run.started).total_seconds() * 1000), 0)
        given = facts.get("duration_ms")
        if given is None:
            facts["duration_ms"] = seen
            facts["derived"].append("duration_ms")
        elif abs(given - seen) > seen * DURATION_TOLERANCE:
            pen.warn("duration_differs", f"duration_ms is more than 10 % off the {seen} ms seen here")

    def _put_cost(self, pen: Pen, facts: Figures) -> None:
        if "total_cost_usd" in facts:
            source = CLIENT
        elif not _tokens(facts):
            return
        else:
            model = _model(pen.session)
            cost = self.prices.cost_of(model, self._reported(pen.session, facts), pen.session.started)
            if cost is None:
                named = f"model '{model}'" if model else "a run without a model"
                pen.warn("unknown_model_price", f"{named} has no price; the cost is unknown")
                return
            facts["total_cost_usd"], source = cost, PRICED
            facts["derived"].append("total_cost_usd")
        if "cost_source" not in facts:
            facts["cost_source"] = source
            facts["derived"].append("cost_source")

    # Counting

    def usage_of(self, session: Session, reader: Reader | None = None) -> Usage | None:
        """Return a session's tokens and cost, each counted once; None where nothing is known.

        The figures of its run come first, being totals up to its end; what its turns reported counts where there are
        none, and where it came after that end. A cost that was not stated follows from the prices in force then: as
        the session started, and where a price changed while it went on, as each response came, for which a reader is
        needed.
        """
        used = self._used_in_run(session, reader)
        for _, _, more in self._beyond(session):
            used = more if used is None else _together(used, more)
        return used

    def _used_in_run(self, session: Session, reader: Reader | None) -> Usage | None:
        run = session.run
        reported = _reported_by(run)
        used = self._reported(session, reported) if reported else session.usage
        cost = run.total_cost_usd if run else None
        if cost is None and used is not None:
            if session.model_usage and not reported:
                cost = _sum_of(part.cost_usd for _, part in self.parts_of(session, reader))
            else:
                cost = used.cost_usd if used.cost_usd is not None else self._priced(session, used)
        if used is None and cost is None:
            return None
        return changed(used or Usage(), cost_usd=cost)

    def responses_of(self, session: Session, turn: Turn, reader: Reader) -> list[PricedResponse]:
        """Return what each response of a turn used; its cost as it was stated, else by the price as it came."""
        if turn.usage is None:
            return []
        after, until, name = turn.begun_seq, turn.last_seq, turn.request_id
        entries = reader.entries(session.id, after=after, until=until, turn=name, kinds=(Kind.USAGE,))
        # Where models are recorded, a response without one has no known price.
        unnamed = None if session.model_usage else _model(session)
        found: list[PricedResponse] = []
        for entry in entries:
            used = msgspec.convert(entry.facts, Usage)
            cost = used.cost_usd
            if cost is None and used.tokens:
                billed = billed_name(entry.facts.get("model"), entry.facts.get("tier")) or unnamed
                cost = self.prices.cost_of(billed, used, entry.at)
            found.append(PricedResponse(at=entry.at, tokens=used.tokens, cost_usd=cost))
        return found

    def tokens_of(self, session: Session) -> int:
        """Return the tokens of a session: as its run reported them, else as its turns did."""
        reported = _reported_by(session.run)
        if not reported:
            return session.tokens_total
        used = self._reported(session, reported)
        for _, _, more in self._beyond(session):
            used = used.plus(more)
        return used.tokens

    def _beyond(self, session: Session) -> list[DayPart]:
        """Return the usage of a session after its run ended with stated tokens, for example after it was reopened."""
        parts: list[DayPart] = []
        if not goes_beyond(session):
            return parts
        for day, sums in sorted(session.beyond_run.items()):
            at = datetime.fromisoformat(day).replace(tzinfo=UTC)
            for name, used in sums.items():
                billed = name or _model(session)
                cost = used.cost_usd if used.cost_usd is not None else self.prices.cost_of(billed, used, at)
                parts.append((day, billed and listed_name(billed), changed(used, cost_usd=cost)))
        return parts

    def parts_of(self, session: Session, reader: Reader | None = None) -> list[tuple[str | None, Usage]]:
        """Return the usage of each model of a session, priced by its name; one part if the models are not recorded."""
        run = session.run
        if not session.model_usage or _reported_by(run):
            used = self._used_in_run(session, reader)
            known = {} if used is None else {_model(session): used}
            for _, model, more in self._beyond(session):
                known[model] = _together(known[model], more) if model in known else more
            return list(known.items())
        parts: dict[str | None, Usage] = {}
        for billed, used in self._billed_parts(session, reader):
            model = billed and listed_name(billed)
            parts[model] = _together(parts[model], used) if model in parts else used
        return list(parts.items())

    def _billed_parts(self, session: Session, reader: Reader | None) -> Iterator[tuple[str | None, Usage]]:
        """Yield the priced usage of each name under which a session is billed, then the usage without a name."""
        for billed, used in session.model_usage.items():
            cost = used.cost_usd if used.cost_usd is not None else self._cost_of(session, billed, used, reader)
            yield billed, changed(used, cost_usd=cost)
        rest = _rest_of(session)
        if rest is not None:
            yield None, rest

    def daily_parts_of(self, session: Session, reader: Reader) -> list[list[DayPart]]:
        """Return each part of a session day by day, as `on_days` tells them, at the prices in force then."""
        if beyond := self._beyond(session):
            return self._with_days_beyond(session, beyond, reader)
        by_name = bool(session.model_usage) and not _reported_by(session.run)
        parts = self._billed_parts(session, reader) if by_name else self.parts_of(session, reader)
        daily: dict[str | None, dict[str, Usage]] = {}
        for billed, used in parts:
            known = session.model_usage.get(billed or "") if session.model_usage else session.usage
            name = billed if session.model_usage else None
            whole = used if known is None else known
            days = on_days(session, name, whole, leads=not daily)
            if whole.cost_usd is None and used.cost_usd is not None:
                days = self._priced_days(session, billed, used.cost_usd, days, reader)
            sums = daily.setdefault(billed and listed_name(billed), {})
            for day, part in days:
                sums[day] = _together(sums[day], part) if day in sums else part
        return [[(day, model, part) for day, part in sorted(sums.items())] for model, sums in daily.items()]

    def _with_days_beyond(self, session: Session, beyond: list[DayPart], reader: Reader | None) -> list[list[DayPart]]:
        """Return the figures of a run on the day of its start, and later usage on its own days."""
        first, model = session.started.date().isoformat(), _model(session)
        daily = {model: [(first, model, self._used_in_run(session, reader) or Usage())]}
        for part in beyond:
            daily.setdefault(part[1], []).append(part)
        return list(daily.values())

    def _priced_days(
        self, session: Session, model: str | None, whole: float, days: list[tuple[str, Usage]], reader: Reader | None
    ) -> list[tuple[str, Usage]]:
        """Return days with their costs; the first day gets the rest of the whole."""
        first = session.started.date().isoformat()
        at = {day: datetime.fromisoformat(day).replace(tzinfo=UTC) for day, _ in days}
        costs = {day: self.prices.cost_of(model, part, at[day]) or 0.0 for day, part in days}
        if reader is not None and self.prices.changes(model):
            costs = dict[str, float]()
            for came, used in self._responses(session, model, reader):
                day = came.date().isoformat()
                costs[day] = costs.get(day, 0.0) + (self.prices.cost_of(model, used, came) or 0.0)
        rest = whole - fsum(cost for day, cost in costs.items() if day != first)
        return [
            (day, changed(part, cost_usd=round(rest if day == first else costs.get(day, 0.0), DECIMALS)))
            for day, part in days
        ]

    def _responses(self, session: Session, model: str | None, reader: Reader) -> Iterator[tuple[datetime, Usage]]:
        for entry in reader.entries(session.id, kinds=(Kind.USAGE,)):
            if not session.model_usage or billed_name(entry.facts.get("model"), entry.facts.get("tier")) == model:
                yield entry.at, msgspec.convert(entry.facts, Usage)

    def unpriced(self, session: Session) -> list[str]:
        """Name the models of a session that used tokens and have no price."""
        return [model for model, used in self.parts_of(session) if model and used.cost_usd is None]

    def _priced(self, session: Session, used: Usage) -> float | None:
        """Return the cost of tokens; None without tokens, since the work need not have been free."""
        return self.prices.cost_of(_model(session), used, session.started) if used.tokens else None

    def _cost_of(self, session: Session, model: str, used: Usage, reader: Reader | None) -> float | None:
        """Return the cost of a model's usage, each response at the price of its time."""
        changes = self.prices.changes(model)
        if reader is None or not any(session.started < change <= session.last_activity for change in changes):
            return self.prices.cost_of(model, used, session.started)
        return _sum_of(self.prices.cost_of(model, one, at) for at, one in self._responses(session, model, reader))

    def _reported(self, session: Session, tokens: Mapping[str, Any]) -> Usage:
        run = session.run
        given = {name: tokens[name] for name in TOKENS if name in tokens}
        return counted(cached_in_input=self.cached_in_input(run.backend if run else None, session.agent), **given)

    def cached_in_input(self, backend: str | None, agent: str) -> bool:
        """Return True if a backend, or that of an agent, reports cached input as a part of input."""
        known = self._resonance.backends.get(backend or self._resonance.backend_of(agent) or "")
        return known is not None and known.cached_in_input

    # Processes

    def gone(self, reader: Reader) -> list[str]:
        """Return the ids of sessions with a running run whose process is gone."""
        where = Filter(run_status=str(RunStatus.RUNNING), with_run=True)
        found: list[str] = []
        after: tuple[int, int] | None = None
        while rows := reader.find_sessions(where, Page(limit=LOOKED_AT_ONCE, after=after), by_activity=True):
            found += [row.session.id for row in rows if row.session.run and self._is_gone(row.session.run)]
            after = rows[-1].at
        return found

    def is_gone(self, session: Session) -> bool:
        """Return True if a session has a running run whose process is gone."""
        run = session.run
        return run is not None and run.status is RunStatus.RUNNING and self._is_gone(run)

    def orphan(self, pen: Pen) -> None:
        """Mark a running run as orphaned, unless its process is seen to run."""
        run = pen.session.run
        if run is not None and run.status is RunStatus.RUNNING and not self._is_seen(run):
            pen.write(Kind.RUN_UPDATED, {"status": str(RunStatus.ORPHANED)})

    def _is_gone(self, run: Run) -> bool:
        return run.pid is not None and self._is_here(run) and not self._is_seen(run)

    def _is_seen(self, run: Run) -> bool:
        """Return True if the process of a run is alive; a process that was never seen had ended before."""
        if run.pid is None or run.pid_started is None or not self._is_here(run):
            return False
        return self._process_started(run.pid) == run.pid_started

    def _is_here(self, run: Run) -> bool:
        return run.host in (self._host, "", None)


def stated(values: Mapping[str, Any]) -> Figures:
    """Return the figures that a request states; with any of them the exit code is 0 where none is given."""
    figures = {name: values[name] for name in FIGURES if not _is_silent(name, values.get(name))}
    if "error" in figures:
        figures["error"] = figures["error"][:ERROR_CHARS]
    return {"returncode": 0, **figures} if figures else {}


def stated_in(run: Run) -> Figures:
    """Return the figures that a run was ended with, as `stated` gives them."""
    kept = {name: getattr(run, name) for name in FIGURES if name not in run.derived}
    return {name: value for name, value in kept.items() if not _is_silent(name, value)}


def _is_silent(name: str, value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (value == 0 and name in _SILENT_WHEN_ZERO)


def _reported_by(run: Run | None) -> dict[str, int]:
    """Return the tokens that the launcher of a run reported."""
    return {name: getattr(run, name) for name in TOKENS if getattr(run, name, None) is not None}


def _sum_of(costs: Iterable[float | None]) -> float | None:
    """Add costs up; one that is unknown makes the sum unknown."""
    known = list(costs)
    return None if not known or any(cost is None for cost in known) else round(fsum(filter(None, known)), DECIMALS)


def _rest_of(session: Session) -> Usage | None:
    """Return the usage of a session that is not kept under a model's name."""
    if session.usage is None:
        return None
    names = ("input_tokens", "cached_input_tokens", "cache_creation_tokens", "output_tokens", "reasoning_tokens")
    parts = session.model_usage.values()
    left = {name: getattr(session.usage, name) - sum(getattr(part, name) for part in parts) for name in names}
    return Usage(**left) if any(left.values()) else None


def _together(one: Usage, other: Usage) -> Usage:
    """Add two usages; if one cost is unknown, the sum is unknown."""
    is_known = one.cost_usd is not None and other.cost_usd is not None
    return one.plus(other) if is_known else changed(one.plus(other), cost_usd=None)


def _tokens(figures: Figures) -> bool:
    return any(name in figures for name in TOKENS)


def _model(session: Session) -> str | None:
    return (session.run.model if session.run else None) or session.model


def _check_same(session: Session, run: Run, figures: Figures) -> None:
    first = stated_in(run)
    # A caller may repeat a figure that was derived here and reported to it.
    derived = {name: getattr(run, name) for name in run.derived if name in figures}
    differing = sorted(name for name in FIGURES if figures.get(name) != (first | derived).get(name))
    if not differing:
        return
    differ = "differs" if len(differing) == 1 else "differ"
    raise SessionAlreadyClosed(
        f"Session was already closed with other figures ({', '.join(differing)} {differ}); nothing changed",
        details={"session_id": session.id, "run_id": run.alias, "differing": differing, "status": str(run.status)},
    )


def _closed(session: Session, pen: Pen) -> Answered:
    run = session.run
    assert run is not None
    return {
        "session_id": session.id,
        "run_id": run.alias,
        "state": str(session.state),
        "status": str(run.status),
        "duration_ms": run.duration_ms,
        "total_cost_usd": run.total_cost_usd,
        "cost_source": run.cost_source,
        "warnings": pen.warnings,
    }
