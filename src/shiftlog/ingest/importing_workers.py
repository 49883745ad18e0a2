"""Worker processes that read transcripts: jobs in, batches out, each worker at most a batch ahead of the writer.

A worker is a program of its own (its command is handed in), so that nothing of a daemon's threads is copied into it.
"""

import gc
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Protocol

import msgspec

from shiftlog.ingest.importing_files import FileJob, NotRecognised, read_file
from shiftlog.ingest.placing import Placer
from shiftlog.model.errors import InternalError, TranscriptUnreadable
from shiftlog.store.incoming import Batch

BATCH, END, NOT_RECOGNISED, UNREADABLE = b"B", b"E", b"N", b"U"

_HEADER = struct.Struct("<cI")
_encode = msgspec.msgpack.encode
_batch_of = msgspec.msgpack.Decoder(Batch).decode
_job_of = msgspec.msgpack.Decoder(FileJob).decode


class Readers(Protocol):
    """Something that reads files to batches, several at a time."""

    @property
    def at_once(self) -> int:
        """How many files may be read ahead."""
        ...

    def read(self, job: FileJob) -> Iterator[Batch]:
        """Begin to read a file and return its batches; raise NotRecognised or TranscriptUnreadable while iterating."""
        ...

    def close(self) -> None:
        """End what is still running."""
        ...


class InProcess:
    """Reads in the calling thread: for small files, where starting a process would take longer than the work."""

    def __init__(self, placer: Callable[[], Placer]) -> None:
        self._placer = placer()

    @property
    def at_once(self) -> int:
        """One file at a time."""
        return 1

    def read(self, job: FileJob) -> Iterator[Batch]:
        """Return the batches of a file."""
        return read_file(job, self._placer)

    def close(self) -> None:
        """Nothing is left to end."""


class Workers:
    """Reads in worker processes; a file keeps its worker until its last batch is taken."""

    def __init__(self, command: Sequence[str], settings: bytes, count: int) -> None:
        self._command = list(command)
        self._settings = settings
        self._count = count
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []

    @property
    def at_once(self) -> int:
        """One file a worker."""
        return self._count

    def read(self, job: FileJob) -> Iterator[Batch]:
        """Hand a file to an idle worker, starting one if need be, and return its batches."""
        worker = self._idle.pop() if self._idle else self._started()
        assert worker.stdin is not None
        _send(worker.stdin, b"J", _encode(job))
        return self._batches(worker, job)

    def _started(self) -> "subprocess.Popen[bytes]":
        worker = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._all.append(worker)
        assert worker.stdin is not None
        _send(worker.stdin, b"S", self._settings)
        return worker

    def _batches(self, worker: "subprocess.Popen[bytes]", job: FileJob) -> Iterator[Batch]:
        assert worker.stdout is not None
        while True:
            tag, data = _receive(worker.stdout)
            if tag == BATCH:
                yield _batch_of(data)
                continue
            self._idle.append(worker)
            if tag == NOT_RECOGNISED:
                raise NotRecognised(job.path)
            if tag == UNREADABLE:
                raise TranscriptUnreadable(data.decode("utf-8", "replace"), details={"path": job.path})
            return

    def close(self) -> None:
        """End all workers."""
        for worker in self._all:
            for pipe in (worker.stdin, worker.stdout):
                try:
                    if pipe is not None:
                        pipe.close()
                except OSError:
                    pass
            worker.kill()
        for worker in self._all:
            worker.wait()
        self._all.clear()
        self._idle.clear()


def serve(make_placer: Callable[[bytes], Placer]) -> int:
    """Be a worker: read settings, then jobs, from standard input, and write batches until it closes."""
    # Records come and go in their thousands and make no cycles; looking for some is a tenth of the work.
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    try:
        _, settings = _receive(source)
        placer = make_placer(settings)
        while True:
            _, data = _receive(source)
            _serve_job(_job_of(data), placer, sink)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return 0


def _serve_job(job: FileJob, placer: Placer, sink: IO[bytes]) -> None:
    try:
        for batch in read_file(job, placer):
            _send(sink, BATCH, _encode(batch))
    except NotRecognised:
        _send(sink, NOT_RECOGNISED, b"")
    except TranscriptUnreadable as error:
        _send(sink, UNREADABLE, error.message.encode("utf-8", "replace"))
    else:
        _send(sink, END, b"")


def _send(sink: IO[bytes], tag: bytes, data: bytes) -> None:
    view = memoryview(_HEADER.pack(tag, len(data)) + data)
    while view:
        view = view[sink.write(view) :]
    sink.flush()


def _receive(source: IO[bytes]) -> tuple[bytes, bytes]:
    header = _exactly(source, _HEADER.size)
    tag, size = _HEADER.unpack(header)
    return tag, _exactly(source, size)


def _exactly(source: IO[bytes], size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError("the other side closed")
    return data


def worker_lost(error: Exception) -> InternalError:
    """Return the error for a worker that ended without an answer."""
    return InternalError(f"A worker that reads transcripts ended unexpectedly: {error}")
