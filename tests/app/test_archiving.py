"""Archives of old sessions in PostgreSQL: written, checked, removed, restored; holds and open sessions stay."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import zstandard

from shiftlog.app import archive_file
from shiftlog.app.archiving import Archives, first_of
from shiftlog.app.copying import copy_store
from shiftlog.model.entry import Kind
from shiftlog.model.errors import InvalidParameter, StorageError
from shiftlog.store.postgres.distribution import NUMBER_BITS
from shiftlog.store.protocol import Writer
from shiftlog.store.sql.rows import SEQ_BITS
from tests.journal.harness import Harness, open_harness

LONG = "A long text of this session. " * 400


@pytest.fixture
async def team(tmp_path: Path, postgres_url: str) -> AsyncGenerator[Harness]:
    async with open_harness(tmp_path / "home", environ={"SHIFTLOG_STORE_URL": postgres_url}) as harness:
        yield harness


async def ended(team: Harness, title: str, text: str = "walrus") -> str:
    """Return a session that was closed."""
    session = await team.open(title=title, cwd=f"/srv/{title}")
    await team.begin(session)
    await team.update(session, dialog=[{"role": "model", "category": "reasoning", "content": f"{text} {LONG}"}])
    await team.complete(session, usage={"input_tokens": 10, "output_tokens": 5})
    await team.call("close_session", {"session_id": session})
    return session


def rows(url: str, sql: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(sql.encode()).fetchall()


async def test_an_archived_session_leaves_its_entries_in_a_file_and_comes_back_whole(
    team: Harness, tmp_path: Path, postgres_url: str
) -> None:
    session = await ended(team, "shop")
    before = await team.entries(session), await team.session(session), await team.read(lambda r: r.turns(session))
    team.wait(days=60)
    archives = Archives(team.app)
    found = await archives.candidates(first_of("2026-08"), suspended=False)
    report = await archives.archive(found, tmp_path / "files")
    assert (report.sessions, report.entries, report.kept, report.held) == (1, len(before[0]), [], [])
    assert await team.entries(session) == []
    assert not (await team.query(text="walrus"))["items"]
    for table in ("entries", "found", "turns", "blobs", "blob_uses"):
        assert rows(postgres_url, f"SELECT count(*) FROM {table}") == [(0,)], table
    (item,) = (await team.query(kinds=["session"]))["items"]
    assert (item["session_id"], item["tokens"]) == (session, 15)
    assert all(check.ok for check in await team.verify(session))
    assert await team.verify() == []
    assert await team.read(lambda reader: reader.tallies_are_right())
    (file,) = map(Path, report.files)
    assert archive_file.summary(file).entries == report.entries
    assert await archives.restore(file) == ([session], [])
    after = await team.entries(session), await team.session(session), await team.read(lambda r: r.turns(session))
    assert after == before
    assert [check.ok for check in await team.verify()] == [True]
    assert (await team.query(text="walrus"))["items"]
    assert await archives.restore(file) == ([], [session])


async def test_an_archived_session_takes_no_entry_until_it_is_restored(team: Harness, tmp_path: Path) -> None:
    session = await ended(team, "shop")
    team.wait(days=60)
    archives = Archives(team.app)
    await archives.archive(await archives.candidates(first_of("2026-08"), suspended=False), tmp_path / "files")
    refused = await team.refusal("resume_session", {"agent_id": "Codex", "session_id": session})
    assert "in an archive" in str(refused.details)

    def late(writer: Writer) -> None:
        known = writer.session(session)
        pen = team.app.journal.pen(writer, session, known)
        pen.write(Kind.IMPORT_NOTED, {"note": "late"})
        pen.commit(writer)

    with pytest.raises(StorageError, match="archived"):
        await team.app.store.write(late)


async def test_entries_that_are_gone_without_an_archive_are_damage(team: Harness, postgres_url: str) -> None:
    session = await ended(team, "shop")
    with psycopg.connect(postgres_url) as db:
        db.execute("UPDATE journals SET head_seq = 0 WHERE id = %s", (session,))
        db.execute("DELETE FROM entries")
    assert [check.ok for check in await team.verify()] == [False]


async def test_open_sessions_recent_ones_and_those_on_hold_are_not_archived(team: Harness, tmp_path: Path) -> None:
    held = await ended(team, "held")
    of_project = await ended(team, "case")
    await team.open(title="open")
    await team.app.holds.place("session", held, "case 1", "ada")
    await team.app.holds.place("project", "case", "case 2", "ada")
    team.wait(days=60)
    await ended(team, "recent")
    archives = Archives(team.app)
    found = await archives.candidates(first_of("2026-08"), suspended=True)
    assert found.months == {}
    assert set(found.held) == {held, of_project}


async def test_a_session_that_changes_or_is_held_after_it_was_chosen_stays(team: Harness, tmp_path: Path) -> None:
    held, changed, gone = [await ended(team, name) for name in ("held", "changed", "gone")]
    team.wait(days=60)
    archives = Archives(team.app)
    found = await archives.candidates(first_of("2026-08"), suspended=False)
    await team.app.holds.place("session", held, "case 1", "ada")
    await team.app.maintenance.erase(changed, [2], "asked for")
    report = await archives.archive(found, tmp_path / "files")
    assert set(report.kept) == {held, changed}
    assert await team.entries(gone) == []
    assert [check.ok for check in await team.verify()] == [True, True]


async def test_a_month_that_is_empty_then_is_dropped(tmp_path: Path, own_database: str) -> None:
    """The session is moved to a month of the past, as if it had been recorded there."""
    async with open_harness(tmp_path / "home", environ={"SHIFTLOG_STORE_URL": own_database}) as team:
        await drop_a_month(team, tmp_path / "files", own_database)


async def drop_a_month(team: Harness, folder: Path, postgres_url: str) -> None:
    session = await ended(team, "shop")
    other = await ended(team, "other")
    past = datetime.now(UTC) - timedelta(days=100)
    month = (past.year - 2020) * 12 + past.month - 1
    name = f"{past.year}_{past.month:02d}"
    key, bits = (month << NUMBER_BITS) + 7, SEQ_BITS
    with psycopg.connect(postgres_url) as db:
        old = db.execute("SELECT key FROM journals WHERE id = %s", (session,)).fetchone()
        assert old is not None
        for table in ("entries", "found"):
            db.execute(f"ALTER TABLE {table} DETACH PARTITION {table}_earlier".encode())
            db.execute(
                f"CREATE TABLE {table}_{name} PARTITION OF {table}"
                f" FOR VALUES FROM ({month << 53}) TO ({(month + 1) << 53})".encode()
            )
            db.execute(
                f"UPDATE {table} SET id = {key << bits} + (id & {(1 << bits) - 1}), session_key = {key}"
                f" WHERE session_key = {old[0]}".encode()
            )
            bounds = f"FROM (MINVALUE) TO ({month << 53})"
            db.execute(f"ALTER TABLE {table} ATTACH PARTITION {table}_earlier FOR VALUES {bounds}".encode())
        for table, column in (("turns", "key"), ("blob_uses", "entry_id")):
            moved = f"{column} = {key << bits} + ({column} & {(1 << bits) - 1})"
            db.execute(f"UPDATE {table} SET {moved}, session_key = {key} WHERE session_key = {old[0]}".encode())
        for table in ("journals", "sessions"):
            db.execute(f"UPDATE {table} SET key = {key} WHERE key = {old[0]}".encode())
    team.wait(days=60)
    archives = Archives(team.app)
    assert [each.sessions for each in await archives.partitions() if each.name == name.replace("_", "-")] == [1]
    report = await archives.archive(await archives.candidates(first_of("2026-08"), suspended=False), folder)
    assert report.dropped == [name.replace("_", "-")]
    assert rows(postgres_url, f"SELECT to_regclass('entries_{name}'), to_regclass('found_{name}')") == [(None, None)]
    for file in report.files:
        await archives.restore(Path(file))
    assert [check.ok for check in await team.verify()] == [True, True]
    assert {session, other} == set(await team.app.maintenance.session_ids())


async def test_a_damaged_archive_is_refused_before_anything_is_restored(team: Harness, tmp_path: Path) -> None:
    await ended(team, "one")
    await ended(team, "two")
    team.wait(days=60)
    archives = Archives(team.app)
    report = await archives.archive(await archives.candidates(first_of("2026-08"), suspended=False), tmp_path / "files")
    (file,) = map(Path, report.files)
    whole = zstandard.ZstdDecompressor().stream_reader(file.read_bytes()).read()
    lines = whole.splitlines(keepends=True)
    damages = {
        "cut": b"".join(lines[:-1]),
        "a session less": b"".join([lines[0], lines[1], lines[-1]]),
        "edited": whole.replace(b"Find the race", b"Find the rice", 1),
        "another file": b"{}\n",
        "more behind it": whole + lines[1],
    }
    for name, content in damages.items():
        damaged = tmp_path / f"{name}.zst"
        damaged.write_bytes(zstandard.ZstdCompressor().compress(content))
        with pytest.raises(StorageError):
            await archives.restore(damaged)
    (tmp_path / "noise.zst").write_bytes(b"noise")
    with pytest.raises(StorageError):
        await archives.restore(tmp_path / "noise.zst")
    assert await team.app.maintenance.session_ids() == []


async def test_a_copy_of_a_store_keeps_its_archived_sessions_and_holds(
    team: Harness, tmp_path: Path, postgres_url: str
) -> None:
    session = await ended(team, "shop")
    kept = await ended(team, "kept")
    await team.app.holds.place("session", kept, "case 1", "ada")
    team.wait(days=60)
    archives = Archives(team.app)
    await archives.archive(await archives.candidates(first_of("2026-08"), suspended=False), tmp_path / "files")
    target = tmp_path / "copy.db"
    await copy_store(tmp_path / "home", postgres_url, str(target), lambda stage, total, done: None, {})
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    target.rename(other / "shiftlog.db")
    async with open_harness(other) as copied:
        assert await copied.session(session) == await team.session(session)
        assert await copied.read(lambda reader: reader.archived(session)) is not None
        assert len(await copied.app.holds.all()) == 1


@pytest.mark.parametrize("month", ["2026", "2026-13", "x", "2026-1-1"])
def test_a_wrong_month_is_refused_by_name(month: str) -> None:
    with pytest.raises(InvalidParameter, match="before"):
        first_of(month)
