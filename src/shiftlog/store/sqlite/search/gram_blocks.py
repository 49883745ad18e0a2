"""What is known of blocks of a long session's entries, so that a search looks only where an answer can be.

Of each block: which characters follow each other in its texts, and what the texts of all turns that ended in it have in
common. FAN blocks make one of the next level. Both are kept as entries come; what they rule out, nobody need look at.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import apsw
import msgspec
import zstandard

from shiftlog.model.entry import Kind
from shiftlog.model.nouns import Turn
from shiftlog.model.turn_texts import own_texts
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode, from_document, read_document
from shiftlog.store.codec.packed import unpacked
from shiftlog.store.sqlite.rows import REFERENCE_MARK, Row, entry_id, fetch_blob

BLOCK = 256
FAN = 16
# Between parts that all turns have; a part has none inside.
BETWEEN = "\x00"
MOST_COMMON = 256
MOST_COMMON_CHARS = 8_192
# What turns have in common is sought in the beginnings of their texts.
MOST_TEXT_CHARS = 2_048
# The entries that end a turn.
ENDS = (str(Kind.TURN_COMPLETED), str(Kind.TURN_FAILED))

# Pairs of characters below _WIDTH have a bit each, all others share them; single characters have the bits after those.
_WIDTH = 169
_PAIRS = _WIDTH * _WIDTH
_BITS = 1 << 15
_EVERYTHING = (1 << _BITS) - 1

_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"\S+")

# Whether a block may be left out, by its pairs and by what its ended turns have in common (None: no turn ended in it).
Leaves = Callable[[int, str | None], bool]


# -- Pairs of characters -----------------------------------------------------------------------------------------------


def pairs_of(text: str) -> int:
    """Return the bits of all characters and pairs in a folded text; pairs with white space have none."""
    joined = " ".join(set(text.split()))
    bits = {_single(character) for character in set(joined) if character != " "}
    bits |= {_pair(*both) for both in set(pairwise(joined)) if " " not in both}
    found = bytearray(_BITS // 8)
    for bit in bits:
        found[bit >> 3] |= 1 << (bit & 7)
    return int.from_bytes(found, "little")


def may_hold(pairs: int, part: str) -> bool:
    """Tell whether a text with these pairs may hold a folded part."""
    return all(
        pairs >> bit & 1
        for word in part.split()
        for bit in ([_pair(*both) for both in pairwise(word)] or [_single(word)])
    )


def _pair(first: str, second: str) -> int:
    return (ord(first) * _WIDTH + ord(second)) % _PAIRS


def _single(character: str) -> int:
    return _PAIRS + ord(character) % (_BITS - _PAIRS)


# -- What turns have in common -----------------------------------------------------------------------------------------


def common_parts(turns: Sequence[Sequence[str]]) -> str:
    """Return parts that each of some turns has in its folded texts: words, and words that follow each other."""
    whole = [BETWEEN.join(texts) for texts in turns]
    shared: set[str] = set()
    for number, text in enumerate(whole):
        pieces = set(text.replace(BETWEEN, " ").split())
        words = pieces | set(_WORD.findall(" ".join(pieces)))
        shared = shared & words if number else words
        if not shared:
            return ""
    shortest = min(range(len(whole)), key=lambda number: len(whole[number]))
    runs = {run for text in turns[shortest] for run in _runs(text, shared, whole)}
    return _bounded([*sorted(runs), *sorted(part for part in shared if not any(part in run for run in runs))])


def _runs(text: str, shared: set[str], whole: Sequence[str]) -> Iterator[str]:
    """Yield the stretches of two and more shared words in a text that all texts have, each as long as it can be."""
    first = last = count = 0
    for piece in _PIECE.finditer(text):
        known = piece[0] in shared
        if known and count and all(text[first : piece.end()] in each for each in whole):
            last, count = piece.end(), count + 1
            continue
        if count > 1:
            yield text[first:last]
        first, last, count = piece.start(), piece.end(), int(known)
    if count > 1:
        yield text[first:last]


def _bounded(parts: Iterable[str]) -> str:
    kept: list[str] = []
    room = MOST_COMMON_CHARS
    for part in parts:
        room -= len(part) + 1
        if room < 0 or len(kept) == MOST_COMMON:
            break
        kept.append(part)
    return BETWEEN.join(kept)


def _met(one: str | None, other: str | None) -> str | None:
    """Return what two blocks have in common; a block in which no turn ended takes nothing away."""
    if one is None or other is None:
        return other if one is None else one
    if one == other:
        return one
    both = {part for part in one.split(BETWEEN) if part in other} | {p for p in other.split(BETWEEN) if p in one}
    both.discard("")
    return _bounded(sorted(both, key=lambda part: (-len(part), part)))


def finished_turn(db: apsw.Connection, key: int, request_id: str) -> Turn | None:
    """Return a turn that is over, or None where it is not known as such; raise ValueError for one that is damaged."""
    row: Row | None = db.execute(
        "SELECT doc FROM turns WHERE session_key = ? AND request_id = ?", (key, request_id)
    ).fetchone()
    if row is None:
        return None
    try:
        data = unpacked(row[0])
        if REFERENCE_MARK in data:
            turn = from_document(blobs.internalise(decode(data), lambda digest: fetch_blob(db, digest)), Turn)
        else:
            turn = read_document(data, Turn)
    except (msgspec.MsgspecError, zstandard.ZstdError) as error:
        raise ValueError(f"turn {request_id} cannot be read") from error
    return turn if turn.is_terminal else None


def sure_texts(turn: Turn) -> list[str]:
    """Return the texts that a finished turn has for good, folded, of long ones the beginning."""
    return [text[:MOST_TEXT_CHARS].casefold() for text in own_texts(turn) if text]


# -- Keeping -----------------------------------------------------------------------------------------------------------


def put(db: apsw.Connection, key: int, block: int, pairs: int | None, common: str | None) -> None:
    """Keep what is known of a block and of those above it; pairs of None may hold anything."""
    known = _EVERYTHING if pairs is None else pairs
    _write(db, key, 0, block, known, common)
    level = 0
    while block:
        level, block = level + 1, block // FAN
        above = _read(db, key, level, block)
        if above is None:
            _build(db, key, level, block)
        else:
            _write(db, key, level, block, above[0] | known, _met(above[1], common))


def forget(db: apsw.Connection, key: int, block: int) -> None:
    """Forget a block and all after it."""
    db.execute("DELETE FROM gram_blocks WHERE session_key = ? AND level = 0 AND block >= ?", (key, block))
    level, first = 0, block
    while db.execute("SELECT 1 FROM gram_blocks WHERE session_key = ? AND level > ?", (key, level)).fetchone():
        level, first = level + 1, first // FAN
        db.execute("DELETE FROM gram_blocks WHERE session_key = ? AND level = ? AND block >= ?", (key, level, first))
        if block > first * FAN**level and (first or block > FAN ** (level - 1)):
            _build(db, key, level, first)


def _build(db: apsw.Connection, key: int, level: int, block: int) -> None:
    """Make a block from those below it."""
    pairs, common = 0, None
    for below in range(block * FAN, (block + 1) * FAN):
        known = _read(db, key, level - 1, below)
        if known is not None:
            pairs, common = pairs | known[0], _met(common, known[1])
    _write(db, key, level, block, pairs, common)


def _write(db: apsw.Connection, key: int, level: int, block: int, pairs: int, common: str | None) -> None:
    packed = (blobs.pack_bytes(pairs.to_bytes(_BITS // 8, "little")), None if common is None else blobs.pack(common))
    db.execute("INSERT OR REPLACE INTO gram_blocks VALUES (?, ?, ?, ?, ?)", (key, level, block, *packed))


def _read(db: apsw.Connection, key: int, level: int, block: int) -> tuple[int, str | None] | None:
    row: Row | None = db.execute(
        "SELECT pairs, common FROM gram_blocks WHERE session_key = ? AND level = ? AND block = ?", (key, level, block)
    ).fetchone()
    if row is None:
        return None
    common = None if row[1] is None else blobs.unpack(row[1])
    return int.from_bytes(blobs.unpack_bytes(row[0]), "little"), common


# -- Asking ------------------------------------------------------------------------------------------------------------


def blocks_left(db: apsw.Connection, key: int, mark: int, leaves_out: Leaves) -> Iterator[tuple[int, int]]:
    """Yield the ranges of entry ids of the blocks that cannot be left out, in order, going down only into those."""
    level = 0
    while mark > BLOCK * FAN**level:
        level += 1
    waiting = [(level, 0)] if mark else []
    while waiting:
        level, block = waiting.pop()
        known = _read(db, key, level, block)
        if known is None or leaves_out(*known):
            continue
        if level:
            waiting.extend((level - 1, below) for below in reversed(range(block * FAN, (block + 1) * FAN)))
        else:
            yield entry_id(key, block * BLOCK + 1), entry_id(key, (block + 1) * BLOCK) + 1
