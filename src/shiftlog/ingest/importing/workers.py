"""Worker processes that read transcripts: jobs in, batches out, a bounded number of bytes ahead of the writer.

A worker is a program of its own, so that it inherits nothing of the daemon's threads.
"""

import gc
import io
import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Protocol, cast

import msgspec

from shiftlog.facts.batch import Batch
from shiftlog.ingest.importing.batches import FileJob, NotRecognised, read_file
from shiftlog.ingest.importing.composer import Composer
from shiftlog.link.import_workers import end_worker, start_worker
from shiftlog.model.errors import TranscriptUnreadable

BATCH, END, NOT_RECOGNISED, UNREADABLE, LOST = b"B", b"E", b"N", b"U", b"L"
MOST_HELD_BYTES = 4 << 20
FILES_AHEAD = 4

_HEADER = struct.Struct("<cI")
_encode = msgspec.msgpack.encode
_batch_of = msgspec.msgpack.Decoder(Batch).decode
_job_of = msgspec.msgpack.Decoder(FileJob).decode


class FileReaders(Protocol):
    """Reads files into batches, several at a time."""

    @property
    def at_once(self) -> int:
        """Return how many files may be read ahead."""
        ...

    def read(self, job: FileJob) -> Iterator[Batch]:
        """Begin to read a file and return its batches; iterating raises NotRecognised or TranscriptUnreadable."""
        ...

    def close(self) -> None:
        """End the reading still under way."""
        ...


class InProcessReaders:
    """Reads in the calling thread; for small files, because starting a process would take longer."""

    def __init__(self, composer: Callable[[], Composer]) -> None:
        self._composer = composer()

    @property
    def at_once(self) -> int:
        """One file at a time."""
        return 1

    def read(self, job: FileJob) -> Iterator[Batch]:
        return read_file(job, self._composer)

    def close(self) -> None:
        """Nothing is left to end."""


class _Stream:
    """The frames of one file that were taken from the pipe; the lock of all workers protects them."""

    def __init__(self, job: FileJob) -> None:
        self.job = job
        self.frames: deque[tuple[bytes, bytes | bytearray]] = deque()
        self.has_taker = False


