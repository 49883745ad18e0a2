"""The states that readers keep between batches: their cost grows with the file, and none is needed to end the same."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.corpus import MB, START, Author, ClaudeSession
from bench.ingest import run, stop
from shiftlog.app.import_worker import WorkerSettings, composer_for
from shiftlog.ingest.importing import batches
from shiftlog.ingest.importing.batches import FileJob, read_file
from tests.ingest.import_app import NOW, Claude, ImportApp, entries_of, open_import_app

TURNS = 300
FORK = "5e551000-0000-4000-8000-00000000000f"

Record = dict[str, Any]


def conversation(turns: int = TURNS) -> list[Record]:
    made = Claude()
    for number in range(turns):
        made.prompt(f"Step {number}").says(f"Done {number}").ends()
    return made.records


def write_both(app: ImportApp) -> tuple[Path, Path]:
    """Write a conversation and a copy of it that goes on."""
    made = Claude(session=FORK, records=[{**record, "sessionId": FORK} for record in conversation()])
    made.prompt("Otherwise").says("Done otherwise").ends()
    return app.write("a.jsonl", conversation()), app.write("b.jsonl", made.records)


async def outcome(app: ImportApp) -> dict[str, Any]:
    return {name: (session.head_hash, session.shared) for name, session in (await app.sessions()).items()}


async def test_the_states_of_a_long_session_take_less_than_itself_however_many_batches_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_FACTS", 20)
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", conversation(2 * TURNS))
    job = FileJob(path=str(path), now=NOW.isoformat())
    read = list(read_file(job, composer_for(WorkerSettings(mac_key=b"k" * 32))))
    assert len(read) > TURNS / 10
    assert read[-1].state is not None
    assert sum(len(batch.state) for batch in read if batch.state is not None) < path.stat().st_size


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
async def test_a_reading_that_ended_between_two_states_goes_on_as_if_it_had_not(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_FACTS", 20)
    async with open_import_app(tmp_path, name="whole") as app:
        write_both(app)
        await app.take()
        whole = await outcome(app)
    async with open_import_app(tmp_path) as app:
        for path in write_both(app):
            with app.harness.database() as database:
                database.execute(
                    "CREATE TRIGGER full BEFORE INSERT ON sources WHEN CAST(NEW.doc AS TEXT) ->> 'cursor' +"
                    f" CAST(NEW.doc AS TEXT) ->> 'ahead' > {int(path.stat().st_size * share)}"
                    " BEGIN SELECT RAISE(FAIL, 'no room'); END"
                )
            assert not (await app.take(path)).shown()["ok"]
            with app.harness.database() as database:
                database.execute("DROP TRIGGER full")
                ahead = list(database.execute("SELECT max(CAST(doc AS TEXT) ->> 'ahead') FROM sources"))
            assert ahead[0][0] > 0
            assert (await app.take(path)).shown()["ok"]
        assert await outcome(app) == whole
        assert entries_of(await app.take(full=True)) == 0
        assert await app.is_sound()


def many_turns(session: ClaudeSession, author: Author) -> Iterator[Record]:
    for _ in range(75_200):
        yield session.prompt(author.prose(12))
        yield session.answer(author.prose(20))


def long_turns(session: ClaudeSession, author: Author) -> Iterator[Record]:
    for _ in range(150):
        yield session.prompt(author.prose(12))
        for _ in range(3):
            yield from session.command("cat notes", author.code(17_000))
        yield session.answer(author.prose(20))


@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("records", [many_turns, long_turns])
def test_a_session_of_any_length_is_imported_in_two_hundred_megabytes(records: Any, tmp_path: Path) -> None:
    author = Author(3)
    session = ClaudeSession(author, START)
    write(tmp_path / "claude" / "projects" / "-home-dev" / f"{session.id}.jsonl", records(session, author))
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    try:
        _, report, peak = run(home, tmp_path)
    finally:
        stop(home)
    assert report["totals"]["turns"] >= 150
    assert peak <= 200 * MB


def write(path: Path, records: Iterable[Record]) -> None:
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
