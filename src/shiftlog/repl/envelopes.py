"""Reading request envelopes, and writing answers in the form of their request."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from shiftlog.repl.framing import Document

ID_CHARS = 200
UNKNOWN_ID = "unknown"
SUPPORTED_TYPES = ["hello", "request"]
BATCH_MESSAGE = (
    "Batch envelopes are not supported by agent-stdio. Send one request envelope per YAML document, separated by '---'."
)
MULTI_REQUEST_SHAPE = "YAML stream with one envelope per document separated by '---'."
CAPABILITIES = ["workflow.sessionlog", "json-line", "yaml"]
PROTOCOL_VERSION = "1.0"

Envelope = dict[str, Any]

_ID_IN_TEXT = re.compile(
    r"""(?P<alone> ^[ \t-]* )? (?<![A-Za-z0-9_]) ["']?requestId["']? [ \t]*:[ \t]* (?: [&!][^\s,]* [ \t]+ )*
        (?: (?P<double> "(?:[^"\\\n]|\\.)*" ) | '(?P<single> (?:[^'\n]|'')* )'
          | (?P<plain> [^\s"'{}\[\],\#] (?(alone) (?:[^\n\#]|(?<![ \t])\#)* | [^\s"'{}\[\],\#]* ) ) )
      | "(?>(?:[^"\\\n]|\\.)*) "?
      | (?P<opens> [{\[] ) | (?P<closes> [}\]] )""",
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnvelope:
    """A well-formed request."""

    request_id: str
    method: str
    params: object


def read(document: Document) -> RequestEnvelope | Envelope:
    """Return the request in a document, or the envelope that answers it without a call."""
    if document.problem is not None:
        return refusal(_id_in(document.text), document.problem)
    value = document.value
    if isinstance(value, list):
        return _no_batch(_id_in(document.text), "array")
    if not isinstance(value, dict):
        return refusal(_id_in(document.text), "a mapping is expected")
    envelope = cast(Envelope, value)
    payload = envelope.get("payload")
    name = _id_of(envelope, document.text)
    if envelope.get("type") == "batch":
        return _no_batch(name, "batch")
    for key in ("type", "payload"):
        if envelope.get(key) is None:
            return refusal(name, f"'{key}' is missing")
    if envelope["type"] not in SUPPORTED_TYPES:
        return refusal(name, "unknown type; expected hello or request")
    if not isinstance(payload, dict):
        return refusal(name, "'payload' must be a mapping")
    if envelope["type"] == "hello":
        return hello()
    return _request(name, cast(Envelope, payload))


def _request(name: str, payload: Envelope) -> RequestEnvelope | Envelope:
    given, method = payload.get("requestId"), payload.get("method")
    if not isinstance(given, str) or not given.strip():
        return refusal(name, "'requestId' must be a string that is not blank")
    if len(given) > ID_CHARS:
        return refusal(given[:ID_CHARS], f"'requestId' is longer than {ID_CHARS} characters")
    if not isinstance(method, str) or not method.strip():
        return refusal(name, "'method' must be a string that is not blank")
    params = payload.get("params")
    return RequestEnvelope(request_id=given, method=method, params={} if params is None else params)


def _id_of(envelope: Envelope, text: str) -> str:
    """Return the id of an envelope, even if it is misplaced or not a string."""
    payload = envelope.get("payload")
    if not isinstance(payload, dict):
        return _id_in(text)
    given = cast(Envelope, payload).get("requestId", envelope.get("requestId"))
    if isinstance(given, str):
        return given[:ID_CHARS] if given.strip() else UNKNOWN_ID
    # An id elsewhere in the text names something else, such as a turn.
    return UNKNOWN_ID if given is None else _id_in(text)


def _id_in(text: str) -> str:
    """Return the request id in an unreadable text: the least nested one, since deeper ones name turns."""
    best: tuple[tuple[int, int], re.Match[str]] | None = None
    brackets = 0
    for found in _ID_IN_TEXT.finditer(text):
        brackets += (found["opens"] is not None) - (found["closes"] is not None)
        if found["double"] or found["single"] or found["plain"]:
            depth = brackets, len(found["alone"] or "")
            if best is None or depth < best[0]:
                best = depth, found
    if best is None:
        return UNKNOWN_ID
    found = best[1]
    name = (found["single"] or "").replace("''", "'") or (found["plain"] or "").strip()
    if found["double"]:
        try:
            name = str(json.loads(found["double"]))
        except ValueError:
            return UNKNOWN_ID
    name = name.encode("utf-8", "replace").decode("utf-8")
    return name[:ID_CHARS] if name.strip() else UNKNOWN_ID


def hello() -> Envelope:
    """Return the answer to a greeting."""
    return {"type": "hello", "payload": {"protocolVersion": PROTOCOL_VERSION, "capabilities": CAPABILITIES}}


def result(request_id: str, value: object) -> Envelope:
    """Return the envelope of a result."""
    return {"type": "result", "payload": {"requestId": request_id, "result": value}}


def error(request_id: str, payload: Envelope) -> Envelope:
    """Return the envelope of an error."""
    return {"type": "error", "payload": {"requestId": request_id, **payload}}


def refusal(request_id: str, reason: str) -> Envelope:
    """Return the answer to an invalid envelope."""
    return _refused(request_id, "invalid_envelope", f"Invalid request envelope: {reason}", {"reason": reason})


def _no_batch(request_id: str, kind: str) -> Envelope:
    details = {
        "unsupportedType": kind,
        "supportedEnvelopeTypes": SUPPORTED_TYPES,
        "supportedMultiRequestShape": MULTI_REQUEST_SHAPE,
    }
    return _refused(request_id, "unsupported_batch_envelope", BATCH_MESSAGE, details)


def _refused(request_id: str, code: str, message: str, details: Envelope) -> Envelope:
    return error(request_id, {"code": code, "message": message, "retryable": False, "details": details})


def written(envelope: Envelope, form: str) -> bytes:
    """Return an envelope as bytes: one line of JSON, or a YAML document, a blank line and `---`."""
    if form == "json":
        from shiftlog.repl.texts.json import dump

        return (dump(envelope) + "\n").encode("utf-8")
    from shiftlog.repl.texts.yaml import write

    return f"{write(envelope)}\n---\n".encode()