class Workers:
    """Reads in worker processes; each takes the next file and may be a bounded number of bytes ahead of the writer.

    A thread per worker empties its pipe, so neither waits for the other while there is room. Workers in `ahead` were
    started earlier.
    """

    def __init__(
        self,
        command: Sequence[str],
        settings: bytes,
        count: int,
        ahead: Sequence["subprocess.Popen[bytes]"] = (),
    ) -> None:
        self._command = list(command)
        self._settings = settings
        self._count = count
        self._ahead = list(ahead)
        self._workers: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []
        # Protects everything below: waiting jobs, frames read, and their size.
        self._changed = threading.Condition()
        self._jobs: deque[_Stream] = deque()
        self._held_bytes = 0
        self._alive = 0
        self._idle = 0
        self._is_closed = False

    @property
    def at_once(self) -> int:
        """Return how many files are handed out at once; small ones take a moment."""
        return FILES_AHEAD * self._count

    def read(self, job: FileJob) -> Iterator[Batch]:
        """Queue a file, start a worker if none is idle, and return the batches."""
        stream = _Stream(job)
        with self._changed:
            self._jobs.append(stream)
            if self._idle < len(self._jobs):
                self._start()
            self._changed.notify_all()
        return self._batches(stream)

    def _start(self) -> None:
        if self._alive >= self._count:
            return
        worker = self._ahead.pop() if self._ahead else start_worker(self._command)
        thread = threading.Thread(target=self._attend, args=(worker,), name="import-worker", daemon=True)
        self._workers.append((worker, thread))
        self._alive += 1
        thread.start()

    def _attend(self, worker: "subprocess.Popen[bytes]") -> None:
        """Hand files to a worker and keep its frames until there are no more files."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        stream = None
        try:
            _send(worker.stdin, b"S", self._settings)
            while (stream := self._next_job()) is not None:
                _send(worker.stdin, b"J", _encode(stream.job))
                tag = BATCH
                while tag == BATCH:
                    tag, data = _receive(worker.stdout)
                    self._keep(stream, tag, data)
        except (EOFError, OSError, ValueError) as error:
            if stream is None:
                stream = self._next_job()
            if stream is not None:
                self._keep(stream, LOST, str(error).encode())
        with self._changed:
            self._alive -= 1
            if self._jobs and not self._is_closed:
                self._start()

    def _next_job(self) -> _Stream | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._is_closed)
            self._idle -= 1
            return None if self._is_closed else self._jobs.popleft()

    def _keep(self, stream: _Stream, tag: bytes, data: bytes | bytearray) -> None:
        """Keep a frame once there is room; the file being consumed always has room, or all would wait."""

        def has_room() -> bool:
            if self._held_bytes < MOST_HELD_BYTES or self._is_closed:
                return True
            return stream.has_taker and not stream.frames

        with self._changed:
            self._changed.wait_for(has_room)
            stream.frames.append((tag, data))
            self._held_bytes += len(data)
            self._changed.notify_all()

    def _batches(self, stream: _Stream) -> Iterator[Batch]:
        while True:
            tag, data = self._taken(stream)
            if tag == BATCH:
                yield _batch_of(data)
            elif tag == NOT_RECOGNISED:
                raise NotRecognised(stream.job.path)
            elif tag == UNREADABLE:
                raise TranscriptUnreadable(data.decode("utf-8", "replace"), details={"path": stream.job.path})
            elif tag == LOST:
                raise EOFError(data.decode("utf-8", "replace"))
            else:
                return

    def _taken(self, stream: _Stream) -> tuple[bytes, bytes | bytearray]:
        with self._changed:
            stream.has_taker = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: stream.frames or self._is_closed)
            if not stream.frames:
                return LOST, b"the import ended"
            tag, data = stream.frames.popleft()
            self._held_bytes -= len(data)
            self._changed.notify_all()
        return tag, data

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            workers, self._workers = self._workers, []
            unused, self._ahead = self._ahead, []
        for worker in (*(worker for worker, _ in workers), *unused):
            worker.kill()
        for worker, thread in workers:
            thread.join()
            end_worker(worker)
        for worker in unused:
            end_worker(worker)


def serve(make_composer: Callable[[bytes | bytearray], Composer]) -> int:
    """Run as a worker: read settings and jobs from standard input, write batches until it closes."""
    # Records make no reference cycles; searching for some takes a tenth of the time.
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    try:
        _, settings = _receive(source)
        composer = make_composer(settings)
        while True:
            _, data = _receive(source)
            _serve_job(_job_of(data), composer, sink)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return 0


def _serve_job(job: FileJob, composer: Composer, sink: IO[bytes]) -> None:
    try:
        for batch in read_file(job, composer):
            _send(sink, BATCH, _encode(batch))
    except NotRecognised:
        _send(sink, NOT_RECOGNISED, b"")
    except TranscriptUnreadable as error:
        _send(sink, UNREADABLE, error.message.encode("utf-8", "replace"))
    else:
        _send(sink, END, b"")


def _send(sink: IO[bytes], tag: bytes, data: bytes) -> None:
    for part in (_HEADER.pack(tag, len(data)), data):
        view = memoryview(part)
        while view:
            view = view[sink.write(view) :]
    sink.flush()


def _receive(source: IO[bytes]) -> tuple[bytes, bytearray]:
    header = _exactly(source, _HEADER.size)
    tag, size = _HEADER.unpack(header)
    return tag, _exactly(source, size)


def _exactly(source: IO[bytes], size: int) -> bytearray:
    # Read in place: batches are large, and the writer waits for every copy.
    whole = bytearray(size)
    view, at = memoryview(whole), 0
    while at < size:
        count = cast(io.RawIOBase, source).readinto(view[at:])
        if not count:
            raise EOFError("the other side closed")
        at += count
    return whole
