"""A one-shot call: `--invoke METHOD [PARAMS]`."""

import json
import re
import time
from typing import Any

from shiftlog.repl import streams
from shiftlog.repl.sending import CallSender
from shiftlog.repl.texts import json as json_text
from shiftlog.repl.texts.json import ENVELOPE_BYTES, TOO_LARGE, UnreadableText

OK, FAILED = 0, 1
STDIN = "-"


def invoke(sender: CallSender, method: str, params: str | None) -> int:
    """Send one request, print its result or its error as a line of JSON, and return the exit status."""
    name = request_id(method)
    answer = _answer(sender, method, params, name)
    if "error" in answer:
        _print({"requestId": name, **answer["error"]})
        return FAILED
    _print(answer.get("result"))
    return OK


def _answer(sender: CallSender, method: str, params: str | None, name: str) -> dict[str, Any]:
    if not method.strip():
        return _refused("'method' must be a string that is not blank")
    around = json.dumps({"type": "request", "payload": {"requestId": name, "method": method, "params": None}})
    try:
        value = parsed(_text(params, ENVELOPE_BYTES - len(around) + len("null")))
    except UnreadableText as error:
        return _refused(str(error))
    return sender.call(method, {} if value is None else value)


def _text(params: str | None, room: int) -> str:
    """Return the parameters as text; raise UnreadableText if they would make the envelope too large."""
    data = streams.read(room + 1) if params == STDIN else (params or "").encode("utf-8", "surrogateescape")
    if len(data) > room:
        raise UnreadableText(TOO_LARGE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableText("not valid UTF-8") from None


def parsed(text: str) -> Any:
    """Read parameters in JSON or YAML; None for blank text; raise UnreadableText."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        return json_text.load(text)
    if not text.strip():
        return None
    from shiftlog.repl.texts.yaml import load

    return load(_without_end(text) + "\n").value


def _without_end(text: str) -> str:
    """Return a text without a trailing `---`, which ends the document."""
    head, line, tail = text.rpartition("\n---")
    return head if line and not tail.strip() else text.removesuffix("\n")


def request_id(method: str) -> str:
    """Return the id of a one-shot request, built from the time and the method."""
    slug = re.sub(r"[^a-z0-9]+", "-", method.strip().lower()).strip("-")[:48].strip("-") or "request"
    return f"req-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{slug}"


def _refused(reason: str) -> dict[str, Any]:
    payload = {"code": "invalid_envelope", "message": f"Invalid request envelope: {reason}", "retryable": False}
    return {"error": {**payload, "details": {"reason": reason}}}


def _print(value: object) -> None:
    streams.write((json_text.dump(value) + "\n").encode("utf-8", "replace"))
