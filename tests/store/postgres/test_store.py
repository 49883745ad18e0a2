"""The store in PostgreSQL: one chain for all writers, conflicts, broken connections, migrations and patterns."""

import asyncio
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, cast

import apsw
import psycopg
import pytest
from anyio import create_task_group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import Usage
from shiftlog.store.codec.documents import encode_noun
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.postgres import store as store_module
from shiftlog.store.postgres.connections import PREPARED_AFTER, Pool
from shiftlog.store.postgres.migrate import LOCK, applied, migrate, shipped
from shiftlog.store.postgres.patterns import regex_of
from shiftlog.store.protocol import Answer, Filter, Writer
from shiftlog.store.sql.migrations import Migration
from shiftlog.store.tallies import Figures
from tests.contract import builders as b
from tests.daemon.support import eventually
from tests.postgres_server import PostgresServer

ONE = b.session_id("one")


def appending(text: str) -> Callable[[Writer], int]:
    """Return a work that appends an entry to the session, after whatever is there, and returns its place."""

    def work(writer: Writer) -> int:
        head = writer.head(ONE)
        assert head is not None
        chain = b.Chain(seq=head[0], hash=head[1])
        writer.append(ONE, [chain.indexed(text)])
        writer.put_session(b.session(head_seq=chain.seq, head_hash=chain.hash))
        return chain.seq

    return work


