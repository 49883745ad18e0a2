"""Totals from tallies: the same figures, to the last billionth, as adding up session by session."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.journal.usage.service import total_usage, usage_tables
from shiftlog.journal.usage.totals import DIMENSIONS, tables_of_sessions, tables_of_tallies
from shiftlog.model.moves import RunStatus
from shiftlog.model.nouns import Session, Usage
from shiftlog.store.protocol import Filter, Reader, Writer
from shiftlog.store.tallies import Figures, tallies_of
from tests.contract import builders as b
from tests.property.sync_harness import SyncHarness, open_sync_harness

NAMES = [f"s{n}" for n in range(6)]
MODELS = st.sampled_from([None, "claude-opus-4-5", "gpt-5-nano", "claude-sonnet-4-5[1m]", "nobody-knows-1"])
NAMED = MODELS.map(lambda name: name or "")
TOKENS = st.integers(0, 10**7) | st.sampled_from([0, 1, 2**41])
COSTS = st.none() | st.floats(0, 1e4, allow_nan=False) | st.integers(0, 10**9).map(lambda n: n / 10**9)
USED = st.builds(
    Usage,
    input_tokens=TOKENS,
    cached_input_tokens=TOKENS,
    cache_creation_tokens=TOKENS,
    output_tokens=TOKENS,
    cost_usd=COSTS,
)
BY = list(chain.from_iterable(combinations(DIMENSIONS, n) for n in (0, 1, 2, 5)))
FILTERS = [
    Filter(),
    Filter(agent_key="codex-2"),
    Filter(caller="cli", with_run=True),
    Filter(project="app"),
    Filter(model="gpt-5-nano"),
    Filter(run_status="ok", backend="codex"),
    Filter(started_from=b.START.replace(hour=0, minute=0) + timedelta(days=1)),
    Filter(started_from=b.START + timedelta(days=1)),
    Filter(to=b.START.replace(hour=0, minute=0) + timedelta(days=2, milliseconds=-1)),
    Filter(from_=b.START + timedelta(days=1)),
]


def _runs(alias: int) -> st.SearchStrategy[Any]:
    figures = {name: st.none() | TOKENS for name in ("input_tokens", "cached_input_tokens", "output_tokens")}
    return st.none() | st.builds(
        b.run,
        st.just(alias),
        status=st.sampled_from(RunStatus),
        model=MODELS,
        caller=st.sampled_from([None, "cli", "headless_task"]),
        backend=st.sampled_from([None, "claude", "codex"]),
        total_cost_usd=COSTS,
        **figures,
    )


def _session(alias: int) -> st.SearchStrategy[Session]:
    def made(
        parts: dict[str, Usage],
        rest: Usage | None,
        days: dict[int, dict[str, Usage]],
        beyond: dict[int, dict[str, Usage]],
        started: datetime,
        **facts: Any,
    ) -> Session:
        later_days = {(started + timedelta(days=n)).date().isoformat(): sums for n, sums in days.items() if sums}
        for sums in later_days.values():
            for model, used in sums.items():
                if model:
                    parts = {**parts, model: parts[model].plus(used) if model in parts else used}
                else:
                    rest = used if rest is None else rest.plus(used)
        whole = rest
        for part in parts.values():
            whole = part if whole is None else whole.plus(part)
        facts |= {"started": started, "last_activity": started + timedelta(days=4), "later_days": later_days}
        facts["beyond_run"] = {(started + timedelta(days=n)).date().isoformat(): sums for n, sums in beyond.items()}
        return b.session(NAMES[alias - 1], usage=whole, model_usage=parts, **facts)

    return st.builds(
        made,
        parts=st.dictionaries(MODELS.filter(bool), USED, max_size=3),
        rest=st.none() | USED,
        days=st.dictionaries(st.sampled_from([1, 2]), st.dictionaries(NAMED, USED, max_size=2), max_size=2),
        beyond=st.dictionaries(
            st.sampled_from([0, 1, 3]), st.dictionaries(NAMED, USED, min_size=1, max_size=2), max_size=2
        ),
        agent=st.sampled_from(["ClaudeCode", "Codex"]),
        agent_id=st.sampled_from(["claude-main", "codex-2"]),
        model=MODELS,
        workspace=st.sampled_from([None, "/", "/work/app", "/else/app/"]),
        hidden=st.booleans(),
        started=st.integers(0, 3).map(lambda n: b.START + timedelta(hours=20 * n)),
        run=_runs(alias),
    )


STEPS = st.lists(st.integers(1, len(NAMES)).flatmap(_session), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def server() -> Iterator[SyncHarness]:
    with open_sync_harness() as harness:
        for name in NAMES:
            harness.run(b.stored(harness.harness.app.store, of=b.session(name)))
        yield harness


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, where=st.sampled_from(FILTERS))
def test_totals_from_tallies_are_those_of_the_sessions(
    server: SyncHarness, steps: list[Session], where: Filter
) -> None:
    app = server.harness.app

    def work(writer: Writer) -> None:
        for name in NAMES:
            writer.forget_projection(b.session_id(name))
        for session in steps:
            writer.put_session(session)

    def check(reader: Reader) -> None:
        for by in BY:
            slow = tables_of_sessions(reader, app.runs, where, [by])[0].as_item()
            assert total_usage(reader, app.runs, where, by) == slow
        models, apart = usage_tables(reader, app.runs, where, [["model"], ["day", "model"]])
        assert _of_models(apart["rows"]) == _of_models(models["rows"])

    server.run(app.store.write(work))
    server.run(app.store.read(check))
    before = server.run(app.store.read(_all_tallies))
    server.run(app.store.write(lambda writer: writer.recount()))
    assert server.run(app.store.read(_all_tallies)) == before
    assert _summed(steps) == before


def _of_models(rows: list[dict[str, Any]]) -> dict[str | None, Counter[str]]:
    """Add up rows that have the same model."""
    sums: dict[str | None, Counter[str]] = {}
    for row in rows:
        counted = {name: row[name] for name in ("sessions", "input_tokens", "output_tokens", "cost_unknown")}
        sums.setdefault(row["model"], Counter()).update(counted)
    return sums


def _all_tallies(reader: Reader) -> dict[Any, Any]:
    found = reader.tallies(Filter(), ("day", "agent_id", "agent_key", "model", "caller", "workspace"))
    assert found is not None
    return dict(found)


def _summed(steps: list[Session]) -> dict[Any, Any]:
    """Add up what each session counts for as it was stored last."""
    sums: dict[Any, Figures] = {}
    for session in {session.id: session for session in steps}.values():
        for kin, figures in tallies_of(session).items():
            sums[kin] = sums.get(kin, Figures()).plus(figures)
    return sums


def test_a_session_of_several_days_counts_once_in_the_row_of_its_model(server: SyncHarness) -> None:
    """What it used without a model counts to the model that it names, as that of a session of one day does."""
    app, opus = server.harness.app, "claude-opus-4-5"
    named = {opus: Usage(output_tokens=2)}
    session = b.session(NAMES[0], model=opus, usage=Usage(output_tokens=3), model_usage=named)
    session = replace(session, later_days={"2026-03-02": {opus: Usage(output_tokens=1)}}, head_seq=1)

    def write(writer: Writer) -> None:
        for name in NAMES:
            writer.forget_projection(b.session_id(name))
        writer.put_session(session)

    server.run(app.store.write(write))
    table = server.run(app.store.read(lambda reader: tables_of_sessions(reader, app.runs, Filter(), [["model"]])[0]))
    assert [(row["model"], row["sessions"], row["output_tokens"]) for row in table.as_item()["rows"]] == [(opus, 1, 3)]


def test_a_price_that_is_rounded_for_each_session_is_left_to_the_sessions(server: SyncHarness) -> None:
    """Where one token costs a broken number of billionths, what many used together may cost another amount."""
    app = server.harness.app
    from shiftlog.model.prices import Price

    assert Price(input=0.0375, output=1.0).billionths_of(Usage(input_tokens=2)) is None
    assert Price(input=0.125, output=1.0).billionths_of(Usage(input_tokens=2)) == 250
    session = b.session(NAMES[0], model="claude-opus-4-5", usage=Usage(input_tokens=5))
    server.run(app.store.write(lambda writer: writer.put_session(replace(session, head_seq=1))))
    assert (
        server.run(app.store.read(lambda reader: tables_of_tallies(reader, app.runs, Filter(), [["day"]]))) is not None
    )
