"""One stream of a command on its way from bytes to spool: decoded, masked, stored.

Only masked text is ever stored or shown. Whole lines pass at once; an unfinished line is shown after the stream has
been quiet for a second, so that a secret printed slowly is still masked whole.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from shiftlog.guard.secrets.scan import Scan, ScanRules
from shiftlog.shell.outputs.spool import OutputSpool
from shiftlog.shell.outputs.text import TextDecoder

QUIET_S = 1.0
# At most so many lines with a possible secret are masked in one go, because no other client is served meanwhile.
_LINES_AT_ONCE = 64
_MOST_BEHIND_BYTES = 8 << 20


class StreamOutput:
    """A stream that is being written; its text is in `spool`."""

    def __init__(self, spool: OutputSpool, rules: ScanRules, clock: Callable[[], float]) -> None:
        self.spool = spool
        self.raw_bytes = 0
        self.open = True
        self._decoder = TextDecoder()
        self._scan = Scan(rules)
        self._held = b""  # decoded, but possibly part of a secret, or not masked yet
        self.behind = False  # more text waits to be masked: call `advance`
        self._clock = clock
        self._last_write = clock()
        self._recalled: tuple[bool, int] | None = None

    def as_dict(self) -> dict[str, object]:
        """Return what `reopen` needs besides the file."""
        return {
            "bytes": self.raw_bytes,
            "binary": self.binary,
            "redactions": self.redactions,
            "spool": self.spool.as_dict(),
        }

    @classmethod
    def reopen(cls, path: str, record: dict[str, Any]) -> "StreamOutput":
        """Reopen a stream that is over; an empty record is one that a crash lost."""
        spool = OutputSpool.reopen(path, record.get("spool"))
        stream = cls(spool, ScanRules(), lambda: 0.0)
        stream.raw_bytes, stream.open = record.get("bytes", spool.size), False
        stream._recalled = (record.get("binary", False), record.get("redactions", 0))
        return stream

    def mark(self) -> dict[str, Any] | None:
        """Store what can be stored, and return what `resume` needs.

        None while text waits to be masked, or a secret may go on in a later line.
        """
        scan = None if self.behind else self._scan.state()
        if scan is None:
            return None
        self.spool.flush()
        return {
            "bytes": self.raw_bytes,
            "held": self._held,
            "decoder": self._decoder.state(),
            "scan": scan,
            "spool": self.spool.mark(),
        }

    def resume(self, mark: Mapping[str, Any]) -> None:
        """Go on after what an earlier server has stored."""
        self.raw_bytes, self._held = mark["bytes"], mark["held"]
        self._decoder.restore(mark["decoder"])
        self._scan.restore(mark["scan"])
        self.spool.resume(mark["spool"])

    @property
    def binary(self) -> bool:
        """True if the stream had a NUL or a byte that is not UTF-8."""
        return self._recalled[0] if self._recalled else self._decoder.binary

    @property
    def redactions(self) -> int:
        """Return how many secrets were masked."""
        return self._recalled[1] if self._recalled else self._scan.classes.total()

    @property
    def held(self) -> bool:
        """True if text waits for the rest of its line."""
        return bool(self._held) or self._decoder.holds_line

    @property
    def quiet_at(self) -> float:
        """Return the time from which held text may be shown."""
        return self._last_write + QUIET_S

    def mask_by(self, rules: ScanRules) -> None:
        """Mask by other rules from here on."""
        self._scan.rules = rules

    def write(self, data: bytes) -> bytes:
        """Take the next bytes; return the text that they added."""
        self.raw_bytes += len(data)
        self._last_write = self._clock()
        lines = self._decoder.feed(data)
        if self.behind:
            self._held += lines
            # Only a remote shell sends more than is asked for; its output must not fill the memory.
            return b"" if len(self._held) <= _MOST_BEHIND_BYTES else self.advance()
        return self._store(lines, final=False, most=_LINES_AT_ONCE) if lines else b""

    def advance(self) -> bytes:
        """Mask some of the text that waits for it; return it."""
        return self._store(b"", final=False, most=_LINES_AT_ONCE) if self.behind else b""

    def release(self) -> bytes:
        """Store the held text as if its line ended here; return it."""
        return self._store(self._decoder.release(), final=True) if self.held else b""

    def release_if_quiet(self) -> bytes:
        """Store the held text if the stream has been quiet for long enough."""
        return self.release() if self.held and not self.behind and self._clock() >= self.quiet_at else b""

    def peek(self) -> bytes:
        """Return the held text, masked, without releasing it.

        Before the stream is quiet this is empty, or the last complete state of a progress bar, which cannot be part of
        a secret.
        """
        if not self.held or self.behind:
            return b""
        if self._clock() >= self.quiet_at:
            text = self._held + self._decoder.held()
        else:
            text = self._decoder.replaced if not self._held else b""
        if not text:
            return b""
        masked, _ = self._scan.branch().push(text, final=True)
        return masked

    def close(self) -> bytes:
        """End the stream; return the text that this added."""
        if not self.open:
            return b""
        self.open = False
        text = self._store(self._decoder.finish(), final=True)
        rest = self._scan.close()
        self.spool.append(rest)
        return text + rest

    def _store(self, text: bytes, *, final: bool, most: int = sys.maxsize) -> bytes:
        data = self._held + text if self._held else text
        if not data:
            return b""
        masked, used = self._scan.push(data, final=final, most=most)
        self._held, self.behind = data[used:], self._scan.is_exhausted
        self.spool.append(masked)
        return masked
