"""Cursor transcripts: roles and blocks, nothing else."""

from pathlib import Path
from typing import Any

from shiftlog.facts.transcript import SessionOpened, ToolCall, ToolResult, TurnBegun, TurnUpdated
from shiftlog.ingest.readers.plain.cursor import CursorReader
from tests.ingest.import_app import open_import_app
from tests.ingest.readers.codex.rollouts import OWN
from tests.ingest.readers.plain.conversations import Found, lines_of_file, read_lines, read_records


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a record."""
    return {"role": role, "message": {"content": list(blocks)}}


def text(words: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words}


def read(*records: dict[str, Any], **hints: Any) -> Found:
    """Read a transcript."""
    return read_records(CursorReader, *records, **hints)


def test_a_transcript_of_our_own_is_read_whole() -> None:
    """The fixture beside this test."""
    found = read_lines(CursorReader, lines_of_file(OWN / "other" / "cursor.jsonl"))
    assert found.turns == [("Rename f to g", "completed", "Renamed."), ("Undo", "failed", "Turn aborted: cancelled")]
    assert found.actions == [("edit", "lib/f.py")]


def test_the_wrapper_of_a_query_is_removed() -> None:
    """What stands around it is context."""
    found = read(said("user", text("<attached_files>a.py</attached_files>\n<user_query>\nFix it\n</user_query>")))
    assert found.of(TurnBegun)[0].query_text == "Fix it"
    assert found.of(TurnUpdated)[0].adds == {"context_list": ["<attached_files>a.py</attached_files>"]}


def test_turns_are_numbered_and_have_no_time() -> None:
    """No ids, no times."""
    found = read(said("user", text("a")), said("assistant", text("b")), said("user", text("c")))
    assert [(begun.turn, begun.at) for begun in found.of(TurnBegun)] == [
        ("req-19700101T000000Z-t1", None),
        ("req-19700101T000000Z-t2", None),
    ]
    assert found.turns[0] == ("a", "completed", "b")


def test_results_pair_by_order_where_calls_have_no_id() -> None:
    """A user record with results only opens no turn."""
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("a.py")]}
    found = read(
        said("user", text("ls")), said("assistant", call), said("user", result), said("assistant", text("one"))
    )
    assert len(found.turns) == 1
    assert found.of(ToolResult)[0].call_id == found.of(ToolCall)[0].call_id
    assert not found.of(ToolResult)[0].orphan


def test_unknown_blocks_are_kept_by_name() -> None:
    """The rest of their record is read."""
    found = read(said("user", text("x")), said("assistant", {"type": "tool_call", "name": "y"}, text("z")))
    assert found.reader.counts.unknown_names == {"block/tool_call": 1}
    assert (found.reader.counts.mapped, found.reader.counts.unknown) == (2, 0)
    assert found.of(ToolCall) == []


def test_a_child_hangs_on_the_session_that_the_folder_names() -> None:
    """`subagents/*.jsonl`."""
    opened = read(said("user", text("x")), parent_id="p", session_id="c").of(SessionOpened)[0]
    assert opened.parent is not None
    assert (opened.session.vendor_id, opened.parent.session.vendor_id) == ("c", "p")


async def test_the_file_of_a_subagent_is_a_session_of_its_own(tmp_path: Path) -> None:
    """It lies in the folder of the session that it is a child of."""
    async with open_import_app(tmp_path) as app:
        folder = "projects/p/agent-transcripts/aaaa"
        lines = [[said("user", text(words)), said("assistant", text("Done"))] for words in ("Whole", "Part")]
        for name, records in zip(("aaaa.jsonl", "subagents/bbbb.jsonl"), lines, strict=True):
            app.write(f"{folder}/{name}", records)
        await app.take()
        whole, part = await app.session("aaaa"), await app.session("bbbb")
        assert part.parent_session_id == whole.id
        assert [turn.query_text for turn in await app.turns(part)] == ["Part"]


def test_a_call_without_its_result_is_over_when_the_model_goes_on() -> None:
    """The current release writes no results."""
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    lines = [said("user", text("ls")), said("assistant", text("Looking"), call), said("assistant", text("one file"))]
    assert read(*lines, said("user", text("next"))).turns[0] == ("ls", "completed", "one file")


async def test_an_overview_before_the_conversation_is_known(tmp_path: Path) -> None:
    """The current release may write one."""
    async with open_import_app(tmp_path) as app:
        overview = {"type": "metadata", "metadata": {"overview": "About the parser"}}
        app.write("projects/p/agent-transcripts/aaaa/aaaa.jsonl", [overview, said("user", text("Hello"))])
        report = await app.take()
        assert [turn.query_text for turn in await app.turns(await app.session("aaaa"))] == ["Hello"]
        assert not any(file.unknown for file in report.files)
