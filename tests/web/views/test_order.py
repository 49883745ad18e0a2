"""The story in the order in which things happened, also where the journal learned of them later."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Kind
from shiftlog.model.times import precise
from shiftlog.store.protocol import Writer
from tests.ingest.import_app import Claude
from tests.web.server import PageServer, token_of

VENDOR = "7a111111-2222-4333-8444-555555555555"


def test_an_undo_stands_between_the_turns_around_it_though_their_transcript_came_later(
    server: PageServer, person: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    opened = {"agent": "ClaudeCode", "title": "Undone", "cwd": str(tmp_path), "vendor_session_id": VENDOR}
    session_id = server.tool("open_session", opened)["session_id"]
    shell = server.tool("open_shell", {"session_id": session_id, "cwd": str(tmp_path), "workspace": str(tmp_path)})[
        "shell_id"
    ]
    server.tool("begin_turn", {"session_id": session_id, "query_title": "Live", "query_text": "Live"})
    server.tool("run_command", {"shell_id": shell, "command": "echo new > a.txt"})
    turn = server.tool("finish_turn", {"session_id": session_id, "outcome": "completed", "response": "Done"})
    undone = {"csrf": token_of(person), "session_id": session_id, "request_id": turn["request_id"]}
    assert person.post("/act/rewind", data=undone).status_code == 303
    if (tmp_path / "a.txt").read_text() != "old\n":
        pytest.skip("no git here, so no checkpoints")
    now = datetime.now(UTC)
    transcript = Claude(session=VENDOR, started=now - timedelta(hours=1), common={"cwd": str(tmp_path)})
    transcript.prompt("Before the undo").says("Did it").ends()
    after = Claude(session=VENDOR, started=now + timedelta(minutes=5), letter="b", common={"cwd": str(tmp_path)})
    after.prompt("After the undo").says("Did it again").ends()
    path = tmp_path / f"{VENDOR}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*transcript.records, *after.records]))
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    html = server.html(f"/sessions/{session_id}")
    told = re.findall(r"Before the undo|Went back to|After the undo", re.sub(r"title=\"[^\"]*\"", "", html))
    assert list(dict.fromkeys(told)) == ["Before the undo", "Went back to", "After the undo"]


def test_a_long_turn_keeps_its_order_over_pages_and_no_page_cuts_a_call_from_its_result(server: PageServer) -> None:
    """The journal holds commands first, and the dialog around them, which was imported later, in 400 entries."""
    began = datetime(2026, 1, 31, 9, tzinfo=UTC)
    turn, session_id = "req-20260131T090000Z-long", "Codex-20260131T090000Z-a-long-turn"

    def work(writer: Writer) -> None:
        pen = Pen(writer, session_id, None, server.app.clock)

        def write(kind: Kind, body: Mapping[str, object], second: int, *, in_turn: bool = True) -> None:
            at = precise(began + timedelta(seconds=second))
            pen.write(kind, dict(body), turn if in_turn else None, at=at)

        write(Kind.SESSION_OPENED, {"agent": "Codex", "agent_id": "Codex", "title": "A long turn"}, 0, in_turn=False)
        write(Kind.TURN_BEGUN, {"query_title": "Go", "query_text": "Go"}, 0)
        for number in (100, 250):
            command = {"command_id": f"s#{number}", "shell_id": "s", "command": f"echo {number}", "cwd": "/"}
            write(Kind.COMMAND_STARTED, command, number)
            write(Kind.COMMAND_FINISHED, {**command, "state": "finished", "exit_code": 0}, number)
        for number in range(1, 401):
            said = {"role": "model", "category": "observation", "content": f"Step {number}"}
            if number in (146, 150):
                call = "tool_call" if number == 146 else "tool_result"
                said = {"role": "model", "category": call, "content": f"Step {number}", "call_id": "c", "tool": "Read"}
            # A clock that runs backwards does not change the order of the dialog.
            write(Kind.DIALOG, said, number - 30 if number == 210 else number)
        pen.commit(writer)

    server.do(server.app.store.write(work))
    told: list[str] = []
    page = {"next_place": ""}
    lengths: list[int] = []
    while page["next_place"] is not None:
        page = server.json(f"/sessions/{session_id}/turns/{turn}", place=page["next_place"])
        bodies = [entry["body"] for entry in page["entries"]]
        told += [str(body.get("content") or body.get("command")) for body in bodies]
        lengths.append(len(bodies))
    spoken = [text for text in told if text.startswith("Step")]
    assert spoken == [f"Step {number}" for number in range(1, 401)]
    for number in (100, 250):
        # Two things of one second stand in the order of the journal, and the command was written first.
        assert told[told.index(f"Step {number - 1}") :][:4] == [
            f"Step {number - 1}", f"echo {number}", f"echo {number}", f"Step {number}",
        ]  # fmt: skip
    assert len(told) == len(spoken) + 5
    first = told[: lengths[0]]
    assert "Step 146" in first
    assert "Step 150" in first, "the result of a call stands on the page of the call"
    assert len(lengths) == 3
