"""Pages of a spooled stream: their text, and the cursors that continue them.

A cursor names command, stream and offset, and carries a checksum, so that a changed cursor or one of another command is
rejected.
"""

import hashlib
import re
from dataclasses import dataclass

from shiftlog.guard.budgets.shape import BudgetReport
from shiftlog.model.shell_errors import CursorInvalid
from shiftlog.shell.outputs.spool import OutputSpool
from shiftlog.shell.ports import STREAMS, Stream

_CURSOR = re.compile(r"o[0-9]{1,10}\.(?P<stream>[01])\.(?P<offset>[0-9]{1,19})\.(?P<check>[0-9a-f]{8})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPage:
    """One page of a stream for `read_output`."""

    text: str
    from_line: int
    lines: int
    bytes_total: int
    lines_total: int
    next_cursor: str | None
    eof: bool
    budget: BudgetReport | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the page's part of the result."""
        return {
            "text": self.text,
            "from_line": self.from_line,
            "lines": self.lines,
            "bytes_total": self.bytes_total,
            "lines_total": self.lines_total,
            "next_cursor": self.next_cursor,
            "eof": self.eof,
            "budget": self.budget.as_dict() if self.budget is not None else None,
        }


def write_cursor(command_id: str, stream: Stream, offset: int) -> str:
    """Return the cursor for an offset in a stream."""
    position = f"o{command_id.rpartition('#')[2][:10]}.{STREAMS.index(stream)}.{offset}"
    return f"{position}.{_check(command_id, position)}"


def read_cursor(cursor: str, command_id: str, stream: Stream) -> int:
    """Return the offset of a cursor; raises `CursorInvalid` for a cursor of another stream."""
    match = _CURSOR.fullmatch(cursor)
    if match is None or cursor != write_cursor(command_id, stream, int(match["offset"])):
        raise CursorInvalid(f"cursor is not valid for {command_id}")
    return int(match["offset"])


def _check(command_id: str, position: str) -> str:
    return hashlib.sha256(f"{command_id}\n{position}".encode()).hexdigest()[:8]


def read_page(spool: OutputSpool, offset: int, max_chars: int) -> bytes:
    """Return at most `max_chars` characters from an offset on, up to the end of a line if one fits."""
    data = spool.read(offset, min(spool.size, offset + 4 * max_chars + 4)) if offset < spool.size else b""
    end = len(data) if data.isascii() else _offset_of_char(data, max_chars)
    end = min(end, max_chars) if data.isascii() else end
    if offset + end < spool.size:
        end = data.rfind(b"\n", 0, end) + 1 or end
    return data[:end]


def _offset_of_char(data: bytes, chars: int) -> int:
    """Return the offset after so many characters; an incomplete last character does not count."""
    return len(data.decode("utf-8", "ignore")[:chars].encode())
