"""A harness for hypothesis: the same app, with an event loop of its own behind plain calls."""

import asyncio
import tempfile
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.errors import ShiftlogError
from tests.journal.harness import Harness, open_harness

T = TypeVar("T")


class SyncHarness:
    """A harness whose coroutines are run to their end."""

    def __init__(self, harness: Harness, runner: asyncio.Runner) -> None:
        self.harness = harness
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def attempt(self, tool: str, arguments: dict[str, Any], caller: Caller = LIBRARY) -> dict[str, Any] | ShiftlogError:
        """Call a tool and return its answer or the error of ours; any other exception is a failure."""
        try:
            return self.run(self.harness.call(tool, arguments, caller))
        except ShiftlogError as error:
            return error


@contextmanager
def open_sync_harness() -> Generator[SyncHarness]:
    """Open an app in a new folder for the time of a with block."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        opening = open_harness(Path(folder) / "home")
        harness = runner.run(opening.__aenter__())
        try:
            yield SyncHarness(harness, runner)
        finally:
            runner.run(opening.__aexit__(None, None, None))
