"""Comparing the kept text of an output with the digest that the journal recorded when its command ended."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from shiftlog.shell.outputs.spool import MARK_BYTES, OutputSpool, SpoolGone


def is_as_recorded(spool: OutputSpool, recorded: Mapping[str, Any]) -> bool:
    """Return True if a stored text is, or begins with, the one whose digest and lines were recorded.

    A child that outlives its command may add to the text later, so only the recorded beginning is compared then.
    """
    wanted = recorded.get("sha256")
    try:
        return (
            wanted is None
            or _matches(spool, spool.size, wanted)
            or _beginning_matches(spool, wanted, recorded.get("lines"))
        )
    except SpoolGone:
        return False


def _blocks(spool: OutputSpool, end: int) -> Iterator[bytes]:
    """Yield the text as it is on disk now, whatever its index entry claims."""
    for position in range(0, end, MARK_BYTES):
        yield spool.read(position, min(position + MARK_BYTES, end))


def _matches(spool: OutputSpool, end: int, wanted: str) -> bool:
    digest = hashlib.sha256()
    for block in _blocks(spool, end):
        digest.update(block)
    return digest.hexdigest() == wanted


def _beginning_matches(spool: OutputSpool, wanted: str, lines: object) -> bool:
    """Return True if the text up to a place inside its last recorded line has the digest."""
    if not isinstance(lines, int) or lines > spool.lines_total:
        return False
    last = spool.offset_of(max(lines - 1, 0))
    digest = hashlib.sha256()
    for block in _blocks(spool, last):
        digest.update(block)
    if digest.hexdigest() == wanted:
        return True
    for byte in spool.read(last, min(spool.offset_of(lines), last + MARK_BYTES)):
        digest.update(bytes((byte,)))
        if digest.hexdigest() == wanted:
            return True
    return False
