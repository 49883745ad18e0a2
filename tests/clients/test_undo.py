"""Turns of the real clients can be undone, whatever changed the files (cases 6, 7 and 18 of the contract)."""

import re
from pathlib import Path

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness
from tests.clients.script import Json, calls, says
from tests.clients.tools import shell, write

PATCH = "*** Begin Patch\n*** Add File: b.py\n+print(2)\n*** End Patch\n"


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def only_turn(harness: ClientHarness) -> Json:
    """Return the turn of the only session, when its checkpoints are made."""
    (session,) = harness.sessions()
    harness.shiftlog("checkpoints")
    (turn,) = harness.shown("show", session["session_id"])["turns"]
    return turn


def undone_and_brought_back(harness: ClientHarness, before: dict[str, str], after: dict[str, str]) -> None:
    assert files(harness.work) == after
    turn = only_turn(harness)
    assert {Path(path).name for path in turn["files_modified"]} == set(after) - set(before)
    said = harness.shiftlog("undo")
    assert f"undone  turn {turn['request_id']}" in said
    assert files(harness.work) == before
    again = re.findall(r"undo --to (\w+)", said)
    harness.shiftlog("undo", "--to", again[0])
    assert files(harness.work) == after


@tries("undo")
def test_claude_writes_by_its_shell_and_its_tool_and_both_are_undone(claude: ClientHarness) -> None:
    """Case 6."""
    (claude.work / "kept.txt").write_text("kept\n")
    path = str(claude.work / "b.py")
    claude.script.on(
        "Two files", calls("Bash", command="echo x > a.txt"), calls("Write", file_path=path, content="print(2)\n"),
        says("Both are there."),
    )  # fmt: skip
    assert claude.claude("Two files").code == 0
    before = {"kept.txt": "kept\n"}
    undone_and_brought_back(claude, before, {**before, "a.txt": "x\n", "b.py": "print(2)\n"})


@tries("undo")
def test_claude_deletes_a_folder_and_a_rewind_brings_it_back_with_modes(claude: ClientHarness) -> None:
    """Case 7."""
    (claude.work / "src" / "deep").mkdir(parents=True)
    (claude.work / "src" / "deep" / "run.sh").write_bytes(b"#!/bin/sh\r\n\x00\xff")
    (claude.work / "src" / "deep" / "run.sh").chmod(0o750)
    (claude.work / "src" / "link").symlink_to("deep/run.sh")
    claude.script.on("Delete it", calls("Bash", command="rm -rf src"), says("Gone."))
    claude.claude("Delete it")
    assert not (claude.work / "src").exists()
    claude.shiftlog("rewind", only_turn(claude)["request_id"])
    script = claude.work / "src" / "deep" / "run.sh"
    assert script.read_bytes() == b"#!/bin/sh\r\n\x00\xff"
    assert script.stat().st_mode & 0o777 == 0o750
    assert (claude.work / "src" / "link").readlink() == Path("deep/run.sh")


@tries("undo")
def test_codex_writes_by_its_shell_and_a_patch_and_both_are_undone(codex: ClientHarness) -> None:
    """Case 18."""
    (codex.work / "kept.txt").write_text("kept\n")
    codex.script.on(
        "Two files",
        calls("exec_command", cmd="echo x > a.txt"),
        calls("exec_command", cmd=f"apply_patch <<'EOF'\n{PATCH}EOF\n"),
        says("Both are there."),
    )
    assert codex.codex("Two files").code == 0
    before = {"kept.txt": "kept\n"}
    undone_and_brought_back(codex, before, {**before, "a.txt": "x\n", "b.py": "print(2)\n"})


@tries("undo")
@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_a_turn_that_writes_by_shell_and_tool_is_undone(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    (harness.work / "kept.txt").write_text("kept\n")
    harness.script.on(
        "Two files",
        shell(agent, "echo x > a.txt"),
        write(agent, harness.work / "b.py", "print(2)\n"),
        says("Both are there."),
    )
    assert harness.run(agent, "Two files").code == 0
    before = {"kept.txt": "kept\n"}
    undone_and_brought_back(harness, before, {**before, "a.txt": "x\n", "b.py": "print(2)\n"})
