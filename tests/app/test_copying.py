"""Copying a record from one store to another: both ways, after an interruption, and never half or changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftlog.app.copying import CopyReport, copy_store
from shiftlog.app.stores import store_of
from shiftlog.config.loading import load
from shiftlog.link.wire import DATABASE
from shiftlog.model.errors import InvalidParameter, StorageError
from shiftlog.store.protocol import Filter, Page, Reader
from shiftlog.store.sql import copying
from tests.journal.harness import client, open_harness, tamper

LONG = "a long text " * 800


def silent(stage: str, total: int, done: int) -> None:
    assert 0 < done <= total, stage


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "ROWS_AT_ONCE", 5)


@pytest.fixture
async def source(tmp_path: Path) -> Path:
    """Give a state directory with sessions, turns, a long text, a lease, a receipt, a token and an idempotency key."""
    home = tmp_path / "source"
    async with open_harness(home) as harness:
        for n in range(3):
            session = await harness.open(client(str(n)), agent_id=f"agent-{n}", cwd=f"/work/{n}", model="m")
            await harness.begin(session, client(str(n)), idempotency_key=f"key-{n}")
            await harness.update(
                session,
                client(str(n)),
                tags=[f"tag-{n}"],
                files_modified=["a.py"],
                response=LONG,
                usage={"input_tokens": 5},
            )
            await harness.complete(session, client(str(n)))
            if n == 2:
                await harness.call("close_session", {"session_id": session}, client("2"))
        await harness.open(client("last"), agent_id="last", backend="codex")
    return home


def everything(reader: Reader) -> list[object]:
    ids = reader.session_ids()
    page = Page(limit=1000)
    return [
        [reader.session(name) for name in ids],
        [reader.turns(name) for name in ids],
        [reader.entries(name) for name in ids],
        [reader.receipts(name) for name in ids],
        reader.leases(),
        [reader.grant(name, f"client-{n}") for name in ids for n in range(3)],
        reader.find_files(Filter(), page),
        reader.find_entries(Filter(), page, None),
        sorted(map(str, reader.tallies(Filter(), ("day", "agent_id")) or ())),
    ]


async def read(place: str, work: Callable[[Reader], list[object]] = everything) -> list[object]:
    home = Path(place)
    environ = {} if home.is_absolute() else {"SHIFTLOG_STORE_URL": place}
    async with store_of(home if not environ else Path(), load(Path("/nowhere"), environ)) as store:
        return await store.read(work)


async def copied(home: Path, source: str | Path, target: str | Path) -> CopyReport:
    return await copy_store(home, str(source), str(target), silent, {})


async def test_a_record_is_the_same_in_postgresql_and_back_in_a_file(
    source: Path, tmp_path: Path, postgres_url: str
) -> None:
    there = await copied(source, source, postgres_url)
    assert (there.sessions, there.turns, there.resumed) == (4, 3, False)
    assert there.rows["answers"] == 3
    assert there.rows["tokens"] == there.rows["receipts"] == there.rows["blobs"] == 1
    original = await read(str(source))
    assert await read(postgres_url) == original
    back = tmp_path / "back"
    back.mkdir()
    assert (await copied(source, postgres_url, back / DATABASE)).rows == there.rows
    assert await read(str(back)) == original


async def test_new_sessions_and_runs_have_numbers_of_their_own(source: Path, tmp_path: Path, postgres_url: str) -> None:
    await copied(source, source, postgres_url)
    shutil.copytree(source / "keys", tmp_path / "team" / "keys")
    async with open_harness(tmp_path / "team", environ={"SHIFTLOG_STORE_URL": postgres_url}) as harness:
        session = await harness.open(agent_id="new", backend="codex")
        run = (await harness.session(session)).run
        assert run is not None
        assert run.alias == 5
        assert all(found.ok for found in await harness.verify())


async def test_a_copy_that_was_interrupted_goes_on(source: Path, postgres_url: str) -> None:
    def interrupted(stage: str, total: int, done: int) -> None:
        if stage == "Copying" and done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_store(source, str(source), postgres_url, interrupted, {})
    assert (await copied(source, source, postgres_url)).resumed
    assert await read(postgres_url) == await read(str(source))


async def test_a_store_that_holds_something_is_never_copied_to(source: Path, tmp_path: Path) -> None:
    async with open_harness(tmp_path / "other") as harness:
        await harness.open()
    with pytest.raises(StorageError) as refused:
        await copied(source, source, tmp_path / "other")
    assert "not empty" in str(refused.value.details["reason"])


async def test_an_interrupted_copy_of_a_source_that_changed_is_refused(source: Path, postgres_url: str) -> None:
    def interrupted(stage: str, total: int, done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_store(source, str(source), postgres_url, interrupted, {})
    async with open_harness(source) as harness:
        await harness.open()
    with pytest.raises(StorageError) as refused:
        await copied(source, source, postgres_url)
    assert "changed since" in str(refused.value.details["reason"])


async def test_a_broken_chain_is_not_copied_silently(source: Path, tmp_path: Path) -> None:
    tamper(source, "UPDATE entries SET hash = zeroblob(32) WHERE id & 16777215 = 2")
    (tmp_path / "copy").mkdir()
    with pytest.raises((StorageError, ValueError)):
        await copied(source, source, tmp_path / "copy" / DATABASE)


async def test_a_source_that_is_missing_or_the_target_itself_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="FROM"):
        await copied(source, tmp_path / "none.db", tmp_path / "copy.db")
    with pytest.raises(InvalidParameter, match="TO"):
        await copied(source, source, source / DATABASE)
