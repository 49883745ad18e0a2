"""Copilot CLI events: turns, steps, tools, aborts and tokens at shutdown."""

from typing import Any

from shiftlog.facts.transcript import (
    Action,
    SessionOpened,
    SessionUpdated,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnUpdated,
    UsageFact,
)
from shiftlog.ingest.readers.plain.copilot import CopilotReader
from tests.ingest.readers.codex.rollouts import OWN
from tests.ingest.readers.plain.conversations import Found, lines_of_file, read_lines, read_records


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    """Return an event."""
    at = f"2026-03-01T10:00:{number:02d}.000Z"
    return {"type": kind, "data": data, "id": f"e{number}", "timestamp": at, "parentId": f"e{number - 1}"}


START = event(
    0, "session.start", sessionId="s1", copilotVersion="1.2.0", startTime="2026-03-01T09:59:59.000Z",
    context={"cwd": "/work/app", "branch": "main", "repository": "acme/app", "repositoryHost": "github.com"},
)  # fmt: skip


def read(*events: dict[str, Any]) -> Found:
    """Read a session."""
    return read_records(CopilotReader, START, *events)


def test_a_session_of_our_own_is_read_whole() -> None:
    """The fixture beside this test."""
    found = read_lines(CopilotReader, lines_of_file(OWN / "other" / "copilot.jsonl"))
    assert found.turns == [
        ("Create a note", "completed", "Created `note.md`."),
        ("And now?", "failed", "Turn aborted: user"),
    ]
    assert found.actions == [("create", "note.md")]
    assert found.figures()["usage"] == {"inputTokens": 900, "outputTokens": 40, "cacheReadTokens": 300}


def test_the_session_is_opened_with_its_repository() -> None:
    """Project identity comes from the transcript."""
    opened = read().of(SessionOpened)[0]
    assert (opened.repository, opened.cwd, opened.version) == ("https://github.com/acme/app", "/work/app", "1.2.0")
    assert opened.at == "2026-03-01T09:59:59.000Z"


def test_a_turn_is_opened_by_what_the_user_typed() -> None:
    """Not by what the client made of it; the event's id names the turn."""
    begun = read(event(1, "user.message", content="hi", transformedContent="<now/>hi")).of(TurnBegun)[0]
    assert (begun.query_text, begun.turn) == ("hi", "req-20260301T100001Z-e1")


def test_several_steps_are_one_turn() -> None:
    """The end of a step is no end of the turn; text may come after it."""
    found = read(
        event(1, "user.message", content="go"), event(2, "assistant.turn_start", turnId="0"),
        event(3, "assistant.message", content="", toolRequests=[{"toolCallId": "c", "name": "bash",
                                                                "arguments": '{"command":"uv add rich"}'}]),
        event(4, "tool.execution_start", toolCallId="c", toolName="bash", arguments={"command": "uv add rich"}),
        event(5, "tool.execution_complete", toolCallId="c", success=True, result={"content": "ok"}),
        event(6, "assistant.turn_end", turnId="0"), event(7, "assistant.message", content="done", reasoningText="hm"),
        event(8, "user.message", content="next"),
    )  # fmt: skip
    assert found.turns == [("go", "completed", "done"), ("next", "in_progress", None)]
    assert len(found.of(ToolCall)) == 1
    assert found.dialog == [("model", "reasoning", "hm"), ("model", "observation", "done")]
    assert found.actions == [("dependency_add", "uv: rich")]


def test_files_attached_or_read_are_context_under_the_directory() -> None:
    found = read(
        event(2, "user.message", content="go", attachments=[{"path": "/work/app/a.py"}, {"path": "C:\\x\\b.py"}]),
        event(3, "tool.execution_complete", toolCallId="c", toolName="view", arguments={"path": "/work/app/c.py"},
              success=True, result={"content": "text"}),
        event(4, "tool.execution_complete", toolCallId="d", toolName="view", arguments={"path": "/work/app/d.py"},
              success=False),
    )  # fmt: skip
    assert [fact.adds for fact in found.of(TurnUpdated)] == [{"context_list": ["a.py", "C:/x/b.py", "c.py"]}]
    assert found.actions == []


def test_a_prompt_without_answer_is_superseded() -> None:
    """By the next one."""
    found = read(event(1, "user.message", content="a"), event(2, "user.message", content="b"))
    assert found.turns[0] == ("a", "failed", "superseded: No answer before the next prompt")


def test_a_result_alone_makes_its_call_known() -> None:
    """The call happened, whatever was not written."""
    found = read(event(1, "tool.execution_complete", toolCallId="c", success=False, result={"content": "exit code: 1"}))
    assert [(call.call_id, call.tool) for call in found.of(ToolCall)] == [("c", "unknown")]
    assert [(result.is_error, result.orphan) for result in found.of(ToolResult)] == [(True, False)]


def test_a_failed_edit_is_a_failed_action() -> None:
    """And changes no file."""
    found = read(
        event(1, "user.message", content="x"),
        event(2, "tool.execution_start", toolCallId="c", toolName="edit", arguments={"path": "/work/app/a.py"}),
        event(3, "tool.execution_complete", toolCallId="c", success=False),
    )  # fmt: skip
    assert [(one.file_path, one.status) for one in found.of(Action)] == [("a.py", "failed")]


def test_tokens_are_summed_over_shutdowns_and_models() -> None:
    """Each shutdown tells what its run used."""
    metrics = {"a": {"usage": {"inputTokens": 10, "outputTokens": 2}}, "b": {"usage": {"cacheReadTokens": 5}}, "c": 3}
    found = read(event(1, "session.shutdown", modelMetrics=metrics), event(2, "session.shutdown", modelMetrics=metrics))
    assert [(fact.model, fact.input_tokens, fact.cached_input_tokens) for fact in found.of(UsageFact)] == [
        ("a", 10, 0),
        ("b", 0, 5),
        ("a", 10, 0),
        ("b", 0, 5),
    ]


def test_work_of_a_subagent_is_no_answer_of_the_turn() -> None:
    """It is kept beside it."""
    found = read(
        event(1, "user.message", content="go"), event(2, "assistant.message", content="mine"),
        event(3, "assistant.message", content="theirs", parentToolCallId="c"),
    )  # fmt: skip
    assert [content for _, _, content in found.dialog] == ["mine", "theirs"]
    assert found.turns == [("go", "in_progress", None)]


def test_a_resumed_session_may_have_moved() -> None:
    """Only what changed is told."""
    context = {"cwd": "/work/app", "branch": "dev"}
    assert [one.changes for one in read(event(1, "session.resume", context=context)).of(SessionUpdated)] == [
        {"branch": "dev"}
    ]


def test_hooks_are_counted_and_unknown_events_kept() -> None:
    """Nothing is fatal."""
    found = read(event(1, "hook.start", x=1), event(2, "session.teleport", x=1))
    assert found.reader.counts.counted_names == {"hook.start": 1}
    assert found.reader.counts.unknown_names == {"session.teleport": 1}
