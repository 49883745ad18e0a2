"""Recovery of the bridge after the daemon went away: find the next daemon and account for every request.

A daemon that says farewell has answered everything that it read, so unanswered requests go to the next one. After any
other end a request may have been applied and is never sent again: the bridge asks the new daemon, which reads the
journal, and the client gets an error that states the outcome.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shiftlog.link import wire
from shiftlog.link.bridge import LINE_BYTES, as_object, id_text, is_answer, read_message
from shiftlog.link.limits import HANDSHAKE_S, OUTCOME_S, RECOVERY_ATTEMPTS

if TYPE_CHECKING:
    from shiftlog.link.bridge import Bridge

REPLACED = -32000
INVALID_REQUEST = -32600
NAME_CHARS = 200

_ID = rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)'
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID)
_ID_LAST = re.compile(rb",\s*" + _ID + rb"\s*\}\s*\Z")

Outcome = tuple[bool | None, object]


def recover(bridge: "Bridge", *, patience_s: float) -> None:
    """Connect to a daemon that is ready for the client's next line, and answer the requests that were lost."""
    lost = _take_lost(bridge)
    outcomes = _reconnect(bridge, {call_id: _tool(line) for call_id, (_, line) in lost.items()}, patience_s)
    for call_id, (method, line) in lost.items():
        outcome = (outcomes or {}).get(call_id, (None, None))
        failure = bridge.failure if outcomes is None else None
        bridge.answer(_lost_answer(call_id, method, outcome, keyed=_is_keyed(line), failure=failure))
    if outcomes is None:
        refuse_queue(bridge)


def give_up(bridge: "Bridge") -> None:
    """Answer everything that waits with the reason, because each daemon goes away before it answers."""
    bridge.failure = failure = _gone_too_often()
    for call_id, (method, line) in _take_lost(bridge).items():
        bridge.answer(_lost_answer(call_id, method, (None, None), keyed=_is_keyed(line), failure=failure))
    refuse_queue(bridge)


def _take_lost(bridge: "Bridge") -> "dict[str, tuple[str, bytes]]":
    """Close the connection and return the requests that may have been applied; the others wait in the queue."""
    bridge.hang_up()
    unanswered = bridge.unanswered
    lost = unanswered.in_flight
    unanswered.in_flight = {}
    for _ in range(unanswered.refusals):
        bridge.answer(_error_line("null", INVALID_REQUEST, "An earlier line was not a JSON-RPC request", {}))
    unanswered.refusals = 0
    unanswered.former_requests |= unanswered.daemon_requests
    unanswered.daemon_requests = set()
    if lost.get(unanswered.initialize_id, ("", b""))[0] == "initialize":
        # The handshake changes nothing, so the next daemon may answer it.
        bridge.queue.insert(0, lost.pop(unanswered.initialize_id)[1])
        unanswered.initialize = None
    if bridge.farewell:
        bridge.queue[:0] = [line for _, line in lost.values()]
        lost = {}
    return lost


def _gone_too_often() -> wire.WireError:
    return wire.WireError(
        "storage_error",
        f"The daemon went away {RECOVERY_ATTEMPTS} times before it could be used",
        "Run shiftlog doctor, and look at daemon.log in the state directory",
    )


def _reconnect(bridge: "Bridge", calls: dict[str, str | None], patience_s: float) -> dict[str, Outcome] | None:
    """Connect to a daemon that stays, and return the outcomes of these calls; None if no daemon can be reached."""
    for _ in range(RECOVERY_ATTEMPTS):
        if bridge.dial(patience_s):
            if _replay_handshake(bridge):
                outcomes = _outcomes(bridge, calls)
                if outcomes is not None:
                    bridge.take_rest()
                    return outcomes
            bridge.hang_up()
        elif not calls:
            return None  # only lost calls are worth further attempts; queued lines can be sent again
    if bridge.failure is None:
        bridge.failure = _gone_too_often()
    return None


def _replay_handshake(bridge: "Bridge") -> bool:
    unanswered, connection = bridge.unanswered, bridge.connection
    if unanswered.initialize is None or connection is None:
        return True
    try:
        connection.send(unanswered.initialize, HANDSHAKE_S)
        while True:
            line = connection.read_line(HANDSHAKE_S)
            if line is None:
                return False
            message = read_message(line)
            if is_answer(message) and id_text(message) == unanswered.initialize_id:
                break
            bridge.answer(line)
            unanswered.note_received(line)
        if unanswered.initialized is not None:
            connection.send(unanswered.initialized, HANDSHAKE_S)
    except OSError:
        return False
    return True


