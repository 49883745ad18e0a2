"""The output of one command: takes the engine's bytes, and returns results, pages and progress.

Both streams meet here, and callers wait here for more. A cursor names command, stream and offset, and carries a
checksum, so that a changed cursor or one of another command is rejected. Budgets and masking are the guard's, files and
limits belong to the keeper.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import msgspec

from shiftlog.guard.budgets.shape import BudgetReport, Shaped, shape
from shiftlog.guard.budgets.spec import WHOLE, Budget
from shiftlog.guard.secrets.scan import ScanRules
from shiftlog.model.shell_errors import CursorInvalid, OutputExpired
from shiftlog.shell.outputs.spool import OutputSpool, SpoolGone
from shiftlog.shell.outputs.stream import StreamOutput
from shiftlog.shell.ports import STREAMS, OutputSink, Stream

DEFAULT_CHARS = 30_000
BINARY_CHARS = 1_000
PROGRESS_CHARS = 2_000
_CATCH_UP_S = 0.1
TORN = b"[output from here on was lost when the daemon was replaced]\n"
TRUNCATED_HINT = "output was truncated; pass budget (grep/keep/max_chars) to shape it"

_CURSOR = re.compile(r"o[0-9]{1,10}\.(?P<stream>[01])\.(?P<offset>[0-9]{1,19})\.(?P<check>[0-9a-f]{8})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOutput:
    """The keys of a command's result that its output decides."""

    stdout: str
    stderr: str
    truncated: bool
    budget: dict[str, dict[str, object]] | None
    output: dict[str, dict[str, object]]
    redactions: int
    hint: str | None


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
        return {**asdict(self), "budget": self.budget.as_dict() if self.budget is not None else None}


