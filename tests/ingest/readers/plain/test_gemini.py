"""Gemini CLI chats: versions of a message, edits, rewinds, documents and tokens."""

import base64
from typing import Any

from shiftlog.facts.transcript import (
    Note,
    SessionOpened,
    SessionUpdated,
    ToolCall,
    ToolResult,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
    UsageFact,
)
from shiftlog.ingest.readers.plain.gemini import GeminiReader
from tests.ingest.readers.codex.rollouts import OWN
from tests.ingest.readers.plain.conversations import Found, lines_of_file, read_lines, read_records

HEAD = {"sessionId": "g1", "projectHash": "ab12", "startTime": "2026-03-01T10:00:00.000Z", "kind": "main"}


def user(name: str, text: str, second: int = 1) -> dict[str, Any]:
    """Return a prompt."""
    at = f"2026-03-01T10:00:{second:02d}.000Z"
    return {"id": name, "timestamp": at, "type": "user", "content": [{"text": text}]}


def model(name: str, text: str, second: int = 2, **fields: Any) -> dict[str, Any]:
    """Return an answer."""
    at = f"2026-03-01T10:00:{second:02d}.000Z"
    return {"id": name, "timestamp": at, "type": "gemini", "content": text, "model": "gemini-3-pro", **fields}


def read(*records: dict[str, Any], **hints: Any) -> Found:
    """Read a chat."""
    return read_records(GeminiReader, HEAD, *records, **hints)


def test_a_chat_of_our_own_is_read_whole() -> None:
    """The fixture beside this test: two turns, a tool, an edit of the metadata."""
    found = read_lines(GeminiReader, lines_of_file(OWN / "other" / "gemini.jsonl"))
    assert found.turns == [
        ("Add a health check", "completed", "Added `/health`."),
        ("Thanks", "completed", "You are welcome."),
    ]
    assert found.actions == [("edit", "src/app.py"), ("commit", "git: Add health check")]
    assert found.reader.counts.unknown == 0


def test_what_the_client_says_first_in_its_users_name_is_no_turn() -> None:
    context = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
    found = read(user("u0", context), user("u1", "go"), model("m1", "Done"))
    assert found.turns[0][0] == "go"
    assert len(found.turns) == 1
    assert [content for _, _, content in found.dialog] == [context, "Done"]


def test_a_message_written_again_replaces_the_earlier_version() -> None:
    """Its tool calls come with a later version."""
    call = {"id": "c1", "name": "read_file", "args": {"file_path": "a.py"}}
    result = [{"functionResponse": {"response": {"output": "text"}}}]
    found = read(
        user("u1", "go"), model("m1", ""), model("m1", "Reading"),
        model("m1", "Reading it", toolCalls=[call | {"status": "success", "result": result}]), model("m2", "Done"),
    )  # fmt: skip
    assert [content for _, _, content in found.dialog] == ["Reading it", "Done"]
    assert [(one.call_id, one.tool) for one in found.of(ToolCall)] == [("c1", "read_file")]
    assert [one.content for one in found.of(ToolResult)] == ["text"]


def test_a_set_with_all_messages_tells_only_what_is_new() -> None:
    """The whole list is written again."""
    first = [user("u1", "one"), model("m1", "two")]
    found = read(*first, {"$set": {"messages": [*first, model("m2", "three", 5)], "lastUpdated": HEAD["startTime"]}})
    assert [content for _, _, content in found.dialog] == ["two", "three"]
    assert found.turns == [("one", "completed", "three")]


def test_a_list_of_all_messages_changes_no_other_turn() -> None:
    """What an earlier turn said, and a last word that is repeated, stay what they were."""
    lines = [user("u1", "one"), model("m1", "Decision: so"), user("u2", "two", 3), model("m2", "plain", 4)]
    found = read(*lines, {"$set": {"messages": lines}}, {"$rewindTo": "m1"})
    assert found.turns == [("one", "completed", "Decision: so"), ("two", "completed", "plain")]
    decided = [fact.turn for fact in found.of(TurnUpdated) if "design_decisions" in fact.adds]
    ids = [begun.turn for begun in found.of(TurnBegun)]
    assert decided == ids[:1]
    assert [note.body for note in found.of(Note)] == [{"abandoned": ids}]


