"""The loop: read, frame, answer in order, flush; until the input ends."""

import os
import sys
from collections.abc import Iterable

from shiftlog.repl import edge, envelopes, streams
from shiftlog.repl.edge import Call
from shiftlog.repl.framing import Document, Framing

CHUNK_BYTES = 65_536
PROMPT = "shiftlog> "


def serve(call: Call, *, stdin: int = 0, stdout: int = 1, prompt: bool = False) -> int:
    """Answer every document until the input ends or nobody reads the answers; return the exit status."""
    framing = Framing()
    try:
        while True:
            if prompt:
                sys.stderr.write(PROMPT)
                sys.stderr.flush()
            piece = _read(stdin)
            _answer(call, framing.feed(piece) if piece else framing.end(), stdout)
            if not piece:
                return 0
    except BrokenPipeError:
        return 0


def _read(stdin: int) -> bytes:
    try:
        return os.read(stdin, CHUNK_BYTES)
    except OSError:  # no input at all is an input that has ended
        return b""


def _answer(call: Call, documents: Iterable[Document], stdout: int) -> None:
    for document in documents:
        streams.write(envelopes.written(answered(call, document), document.form), stdout)


def answered(call: Call, document: Document) -> envelopes.Envelope:
    """Return the envelope that answers a document."""
    asked = envelopes.read(document)
    if not isinstance(asked, envelopes.Request):
        return asked
    answer = edge.answer(call, asked.method, asked.params)
    if "error" in answer:
        return envelopes.error(asked.request_id, answer["error"])
    return envelopes.result(asked.request_id, answer.get("result"))