class CommandOutput(OutputSink):
    """Both streams of one command, running or over; made by an `OutputKeeper`. Used only on the event loop."""

    def __init__(
        self,
        command_id: str,
        stdout: StreamOutput,
        stderr: StreamOutput,
        *,
        clock: Callable[[], float],
        on_end: Callable[["CommandOutput"], None],
        finished: bool = False,
    ) -> None:
        self.command_id = command_id
        self.stdout = stdout
        self.stderr = stderr
        self.finished = finished
        self._clock = clock
        self._on_end = on_end  # called at the command's end, and again when a leftover child closed a stream
        self._waiters: set[asyncio.Future[None]] = set()
        self._advancing: set[Stream] = set()  # streams whose next part is about to be masked
        self._closing: set[Stream] = set()  # streams that end once their text is masked
        self._newest = b""
        self._reported: bytes = b""  # the unfinished line as last reported

    def stream(self, name: Stream) -> StreamOutput:
        """Return one of the streams."""
        return self.stdout if name == "stdout" else self.stderr

    @property
    def redactions(self) -> int:
        """Return how many secrets were masked in both streams."""
        return self.stdout.redactions + self.stderr.redactions

    @property
    def raw_bytes(self) -> int:
        """Return how many bytes the command wrote so far."""
        return self.stdout.raw_bytes + self.stderr.raw_bytes

    @property
    def over(self) -> bool:
        """True if no more output can come."""
        return self.finished and not (self.stdout.open or self.stderr.open)

    @property
    def is_quiet(self) -> bool:
        """True if the command has written nothing for so long that an unfinished word may be shown."""
        return self._clock() >= self.stdout.quiet_at

    def write(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream; an ended one ignores them."""
        output = self.stream(stream)
        if not output.open:
            return
        held = output.held
        self._added(output.write(data))
        if output.behind:
            self._advance_soon(stream)
        if output.held and not held:
            self._wake()  # waiters wait no longer than until this may be shown

    def close(self, stream: Stream) -> None:
        """End a stream; after the command's end, when a leftover child closes it."""
        if self.stream(stream).behind:
            self._closing.add(stream)
        elif self.stream(stream).open:
            self._added(self.stream(stream).close())
            if self.finished:
                self._on_end(self)
            self._wake()

    @property
    def is_behind(self) -> bool:
        """True if text waits to be masked; then no more should be read for now."""
        return self.stdout.behind or self.stderr.behind

    async def catch_up(self) -> None:
        """Wait until all text is masked, which others need not wait for."""
        while self.is_behind:
            await self._wait_for_change(_CATCH_UP_S)

    def _advance_soon(self, stream: Stream) -> None:
        """Let every other client have its turn before more is masked."""
        if stream not in self._advancing:
            self._advancing.add(stream)
            asyncio.get_running_loop().call_soon(self._advance, stream)

    def _advance(self, stream: Stream) -> None:
        self._advancing.discard(stream)
        self._added(self.stream(stream).advance())
        if self.stream(stream).behind:
            self._advance_soon(stream)
        elif stream in self._closing:
            self._closing.discard(stream)
            self.close(stream)

    def finish(self, streams_open: Iterable[Stream] = ()) -> None:
        """End the command; streams that a leftover child holds stay open. Repeating it changes nothing."""
        if self.finished:
            return
        held = frozenset(streams_open)
        for name in STREAMS:
            self._added(self.stream(name).release() if name in held else self.stream(name).close())
        self.finished = True
        self._on_end(self)
        self._wake()

    def mark(self, stream: Stream) -> bytes | None:
        """Store a stream so far; return what `resume` needs."""
        mark = self.stream(stream).mark()
        return None if mark is None else msgspec.msgpack.encode(mark)

    def resume(self, stream: Stream, mark: bytes) -> None:
        """Go on after what an earlier server stored of a stream."""
        self.stream(stream).resume(msgspec.msgpack.decode(mark))

    def replace(self, stream: Stream, output: StreamOutput) -> None:
        """Take another output for a stream that is over."""
        if stream == "stdout":
            self.stdout = output
        else:
            self.stderr = output

    def tear(self, stream: Stream) -> None:
        """End a stream that lost bytes: the rest could be part of a secret."""
        output = self.stream(stream)
        if output.open:
            output.spool.append(TORN)
            self.close(stream)

    def mask_by(self, rules: ScanRules) -> None:
        """Mask by other rules from here on, because a secret was sent to the command."""
        self.stdout.mask_by(rules)
        self.stderr.mask_by(rules)

    def newest(self, chars: int = PROGRESS_CHARS) -> str:
        """Return the newest characters of both streams since the last call, for a progress message.

        An unfinished line is included, once for each time that it has changed.
        """
        held = self.stdout.peek() + self.stderr.peek()
        data = self._newest + held if self._newest or held != self._reported else b""
        self._newest, self._reported = b"", held
        return data.decode("utf-8", "ignore")[-chars:]

    def show(self, budget: Budget | None = None, default_chars: int = DEFAULT_CHARS) -> ShownOutput:
        """Shape both streams by a budget for a command's result."""
        shown: dict[Stream, Shaped] = {name: self._shape(name, budget or WHOLE, default_chars) for name in STREAMS}
        truncated = any(shaped.truncated for shaped in shown.values())
        reported = budget is not None and not budget.keeps_everything
        return ShownOutput(
            stdout=shown["stdout"].text,
            stderr=shown["stderr"].text,
            truncated=truncated,
            budget={name: one.report.as_dict() for name, one in shown.items()} if reported else None,
            output={name: self._totals(name, shaped) for name, shaped in shown.items()},
            redactions=self.redactions,
            hint=TRUNCATED_HINT if truncated and not reported else None,
        )

    def page(
        self,
        stream: Stream = "stdout",
        *,
        cursor: str | None = None,
        from_line: int | None = None,
        max_chars: int = DEFAULT_CHARS,
    ) -> OutputPage:
        """Return verbatim text from a cursor, a line (from 1) or the start on.

        Raises `CursorInvalid` or, once the output was removed, `OutputExpired`.
        """
        output = self.stream(stream)
        self._added(output.release_if_quiet())
        spool = output.spool
        try:
            start = self._position(stream, cursor, from_line)
            data = _read_page(spool, start, max_chars)
            first = spool.line_at(start)
        except SpoolGone:
            raise expired(self.command_id) from None
        finally:
            self._free(output)
        end = start + len(data)
        eof = end == spool.size and not output.open
        return OutputPage(
            text=data.decode(),
            from_line=first + 1,
            lines=data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0),
            bytes_total=output.raw_bytes,
            lines_total=spool.lines_total,
            next_cursor=None if eof else write_cursor(self.command_id, stream, end),
            eof=eof,
        )

    def page_by(self, budget: Budget, stream: Stream = "stdout") -> OutputPage:
        """Shape one whole stream by a budget; the cursor continues after it."""
        output = self.stream(stream)
        shaped = self._shape(stream, budget, DEFAULT_CHARS)
        end = output.spool.size
        return OutputPage(
            text=shaped.text,
            from_line=1,
            lines=shaped.report.lines_kept,
            bytes_total=output.raw_bytes,
            lines_total=shaped.report.lines_total,
            next_cursor=write_cursor(self.command_id, stream, end) if output.open else None,
            eof=not output.open,
            budget=None if budget.keeps_everything else shaped.report,
        )

    async def wait(
        self,
        stream: Stream = "stdout",
        *,
        cursor: str | None = None,
        from_line: int | None = None,
        until: Literal["output", "end"] = "output",
        timeout_s: float,
    ) -> bool:
        """Wait until a page from there would have text, or until the command ends; return False at the timeout."""
        output = self.stream(stream)
        deadline = self._clock() + timeout_s
        while True:
            self._added(output.release_if_quiet())
            if self.finished and (until == "end" or not output.open):
                return True
            if until == "output" and output.spool.size > self._position(stream, cursor, from_line):
                return True
            now = self._clock()
            if now >= deadline:
                return False
            until_quiet = output.quiet_at if output.held and until == "output" else deadline
            await self._wait_for_change(max(0.001, min(deadline, until_quiet) - now))

    async def _wait_for_change(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            self._waiters.discard(waiter)
            waiter.cancel()

    def _position(self, stream: Stream, cursor: str | None, from_line: int | None) -> int:
        spool = self.stream(stream).spool
        if from_line is not None:
            return min(spool.offset_of(from_line - 1), spool.size)  # lines after a full spool are not kept
        if cursor is None:
            return 0
        offset = read_cursor(cursor, self.command_id, stream)
        if offset > spool.size:
            raise CursorInvalid(f"cursor is not valid for {self.command_id}")
        return offset

    def _shape(self, stream: Stream, budget: Budget, default_chars: int) -> Shaped:
        output = self.stream(stream)
        self._added(output.release_if_quiet())
        if not output.spool.lines_total:
            return Shaped(text="", report=BudgetReport(mode=budget.mode, lines_total=0, lines_kept=0), truncated=False)
        cap = min(BINARY_CHARS, default_chars) if output.binary else default_chars
        try:
            return shape(output.spool, budget, cap)
        except SpoolGone:
            raise expired(self.command_id) from None
        finally:
            self._free(output)

    def _totals(self, stream: Stream, shaped: Shaped) -> dict[str, object]:
        output = self.stream(stream)
        spool = output.spool
        offset = None if shaped.elided_at is None else min(shaped.elided_at, spool.size)
        if offset is None and not self.finished:
            offset = spool.size
        return {
            "bytes": output.raw_bytes,
            "lines": spool.lines_total,
            "final_newline": spool.final_newline,
            "binary": output.binary,
            "open": output.open and self.finished,
            "spool_full": spool.full,
            "sha256": spool.sha256,
            "cursor": None if offset is None else write_cursor(self.command_id, stream, offset),
        }

    def _free(self, output: StreamOutput) -> None:
        """Free the read cache; an open stream keeps its file open."""
        output.spool.forget()
        if not output.open:
            output.spool.close_file()

    def _added(self, text: bytes) -> None:
        if text:
            self._newest = (self._newest + text[-4 * PROGRESS_CHARS :])[-4 * PROGRESS_CHARS :]
            self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def write_cursor(command_id: str, stream: Stream, offset: int) -> str:
    """Return the cursor for an offset in a stream."""
    position = f"o{command_id.rpartition('#')[2][:10]}.{STREAMS.index(stream)}.{offset}"
    check = hashlib.sha256(f"{command_id}\n{position}".encode()).hexdigest()[:8]
    return f"{position}.{check}"


def read_cursor(cursor: str, command_id: str, stream: Stream) -> int:
    """Return the offset of a cursor; raises `CursorInvalid` for a cursor of another stream."""
    match = _CURSOR.fullmatch(cursor)
    if match is None or cursor != write_cursor(command_id, stream, int(match["offset"])):
        raise CursorInvalid(f"cursor is not valid for {command_id}")
    return int(match["offset"])


def _read_page(spool: OutputSpool, offset: int, max_chars: int) -> bytes:
    """Return at most `max_chars` characters from an offset on, up to the end of a line if one fits."""
    data = spool.read(offset, min(spool.size, offset + 4 * max_chars + 4)) if offset < spool.size else b""
    # An incomplete last character does not count.
    end = len(data.decode("utf-8", "ignore")[:max_chars].encode())
    if offset + end < spool.size:
        end = data.rfind(b"\n", 0, end) + 1 or end
    return data[:end]


def expired(command_id: str, expired_at: str | None = None) -> OutputExpired:
    """Return the error for an output that is no longer kept."""
    return OutputExpired(f"output of {command_id} is no longer kept", details={"expired_at": expired_at})
