"""Records of any shape for fuzzing readers: known names with values of every type, and bytes that are no records."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hypothesis import strategies as st

from shiftlog.facts.transcript import AnyFact, Hints, LineCounts, TranscriptReader, encode_facts

Value = Any
Strategy = st.SearchStrategy[Any]


class Factory(Protocol):
    """Opens a reader, anew or from a state."""

    def __call__(self, hints: Hints, state: bytes | None = None) -> TranscriptReader: ...


def values(names: Sequence[str], texts: Sequence[str]) -> Strategy:
    """Return JSON values that use the names and texts of a format."""
    keys: Strategy = st.one_of(st.sampled_from(list(names)), st.text(max_size=4))
    scalars: Strategy = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(list(texts)), st.text(max_size=8)
    )

    def grown(inner: Strategy) -> Strategy:
        return st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=5))

    return st.recursive(scalars, grown, max_leaves=12)


def objects(names: Sequence[str], inner: Strategy, size: int = 6) -> Strategy:
    """Return objects with the names of a format."""
    return st.dictionaries(st.sampled_from(list(names)), inner, max_size=size)


def marked(kinds: Sequence[str], fields: Strategy, name: str = "type") -> Strategy:
    """Return objects that say what kind they are."""

    def made(kind: str, rest: dict[str, Any]) -> dict[str, Any]:
        return {**rest, name: kind}

    return st.builds(made, st.sampled_from(list(kinds)), fields)


def as_line(value: Value) -> bytes:
    """Return a value as a line."""
    return json.dumps(value).encode()


def lines_of(records: Strategy) -> st.SearchStrategy[bytes]:
    """Return lines of records, broken lines and bytes that are none."""

    def broken(line: bytes, place: int, byte: int, end: int) -> bytes:
        made = bytearray(line)
        made[place % len(made)] = byte
        return bytes(made[: max(end % (len(made) + 1), 1)]).replace(b"\n", b" ")

    whole: st.SearchStrategy[bytes] = st.builds(as_line, records)
    cut = st.builds(broken, whole, st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 10_000))
    return st.one_of(whole, whole, cut, st.binary(max_size=40))


def check(
    factory: Factory, lines: Sequence[bytes], every: int, total: Callable[[LineCounts], int] | None = None
) -> None:
    """Read lines with saves in between: nothing raises, and each line that is not blank has one disposition."""
    hints = Hints(session_id="file")
    reader = factory(hints)
    facts: list[AnyFact] = []
    for number, line in enumerate(lines):
        if number % every == 0:
            facts += reader.finish()
            reader = factory(hints, reader.save())
        facts += reader.feed(line)
    facts += [*reader.finish(), *reader.end_idle()]
    encode_facts(facts)
    wanted = sum(bool(line.strip().removeprefix(b"\xef\xbb\xbf").strip()) for line in lines)
    assert (total(reader.counts) if total else reader.counts.lines) == wanted
    assert all(standing.turn for standing in reader.standings())
