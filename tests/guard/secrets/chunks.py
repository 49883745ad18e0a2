"""Feeds a text to a scan in chunks, as the output of a running command reaches it."""

from collections.abc import Mapping

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.guard.secrets.scan import LINE_BYTES, Scan

# A line of LINE_BYTES, up to four short lines of a block before it, and the chunk just fed.
MAX_HELD_BYTES = LINE_BYTES + 5 * 4096


class ChunkRedactor:
    """Masks chunks as they come: `feed` returns the decided text, `finish` the rest."""

    def __init__(self, redactor: Redactor, *, by_rule: bool = False) -> None:
        self._scan = Scan(redactor.rules(by_rule=by_rule))
        self._held = b""
        self._chunks: list[bytes] = []

    @property
    def count(self) -> int:
        """How many secrets were masked so far."""
        return self._scan.classes.total()

    @property
    def classes(self) -> Mapping[str, int]:
        """How many secrets of each class were masked so far."""
        return dict(sorted(self._scan.classes.items()))

    @property
    def held_bytes(self) -> int:
        """How much text is held back."""
        return len(self._held) + sum(map(len, self._chunks))

    def feed(self, text: str) -> str:
        """Take the next chunk and return the masked text that no later chunk can change."""
        self._chunks.append(text.encode("utf-8", "surrogatepass"))
        if "\n" not in text and self.held_bytes <= LINE_BYTES:
            return ""
        return self._push(final=False)

    def release(self) -> str:
        """Return all that is held back, masked as if the line ended here, and go on.

        For output that pauses in the middle of a line: a secret that goes on after the pause is cut in two.
        """
        return self._push(final=True)

    def finish(self) -> str:
        """End the text and return its masked rest."""
        return self._push(final=True) + self._scan.close().decode()

    def _push(self, *, final: bool) -> str:
        data = b"".join((self._held, *self._chunks))
        self._chunks.clear()
        masked, used = self._scan.push(data, final=final)
        self._held = data[used:]
        return masked.decode("utf-8", "surrogatepass")
