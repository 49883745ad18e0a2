"""The REPL's loop: read, find documents, answer in order, flush; until the input ends."""

import os
import sys
from collections.abc import Callable
from typing import Any

from shiftlog.repl import envelopes, streams
from shiftlog.repl.framing import Document, Framing

CHUNK_BYTES = 65_536
PROMPT = "shiftlog> "

# Answers a method and its parameters with `{"result": …}` or `{"error": …}`; never raises.
Call = Callable[[str, object], dict[str, Any]]


def serve(call: Call, *, stdin: int = 0, stdout: int = 1, prompt: bool = False) -> int:
    """Answer every document until the input ends or the reader has gone; return the exit status."""
    framing = Framing()
    try:
        while True:
            if prompt:
                sys.stderr.write(PROMPT)
                sys.stderr.flush()
            piece = _read(stdin)
            for document in framing.feed(piece) if piece else framing.end():
                streams.write(envelopes.written(answered(call, document), document.form), stdout)
            if not piece:
                return 0
    except BrokenPipeError:
        return 0


def _read(stdin: int) -> bytes:
    try:
        return os.read(stdin, CHUNK_BYTES)
    except OSError:  # a closed standard input counts as an ended one
        return b""


def answered(call: Call, document: Document) -> envelopes.Envelope:
    """Return the envelope that answers a document."""
    request = envelopes.read(document)
    if not isinstance(request, envelopes.RequestEnvelope):
        return request
    answer = call(request.method, request.params)
    if "error" in answer:
        return envelopes.error(request.request_id, answer["error"])
    return envelopes.result(request.request_id, answer.get("result"))
