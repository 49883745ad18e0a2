"""Files beside transcripts: titles from Codex's index of threads, results from a workflow's journal."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from tests.ingest.import_app import Claude, Codex, ImportApp, entries_of, open_import_app

THREAD = "019f5500-0000-7000-8000-00000000000a"
OTHER = "019f5500-0000-7000-8000-00000000000b"
PARENT = "5e551000-0000-4000-8000-00000000000a"
RUN = f"projects/app/{PARENT}/subagents/workflows/wf_1"


def titled(thread: str, name: str, second: int) -> dict[str, str]:
    return {"id": thread, "thread_name": name, "updated_at": f"2026-03-05T00:00:{second:02d}.000Z"}


def rollout(app: ImportApp, thread: str = THREAD, **event: Any) -> Path:
    codex = Codex(thread=thread).turn("turn-1", "Explain it", "So it works")
    if event:
        codex.event(**event)
    return app.write(f"codex/sessions/2026/03/04/rollout-2026-03-04T06-00-00-{thread}.jsonl", codex.lines)


async def title(app: ImportApp, thread: str = THREAD) -> str:
    return (await app.session(thread)).title


async def test_the_last_line_of_a_thread_in_the_index_is_its_title(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        rollout(app)
        index = [titled(THREAD, "First", 1), titled(OTHER, "Another", 2), titled(THREAD, "How it works", 3)]
        app.write("codex/session_index.jsonl", index)
        report = await app.take()
        assert [file.path for file in report.files if file.path.endswith("index.jsonl")] == []
        assert await title(app) == "How it works"
        heads = await app.heads()
        assert entries_of(await app.take()) == 0
        await app.take(full=True)
        assert await app.heads() == heads
        assert await app.is_sound()


async def test_an_index_that_grows_renames_and_new_threads_find_their_titles_in_it(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        rollout(app)
        index = [titled(THREAD, "First", 1), titled(OTHER, "Another", 2)]
        app.write("codex/session_index.jsonl", index)
        await app.take()
        app.write("codex/session_index.jsonl", [*index, titled(THREAD, "Second", 3)])
        await app.take()
        assert await title(app) == "Second"
        rollout(app, OTHER)
        await app.take()
        assert await title(app, OTHER) == "Another"


async def test_a_name_in_the_rollout_itself_wins_over_the_index(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        rollout(app, kind="thread_name_updated", thread_name="Named there")
        app.write("codex/session_index.jsonl", [titled(THREAD, "From the index", 1)])
        await app.take()
        assert await title(app) == "Named there"


async def test_titles_are_masked_like_every_text(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        rollout(app)
        app.write("codex/session_index.jsonl", [titled(THREAD, "Use ghp_0123456789abcdefghijABCDEFGHIJ012345", 1)])
        await app.take()
        assert "ghp_0123" not in await title(app)


@pytest.mark.parametrize("lines", [b"", b"{\n[]\nnull\n", b'{"id": 7, "thread_name": ["x"]}\n', b"\xff\xfe\n"])
async def test_an_index_that_says_nothing_changes_nothing(lines: bytes, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        rollout(app)
        (app.folder / "codex" / "session_index.jsonl").write_bytes(lines)
        report = await app.take()
        assert report.ok
        assert await title(app) == "Explain it"
        assert len(await app.sessions()) == 1


async def test_an_agent_cannot_have_an_index_read_outside_of_its_folders(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        folder = rollout(app).parent
        app.write("codex/session_index.jsonl", [titled(THREAD, "Not for you", 1)])
        imports = app.harness.app.imports
        await imports.run(ImportOptions(paths=[str(folder)], allowed=[str(folder)], environ={}, jobs=0))
        assert await title(app) == "Explain it"


def workflow(app: ImportApp, results: list[dict[str, Any]]) -> None:
    claude = Claude(session=PARENT).prompt("Plan it").says("Planned").ends()
    app.write(f"projects/app/{PARENT}.jsonl", claude.records)
    child = Claude(session=PARENT, letter="b", common={"isSidechain": True, "agentId": "ag1"})
    app.write(f"{RUN}/agent-ag1.jsonl", child.prompt("Look around").says("Seen").records)
    app.write(f"{RUN}/journal.jsonl", [{"type": "started", "key": "v2:a", "agentId": "ag1"}, *results])


async def test_records_of_a_workflows_journal_are_notes_on_the_child_of_their_agent(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        workflow(app, [])
        await app.take()
        workflow(app, [{"type": "result", "key": "v2:a", "agentId": "ag1", "result": {"summary": "All is well"}}])
        await app.take()
        await app.take(full=True)
        child = await app.session("ag1")
        notes = [entry.facts for entry in await app.entries(child) if entry.kind == "import.noted"]
        assert [note.get("workflow") for note in notes] == ["started", "result"]
        assert notes[1]["result"] == {"summary": "All is well"}
        assert json.dumps(notes).count("wf_1") == 2
        found = await app.harness.items(text="well", kinds=["entry"])
        assert [item["session_id"] for item in found] == [child.id]
        assert len(await app.sessions()) == 2
        assert await app.is_sound()


async def test_an_output_that_was_spilled_is_read_from_the_sessions_own_folder_alone_and_only_to_the_limit(
    tmp_path: Path,
) -> None:
    """3.2, 7."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[ingest]\nmax_line_mb = 1\n", encoding="utf-8")
    named = {
        "t1": "/old/home/tool-results/small.txt",
        "t2": "/old/home/tool-results/large.txt",
        "t3": str(tmp_path / "x"),
    }
    made = Claude(session=PARENT).prompt("Go")
    for call, path in named.items():
        made.calls(call, command="make").returns(call, "cut", toolUseResult={"persistedOutputPath": path})
    async with open_import_app(tmp_path) as app:
        app.write(f"projects/app/{PARENT}.jsonl", made.records)
        spilled = app.folder / "projects" / "app" / PARENT / "tool-results"
        spilled.mkdir(parents=True)
        (spilled / "small.txt").write_text("all of it", encoding="utf-8")
        (spilled / "large.txt").write_text("x" * (1 << 20) + "x", encoding="utf-8")
        (tmp_path / "x").write_text("not its own", encoding="utf-8")
        await app.take()
        results = [e.facts for e in await app.entries(await app.session(PARENT)) if "exit_code" in e.facts]
        assert [(one["content"], one.get("spilled")) for one in results] == [
            ("all of it", None),
            ("cut", "large.txt"),
            ("cut", "x"),
        ]
