"""No bytes make the Codex reader raise, and every line has exactly one disposition."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.ingest.readers.codex.events import EVENTS, PAGE_ITEMS
from shiftlog.ingest.readers.codex.items import ITEMS
from shiftlog.ingest.readers.codex.reader import CodexReader
from tests.ingest.readers.any_records import Strategy, as_line, check, lines_of, marked, objects, values

NAMES = (
    "type payload id call_id turn_id message content text role arguments input output name info changes stdout item "
    "images metadata action result started_at timestamp forked_from_id source subagent duration exit_code command "
    "session_id status total_token_usage last_token_usage input_tokens query num_turns summary ordinal error"
).split()
TEXTS = [
    "", "x", "a", "b", "assistant", "user", "shell", "exec_command", "apply_patch", "exec", "write_stdin", "started",
    "2026-03-01T10:00:00.000Z", "*** Begin Patch\n*** Add File: x\n+y\n*** End Patch", '{"command":["ls"]}',
    "Process running with session ID 3", "Exit code: 0\nOutput:\n", "Success. Updated", "data:image/png;base64,AAA",
    "<environment_context>", "# Context from my IDE setup:", '{"output":"x","metadata":{}}', "\ud83d",
]  # fmt: skip
VALUES = values(NAMES, TEXTS)
FIELDS = objects(NAMES, VALUES)
PAGES = st.fixed_dictionaries(
    {"type": st.just("item_completed"), "turn_id": st.just("a"), "item": marked([*PAGE_ITEMS, "Extension"], FIELDS)}
)
PAYLOADS: Strategy = st.one_of(marked([*EVENTS, *ITEMS, "zzz"], FIELDS), PAGES)
ENVELOPES = ["event_msg", "response_item", "session_meta", "turn_context", "compacted", "world_state", "?"]
RECORDS: Strategy = st.one_of(
    marked(ENVELOPES, st.fixed_dictionaries({"timestamp": VALUES, "payload": st.one_of(PAYLOADS, VALUES)})),
    PAYLOADS,
    VALUES,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(lines_of(RECORDS), max_size=12), st.integers(1, 5))
def test_records_of_any_shape_never_raise(lines: list[bytes], every: int) -> None:
    """Every field may be absent, null or of another type."""
    check(CodexReader, lines, every)


@settings(max_examples=80, deadline=None)
@given(st.lists(lines_of(RECORDS), max_size=12), st.integers(1, 5))
def test_forks_of_any_shape_never_raise(lines: list[bytes], every: int) -> None:
    """Also while it is undecided which lines are copies."""
    check(CodexReader, [as_line({"type": "session_meta", "payload": {"forked_from_id": "p"}}), *lines], every)
