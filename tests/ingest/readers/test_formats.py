"""Whose transcript it is, told by its records alone."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.ingest.readers.formats import MAX_BYTES, MAX_RECORDS, recognise
from tests.ingest.readers.claude.tally import OWN, SHARED

CASES = {
    b'{"type":"user","uuid":"u","sessionId":"s","message":{}}': "ClaudeCode",
    b'{"type":"summary","summary":"t","leafUuid":"u"}': "ClaudeCode",
    b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}': "ClaudeCode",
    b'{"type":"started","key":"k","agentId":"a"}': "ClaudeCode",
    b'{"timestamp":"t","type":"session_meta","payload":{"id":"x"}}': "Codex",
    b'{"type":"message","role":"user","content":[]}': "Codex",
    b'{"timestamp":"t","role":"user","content":"hi"}': "Codex",
    b'{"id":"x","timestamp":"t","instructions":null}': "Codex",
    b'{"sessionId":"s","projectHash":"h","startTime":"t","kind":"main"}': "GeminiCli",
    b'{"id":"1","type":"gemini","content":"hi"}': "GeminiCli",
    b'{"$rewindTo":"1"}': "GeminiCli",
    b'{\n "sessionId": "s",\n "projectHash": "h",\n "messages": []\n}': "GeminiCli",
    b'\xef\xbb\xbf{\n "sessionId": "s",\n "projectHash": "h",\n "messages": []\n}': "GeminiCli",
    b'{"type":"session.start","data":{},"id":"1"}': "CopilotCli",
    b'{"info":{"id":"s"},"messages":[]}': "OpenCode",
    b'{"id":"s","projectID":"p","directory":"/x"}': "OpenCode",
    b"SQLite format 3\x00rest": "OpenCode",
    b'{"role":"user","message":{"content":[]}}': "Cursor",
}


@pytest.mark.parametrize(("head", "agent"), CASES.items())
def test_a_record_tells_its_agent(head: bytes, agent: str) -> None:
    assert recognise(head) == agent


@pytest.mark.parametrize(
    "head", [b"", b"\n\n", b"{}", b"[]", b"hello", b'{"a":1}', b"\xff\xfe", b'{\n"type":"user"\n}',
             b'{"history":[{"role":"gemini","parts":[]}]}']
)  # fmt: skip
def test_files_of_nobody_are_not_recognised(head: bytes) -> None:
    assert recognise(head) is None


def test_bad_lines_and_strays_do_not_outvote_the_rest() -> None:
    stray = b'{"role":"user","content":"x"}\n'
    own = b'{"type":"user","uuid":"u","sessionId":"s"}\n'
    assert recognise(b"{\n[]\n" + stray + own * 3) == "ClaudeCode"


def test_the_agent_of_more_than_half_of_the_records_is_told_wherever_they_stand() -> None:
    claude, *_, codex = list(CASES)[:5]
    few, many = MAX_RECORDS // 2 - 1, MAX_RECORDS // 2 + 1
    assert recognise(b"\n".join([codex] * few + [claude] * many)) == "ClaudeCode"
    assert recognise(b"\n".join([claude] * few + [codex] * many)) == "Codex"


def test_a_first_record_longer_than_what_is_read_is_still_told() -> None:
    """A header of a rollout can exceed the limit."""
    head = b'{"timestamp":"t","type":"session_meta","payload":{"id":"x","base_instructions":"' + b"x" * MAX_BYTES
    assert recognise(head) == "Codex"


names = st.sampled_from(["type", "sessionId", "payload", "role", "message", "history", "id", "content", "data", "info"])
values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["user", "started", "session.start", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)


@given(st.binary(max_size=300) | st.dictionaries(names, values, max_size=4).map(lambda made: json.dumps(made).encode()))
def test_no_bytes_make_it_raise(head: bytes) -> None:
    assert recognise(head) in {None, *CASES.values()}


@pytest.mark.parametrize("path", sorted(OWN.glob("*.jsonl")), ids=lambda path: path.name)
def test_our_own_transcripts_are_told(path: Path) -> None:
    """Case 6: no name or folder is looked at."""
    assert recognise(path.read_bytes()) == "ClaudeCode"


@pytest.mark.skipif(not SHARED.exists(), reason="the shared fixtures are not here")
@pytest.mark.parametrize(
    ("folder", "agent"),
    [
        ("claude", "ClaudeCode"),
        ("codex", "Codex"),
        ("other/gemini", "GeminiCli"),
        ("other/copilot", "CopilotCli"),
        ("other/cursor", "Cursor"),
    ],
)
def test_every_shared_transcript_is_told(folder: str, agent: str) -> None:
    paths = [*(SHARED / folder).rglob("*.jsonl"), *(SHARED / folder).rglob("*[!a].json")]
    found = {path.name: recognise(path.read_bytes()) for path in paths}
    # The list of fixtures says of this one that it is not recognised.
    assert found.pop("schema_drift.json", None) is None
    assert found == dict.fromkeys(found, agent)
    assert found
