"""No bytes make a reader of the simpler formats raise, and every line has exactly one disposition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.ingest.readers.plain.opencode_rows import from_row, session_lines
from tests.ingest.readers.any_records import Strategy, check, lines_of, marked, objects, values
from tests.ingest.readers.plain.conversations import READERS, read_lines

NAMES = (
    "type data id timestamp parentId content message role toolRequests toolCalls toolCallId name arguments args input "
    "result status success tokens thoughts text parts $set $rewindTo messages sessionId startTime info opencode time "
    "created start end state metadata exit files url error tool callID modelMetrics usage context cost summary kind"
).split()
TEXTS = [
    "", "x", "a", "user", "assistant", "gemini", "text", "tool", "tool_use", "tool_result", "thinking", "bash", "edit",
    "success", "completed", "error", "session", "part", "<user_query>x", "2026-03-01T10:00:00.000Z", "\ud83d",
    "data:image/png;base64,AAA", "git commit -m x", "Exit Code: 3", '{"command":"ls"}', "MessageAbortedError",
]  # fmt: skip
VALUES = values(NAMES, TEXTS)
FIELDS = objects(NAMES, VALUES)
KINDS = {
    "CopilotCli": [
        "session.start", "user.message", "assistant.message", "assistant.reasoning", "assistant.turn_end", "abort",
        "tool.execution_start", "tool.execution_complete", "session.shutdown", "session.error", "hook.x", "?",
    ],
    "GeminiCli": ["user", "gemini", "model", "info", "error", "?"],
    "Cursor": ["turn_ended", "?"],
    "OpenCode": ["session", "message", "part"],
}  # fmt: skip
BLOCKS = st.lists(
    marked(["text", "tool_use", "tool_result", "thinking", "image", "tool", "patch", "file"], FIELDS), max_size=3
)


def records(agent: str) -> Strategy:
    """Return records of one format, of any shape."""
    role = st.sampled_from(["user", "assistant", "system", "?"])
    inner: Strategy = st.one_of(FIELDS, marked(["text", "tool", "patch", "file", "reasoning", "zz"], FIELDS))
    told: Strategy = st.fixed_dictionaries({"role": role, "message": st.fixed_dictionaries({"content": BLOCKS})})
    rows = marked(KINDS[agent], st.fixed_dictionaries({"data": inner, "id": VALUES}), "opencode")
    return st.one_of(
        marked(KINDS[agent], st.one_of(FIELDS, st.fixed_dictionaries({"data": inner}))), told, rows, VALUES
    )


@pytest.mark.parametrize("agent", list(READERS))
def test_records_of_any_shape_never_raise(agent: str) -> None:
    """Every field may be absent, null or of another type."""

    @settings(max_examples=60, deadline=None)
    @given(st.lists(lines_of(records(agent)), max_size=12), st.integers(1, 5))
    def fuzz(lines: list[bytes], every: int) -> None:
        check(READERS[agent], lines, every)

    fuzz()


@settings(max_examples=60, deadline=None)
@given(FIELDS, st.lists(FIELDS, max_size=4), st.lists(FIELDS, max_size=4))
def test_rows_of_any_shape_never_raise(
    session: dict[str, object], messages: list[dict[str, object]], parts: list[dict[str, object]]
) -> None:
    """The adapter is as tolerant as the reader."""
    lines = session_lines(from_row(session), map(from_row, messages), [(None, from_row(part)) for part in parts])
    read_lines(READERS["OpenCode"], lines)
