"""OpenCode sessions: from rows, storage files and exports."""

from typing import Any

from shiftlog.facts.transcript import ChildLink, Note, SessionOpened, ToolResult, TurnUpdated, UsageFact
from shiftlog.ingest.readers.plain.opencode import OpenCodeReader
from shiftlog.ingest.readers.plain.opencode_rows import from_row, session_lines
from tests.ingest.readers.codex.rollouts import OWN
from tests.ingest.readers.plain.conversations import Found, lines_of_file, read_lines, read_records

SESSION = {"id": "ses_1", "directory": "/work/app", "version": "1.4", "title": "T", "time": {"created": 1772359200000}}


def message(name: str, role: str, second: int, **fields: Any) -> dict[str, Any]:
    """Return a message."""
    return {
        "id": name,
        "sessionID": "ses_1",
        "role": role,
        "time": {"created": 1772359200000 + second * 1000},
        **fields,
    }


def part(name: str, of: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return a part."""
    return {"id": name, "messageID": of, "sessionID": "ses_1", "type": kind, **fields}


def tool(name: str, of: str, which: str, **state: Any) -> dict[str, Any]:
    """Return a tool part."""
    return part(name, of, "tool", callID=f"call_{name}", tool=which, state={"status": "completed", **state})


def read(messages: list[dict[str, Any]], parts: list[dict[str, Any]], session: dict[str, Any] = SESSION) -> Found:
    """Read a session as its files hold it."""
    return read_lines(OpenCodeReader, session_lines(session, messages, [(None, one) for one in parts]))


ASKED = [message("m1", "user", 1), message("m2", "assistant", 2, modelID="gpt-5")]


def test_an_export_of_our_own_is_read_whole() -> None:
    """The fixture beside this test: `{info, messages}`."""
    found = read_lines(OpenCodeReader, lines_of_file(OWN / "other" / "opencode.json"))
    assert found.turns == [("Make it faster", "completed", "Twice as fast now.")]
    assert found.actions == [("edit", "src/loop.py"), ("web_reference", "https://docs.example.org/perf")]


def test_rows_give_what_files_gave() -> None:
    """Ids and times are columns, the rest is the document."""
    rows = [
        {
            "id": "m1",
            "session_id": "ses_1",
            "time_created": 1772359201000,
            "time_updated": 1,
            "data": '{"role":"user"}',
        },
        {
            "id": "m2",
            "session_id": "ses_1",
            "time_created": 1772359202000,
            "data": '{"role":"assistant","modelID":"x"}',
        },
    ]
    parts = [
        {"id": "p1", "message_id": "m1", "session_id": "ses_1", "data": '{"type":"text","text":"hi"}'},
        {"id": "p2", "message_id": "m2", "session_id": "ses_1", "data": b'{"type":"text","text":"hello"}'},
        {"id": "p3", "message_id": "m2", "session_id": "ses_1", "data": "broken"},
    ]
    header = {
        "id": "ses_1",
        "parent_id": "ses_0",
        "directory": "/work/app",
        "title": "T",
        "time_created": 1772359200000,
    }
    found = read([from_row(row) for row in rows], [from_row(row) for row in parts], from_row(header))
    assert found.turns == [("hi", "completed", "hello")]
    opened = found.of(SessionOpened)[0]
    assert opened.parent is not None
    assert (opened.parent.session.vendor_id, opened.at) == ("ses_0", "2026-03-01T10:00:00.000Z")
    assert found.reader.counts.unknown_names == {"part/": 1}


def test_documents_are_known_without_the_rows_around_them() -> None:
    """A session, its messages and parts as their files hold them."""
    parts = [part("p1", "m1", "text", text="hi"), part("p2", "m2", "text", text="hello")]
    found = read_records(OpenCodeReader, SESSION, ASKED[0], parts[0], ASKED[1], parts[1])
    assert found.turns == [("hi", "completed", "hello")]


def test_a_prompt_without_parts_is_its_summary() -> None:
    """Older releases."""
    found = read([message("m1", "user", 1, summary={"title": "Open it", "body": ""})], [])
    assert found.turns == [("Open it", "in_progress", None)]


def test_a_prompt_whose_text_is_not_written_yet_is_no_turn() -> None:
    """OpenCode writes a message before its parts, and its hook may be heard between the two."""
    found = read([message("m1", "user", 1)], [])
    assert found.turns == []
    assert found.reader.standings() == ()


def test_messages_are_read_in_the_order_of_their_times() -> None:
    """Whatever order they are given in."""
    found = read(ASKED[::-1], [part("p2", "m2", "text", text="yes"), part("p1", "m1", "text", text="no?")])
    assert found.turns == [("no?", "completed", "yes")]


def test_a_tool_fails_by_status_name_or_exit_code() -> None:
    """`invalid` is what a call to no tool becomes."""
    parts = [
        tool("a", "m2", "bash", input={"command": "false"}, metadata={"exit": 1}, time={"start": 5, "end": 25}),
        tool("b", "m2", "invalid", output="no such tool"), tool("c", "m2", "read", input={"filePath": "/work/app/x"}),
        tool("d", "m2", "edit", status="error", error="no match", input={"filePath": "y"}),
        tool("e", "m2", "bash", status="running", input={"command": "sleep 9"}),
    ]  # fmt: skip
    found = read(ASKED, parts)
    results = [(one.call_id, one.is_error, one.exit_code) for one in found.of(ToolResult)]
    assert results == [("call_a", True, 1), ("call_b", True, None), ("call_c", False, None), ("call_d", True, None)]
    assert found.of(ToolResult)[0].duration_ms == 20
    assert [update.adds for update in found.of(TurnUpdated)] == [{"context_list": ["x"]}]
    assert found.turns == [("", "in_progress", None)]


def test_an_aborted_message_aborts_its_turn() -> None:
    """Other errors fail it once nothing follows."""
    error = {"name": "MessageAbortedError", "data": {"message": "stopped"}}
    assert read([ASKED[0], ASKED[1] | {"error": error}], []).turns == [("", "failed", "Turn aborted: interrupted")]
    error = {"name": "ProviderAuthError", "data": {"message": "bad key"}}
    assert read([ASKED[0], ASKED[1] | {"error": error}], []).turns == [("", "failed", "bad key")]


def test_tokens_are_taken_by_name_and_the_vendors_cost_is_kept() -> None:
    """Once per message, not per step."""
    tokens = {"input": 100, "output": 20, "reasoning": 7, "cache": {"read": 40, "write": 3}}
    steps = [part("p", "m2", "step-finish", tokens=tokens)]
    found = read([ASKED[0], ASKED[1] | {"tokens": tokens, "cost": 0.25}], steps)
    usage = found.of(UsageFact)
    assert [(one.input_tokens, one.cached_input_tokens, one.cache_creation_tokens) for one in usage] == [(100, 40, 3)]
    assert (usage[0].output_tokens, usage[0].reasoning_tokens, usage[0].cost_usd) == (20, 7, 0.25)
    assert usage[0].vendor["cost_source"] == "vendor"


def test_synthetic_text_is_injected_and_files_are_context() -> None:
    """Beside the prompt."""
    parts = [
        part("p1", "m1", "text", text="look"), part("p2", "m1", "text", text="<file>", synthetic=True),
        part("p3", "m1", "file", filename="logs\\a.log", url="file:///a.log", mime="text/plain"),
        part("p4", "m2", "patch", files=["/work/app/b.py"]), part("p5", "m2", "compaction", auto=True),
    ]  # fmt: skip
    found = read(ASKED, parts)
    assert found.turns[0][0] == "look"
    assert found.dialog == [("system", "observation", "<file>")]
    assert found.of(TurnUpdated)[0].adds == {"context_list": ["logs/a.log"], "files_modified": ["b.py"]}
    assert [note.kind for note in found.of(Note)] == ["compaction"]


def test_a_task_names_its_child() -> None:
    """By the session that it started."""
    found = read(ASKED, [tool("t", "m2", "task", input={"prompt": "x"}, output="y", metadata={"sessionId": "ses_2"})])
    assert [(link.child_thread_id, link.call_id) for link in found.of(ChildLink)] == [("ses_2", "call_t")]


def test_other_lines_are_unknown() -> None:
    """And never fatal."""
    assert read_records(OpenCodeReader, {"type": "zzz"}).reader.counts.unknown_names == {"zzz": 1}
