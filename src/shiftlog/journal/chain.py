"""Verify a journal: walk a session's chain and name the first entry that was changed after it was written.

Kinds of damage: `edited` (body or facts changed), `missing` (an entry is gone), `reordered` (entries changed
places), `truncated` (the tail is gone, compared with the stored head or a receipt), `signature` (no known key signed
a receipt). `maintenance` adds `projection` (what is shown is not what the entries add up to) and `output` (the kept
output of a command is not the recorded one).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCheck:
    """The state of one session's chain; `kind` is None where it is intact."""

    session_id: str
    entries: int
    erased: int = 0
    kind: str | None = None
    seq: int | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Return True if nothing is wrong."""
        return self.kind is None


def check_chain(
    session_id: str,
    entries: Sequence[Entry],
    *,
    head: tuple[int, str] | None,
    receipts: Iterable[Receipt] = (),
) -> ChainCheck:
    """Check every entry in order, then the stored head, then the receipts."""
    prev = first_prev_hash(session_id)
    notes = (entry.facts.get("entries", ()) for entry in entries if entry.kind is Kind.ERASED)
    noted = {seq for seqs in notes if isinstance(seqs, list) for seq in cast(list[int], seqs)}
    checked = partial(ChainCheck, session_id=session_id, entries=len(entries))
    erased = 0
    hashes: dict[int, str] = {}
    for expected, entry in enumerate(entries, start=1):
        if entry.seq != expected:
            kind = "missing" if entry.seq > expected else "reordered"
            return checked(kind=kind, seq=expected)
        if entry.expected_hash(prev) != entry.hash:
            stands_elsewhere = any(later.expected_hash(prev, expected) == later.hash for later in entries[expected:])
            return checked(kind="reordered" if stands_elsewhere else "edited", seq=expected)
        if not entry.body_is_intact():
            return checked(kind="edited", seq=expected)
        if entry.body is None and expected not in noted:
            note = "its body is gone and no entry says that it was erased"
            return checked(kind="edited", seq=expected, note=note)
        erased += entry.body is None
        hashes[expected] = prev = entry.hash
    return _check_heads(checked, hashes, head, receipts) or checked(erased=erased)


def _check_heads(
    checked: Callable[..., ChainCheck],
    hashes: dict[int, str],
    head: tuple[int, str] | None,
    receipts: Iterable[Receipt],
) -> ChainCheck | None:
    last = len(hashes)
    if head is None and not hashes:
        return checked(kind="truncated", seq=1, note="no journal")
    if head is not None and (head[0] != last or hashes.get(last) != head[1]):
        kind = "truncated" if head[0] > last else "edited"
        seq = last if head[0] == last else min(last, head[0]) + 1
        note = "the chain does not lead to the stored head"
        return checked(kind=kind, seq=seq, note=note)
    for receipt in sorted(receipts, key=lambda receipt: receipt.seq):
        if receipt.seq > last:
            return checked(kind="truncated", seq=last + 1, note=f"a receipt names entry {receipt.seq}")
        if hashes.get(receipt.seq) != receipt.head_hash:
            note = "the chain does not lead to the hash of a receipt"
            return checked(kind="edited", seq=receipt.seq, note=note)
    return None