async def test_two_stores_that_append_to_one_session_never_fork_its_chain(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs:
        await b.stored(ours, "start")
        async with create_task_group() as group:
            for n in range(20):
                group.start_soon(ours.write, appending(f"ours {n}"))
                group.start_soon(theirs.write, appending(f"theirs {n}"))
        entries = await theirs.read(lambda reader: reader.entries(ONE))
    assert [entry.seq for entry in entries] == list(range(1, 42))
    assert len({entry.facts["content"] for entry in entries}) == 41


async def test_a_session_that_another_process_begins_while_a_work_begins_it_gets_the_entries_of_both(
    postgres_url: str,
) -> None:
    loop, seen = asyncio.get_running_loop(), list[int]()

    def begin(writer: Writer, meanwhile: Callable[[], object] = lambda: None) -> None:
        head = writer.head(ONE)
        if head is None:
            meanwhile()
        seen.append(head[0] if head else 0)
        chain = b.Chain() if head is None else b.Chain(seq=head[0], hash=head[1])
        b.put(writer, "one", of=b.session(), chain=chain)

    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs:

        def overtake() -> None:
            asyncio.run_coroutine_threadsafe(theirs.write(begin), loop).result()

        await ours.write(lambda writer: begin(writer, overtake))
        entries = await ours.read(lambda reader: reader.entries(ONE))
    assert [entry.seq for entry in entries] == [1, 2]
    assert seen == [0, 0, 1]


async def test_a_work_on_one_session_does_not_wait_for_a_work_on_another(postgres_url: str) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def slow(writer: Writer) -> None:
        appending("slow")(writer)
        reached.set()
        assert go_on.wait(30)

    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs:
        await b.stored(ours, "start")
        async with create_task_group() as group:
            group.start_soon(ours.write, slow)
            await asyncio.to_thread(reached.wait, 30)
            await b.stored(theirs, "other", of=b.session("two"))
            go_on.set()


async def test_the_same_idempotency_key_is_decided_once_by_two_stores(postgres_url: str) -> None:
    made: list[str] = []

    def deciding(name: str) -> Callable[[Writer], str]:
        def work(writer: Writer) -> str:
            first = writer.answer("scope", "key")
            if first is not None:
                return str(first.answer["by"])
            writer.put_answer("scope", "key", Answer(request_hash="x", answer={"by": name}, at=b.at(0)))
            made.append(name)
            return name

        return work

    answers: list[str] = []

    async def ask(store: PostgresStore, name: str) -> None:
        answers.append(await store.write(deciding(name)))

    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs, create_task_group() as group:
        for n in range(8):
            group.start_soon(ask, ours, f"ours {n}")
            group.start_soon(ask, theirs, f"theirs {n}")
    assert len(set(answers)) == len(made) == 1


async def test_works_that_lock_two_sessions_in_opposite_order_both_succeed(postgres_url: str) -> None:
    """PostgreSQL ends one of them as a deadlock; it is run again."""
    names = [b.session_id(name) for name in ("one", "two")]
    both = threading.Barrier(2, timeout=30)
    runs: list[str] = []

    def crossing(first: str, second: str) -> Callable[[Writer], None]:
        def work(writer: Writer) -> None:
            assert writer.session(first) is not None
            if runs.count(first) == 0:
                runs.append(first)
                both.wait()
            assert writer.session(second) is not None

        return work

    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs:
        for name in ("one", "two"):
            await b.stored(ours, of=b.session(name))
        async with create_task_group() as group:
            group.start_soon(ours.write, crossing(*names))
            group.start_soon(theirs.write, crossing(*reversed(names)))
    assert sorted(runs) == sorted(names)


async def test_tallies_of_two_stores_add_up(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as ours, PostgresStore(postgres_url) as theirs:
        async with create_task_group() as group:
            for n in range(10):
                for store, name in ((ours, f"ours-{n}"), (theirs, f"theirs-{n}")):
                    group.start_soon(
                        lambda store=store, name=name: b.stored(store, of=b.session(name, usage=Usage(input_tokens=1)))
                    )
        found = await ours.read(lambda reader: reader.tallies(Filter(), ()))
        assert await ours.read(lambda reader: reader.tallies_are_right())
    assert found is not None
    assert [figures for _, figures in found] == [Figures(sessions=20, input_tokens=20, beyond_cache=20)]


# Connections that break


def end_connections(url: str) -> None:
    """End every other connection to the database."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_a_work_whose_connection_breaks_runs_again(postgres_url: str) -> None:
    runs: list[int] = []

    def work(writer: Writer) -> int:
        runs.append(1)
        if len(runs) == 1:
            end_connections(postgres_url)
        return appending("word")(writer)

    async with PostgresStore(postgres_url) as store:
        await b.stored(store, "start")
        assert await store.write(work) == 2
        assert len(runs) == 2
        end_connections(postgres_url)
        assert len(await store.read(lambda reader: reader.entries(ONE))) == 2


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_doubled(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The connection breaks after the server committed, or before it did; the row in `commits` tells which."""
    broken: list[bool] = []

    class Breaking(psycopg.Connection[tuple[object, ...]]):
        def execute(self, query: object, *args: object, **kwargs: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            if query == "COMMIT" and not broken:
                broken.append(True)
                if committed:
                    super().execute("COMMIT")
                self.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return cast(Any, super()).execute(query, *args, **kwargs)

    async with PostgresStore(postgres_url) as store:
        await b.stored(store, "start")

    original = store_module.make_pool

    def pool(url: str, size: int, statement_s: float) -> Pool:
        made = original(url, size, statement_s)
        made.connection_class = Breaking  # pyright: ignore[reportAttributeAccessIssue]
        return made

    monkeypatch.setattr(store_module, "make_pool", pool)
    async with PostgresStore(postgres_url) as store:
        assert await store.write(appending("word")) == 2
        assert broken
        assert [entry.seq for entry in await store.read(lambda reader: reader.entries(ONE))] == [1, 2]


async def test_a_claimed_commit_can_no_longer_happen(postgres_url: str) -> None:
    """Whoever asks how a transaction ended, and hears that it did not, must be sure that it never will."""
    commit_id = uuid.uuid4()
    async with PostgresStore(postgres_url):
        with psycopg.connect(postgres_url) as late:
            late.execute("SELECT 1")
            with psycopg.connect(postgres_url) as asking:
                claim = "INSERT INTO commits (id) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1"
                assert asking.execute(claim, (commit_id,)).fetchone() == (1,)
            with pytest.raises(psycopg.errors.UniqueViolation):
                late.execute("INSERT INTO commits (id) VALUES (%s)", (commit_id,))


async def test_a_server_that_is_killed_and_started_again_has_what_was_acknowledged() -> None:
    server = PostgresServer(durable=True)
    try:
        async with PostgresStore(server.url()) as store:
            await b.stored(store, "start")
            written = [await store.write(appending(f"word {n}")) for n in range(5)]
            await asyncio.to_thread(server.kill)
            starting = asyncio.create_task(asyncio.to_thread(server.start))
            again = await store.write(appending("after"))
            await starting
            assert (written[-1], again) == (6, 7)
            entries = await store.read(lambda reader: reader.entries(ONE))
            assert [entry.seq for entry in entries] == list(range(1, 8))
    finally:
        server.remove()


async def test_a_server_that_does_not_answer_is_an_error_that_names_it() -> None:
    with pytest.raises(StorageError) as refused:
        async with PostgresStore("postgresql://shiftlog:geheim@/x?host=/nowhere"):
            pass
    assert "/nowhere" in str(refused.value.details["reason"])
    assert "geheim" not in str(refused.value.details)


async def test_renewing_a_lease_gives_nothing_back_that_another_process_has_given_away(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        await store.write(lambda writer: writer.put_lease(b.lease()))
        with psycopg.connect(postgres_url) as other:
            # Another process gives the session to another client, and has not committed yet.
            taken = encode_noun(b.lease(client_id="client-2", fence=2))
            other.execute("UPDATE leases SET client_id = 'client-2', doc = %s", (taken,))
            later = b.START + timedelta(hours=1)
            renewing = asyncio.create_task(store.write(lambda writer: writer.renew_leases(["client-1"], later)))
            with psycopg.connect(postgres_url, autocommit=True) as watching:
                waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE leases%'"
                await asyncio.to_thread(eventually, lambda: watching.execute(waits).fetchone())
            other.commit()
            await renewing
        assert (await store.read(lambda reader: reader.leases())) == [b.lease(client_id="client-2", fence=2)]


async def test_a_held_lock_makes_works_fail_in_time_and_not_one_after_the_other(postgres_url: str) -> None:
    async with PostgresStore(postgres_url, statement_s=0.5) as store:
        await b.stored(store, "start")
        with psycopg.connect(postgres_url) as other:
            other.execute("LOCK TABLE journals, sessions IN ACCESS EXCLUSIVE MODE")
            begun = time.monotonic()
            works = [store.write(appending(f"word {n}")) for n in range(40)]
            outcomes = await asyncio.gather(*works, return_exceptions=True)
            assert time.monotonic() - begun < 15  # not 40 times half a second
            assert {type(each) for each in outcomes} == {StorageError}
            assert all("again" in (each.hint or "") for each in outcomes if isinstance(each, StorageError))
            with pytest.raises(StorageError):
                await store.read(lambda reader: reader.session(ONE))
        assert await store.write(appending("word")) == 2


async def test_no_more_connections_are_open_than_the_settings_say(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as db:
        begun = db.execute("SELECT clock_timestamp()").fetchone()
        async with PostgresStore(postgres_url, connections=3) as store:
            await b.stored(store, "start")
            reads = [store.read(lambda reader: reader.session(ONE)) for _ in range(20)]
            await asyncio.gather(*reads, *(store.write(appending(f"word {n}")) for n in range(20)))
            # Connections of an earlier test may still be ending.
            ours = "application_name = 'shiftlog' AND datname = current_database() AND backend_start > %s"
            row = db.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {ours}".encode(), begun).fetchone()
        assert row is not None
        assert 1 <= row[0] <= 3


# Migrations


def newer() -> list[Migration]:
    return [*shipped(), Migration(number=9000, name="newer", sql="CREATE TABLE newer (x integer)")]


def test_processes_that_migrate_at_once_wait_for_each_other(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE empty")
    done: list[int] = []

    def one() -> None:
        with psycopg.connect(postgres_server.url("empty"), autocommit=True) as db:
            done.append(len(migrate(db)))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 0, 0, len(shipped())]


async def test_a_database_of_a_newer_version_is_refused_with_a_hint(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE newer")
    with psycopg.connect(postgres_server.url("newer"), autocommit=True) as db:
        migrate(db, newer())
        assert 9000 in applied(db)
    with pytest.raises(StorageError, match="Storage error") as refused:
        async with PostgresStore(postgres_server.url("newer")):
            pass
    assert "migration 9000" in str(refused.value.details["reason"])
    assert refused.value.hint == "Install the newer Shiftlog that made it"


async def test_a_database_without_the_schema_is_refused_where_migrating_is_not_permitted(
    postgres_server: PostgresServer,
) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as db:
        db.execute("CREATE DATABASE bare")
    with pytest.raises(StorageError) as refused:
        async with PostgresStore(postgres_server.url("bare"), migrates=False):
            pass
    assert "1 (ground)" in str(refused.value.details["reason"])
    assert "shiftlog store migrate" in (refused.value.hint or "")


def test_the_lock_of_migrations_never_changes() -> None:
    """Two versions with different locks could migrate one database at once."""
    assert LOCK == 7_437_000_015


# Patterns

PIECES = st.sampled_from(["*", "?", "[", "]", "^", "-", "a", "b", "z", ".", "/", "\\", "+", "(", "|", "$", "é", "{2}"])


@given(pattern=st.lists(PIECES, max_size=7).map("".join), path=st.text("abz^-]./\\+(|$é[", max_size=5))
@settings(max_examples=300)
def test_a_pattern_fits_the_same_paths_as_in_the_embedded_store(pattern: str, path: str) -> None:
    ((fits,),) = _sqlite.execute("SELECT ? GLOB ?", (path, pattern)).fetchall()
    assert bool(re.search(regex_of(pattern).removesuffix("$") + r"\Z", path, re.DOTALL)) == bool(fits)


_sqlite = apsw.Connection(":memory:")


@pytest.fixture(scope="module")
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as made:
        yield made


@given(pattern=st.lists(PIECES, max_size=7).map("".join), path=st.text("abz^-]./\\+(|$é[", max_size=5))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_postgresql_reads_the_regular_expression_of_a_pattern_alike(
    connection: psycopg.Connection[tuple[object, ...]], pattern: str, path: str
) -> None:
    row = connection.execute("SELECT %s::text ~ %s", (path, regex_of(pattern))).fetchone()
    ((fits,),) = _sqlite.execute("SELECT ? GLOB ?", (path, pattern)).fetchall()
    assert row == (bool(fits),)


@pytest.mark.parametrize("failures", range(1, 2 * PREPARED_AFTER))
async def test_writes_that_failed_leave_the_connection_fit_for_the_next_ones(own_database: str, failures: int) -> None:
    async with PostgresStore(own_database, connections=2) as store:
        await b.stored(store, "start")
        await store.write(appending("one before"))
        with psycopg.connect(own_database, autocommit=True) as db:
            db.execute("ALTER TABLE entries ADD CONSTRAINT full_disk CHECK (false) NOT VALID")
            # With some number of failures, a statement behind the one that fails would be prepared just then.
            for n in range(failures):
                with pytest.raises(StorageError):
                    await store.write(appending(f"failed {n}"))
            db.execute("ALTER TABLE entries DROP CONSTRAINT full_disk")
        for n in range(3):
            await store.write(appending(f"after {n}"))
