"""Calls of the session log that a client script queued because it reached neither daemon nor store.

They are carried out once and in order, each under its own idempotency key, before anything newer; one that is refused is
set aside with the reason.
"""

import base64
import binascii
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

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
    _attempts: dict[str, int] = field(default_factory=dict[str, int])

    def are_waiting(self) -> bool:
        """Tell whether a call waits, at the price of one look into a folder."""
        try:
            return any(name.startswith(CALLS) for name in os.listdir(self.spool.folder))
        except OSError:
            return False

    async def drain(self) -> int:
        """Carry out what waits, oldest first; stop at one that may work later. Return how many are done with."""
        done = 0
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
            queued = _read(path)
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
        params = queued["params"]
        if isinstance(params, dict) and "idempotencyKey" not in params:
            params = {**params, "idempotencyKey": f"spool-{queued['id']}"}
        await self.sessionlog.call(str(queued["method"]), params, place)

    async def _set_aside(self, path: Path, queued: Mapping[str, Any], reason: str) -> None:
        name = str(queued.get("id") or path.name.removesuffix(".jsonl"))
        content = self.redactor.value(queued.get("params"))[0]
        item = {"kind": "call", "at": queued.get("at"), "event": queued.get("method"), "content": content}
        masked = self.redactor.text(reason).text
        await anyio.to_thread.run_sync(lambda: self.spool.set_aside(name, item, masked, self.now()))


def _read(path: Path) -> dict[str, Any]:
    """Return a queued call; raise Unusable for what is none."""
    if path.stat().st_size > QUEUED_BYTES:
        raise Unusable("it is larger than any call may be")
    try:
        given: Any = json.loads(path.read_bytes())
        texts = {name: base64.b64decode(given[f"{name}_base64"], validate=True).decode() for name in ("params", "cwd")}
        found = {name: str(given.get(name) or "") for name in ("id", "at", "method", "agent")}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
        raise Unusable(f"it cannot be read: {type(error).__name__}") from None
    if not found["id"] or not found["method"] or not texts["cwd"].startswith("/"):
        raise Unusable("it lacks an id, a method or a directory")
    return {**found, "cwd": texts["cwd"], "params": _params(texts["params"])}


def _params(text: str) -> Any:
    from shiftlog.repl.json_text import Unreadable
    from shiftlog.repl.one_shot import parsed

    try:
        value = parsed(text)
    except Unreadable as error:
        raise Unusable(f"its parameters cannot be read: {error}") from None
    return {} if value is None else value


def _removed(path: Path) -> None:
    path.unlink(missing_ok=True)