def _outcomes(bridge: "Bridge", calls: dict[str, str | None]) -> dict[str, Outcome] | None:
    """Ask the new daemon which of these calls the journal holds; None if that daemon went away too.

    `calls` maps each call id to its tool. Calls that the daemon cannot judge are left out.
    """
    found: dict[str, Outcome] = {}
    if not calls:
        return found
    try:
        hello = wire.hello_line(role="control", face="mcp", client_id=bridge.client_id)
        connection = wire.open_connection(bridge.home, hello, start=False, timeout_s=OUTCOME_S)
    except wire.WireError:
        return None
    try:
        for number, (call_id, tool) in enumerate(calls.items(), 1):
            name = str(json.loads(call_id))
            if len(name) > NAME_CHARS:  # the journal does not keep its outcome
                continue
            params = {"client_id": bridge.client_id, "call_id": name, "tool": tool}
            question = {"id": number, "method": "call_outcome", "params": params}
            connection.send(json.dumps(question).encode("ascii") + b"\n", OUTCOME_S)
            line = connection.read_line(OUTCOME_S)
            if line is None:
                return None
            answer = read_message(line)
            result = as_object(answer.get("result"))
            if result.get("unknown"):
                found[call_id] = (None, result)
            elif "result" in answer:
                found[call_id] = (answer["result"] is not None, answer["result"])
    except OSError:
        return None
    finally:
        connection.close()
    return found


def _tool(line: bytes) -> str | None:
    name = as_object(read_message(line).get("params")).get("name")
    return name if isinstance(name, str) else None


def _is_keyed(line: bytes) -> bool:
    """Return True if a tool call carries an idempotency key."""
    arguments = as_object(as_object(read_message(line).get("params")).get("arguments"))
    return any(arguments.get(name) for name in ("idempotency_key", "idempotencyKey"))


def _lost_answer(call_id: str, method: str, outcome: Outcome, *, keyed: bool, failure: wire.WireError | None) -> bytes:
    """Return the error that states the outcome of a call whose answer was lost, or why it could not be found out."""
    applied, receipt = outcome
    if applied:
        says, hint = "It was applied", "Do not send it again; query_history shows what it recorded"
    elif applied is None:
        says, hint = "Whether it was applied is not known", "Ask query_history before you send it again"
        hint, receipt = str(as_object(receipt).get("hint") or hint), None
    else:
        says, hint = "It was not applied and recorded nothing", "Send it again"
    if keyed and applied is not False:
        hint = "Send it again with the same key: it is answered as the first time and recorded once"
    message = f"The Shiftlog daemon went away while it worked on this {method} request. {says}."
    if failure is not None:
        message = f"{message} {failure.message}."
        hint = f"{failure.hint}. {hint}"
    data = {"applied": applied, "receipt": receipt, "hint": hint, "retryable": keyed or applied is False}
    return _error_line(call_id, REPLACED, message, data)


def refuse_queue(bridge: "Bridge") -> None:
    """Answer every queued request with the reason why there is no daemon."""
    failure = bridge.failure
    queue, bridge.queue = bridge.queue, []
    for line in queue:
        message = read_message(line)
        if is_answer(message) or ("method" in message and "id" not in message):
            continue
        reason = "There is no Shiftlog daemon" if failure is None else failure.message
        data = {
            "applied": False,
            "receipt": None,
            "hint": "Send it again" if failure is None else failure.hint,
            "retryable": failure is None or failure.code != "invalid_config",
        }
        end = "" if reason.endswith("?") else "."
        bridge.answer(_error_line(id_text(message), REPLACED, f"{reason}{end} The request was not applied.", data))


def refuse_overlong(bridge: "Bridge", head: bytes, tail: bytes) -> None:
    """Answer a line that is too long to forward; its id is found only near its start or end."""
    match = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    call_id = match[1].decode("utf-8", "replace") if match else "null"
    bridge.unanswered.in_flight.pop(call_id, None)
    data = {"hint": "Send or ask for less at once", "retryable": False}
    bridge.answer(_error_line(call_id, INVALID_REQUEST, f"A message may hold at most {LINE_BYTES >> 20} MiB", data))


def _error_line(call_id: str, code: int, message: str, data: Mapping[str, object]) -> bytes:
    error = json.dumps({"code": code, "message": message, "data": data})
    return f'{{"jsonrpc":"2.0","id":{call_id},"error":{error}}}\n'.encode()
