"""Tallies: what sessions used, summed up by what is asked, and kept with every change of a session."""

from datetime import timedelta

import pytest

from shiftlog.model.moves import RunStatus
from shiftlog.model.nouns import Usage
from shiftlog.store.protocol import Filter, Reader, Store, Writer
from shiftlog.store.tallies import Basis, Figures, TallyKey
from tests.contract import builders as b

USED = Usage(input_tokens=10, cached_input_tokens=4, output_tokens=2)
MIDNIGHT = b.START.replace(hour=0, minute=0, second=0, microsecond=0)
DAY = timedelta(days=1)


async def tallies(store: Store, where: Filter = Filter(), *by: str) -> list[tuple[TallyKey, Figures]]:  # noqa: B008
    found = await store.read(lambda reader: reader.tallies(where, by))
    assert found is not None
    return found


async def test_sessions_that_have_all_in_common_make_one_tally(store: Store) -> None:
    for name in ("a", "b"):
        await b.stored(store, of=b.session(name, model="m", usage=USED, workspace=f"/{name}"))
    ((kin, figures),) = await tallies(store)
    assert (kin.parts, kin.workspace, kin.day) == ((("m", Basis.PRICED),), None, "")
    assert (figures.sessions, figures.input_tokens, figures.beyond_cache, figures.output_tokens) == (2, 20, 12, 4)


async def test_tallies_are_kept_apart_by_what_is_asked(store: Store) -> None:
    for name, workspace in {"a": "/x", "b": "/y", "c": "/x"}.items():
        await b.stored(store, of=b.session(name, usage=USED, workspace=workspace))
    found = await tallies(store, Filter(), "workspace")
    assert {kin.workspace: figures.sessions for kin, figures in found} == {"/x": 2, "/y": 1}


async def test_a_session_that_changes_counts_as_it_is_now(store: Store) -> None:
    first = b.session("a", usage=USED, run=b.run(1))
    await b.stored(store, of=first)
    ended = b.run(1, status=RunStatus.OK, total_cost_usd=0.1)
    await store.write(lambda writer: writer.put_session(b.session("a", usage=USED, run=ended)))
    ((kin, figures),) = await tallies(store)
    assert (kin.run_status, kin.parts[0][1], figures.sessions) == ("ok", Basis.STATED, 1)


async def test_a_session_hidden_or_forgotten_counts_nowhere(store: Store) -> None:
    for name in ("a", "b"):
        await b.stored(store, of=b.session(name, usage=USED))
    await store.write(lambda writer: writer.put_session(b.session("a", usage=USED, hidden=True)))
    await store.write(lambda writer: writer.forget_projection(b.session_id("b")))
    assert await tallies(store) == []


async def test_work_that_fails_leaves_the_tallies_as_they_were(store: Store) -> None:
    await b.stored(store, of=b.session("a", usage=USED))
    before = await tallies(store)

    def work(writer: Writer) -> None:
        writer.put_session(b.session("a", usage=USED.plus(USED)))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await store.write(work)
    assert await tallies(store) == before


async def test_counting_again_changes_nothing(store: Store) -> None:
    await b.stored(store, of=b.session("a", usage=USED, model_usage={"m": USED, "n": Usage(cost_usd=0.3)}))
    before = await tallies(store, Filter(), "day", "agent_id")
    await store.write(lambda writer: writer.recount())
    assert await tallies(store, Filter(), "day", "agent_id") == before


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Filter(started_from=MIDNIGHT + DAY), {"/work/b"}),
        (Filter(to=MIDNIGHT + DAY - timedelta(microseconds=1)), {"/work/a"}),
        (Filter(project="b"), {"/work/b"}),
        (Filter(workspace="/work/a"), {"/work/a"}),
        (Filter(agent_key="nobody"), set[str]()),
        (Filter(caller="cli"), {"/work/b"}),
        (Filter(with_run=True), {"/work/b"}),
        (Filter(run_status="running", backend="codex"), {"/work/b"}),
    ],
)
async def test_a_filter_of_whole_days_and_shared_values_is_answered(
    store: Store, where: Filter, names: set[str]
) -> None:
    await b.stored(store, of=b.session("a", usage=USED, workspace="/work/a"))
    run = b.run(1, caller="cli", backend="codex")
    await b.stored(store, of=b.session("b", started=b.START + DAY, workspace="/work/b", run=run))
    assert {kin.workspace for kin, _ in await tallies(store, where, "workspace")} == names


@pytest.mark.parametrize(
    "where",
    [Filter(tag="x"), Filter(started_from=MIDNIGHT + timedelta(hours=1)), Filter(to=b.START), Filter(from_=MIDNIGHT)],
)
async def test_a_filter_that_asks_for_more_is_left_to_the_sessions(store: Store, where: Filter) -> None:
    def asked(reader: Reader) -> object:
        return reader.tallies(where, ())

    assert await store.read(asked) is None
