"""Calls of the session log that a client script queued because it reached neither daemon nor store.

They are carried out once and in order, each under its own idempotency key, before anything newer; one that is refused
is set aside with the reason.
"""

import base64
import binascii
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio.to_thread

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.errors import payload
from shiftlog.ingest.hooks.spool import CALLS, HookSpool
from shiftlog.journal.sessions import workspace_of
from shiftlog.link.files import read_regular
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import QUEUED_CALL_ATTEMPTS, QUEUED_CALL_BYTES
from shiftlog.store.protocol import Answer

if TYPE_CHECKING:
    from shiftlog.app.app import App, ReadParams

SCOPE = "spool"
KEY = "idempotencykey"
_ID = re.compile(r"[0-9a-f]{32}")

log = logging.getLogger(__name__)


class Unusable(ValueError):
    """A queued call that cannot be carried out."""


class QueuedCalls:
    """Carries queued calls out, if the app can read their parameters as the script's own program would."""

    def __init__(self, app: "App", spool: HookSpool) -> None:
        self._app = app
        self._spool = spool
        self._attempts: dict[str, int] = {}

    async def drain(self) -> None:
        """Carry out what waits, oldest first; stop at one that may work later."""
        if self._app.read_params is None:
            return
        for name in self._spool.names(CALLS):
            path = self._spool.folder / name
            if not await self._carry_out(path, self._app.read_params):
                return
            await anyio.to_thread.run_sync(lambda path=path: path.unlink(missing_ok=True))

    async def _carry_out(self, path: Path, read_params: "ReadParams") -> bool:
        """Carry a call out or set it aside; return False if it must be tried again later."""
        queued: Mapping[str, Any] = {}
        try:
            queued = _read(path, read_params)
            await self._call(queued)
        except ShiftlogError as error:
            tried = self._attempts[path.name] = self._attempts.get(path.name, 0) + 1
            if error.retryable and tried < QUEUED_CALL_ATTEMPTS:
                log.warning("spool: a queued call waits: %s", error.message)
                return False
            said = payload(error)
            await self._set_aside(path, queued, f"{said['code']}: {said['message']}")
        except (Unusable, OSError) as error:
            await self._set_aside(path, queued, str(error))
        except Exception as error:
            log.exception("spool: a queued call cannot be carried out")
            await self._set_aside(path, queued, f"internal_error: {type(error).__name__}")
        self._attempts.pop(path.name, None)
        return True

    async def _call(self, queued: Mapping[str, Any]) -> None:
        workspace = str(queued["cwd"])
        context = CallContext(
            caller=Caller(client_id=f"spool:{queued['id']}", face="spool", cwd=workspace, call_id="1"),
            workspace=workspace_of(workspace),
            agent=queued["agent"] or None,
            again=True,  # a daemon that was killed may have carried it out already
        )
        name = str(queued["id"])
        result = await self._app.sessionlog.call(str(queued["method"]), _keyed(queued["params"], name), context)
        kept = Answer(request_hash="", answer=_receipt(result), at=self._app.clock.now())
        await self._app.store.write(lambda writer: writer.put_answer(SCOPE, name, kept))

    async def receipt(self, name: str) -> dict[str, Any] | None:
        """Return the receipt of a queued call: persisted, unchanged, queued or set_aside."""
        kept = await self._app.store.read(lambda reader: reader.answer(SCOPE, name))
        if kept is not None:
            return dict(kept.answer)
        aside = next((item for item in self._spool.aside() if item.get("id") == name), None)
        if aside is not None:
            return {**_EMPTY, "code": "set_aside", "reason": aside.get("reason")}
        return {**_EMPTY, "code": "queued"} if any(name in waiting for waiting in self._spool.names(CALLS)) else None

    async def _set_aside(self, path: Path, queued: Mapping[str, Any], reason: str) -> None:
        name = str(queued.get("id") or _id_in(path.stem))
        content = self._app.redactor.value(queued.get("params"))[0]
        item = {"kind": "call", "at": queued.get("at"), "event": queued.get("method"), "content": content}
        masked, now = self._app.redactor.text(reason).text, self._app.clock.now()
        await anyio.to_thread.run_sync(lambda: self._spool.set_aside(name, item, masked, now))


def _read(path: Path, read_params: "ReadParams") -> dict[str, Any]:
    """Return a queued call; raise Unusable for a file that is not one."""
    if path.stat().st_size > QUEUED_CALL_BYTES:
        raise Unusable("it is larger than any call may be")
    try:
        given: Any = json.loads(read_regular(path))
        names = ("method", "params", "cwd", "agent")
        texts = {name: base64.b64decode(given[f"{name}_base64"], validate=True).decode() for name in names}
        params = read_params(texts.pop("params"))
        found = {name: str(given.get(name) or "") for name in ("id", "at")} | texts
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error) as error:
        raise Unusable(f"it cannot be read: {error}"[:200]) from None
    if not found["id"] or not found["method"].strip() or not found["cwd"].startswith("/"):
        raise Unusable("it lacks an id, a method or a directory")
    return {**found, "params": {} if params is None else params}


def _receipt(result: Any) -> dict[str, Any]:
    """Return the receipt of a call that was carried out; a read changed nothing."""
    given: Any = cast("dict[str, Any]", result).get("journal") if isinstance(result, dict) else None
    if not isinstance(given, dict):
        return {**_EMPTY, "code": "unchanged"}
    journal = cast("dict[str, Any]", given)
    names = {"session_id": "sessionId", "seq": "seq", "hash": "hash", "redactions": "redactions"}
    code = "persisted" if journal.get("changed") else "unchanged"
    return {"code": code, **{ours: journal.get(theirs) for ours, theirs in names.items()}}


_EMPTY = {"code": "", "session_id": None, "seq": None, "hash": None, "redactions": 0}


def _id_in(name: str) -> str:
    """Return the id that a script gave out for a queued call, which ends the name of its file; else that name."""
    last = name.rpartition("-")[2]
    return last if _ID.fullmatch(last) else name


def _keyed(params: Any, name: str) -> Any:
    """Return parameters with a key by which a second attempt is recognised, unless they have one of their own."""
    if not isinstance(params, dict):
        return params
    given = cast("dict[Any, Any]", params)
    has_key = any(str(key).lower() == KEY and str(value or "").strip() for key, value in given.items())
    return given if has_key else {**given, "idempotencyKey": f"spool-{name}"}
