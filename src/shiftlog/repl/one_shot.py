"""One call and out: `--invoke METHOD [PARAMS]`."""

import re
import sys
import time
from typing import Any

from shiftlog.repl import json_text
from shiftlog.repl.backend import Backend
from shiftlog.repl.json_text import Unreadable

OK, FAILED = 0, 1
STDIN = "-"


def invoke(backend: Backend, method: str, params: str | None) -> int:
    """Send one request, print its result or its error as a line of JSON, and return the exit status."""
    answer = _answer(backend, method, params)
    if "error" in answer:
        _print({"requestId": request_id(method), **answer["error"]})
        return FAILED
    _print(answer.get("result"))
    return OK


def _answer(backend: Backend, method: str, params: str | None) -> dict[str, Any]:
    if not method.strip():
        return _refused("'method' must be a string that is not blank")
    try:
        value = parsed(_text(params))
    except Unreadable as error:
        return _refused(str(error))
    return backend.call(method, {} if value is None else value)


def _text(params: str | None) -> str:
    if params != STDIN:
        return params or ""
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("not valid UTF-8") from None


def parsed(text: str) -> Any:
    """Read parameters that are JSON or YAML, None for blank ones; raise Unreadable."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        return json_text.load(text)
    if not text.strip():
        return None
    from shiftlog.repl.yaml_text import load

    return load(_without_end(text) + "\n").value


def _without_end(text: str) -> str:
    """Return a text without the last `---`, which ends a document where it begins none."""
    head, line, tail = text.rpartition("\n---")
    return head if line and not tail.strip() else text.removesuffix("\n")


def request_id(method: str) -> str:
    """Return the id of a one-shot request, made from the time and the method."""
    slug = re.sub(r"[^a-z0-9]+", "-", method.strip().lower()).strip("-")[:48].strip("-") or "request"
    return f"req-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{slug}"


def _refused(reason: str) -> dict[str, Any]:
    payload = {"code": "invalid_envelope", "message": f"Invalid request envelope: {reason}", "retryable": False}
    return {"error": {**payload, "details": {"reason": reason}}}


def _print(value: object) -> None:
    sys.stdout.buffer.write((json_text.dump(value) + "\n").encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
