"""The table of transcript formats: how each agent's transcripts are recognised, and the reader that takes them.

The content of a file decides, never its name or folder. Names and folders of agents are in `model/agents.py`. A new
format is a reader module, a row there and a row here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import msgspec

from shiftlog.facts.transcript import ReaderFactory
from shiftlog.ingest.readers import sniff
from shiftlog.ingest.readers.records import Object, read_line, utc
from shiftlog.model.agents import CLAUDE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE

MAX_RECORDS = 64
MAX_BYTES = 1024 * 1024
CUT_BYTES = 65536
_SQLITE = b"SQLite format 3\x00"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How one agent's transcripts are recognised and read."""

    agent: str
    reader: str
    """Module and class below this package; imported with the first file of the agent, because start-up time counts."""
    has_record: Callable[[Object], bool]
    is_document: bool = False
    """True if a file may be one JSON document over many lines."""
    has_start: Callable[[bytes], bool] | None = None
    """Recognises a first record that is longer than what was read."""


# The first row that fits a record takes it.
FORMATS = (
    Format(
        agent=OPENCODE,
        reader="plain.opencode:OpenCodeReader",
        has_record=sniff.is_opencode,
        is_document=True,
        has_start=sniff.starts_opencode,
    ),
    Format(
        agent=GEMINI,
        reader="plain.gemini:GeminiReader",
        has_record=sniff.is_gemini,
        is_document=True,
        has_start=sniff.starts_gemini,
    ),
    Format(agent=COPILOT, reader="plain.copilot:CopilotReader", has_record=sniff.is_copilot),
    Format(
        agent=CLAUDE, reader="claude.reader:ClaudeReader", has_record=sniff.is_claude, has_start=sniff.starts_claude
    ),
    Format(agent=CODEX, reader="codex.reader:CodexReader", has_record=sniff.is_codex, has_start=sniff.starts_codex),
    Format(agent=CURSOR, reader="plain.cursor:CursorReader", has_record=sniff.is_cursor),
)
_READERS = {row.agent: row.reader for row in FORMATS}


def reader_for(agent: str) -> ReaderFactory:
    """Return the reader class for an agent's transcripts."""
    module, name = _READERS[agent].split(":")
    return cast(ReaderFactory, getattr(import_module(f"shiftlog.ingest.readers.{module}"), name))


def recognise(head: bytes) -> str | None:
    """Return the agent kind whose records a file begins with; None if no format fits."""
    if head.startswith(_SQLITE):
        return OPENCODE
    head = head[:MAX_BYTES].removeprefix(_BOM)
    votes: Counter[str] = Counter()
    for record in _records(head):
        agent = next((row.agent for row in FORMATS if row.has_record(record)), None)
        if agent is not None:
            votes[agent] += 1
            if votes[agent] > MAX_RECORDS // 2:
                return agent  # the rest cannot outvote it
    if votes:
        # Of equals the one seen first: a counter keeps that order.
        return votes.most_common(1)[0][0]
    return _recognised_document(head) or _recognised_start(head)


def first_time(head: bytes) -> str | None:
    """Return the first timestamp in a file's first records."""
    return next((at for record in _records(head[:MAX_BYTES]) if (at := utc(record.get("timestamp")))), None)


def _records(head: bytes) -> Iterator[Object]:
    count = start = 0
    while count < MAX_RECORDS and start < len(head):
        end = head.find(b"\n", start)
        end = len(head) if end < 0 else end
        read = read_line(head[start:end])
        start = end + 1
        if read is not None and read.record is not None:
            count += 1
            yield read.record


def _recognised_document(head: bytes) -> str | None:
    try:
        document = msgspec.json.decode(head)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    record = cast("Object", document)
    return next((row.agent for row in FORMATS if row.is_document and row.has_record(record)), None)


def _recognised_start(head: bytes) -> str | None:
    if len(head) < MAX_BYTES - len(_BOM) or not head.lstrip().startswith(b"{"):
        return None
    start = head[:CUT_BYTES]
    return next((row.agent for row in FORMATS if row.has_start is not None and row.has_start(start)), None)