def test_a_rewind_abandons_that_message_and_all_after_it() -> None:
    """They stay and count; an unknown message means all."""
    lines = [user("u1", "one"), model("m1", "a"), user("u2", "two", 3), model("m2", "b", 4)]
    found = read(*lines, {"$rewindTo": "u2"}, user("u3", "three", 5))
    ids = [begun.turn for begun in found.of(TurnBegun)]
    assert [note.body for note in found.of(Note)] == [{"abandoned": ids[1:2]}]
    everything = read(*lines, {"$rewindTo": "nobody"})
    assert [len(note.body["abandoned"]) for note in everything.of(Note)] == [2]
    assert len(everything.turns) == 2


def test_input_includes_what_was_cached_and_output_gains_the_thoughts() -> None:
    """Classes exclude each other; what the vendor wrote is kept."""
    tokens = {"input": 100, "output": 10, "cached": 30, "thoughts": 5, "tool": 0, "total": 115}
    usage = read(user("u1", "x"), model("m1", "y", tokens=tokens)).of(UsageFact)[0]
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.reasoning_tokens) == (
        70,
        30,
        15,
        5,
    )
    assert (usage.vendor, usage.model) == (tokens, "gemini-3-pro")


def test_a_document_is_read_like_its_messages() -> None:
    """Older chats are one JSON document."""
    found = read_records(GeminiReader, {**HEAD, "messages": [user("u1", "hi"), model("m1", "hello")], "summary": "Hi"})
    assert found.turns == [("hi", "completed", "hello")]
    assert [update.title for update in found.of(SessionUpdated)] == ["Hi", "hi"]
    assert found.of(SessionOpened)[0].session.vendor_id == "g1"


def test_a_failed_tool_is_an_error_with_its_exit_code() -> None:
    """Status and exit code decide."""
    output = "Output: no\nExit Code: 2\nSignal: 0"
    calls = [
        {"id": "a", "name": "run_shell_command", "args": {"command": "false"}, "status": "success",
         "result": [{"functionResponse": {"response": {"output": output}}}]},
        {"id": "b", "name": "write_file", "args": {"file_path": "x"}, "status": "error", "resultDisplay": "denied"},
        {"id": "c", "name": "web_fetch", "args": {"url": "https://a.example"}, "status": "success", "result": "ok"},
    ]  # fmt: skip
    found = read(user("u1", "x"), model("m1", "", toolCalls=calls), {**user("i1", "Cancelled"), "type": "info"})
    assert [(one.exit_code, one.is_error) for one in found.of(ToolResult)] == [(2, True), (None, True), (None, False)]
    assert found.actions == [("edit", "x"), ("web_reference", "https://a.example")]
    assert found.of(TurnEnded) == []
    assert found.dialog == [("system", "observation", "Cancelled")]


def test_inline_images_are_digests() -> None:
    """Never their bytes."""
    data = base64.b64encode(b"\x89PNG").decode()
    record = user("u1", "look")
    record["content"].append({"inlineData": {"mimeType": "image/png", "data": data}})
    images = read(record).of(TurnBegun)[0].images
    assert [(image.media_type, image.size, image.data) for image in images] == [("image/png", 4, None)]


def test_a_chat_of_a_subagent_hangs_on_its_parent() -> None:
    """The enclosing folder names it."""
    opened = read_records(GeminiReader, HEAD | {"kind": "subagent"}, parent_id="p1").of(SessionOpened)[0]
    assert opened.parent is not None
    assert opened.subagent is not None
    assert opened.parent.session.vendor_id == "p1"
