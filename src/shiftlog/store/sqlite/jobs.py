"""What waits for the writer of the embedded store, and what of it is committed together.

Somebody waits for most works by the moment; the batches of an import are bulk work, which makes way for them.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from shiftlog.store.protocol import Writer

GROUP_LIMIT = 256

# Of bulk work so much is committed together, as long as nobody else waits.
BULK_LIMIT = 6


class Job:
    """A piece of work that waits for the writer, and can be withdrawn until it has begun."""

    def __init__(
        self, work: Callable[[Writer], Any], future: "asyncio.Future[Any]", *, brief: bool, lasting: bool = True
    ) -> None:
        self.work = work
        self.future = future
        self.brief = brief
        self.lasting = lasting
        # Work that nobody waits for by the moment, and much of it: the batches of an import.
        self.is_bulk = not brief and not lasting
        # Decides between the writer that begins and the caller that withdraws.
        self._lock = threading.Lock()
        self._taken = False
        self._withdrawn = False

    def begin(self) -> bool:
        """Say whether the work may run; from then on it cannot be withdrawn."""
        with self._lock:
            self._taken = not self._withdrawn
            return self._taken

    def withdraw(self) -> bool:
        """Say whether the work had not begun, and then never will."""
        with self._lock:
            self._withdrawn = not self._taken
            return self._withdrawn


class Jobs:
    """Works in the order in which they came, but for bulk work; taken by the writer's thread alone."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        # What was taken from there and has not begun; only the writer's thread looks at it.
        self._awaited: deque[Job] = deque()
        self._bulk: deque[Job] = deque()
        self._is_bulk_next = False
        self._is_ending = False

    def put(self, job: Job) -> None:
        """Let a work wait."""
        self._arrived.put(job)

    def end(self) -> None:
        """Say that no more will come."""
        self._arrived.put(None)

    def empty(self) -> bool:
        """Tell whether nothing has come that the writer has not seen."""
        return self._arrived.empty()

    def next_group(self, patience_s: float | None = None) -> "list[Job] | Iterator[Job] | None":
        """Wait for works and return those to commit together: a list, or bulk work one by one; None at the end.

        An empty list is returned where nothing comes for so long.
        """
        if not (self._awaited or self._bulk or self._is_ending):
            try:
                self._sort_in(self._arrived.get(timeout=patience_s))
            except queue.Empty:
                return []
        self._take_arrived()
        if self._bulk and (self._is_bulk_next or not self._awaited):
            self._is_bulk_next = False
            return self._bulk_group()
        # However many others come, every second group is bulk work, if only one piece of it.
        self._is_bulk_next = True
        group = [self._awaited.popleft() for _ in range(min(len(self._awaited), GROUP_LIMIT))]
        return group or None

    def _bulk_group(self) -> Iterator[Job]:
        """Yield bulk work, also what comes meanwhile, until it is enough or somebody else waits."""
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
