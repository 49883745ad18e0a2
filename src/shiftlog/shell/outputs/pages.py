"""Pages of a spooled stream: cursors, what a page holds, and where the next one begins.

A cursor names command, stream and offset, and carries a check so that one of another command, or one that was changed,
is refused instead of misread.
"""

import hashlib
import re
from dataclasses import dataclass

from shiftlog.guard.budgets.shape import BudgetReport
from shiftlog.model.shell_errors import CursorInvalid
from shiftlog.shell.outputs.spool import Spool
from shiftlog.shell.ports import Stream

_CURSOR = re.compile(r"o[0-9]{1,10}\.(?P<stream>[01])\.(?P<offset>[0-9]{1,19})\.(?P<check>[0-9a-f]{8})", re.ASCII)
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What `read_output` shows of a stream."""

    text: str
    from_line: int
    lines: int
    bytes_total: int
    lines_total: int
    next_cursor: str | None
    eof: bool
    budget: BudgetReport | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the keys of the result that a page decides."""
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
    """Return the cursor of a place in a stream."""
    place = f"o{command_id.rpartition('#')[2][:10]}.{_STREAMS.index(stream)}.{offset}"
    return f"{place}.{_check(command_id, place)}"


def read_cursor(cursor: str, command_id: str, stream: Stream) -> int:
    """Return the offset that a cursor stands for; raises `CursorInvalid` for one of anything else."""
    match = _CURSOR.fullmatch(cursor)
    if match is None or cursor != write_cursor(command_id, stream, int(match["offset"])):
        raise CursorInvalid(f"cursor is not valid for {command_id}")
    return int(match["offset"])


def _check(command_id: str, place: str) -> str:
    return hashlib.sha256(f"{command_id}\n{place}".encode()).hexdigest()[:8]


def read_page(spool: Spool, offset: int, max_chars: int) -> bytes:
    """Return the text from an offset on: at most so many characters, to the end of a line where one fits."""
    data = spool.read(offset, min(spool.size, offset + 4 * max_chars + 4)) if offset < spool.size else b""
    end = len(data) if data.isascii() else _offset_of_char(data, max_chars)
    end = min(end, max_chars) if data.isascii() else end
    if offset + end < spool.size:
        end = data.rfind(b"\n", 0, end) + 1 or end
    return data[:end]


def _offset_of_char(data: bytes, chars: int) -> int:
    """Return where so many characters end; a character that the data cuts in two does not count."""
    return len(data.decode("utf-8", "ignore")[:chars].encode())
