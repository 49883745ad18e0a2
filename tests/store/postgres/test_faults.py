"""Faults under load: cut connections, servers killed -9, a standby that takes over, and writers killed -9.

Every acknowledged entry is there, none is there twice, and every chain holds. A few rounds; in the soak `FAULT_ROUNDS`.
"""

import asyncio
import itertools
import logging
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from shiftlog.model.errors import StorageError
from shiftlog.store.postgres import PostgresStore, connections
from shiftlog.store.protocol import About, Reader, Writer
from tests.contract import builders as b
from tests.postgres_server import PostgresServer, empty
from tests.store.postgres.proxy import CuttingProxy
from tests.store.writing import check, hashes, kill_after, start

WRITERS = 8
# The text of the statement as a client sends it; other statements only begin like it.
COMMIT = b"COMMIT\0"
MANY = pytest.param(int(os.environ.get("FAULT_ROUNDS", "50")), marks=pytest.mark.soak)
ROUNDS = pytest.mark.parametrize("rounds", [3, MANY])


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer(durable=True)
    empty(made.url())
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def proxy(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CuttingProxy]:
    # Without prepared statements the proxy sees which message holds a commit.
    monkeypatch.setattr(connections, "PREPARED_AFTER", None)
    empty(server.url())
    made = CuttingProxy(server.folder)
    yield made
    made.close()


class Load:
    """Writers that append to sessions of their own and to a shared one; refused entries are sent again."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._numbers = itertools.count(1)
        self.acknowledged: dict[str, str] = {}
        self.refused = 0
        self._is_over = False
        self._progress = asyncio.Condition()

    async def write(self, name: str) -> None:
        while not self._is_over:
            number = next(self._numbers)
            text = f"{name} number {number}."
            place = "shared" if number % 3 == 0 else name
            while not await self._has_written(place, text) and not self._is_over:
                pass

    async def _has_written(self, place: str, text: str) -> bool:
        """Write an entry; return False if it was refused, so that it is sent again."""
        about = About(session_id=b.session_id(place))
        try:
            line = await self._store.write(lambda writer: _append(writer, place, text), about=about)
        except StorageError as error:
            if "again" not in (error.hint or ""):
                raise
            self.refused += 1
            return False
        async with self._progress:
            self.acknowledged[text] = line
            self._progress.notify_all()
        return True

    async def more(self, count: int = 10) -> None:
        """Wait until so many more entries are acknowledged."""
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(60), self._progress:
            await self._progress.wait_for(lambda: len(self.acknowledged) >= wanted)

    def end(self) -> None:
        self._is_over = True


def _append(writer: Writer, name: str, text: str) -> str:
    head = writer.head(b.session_id(name))
    chain = b.Chain(name) if head is None else b.Chain(name, seq=head[0], hash=head[1])
    chain = b.put(writer, text, of=b.session(name), chain=chain)
    return f"{b.session_id(name)} {chain.seq} {chain.hash}"


@asynccontextmanager
async def load_on(url: str) -> AsyncGenerator[Load]:
    async with PostgresStore(url) as store:
        load = Load(store)
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(load.write(f"w{number}"))
            try:
                yield load
            finally:
                load.end()


async def nothing_is_lost_or_doubled(url: str, load: Load) -> None:
    """Check what is stored against what was acknowledged."""

    def look(reader: Reader) -> Counter[str]:
        hashes(reader)
        texts: Counter[str] = Counter()
        for session_id in reader.session_ids():
            texts.update(str(entry.facts["content"]) for entry in reader.entries(session_id))
        return texts

    await check(url, load.acknowledged.values())
    async with PostgresStore(url) as store:
        texts = await store.read(look)
    assert [text for text, count in texts.items() if count > 1] == []
    assert load.acknowledged.keys() <= texts.keys()
    # An entry that was refused was not recorded, so it could be sent again without being there twice.
    assert len(texts) - len(load.acknowledged) <= WRITERS


async def with_faults(url: str, rounds: int, fault: Callable[[], Awaitable[object]]) -> Load:
    async with load_on(url) as load:
        for _ in range(rounds):
            await load.more()
            await fault()
        await load.more()
    return load


@ROUNDS
async def test_a_connection_cut_in_a_commit_loses_and_doubles_nothing(
    server: PostgresServer, proxy: CuttingProxy, rounds: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shiftlog.store")

    where = itertools.cycle((COMMIT, b"", COMMIT))

    async def fault() -> None:
        proxy.cut(next(where))

    load = await with_faults(proxy.url(), rounds * 3, fault)
    assert proxy.cuts >= rounds * 3 - 1
    lost = [record for record in caplog.records if "the answer to a commit was lost" in record.message]
    # Two of three cuts meet a commit; some of those only announce changes.
    assert len(lost) >= rounds
    assert load.refused == 0, "a cut connection is no reason to refuse an entry"
    await nothing_is_lost_or_doubled(server.url(), load)


@ROUNDS
async def test_a_server_killed_and_started_again_loses_and_doubles_nothing(
    server: PostgresServer, proxy: CuttingProxy, rounds: int
) -> None:
    async def fault() -> None:
        await asyncio.to_thread(server.kill_hard)
        await asyncio.to_thread(server.start)

    load = await with_faults(proxy.url(), rounds, fault)
    await nothing_is_lost_or_doubled(server.url(), load)


@pytest.mark.parametrize("rounds", [1, MANY])
async def test_a_synchronous_standby_that_takes_over_has_every_acknowledged_entry(rounds: int) -> None:
    primary = PostgresServer(durable=True, settings=["synchronous_standby_names=*"])
    servers = [primary]
    proxy = CuttingProxy(primary.folder)
    try:
        standby = primary.make_standby()
        servers.append(standby)
        empty(primary.url())

        async def fault() -> None:
            old, new = servers[-2:]
            await asyncio.to_thread(old.kill_hard)
            await asyncio.to_thread(new.promote)
            proxy.folder = new.folder
            proxy.cut_all()
            servers.append(await asyncio.to_thread(new.make_standby))
            await asyncio.to_thread(servers.pop(0).remove)

        load = await with_faults(proxy.url(), rounds, fault)
        await nothing_is_lost_or_doubled(servers[0].url(), load)
    finally:
        proxy.close()
        for server in servers:
            server.remove()


@pytest.mark.soak
async def test_writers_killed_fifty_times_leave_every_acknowledged_entry(postgres_url: str) -> None:
    other = start(postgres_url, "other-1", 0)
    acknowledged: list[str] = []
    try:
        for number in range(50):
            acknowledged += await asyncio.to_thread(kill_after, postgres_url, f"victim-{number}", 3 + number % 17)
    finally:
        other.terminate()
        assert other.stdout is not None
        with other.stdout as lines:
            acknowledged += [line for line in lines if line.endswith("\n")]
        other.wait(timeout=30)
    assert await check(postgres_url, acknowledged) >= len(acknowledged) >= 500
