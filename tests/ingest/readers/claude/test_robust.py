"""No bytes make the Claude Code reader raise, and going on from a saved state never changes what it finds."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shiftlog.facts.transcript import AnyFact, Hints, Note, TurnBegun, decode_facts, encode_facts
from shiftlog.ingest.readers.claude.reader import ClaudeReader
from tests.ingest.readers.claude.tally import OWN, SESSION, Script, read

LINES = [line for path in sorted(OWN.glob("*.jsonl")) for line in path.read_bytes().splitlines() if line.strip()]
RECORDS: list[dict[str, Any]] = [json.loads(line) for line in LINES if line.startswith(b'{"')]

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["", "user", "assistant", "2026-03-04T05:06:07.000Z", "toolu_edit", "tool_result", "<command-name>"]
    ),
)
oddities = st.recursive(
    odd,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def feed_all(lines: list[bytes], hints: Hints | None = None) -> ClaudeReader:
    """Read lines to the end, saving and restoring on the way; check what must always hold."""
    reader = ClaudeReader(hints or Hints(session_id=SESSION))
    facts: list[AnyFact] = []
    for n, line in enumerate(lines):
        facts += reader.feed(line)
        if n % 5 == 4:
            reader = ClaudeReader(hints or Hints(session_id=SESSION), reader.save())
    facts += [*reader.finish(), *reader.end_idle()]
    assert decode_facts(encode_facts(facts)) == facts
    return reader


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_random_bytes_are_counted_and_never_raise(lines: list[bytes]) -> None:
    reader = feed_all(lines)
    assert reader.counts.lines == sum(bool(line.strip().removeprefix(b"\xef\xbb\xbf").strip()) for line in lines)


@st.composite
def mutated(draw: st.DrawFn) -> list[bytes]:
    lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=8))
    made: list[bytes] = []
    for line in lines:
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 40)))
        made.append(line[:start] + draw(st.binary(max_size=12)).replace(b"\n", b"") + line[end:])
    return made


@given(mutated())
def test_lines_with_bytes_changed_never_raise(lines: list[bytes]) -> None:
    assert feed_all(lines).counts.lines <= len(lines)


def paths_of(value: object, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            found += paths_of(inner, (*at, str(name)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for n, inner in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            found += paths_of(inner, (*at, n))  # pyright: ignore[reportUnknownArgumentType]
    return found


@st.composite
def retyped(draw: st.DrawFn) -> list[bytes]:
    """Records of which any value, at any depth, became another of any type."""
    made: list[bytes] = []
    for record in draw(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=10)):
        changed: Any = json.loads(json.dumps(record))
        for path in draw(st.lists(st.sampled_from(paths_of(changed)), max_size=3, unique=True)):
            holder: Any = changed
            try:
                for step in path[:-1]:
                    holder = holder[step]
                holder[path[-1]] = draw(oddities)
            except (KeyError, IndexError, TypeError):
                continue
        made.append(json.dumps(changed).encode())
    return made


@given(retyped(), st.sampled_from([None, "agent7"]))
def test_values_of_any_type_in_any_place_never_raise(lines: list[bytes], agent: str | None) -> None:
    reader = feed_all(lines, Hints(session_id=SESSION, agent_id=agent, sidecar={"agentType": 3, "spawnDepth": "x"}))
    assert reader.counts.lines == len(lines)


def test_the_good_record_after_bad_lines_is_read() -> None:
    """Case 44, but for the line that is never fed."""
    script = Script()
    script.user("Still here")
    bad = [b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"a":' * 200 + b"1" + b"}" * 200]
    reader = ClaudeReader(Hints(session_id=SESSION))
    for line in bad:
        assert not reader.feed(line)
    reader.skip_oversized()
    assert len(reader.feed(script.lines()[0])) > 0
    assert (reader.counts.bad, reader.counts.oversized, reader.counts.mapped) == (7, 1, 1)


def test_invalid_utf8_and_halves_of_characters_are_replaced() -> None:
    lines = [
        b'{"type":"user","uuid":"a","sessionId":"s","message":{"content":"caf\xe9"}}',
        b'{"type":"user","uuid":"b","sessionId":"s","message":{"content":"cut \\ud83d"}}',
        b'\xef\xbb\xbf{"type":"user","uuid":"c","sessionId":"s","message":{"content":"bom"}}\r\n',
    ]
    reader, tally = read(lines)
    assert [query for query, _ in tally.turns()] == ["caf�", "cut �", "bom"]
    assert reader.counts.replaced == 1


def test_unknown_records_are_counted_by_name_and_kept_raw() -> None:
    """Case 43."""
    script = Script()
    script.user("Go")
    script.record("frame-link", path="/x")
    script.attach("zzz", what=1)
    reader, tally = read(script.lines())
    assert reader.counts.unknown_names == {"frame-link": 1, "attachment/zzz": 1}
    notes = [note for note in tally.all(Note) if note.kind == "unknown"]
    assert json.loads(notes[0].body["raw"]) == script.records[1]


def test_blocks_that_no_rule_knows_are_counted_by_name_and_kept_raw() -> None:
    """3.6: also beside a text, alone in a user's record, and where a block is no object."""
    script = Script()
    script.user([{"type": "text", "text": "Go"}, {"type": "hologram", "of": "a cat"}])
    script.user([{"type": "hologram", "of": "a dog"}])
    script.record("assistant", message={"role": "assistant", "model": "claude-opus-4-6", "content": ["loose"]})
    reader, tally = read(script.lines())
    assert [query for query, _ in tally.turns()] == ["Go"]
    assert reader.counts.unknown_names == {"user/hologram": 2, "assistant/None": 1}
    assert (reader.counts.mapped, reader.counts.unknown) == (1, 2)
    notes = [note for note in tally.all(Note) if note.kind == "unknown"]
    assert [json.loads(note.body["raw"]) for note in notes] == script.records


def test_a_large_unknown_record_leaves_its_digest_and_many_only_their_number() -> None:
    script = Script()
    script.user("Go")
    script.record("odd", text="x" * 70_000)
    for _ in range(1001):
        script.record("many")
    reader, tally = read(script.lines())
    notes = [note for note in tally.all(Note) if note.kind == "unknown"]
    assert set(notes[0].body) == {"unknown", "raw_bytes", "raw_sha256"}
    assert sum(note.body["unknown"] == "many" for note in notes) == 1000
    assert reader.counts.unknown_names["many"] == 1001


def test_times_that_do_not_parse_are_the_time_before() -> None:
    script = Script()
    script.user("One")
    script.model("Two", timestamp="yesterday")
    _, tally = read(script.lines(), end_idle=False)
    assert {fact.at for fact in tally.facts} == {"2026-03-04T05:00:01.000Z"}


def test_a_file_without_any_time_has_ids_all_the_same() -> None:
    script = Script()
    script.user("One", timestamp=None, uuid=None)
    _, tally = read(script.lines())
    assert [begun.turn for begun in tally.all(TurnBegun)] == ["req-19700101T000000Z-t1"]


def test_a_state_that_cannot_be_read_starts_afresh() -> None:
    assert ClaudeReader(Hints(), b"\x00garbage").counts.lines == 0


def test_the_saved_state_stays_small() -> None:
    script = Script()
    for n in range(2000):
        script.user(f"Prompt {n}")
        script.model("Answer " * 50)
    reader, _ = read(script.lines())
    assert len(reader.save()) < 100 * len(script.records)
