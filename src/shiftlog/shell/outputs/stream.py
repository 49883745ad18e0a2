"""One stream of a command on its way from bytes to spool: viewed, masked, stored.

Only masked text is ever stored or shown. Whole lines pass at once; an unfinished one is shown to who asks after the
stream has been quiet for a second, so that a secret printed slowly is still seen whole.
"""

import copy
from collections import Counter
from collections.abc import Callable

from shiftlog.guard.secrets.scan import Scan, ScanRules
from shiftlog.shell.outputs.spool import Spool
from shiftlog.shell.outputs.view import View

QUIET_S = 1.0


class StreamOutput:
    """A stream that is being written; its text is in `spool`."""

    def __init__(self, spool: Spool, rules: ScanRules, clock: Callable[[], float]) -> None:
        self.spool = spool
        self.raw_bytes = 0
        self.open = True
        self._view = View()
        self._scan = Scan(rules)
        self._held = b""  # viewed, but not decided whether it is part of a secret
        self._clock = clock
        self._last_write = clock()
        self._recalled: tuple[bool, int] | None = None

    @classmethod
    def recall(cls, spool: Spool, *, raw_bytes: int, binary: bool, redactions: int) -> "StreamOutput":
        """Take up a stream that is over."""
        stream = cls(spool, ScanRules(), lambda: 0.0)
        stream.raw_bytes, stream.open, stream._recalled = raw_bytes, False, (binary, redactions)
        return stream

    @property
    def binary(self) -> bool:
        """Tell whether a NUL or a byte that is no UTF-8 came."""
        return self._recalled[0] if self._recalled else self._view.binary

    @property
    def redactions(self) -> int:
        """How many secrets were masked."""
        return self._recalled[1] if self._recalled else self._scan.classes.total()

    @property
    def held(self) -> bool:
        """Tell whether text waits for the rest of its line."""
        return bool(self._held) or self._view.holds_line

    @property
    def quiet_at(self) -> float:
        """When held text may be shown."""
        return self._last_write + QUIET_S

    def mask_by(self, rules: ScanRules) -> None:
        """Mask by other rules from here on."""
        self._scan.rules = rules

    def write(self, data: bytes) -> bytes:
        """Take the next bytes; return the text that they added."""
        self.raw_bytes += len(data)
        self._last_write = self._clock()
        lines = self._view.feed(data)
        return self._store(lines, final=False) if lines else b""

    def release(self) -> bytes:
        """Store all that is held, as if its line ended here; return it."""
        return self._store(self._view.release(), final=True) if self.held else b""

    def release_if_quiet(self) -> bytes:
        """Store what is held once the stream has been quiet for long enough."""
        return self.release() if self.held and self._clock() >= self.quiet_at else b""

    def peek(self) -> bytes:
        """Return what is held, masked, and go on holding it.

        Before the stream is quiet that is nothing, or the state of a progress bar that its next one has replaced: no
        secret can go on there.
        """
        if not self.held:
            return b""
        if self._clock() >= self.quiet_at:
            text = self._held + self._view.held()
        else:
            text = self._view.replaced if not self._held else b""
        if not text:
            return b""
        scan = copy.copy(self._scan)
        scan.classes = Counter[str]()
        masked, _ = scan.push(text, final=True)
        return masked

    def close(self) -> bytes:
        """End the stream; return the text that this added."""
        if not self.open:
            return b""
        self.open = False
        text = self._store(self._view.finish(), final=True)
        rest = self._scan.close()
        self.spool.append(rest)
        return text + rest

    def _store(self, text: bytes, *, final: bool) -> bytes:
        data = self._held + text if self._held else text
        if not data:
            return b""
        masked, used = self._scan.push(data, final=final)
        self._held = data[used:]
        self.spool.append(masked)
        return masked
