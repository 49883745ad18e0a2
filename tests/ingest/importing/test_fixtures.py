"""Real transcripts end to end: the figures that hold for them, alone and as sets, and nothing new the second time."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.ingest.importing.report import ImportReport
from tests.ingest.import_app import SHARED, ImportApp, entries_of, open_import_app

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared fixtures are not here")

EXPECTED: dict[str, Any] = (
    json.loads((SHARED / "expected.json").read_text(encoding="utf-8")) if SHARED.is_dir() else {"files": {}, "sets": {}}
)
FILES = [name for name in EXPECTED["files"] if "#" not in name]


async def tally(app: ImportApp, report: ImportReport) -> dict[str, int]:
    """Return what the store holds, under the names of the reference."""
    sessions = list((await app.sessions()).values())
    turns = [turn for session in sessions for turn in await app.turns(session)]
    children = [session for session in sessions if session.parent_session_id or session.subagent]
    return {
        "sessions": len(sessions) - len(children),
        "child_sessions": len(children),
        "turns": sum(session.turns_total for session in sessions),
        "completed": sum(session.turns_completed for session in sessions),
        "failed": sum(session.turns_failed for session in sessions),
        "tool_calls": report.shown()["totals"]["tool_calls"],
        "commits": sum(len(turn.commits) for turn in turns),
    }


def counters(usage: dict[str, int]) -> tuple[int, int, int, int] | None:
    """Return what a reference says of tokens as input, output, cache creation and cache read."""
    if "cache_read_input_tokens" in usage:
        created, read = usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]
        return usage["input_tokens"], usage["output_tokens"], created, read
    if "cached_input_tokens" in usage:
        read = usage["cached_input_tokens"]
        return usage["input_tokens"] - read, usage["output_tokens"], 0, read
    return None


@pytest.mark.parametrize("name", FILES)
async def test_each_file_alone_gives_its_figures_and_nothing_more_when_read_again(name: str, tmp_path: Path) -> None:
    """Cases 4 and 5."""
    expected = EXPECTED["files"][name]
    async with open_import_app(tmp_path) as app:
        report = await app.take(SHARED / name)
        assert report.ok
        found = await tally(app, report)
        if "turns" in expected:
            assert found["turns"] == expected["turns"] + (expected.get("child_turns") or 0)
        if "tool_calls" in expected:
            assert found["tool_calls"] == expected["tool_calls"]
        if "commits" in expected:
            assert found["commits"] == expected["commits"]
        used = counters(expected.get("usage") or {})
        if used is not None:
            assert await app.used() == used
        assert report.shown()["totals"]["bad_lines"] == expected.get("bad_lines", 0)
        heads = await app.heads()
        assert entries_of(await app.take(SHARED / name)) == 0
        assert entries_of(await app.take(SHARED / name, full=True)) == 0
        assert await app.heads() == heads
        assert await app.is_sound()


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        (
            "claude/projects",
            {"CLAUDE_CONFIG_DIR": str(SHARED / "claude"), "CODEX_HOME": "/nowhere", "HOME": "/nowhere"},
        ),
        ("codex/sessions", {"CODEX_HOME": str(SHARED / "codex"), "HOME": "/nowhere"}),
    ],
)
async def test_a_set_that_is_discovered_gives_its_figures(name: str, environ: dict[str, str], tmp_path: Path) -> None:
    """Case 3."""
    expected = EXPECTED["sets"][name]
    turns = expected["turns"]
    async with open_import_app(tmp_path) as app:
        report = await app.discover(environ)
        found = await tally(app, report)
        inline = turns.get("in_children", 0)
        assert report.shown()["totals"]["files"] == expected["files"]
        assert found["sessions"] == expected["sessions"]
        assert found["child_sessions"] == expected["child_sessions"]
        assert found["turns"] == turns["completed"] + turns["failed"] + turns["in_progress"] + inline
        assert found["completed"] == turns["completed"] + inline
        assert found["failed"] == turns["failed"]
        assert found["tool_calls"] == expected["tool_calls"]
        assert await app.used() == counters(expected["usage"]["usage"])
        said = expected["usage"]
        assert report.shown()["totals"]["usage_responses"] == said.get("responses", said.get("calls"))


async def test_a_dry_run_counts_as_a_real_one_and_stores_nothing(tmp_path: Path) -> None:
    """Case 54."""
    paths = (SHARED / "claude" / "projects", SHARED / "codex" / "sessions")
    async with open_import_app(tmp_path) as app:
        tried = (await app.take(*paths, dry_run=True)).shown()["totals"]
        assert await app.sessions() == {}
        assert await app.harness.read(lambda reader: reader.sources()) == []
        assert (await app.take(*paths)).shown()["totals"] == tried


@pytest.mark.long
async def test_two_machines_and_any_number_of_workers_end_with_equal_heads(tmp_path: Path) -> None:
    found: list[dict[str, str]] = []
    for number, jobs in enumerate((0, 1, 3)):
        async with open_import_app(tmp_path, name=f"home{number}") as app:
            paths = [str(SHARED / "claude" / "projects"), str(SHARED / "codex" / "sessions")]
            report = await app.harness.app.imports.run(ImportOptions(jobs=jobs, paths=paths))
            assert report.ok
            found.append(await app.heads())
    assert len(found[0]) == 46
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("tree", "turns", "calls", "used"), [("storage_legacy", 1, 1, None), ("storage_v2", 3, 2, (120, 16))]
)
async def test_a_tree_of_documents_gives_its_sessions(
    tree: str, turns: int, calls: int, used: tuple[int, int] | None, tmp_path: Path
) -> None:
    """Case 4, for OpenCode's storage."""
    async with open_import_app(tmp_path) as app:
        report = await app.take(SHARED / "other" / "opencode" / tree)
        found = await tally(app, report)
        assert (found["turns"], found["tool_calls"]) == (turns, calls)
        if used is not None:
            assert (await app.used())[:2] == used
        assert entries_of(await app.take(SHARED / "other" / "opencode" / tree)) == 0
        assert entries_of(await app.take(SHARED / "other" / "opencode" / tree, full=True)) == 0
        assert await app.is_sound()
