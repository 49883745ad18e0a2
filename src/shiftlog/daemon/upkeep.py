"""The daemon's maintenance: jobs that must never stop service.

A job that fails is tried again, later each time, and `faults` tells `status` and `doctor` what waits and why. Only the
first of equal failures is logged.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import anyio

from shiftlog.daemon.tasks import until
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import UPKEEP_RETRY_LIMIT_S, UPKEEP_RETRY_S, UPKEEP_SETTLED_S

log = logging.getLogger(__name__)

# Renewing the leases of connected clients, which several callers do.
LEASES = "the leases of connected clients"

Job = Callable[[], Awaitable[object]]
Part = Callable[[anyio.Event], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class UpkeepFault:
    """A job that could not be done the last time."""

    reason: str
    hint: str | None
    tries: int = 1
    since: float = field(default_factory=time.monotonic)

    def as_dict(self, what: str) -> dict[str, object]:
        """Return what the status shows of it."""
        since_s = round(time.monotonic() - self.since, 1)
        return {"what": what, "reason": self.reason, "hint": self.hint, "tries": self.tries, "since_s": since_s}


class Upkeep:
    """The maintenance jobs of one daemon, by name."""

    def __init__(self) -> None:
        self._faults: dict[str, UpkeepFault] = {}

    def faults(self) -> list[dict[str, object]]:
        """Return the jobs that could not be done the last time."""
        return [fault.as_dict(what) for what, fault in self._faults.items()]

    async def attempt(self, what: str, job: Job) -> bool:
        """Run a job once; return False, and keep the reason, if it fails."""
        try:
            await job()
        except Exception as error:  # noqa: BLE001 - kept and shown
            self._note(what, _first_cause(error))
            return False
        self._forget(what)
        return True

    def _forget(self, what: str) -> None:
        if self._faults.pop(what, None) is not None:
            log.info("%s: works again", what)

    async def until_done(self, what: str, job: Job) -> None:
        """Run a job until it succeeds, waiting twice as long after each failure."""
        wait_s = UPKEEP_RETRY_S
        while not await self.attempt(what, job):
            await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, UPKEEP_RETRY_LIMIT_S)

    async def keep_up(self, what: str, part: Part, draining: anyio.Event) -> None:
        """Run a part of the service until the daemon drains; one that fails begins anew, later each time."""
        wait_s = UPKEEP_RETRY_S
        while not await self.attempt(what, lambda: self._watched(what, part, draining)) and not draining.is_set():
            async with until(draining):
                await anyio.sleep(wait_s)
            wait_s = min(wait_s * 2, UPKEEP_RETRY_LIMIT_S)

    async def _watched(self, what: str, part: Part, draining: anyio.Event) -> None:
        """Run a part; once it runs for a while, its last failure is over."""

        async def forget() -> None:
            await anyio.sleep(UPKEEP_SETTLED_S)
            self._forget(what)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(forget)
            await part(draining)
            tasks.cancel_scope.cancel()

    async def repeat(self, what: str, every_s: float, job: Job) -> None:
        """Run a job again and again; a failure does not end the repetition."""
        while True:
            await anyio.sleep(every_s)
            await self.attempt(what, job)

    def _note(self, what: str, error: Exception) -> None:
        reason, known = described(error), self._faults.get(what)
        hint = error.hint if isinstance(error, ShiftlogError) else None
        if known is None or known.reason != reason:
            log.error("%s: failed, is tried again", what, exc_info=error)
        if known is None:
            self._faults[what] = UpkeepFault(reason=reason, hint=hint)
        else:
            known.reason, known.hint, known.tries = reason, hint, known.tries + 1


def described(error: Exception) -> str:
    """Return the reason of a failure in one line, without values that clients sent."""
    if not isinstance(error, ShiftlogError):
        known = error.strerror if isinstance(error, OSError) else error.name if isinstance(error, ImportError) else None
        return f"{type(error).__name__}: {known}" if known else type(error).__name__
    reason = error.details.get("reason")
    return error.message if not reason or str(reason) in error.message else f"{error.message} ({reason})"


def _first_cause(error: Exception) -> Exception:
    """Return the first error of a group, which a part with tasks of its own raises."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error
