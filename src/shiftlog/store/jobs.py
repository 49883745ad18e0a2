"""The queue of a store's writer: the works that wait, and which of them are committed together.

A caller waits for most works. The batches of an import are bulk work, which lets the others go first.
"""

import asyncio
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import anyio

from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import NOTHING_KNOWN, About, Writer

T = TypeVar("T")

GROUP_LIMIT = 256

# At most so many pieces of bulk work share a commit, fewer if other work arrives.
BULK_LIMIT = 6

GATHER_STEP_S = 0.002


class Job:
    """One work in the queue; it can be withdrawn until the writer begins it. Without a future no caller waits."""

    def __init__(
        self,
        work: Callable[[Writer], Any],
        future: "asyncio.Future[Any] | None",
        *,
        lasting: bool,
        is_bulk: bool,
        about: About = NOTHING_KNOWN,
    ) -> None:
        self.work = work
        self.about = about
        self.future = future
        self._outcome: tuple[Any, BaseException | None] | None = None
        self.lasting = lasting
        self.is_bulk = is_bulk
        # Protects the two flags: either the writer begins the work, or its caller withdraws it.
        self._lock = threading.Lock()
        self._begun = False
        self._withdrawn = False

    def begin(self) -> bool:
        """Return True if the work may run; from then on it cannot be withdrawn."""
        with self._lock:
            self._begun = not self._withdrawn
            return self._begun

    def resolve(self, result: Any, error: BaseException | None) -> None:
        """Give the outcome to the caller; called on its event loop."""
        self._outcome = result, error
        if self.future is None or self.future.done():
            return  # no caller, or one that was cancelled while the work ran
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def waited_for_again(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[Any]":
        """Return a future of the outcome to a caller whose first wait was cancelled."""
        future = self.future = loop.create_future()
        if self._outcome is not None:
            self.resolve(*self._outcome)
        return future

    def withdraw(self) -> bool:
        """Return True if the work had not begun; then it never will."""
        with self._lock:
            self._withdrawn = not self._begun
            return self._withdrawn


# A finished work: its result, or the error that it raised.
Outcome = tuple[Job, Any, BaseException | None]


class WriteQueue:
    """Works in the order of their arrival, except bulk work; only the writer thread takes them out."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        # Taken out of `_arrived` but not begun; only the writer thread touches them.
        self._awaited: deque[Job] = deque()
        self._bulk: deque[Job] = deque()
        self._is_bulk_next = False
        self._is_ending = False

    def put(self, job: Job) -> None:
        """Add a work."""
        self._arrived.put(job)

    def end(self) -> None:
        """Let the writer finish what is queued, then stop."""
        self._arrived.put(None)

    @property
    def waiting(self) -> int:
        """Return how many works wait; approximate, since two threads change it."""
        return self._arrived.qsize() + len(self._awaited) + len(self._bulk)

    def next_group(self, timeout_s: float | None = None) -> "list[Job] | Iterator[Job] | None":
        """Wait for works and return those to commit together: a list, or an iterator over bulk work.

        Return an empty list after `timeout_s` without work, and None at the end.
        """
        if not (self._awaited or self._bulk or self._is_ending):
            try:
                self._sort_in(self._arrived.get(timeout=timeout_s))
            except queue.Empty:
                return []
        self._take_arrived()
        if self._bulk and (self._is_bulk_next or not self._awaited):
            self._is_bulk_next = False
            return self._bulk_group()
        # Every second group is bulk work, so that an import goes on however many others write.
        self._is_bulk_next = True
        group = [self._awaited.popleft() for _ in range(min(len(self._awaited), GROUP_LIMIT))]
        return group or None

    def gather(self, many: int, within_s: float) -> None:
        """Sleep until so many works have arrived, the next group need not wait, or the time is over."""
        if many < 2:  # a single caller need not wait for others
            return
        end = time.monotonic() + within_s
        self._take_arrived()
        while len(self._awaited) < many and not (self._bulk or self._is_ending) and time.monotonic() < end:
            # Waking up with each arrival would slow down the threads that the works come from.
            time.sleep(GATHER_STEP_S)
            self._take_arrived()

    def _bulk_group(self) -> Iterator[Job]:
        """Yield bulk work, including what arrives meanwhile, until the limit or until other work arrives."""
        for _ in range(BULK_LIMIT):
            if self._bulk:
                yield self._bulk.popleft()
            self._take_arrived()
            if self._awaited:
                return

    def _take_arrived(self) -> None:
        while not self._arrived.empty():
            self._sort_in(self._arrived.get())

    def _sort_in(self, job: Job | None) -> None:
        if job is None:
            self._is_ending = True
        elif job.is_bulk:
            self._bulk.append(job)
        else:
            self._awaited.append(job)

    async def submit(
        self, work: Callable[[Writer], T], *, lasting: bool, is_bulk: bool, about: About = NOTHING_KNOWN
    ) -> T:
        """Queue a work and wait for its outcome.

        Cancelled before it begins it never runs, afterwards its end is awaited.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(work, future, lasting=lasting, is_bulk=is_bulk, about=about)
        self.put(job)
        try:
            return await future
        except asyncio.CancelledError:
            # A cancellation that comes from no scope of anyio, such as the end of the loop, waits for nothing.
            if job.withdraw() or anyio.current_effective_deadline() > -math.inf:
                raise
        # A commit under way cannot be taken back: its caller gets the answer.
        future = job.waited_for_again(loop)
        with anyio.CancelScope(shield=True):
            await asyncio.wait((future,))
        return future.result()


def resolve_soon(
    loop: asyncio.AbstractEventLoop, resolve: Callable[[list[Outcome]], None], outcomes: list[Outcome]
) -> None:
    """Have the event loop of the callers resolve the works of a group, all at once; called on the writer thread."""
    try:
        loop.call_soon_threadsafe(resolve, outcomes)
    except RuntimeError:
        pass  # the loop was closed: no caller is left, and what was committed stays


def raise_not_open() -> NoReturn:
    """Refuse a work before the store is opened, or after it was closed."""
    raise StorageError("Storage error", details={"reason": "the store is not open"})


def raised_anew(error: StorageError) -> StorageError:
    """Return a new error like this one: an error that is raised twice would collect both stacks."""
    return StorageError(error.message, details=error.details, hint=error.hint)
