"""Calls of the session log that a client script queued because it reached neither daemon nor store.

They are carried out once and in order, each under its own idempotency key, before anything newer; one that is refused
is set aside with the reason.
"""

import base64
import binascii
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from shiftlog.guard.redaction import Redactor
from shiftlog.ingest.hook_spool import CALLS, Spool
from shiftlog.journal.sessionlog import Sessionlog
from shiftlog.journal.sessionlog_current import Binding, Place
from shiftlog.journal.sessionlog_errors import payload
from shiftlog.journal.sessions import workspace_of
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError

CALL_S = 120.0
ATTEMPTS = 10
QUEUED_BYTES = 16 << 20

log = logging.getLogger(__name__)


class Unusable(ValueError):
    """A queued call that says nothing that could be carried out."""


@dataclass(slots=True, kw_only=True)
class QueuedCalls:
    """Carries queued calls out."""

    spool: Spool
    sessionlog: Sessionlog
    redactor: Redactor
    now: Callable[[], datetime]
    read_params: Callable[[str], Any] | None = None
    """Reads parameters as the script's own program would; calls wait until a face has put it here."""
    _attempts: dict[str, int] = field(default_factory=dict[str, int])

    def are_waiting(self) -> bool:
        """Tell whether a call waits, at the price of one look into a folder."""
        return bool(self.spool.names(CALLS))

    async def drain(self) -> int:
        """Carry out what waits, oldest first; stop at one that may work later. Return how many are done with."""
        done = 0
        if self.read_params is None:
            return done
        for name in self.spool.names(CALLS):
            path = self.spool.folder / name
            if not await self._carry_out(path):
                break
            await anyio.to_thread.run_sync(_removed, path)
            done += 1
        return done

    async def _carry_out(self, path: Path) -> bool:
        """Tell whether a call is done with: carried out, or set aside."""
        queued: Mapping[str, Any] = {}
        try:
            queued = self._read(path)
            await self._call(queued)
        except ShiftlogError as error:
            tried = self._attempts[path.name] = self._attempts.get(path.name, 0) + 1
            if error.retryable and tried < ATTEMPTS:
                log.warning("spool: a queued call waits: %s", error.message)
                return False
            said = payload(error)
            await self._set_aside(path, queued, f"{said['code']}: {said['message']}")
        except (Unusable, OSError) as error:
            await self._set_aside(path, queued, str(error))
        self._attempts.pop(path.name, None)
        return True

    async def _call(self, queued: Mapping[str, Any]) -> None:
        workspace = str(queued["cwd"])
        place = Place(
            caller=Caller(client_id=f"spool:{queued['id']}", face="spool", cwd=workspace, call_id="1"),
            workspace=workspace_of(workspace),
            agent=queued["agent"] or None,
            binding=Binding(session_id=None, fence=None),
            timeout_s=CALL_S,
            again=False,
        )
        await self.sessionlog.call(str(queued["method"]), _keyed(queued["params"], str(queued["id"])), place)

    def _read(self, path: Path) -> dict[str, Any]:
        """Return a queued call; raise Unusable for what is none."""
        assert self.read_params is not None
        if path.stat().st_size > QUEUED_BYTES:
            raise Unusable("it is larger than any call may be")
        try:
            given: Any = json.loads(path.read_bytes())
            names = ("method", "params", "cwd", "agent")
            texts = {name: base64.b64decode(given[f"{name}_base64"], validate=True).decode() for name in names}
            params = self.read_params(texts.pop("params"))
            found = {name: str(given.get(name) or "") for name in ("id", "at")} | texts
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
            raise Unusable(f"it cannot be read: {error}"[:200]) from None
        if not found["id"] or not found["method"].strip() or not found["cwd"].startswith("/"):
            raise Unusable("it lacks an id, a method or a directory")
        return {**found, "params": {} if params is None else params}

    async def _set_aside(self, path: Path, queued: Mapping[str, Any], reason: str) -> None:
        name = str(queued.get("id") or path.name.removesuffix(".jsonl"))
        content = self.redactor.value(queued.get("params"))[0]
        item = {"kind": "call", "at": queued.get("at"), "event": queued.get("method"), "content": content}
        masked = self.redactor.text(reason).text
        await anyio.to_thread.run_sync(lambda: self.spool.set_aside(name, item, masked, self.now()))


def _removed(path: Path) -> None:
    path.unlink(missing_ok=True)


def _keyed(params: Any, name: str) -> Any:
    """Return parameters with a key by which a second attempt is recognised."""
    if not isinstance(params, dict):
        return params
    given = cast("dict[str, Any]", params)
    return {"idempotencyKey": f"spool-{name}", **given}
