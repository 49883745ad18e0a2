"""Worker processes that read transcripts: their batches come in order, and one that dies takes only its file along."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from bench.corpus import write_corpus
from shiftlog.app.import_worker import WorkerSettings, composer_for
from shiftlog.facts.batch import Batch
from shiftlog.ingest.files.changes import Source
from shiftlog.ingest.importing.batches import FileJob, read_file
from shiftlog.ingest.importing.workers import MOST_HELD_BYTES, Workers
from shiftlog.journal.intake.service import BatchIntake
from shiftlog.link.import_workers import WORKER, default_jobs, prestart_workers, take_prestarted
from shiftlog.model.errors import StorageError
from tests.ingest.import_app import NOW, open_import_app

SETTINGS = WorkerSettings(mac_key=b"k" * 32)
# Dies when it is started for the first time: the folder it makes tells.
FRAGILE = 'if mkdir "$0" 2>/dev/null; then exit 3; fi; exec "$1" -m shiftlog.app.import_worker'


@contextmanager
def workers(command: Sequence[str], count: int) -> Generator[Workers]:
    readers = Workers(command, msgspec.msgpack.encode(SETTINGS), count)
    try:
        yield readers
    finally:
        readers.close()


def jobs_in(folder: Path, size: int) -> list[FileJob]:
    """Write transcripts and return what it takes to read them."""
    write_corpus(folder, size, turns=6)
    return [FileJob(path=str(path), now=NOW.isoformat()) for path in sorted(folder.rglob("*.jsonl"))]


def source_of(path: str) -> Source:
    return Source(path=path, agent="", device=1, inode=1, size=1, mtime_ns=1, head="", head_bytes=0, cursor=0, tail="")


@pytest.mark.parametrize("count", [1, 3])
def test_all_files_can_be_handed_out_before_the_first_is_taken(count: int, tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 12_000_000)
    with workers(WORKER, count) as readers:
        streams = [readers.read(job) for job in jobs]
        read = [list(stream) for stream in streams]
    composer = composer_for(SETTINGS)
    assert sum(Path(job.path).stat().st_size for job in jobs) > MOST_HELD_BYTES
    assert read == [list(read_file(job, composer)) for job in jobs]


def test_what_was_read_ahead_can_be_left_behind(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 8_000_000)
    with workers(WORKER, 2) as readers:
        streams = [readers.read(job) for job in jobs]
        assert isinstance(next(streams[0]), Batch)


def test_workers_that_were_started_ahead_are_the_ones_that_read(tmp_path: Path) -> None:
    job = jobs_in(tmp_path, 300_000)[0]
    prestart_workers()
    ahead = take_prestarted(1)
    assert take_prestarted(9) == []  # the others were ended
    readers = Workers(["false"], msgspec.msgpack.encode(SETTINGS), 1, ahead)
    assert list(readers.read(job))[-1].last
    readers.close()
    assert [worker.poll() is None for worker in ahead] == [False]


def test_workers_that_no_import_takes_are_ended() -> None:
    prestart_workers()
    ahead = take_prestarted(default_jobs())
    assert [worker.poll() for worker in ahead] == [None] * default_jobs()
    Workers(WORKER, b"", len(ahead), ahead).close()
    assert None not in [worker.poll() for worker in ahead]


def test_where_no_worker_lives_every_file_is_lost_and_none_is_waited_for(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 300_000)[:1] * 3
    with workers(["false"], 2) as readers:
        for stream in [readers.read(job) for job in jobs]:
            with pytest.raises(EOFError):
                list(stream)


def test_another_worker_reads_what_one_that_died_left(tmp_path: Path) -> None:
    job = jobs_in(tmp_path / "corpus", 300_000)[0]
    with workers(["sh", "-c", FRAGILE, str(tmp_path / "died"), sys.executable], 1) as readers:
        lost, read = readers.read(job), readers.read(job)
        with pytest.raises(EOFError):
            list(lost)
        assert list(read)[-1].last


async def test_a_batch_is_refused_where_the_one_before_it_was_not_stored(tmp_path: Path) -> None:
    job = max(jobs_in(tmp_path / "corpus", 12_000_000), key=lambda job: Path(job.path).stat().st_size)
    first, second, *_ = read_file(job, composer_for(SETTINGS))
    async with open_import_app(tmp_path) as app:
        journal = BatchIntake(app.harness.app.store, app.harness.app.clock, SETTINGS.mac_key)
        with pytest.raises(StorageError):
            await journal.write(second, source_of(job.path), follows=first.cursor)
        assert await app.sessions() == {}
        await journal.write(first, source_of(job.path))
        written = await journal.write(second, source_of(job.path), follows=first.cursor)
        assert written.entries > 0
        assert [source.cursor for source in await journal.sources()] == [second.cursor]
        assert await app.is_sound()
