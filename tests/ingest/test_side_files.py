"""Files beside transcripts: titles from Codex's index of threads, results from a workflow's journal."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from tests.ingest.office import Claude, Codex, Office, entries_of, open_office

THREAD = "019f5500-0000-7000-8000-00000000000a"
OTHER = "019f5500-0000-7000-8000-00000000000b"
PARENT = "5e551000-0000-4000-8000-00000000000a"
RUN = f"projects/app/{PARENT}/subagents/workflows/wf_1"


def titled(thread: str, name: str, second: int) -> dict[str, str]:
    return {"id": thread, "thread_name": name, "updated_at": f"2026-03-05T00:00:{second:02d}.000Z"}


def rollout(office: Office, thread: str = THREAD, **event: Any) -> Path:
    codex = Codex(thread=thread).turn("turn-1", "Explain it", "So it works")
    if event:
        codex.event(**event)
    return office.write(f"codex/sessions/2026/03/04/rollout-2026-03-04T06-00-00-{thread}.jsonl", codex.lines)


async def title(office: Office, thread: str = THREAD) -> str:
    return (await office.session(thread)).title


async def test_the_last_line_of_a_thread_in_the_index_is_its_title(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        rollout(office)
        index = [titled(THREAD, "First", 1), titled(OTHER, "Another", 2), titled(THREAD, "How it works", 3)]
        office.write("codex/session_index.jsonl", index)
        report = await office.take()
        assert [file.path for file in report.files if file.path.endswith("index.jsonl")] == []
        assert await title(office) == "How it works"
        heads = await office.heads()
        assert entries_of(await office.take()) == 0
        await office.take(full=True)
        assert await office.heads() == heads
        assert await office.is_sound()


async def test_an_index_that_grows_renames_and_new_threads_find_their_titles_in_it(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        rollout(office)
        index = [titled(THREAD, "First", 1), titled(OTHER, "Another", 2)]
        office.write("codex/session_index.jsonl", index)
        await office.take()
        office.write("codex/session_index.jsonl", [*index, titled(THREAD, "Second", 3)])
        await office.take()
        assert await title(office) == "Second"
        rollout(office, OTHER)
        await office.take()
        assert await title(office, OTHER) == "Another"


async def test_a_name_in_the_rollout_itself_wins_over_the_index(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        rollout(office, kind="thread_name_updated", thread_name="Named there")
        office.write("codex/session_index.jsonl", [titled(THREAD, "From the index", 1)])
        await office.take()
        assert await title(office) == "Named there"


async def test_titles_are_masked_like_every_text(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        rollout(office)
        office.write("codex/session_index.jsonl", [titled(THREAD, "Use ghp_0123456789abcdefghijABCDEFGHIJ012345", 1)])
        await office.take()
        assert "ghp_0123" not in await title(office)


@pytest.mark.parametrize("lines", [b"", b"{\n[]\nnull\n", b'{"id": 7, "thread_name": ["x"]}\n', b"\xff\xfe\n"])
async def test_an_index_that_says_nothing_changes_nothing(lines: bytes, tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        rollout(office)
        (office.folder / "codex" / "session_index.jsonl").write_bytes(lines)
        report = await office.take()
        assert report.ok
        assert await title(office) == "Explain it"
        assert len(await office.sessions()) == 1


async def test_an_agent_cannot_have_an_index_read_outside_of_its_folders(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        folder = rollout(office).parent
        office.write("codex/session_index.jsonl", [titled(THREAD, "Not for you", 1)])
        imports = office.desk.app.imports
        await imports.run(ImportOptions(paths=[str(folder)], allowed=[str(folder)], environ={}, jobs=0))
        assert await title(office) == "Explain it"


def workflow(office: Office, results: list[dict[str, Any]]) -> None:
    claude = Claude(session=PARENT).prompt("Plan it").says("Planned").ends()
    office.write(f"projects/app/{PARENT}.jsonl", claude.records)
    child = Claude(session=PARENT, letter="b", common={"isSidechain": True, "agentId": "ag1"})
    office.write(f"{RUN}/agent-ag1.jsonl", child.prompt("Look around").says("Seen").records)
    office.write(f"{RUN}/journal.jsonl", [{"type": "started", "key": "v2:a", "agentId": "ag1"}, *results])


async def test_records_of_a_workflows_journal_are_notes_on_the_child_of_their_agent(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        workflow(office, [])
        await office.take()
        workflow(office, [{"type": "result", "key": "v2:a", "agentId": "ag1", "result": {"summary": "All is well"}}])
        await office.take()
        await office.take(full=True)
        child = await office.session("ag1")
        notes = [entry.facts for entry in await office.entries(child) if entry.kind == "import.noted"]
        assert [note.get("workflow") for note in notes] == ["started", "result"]
        assert notes[1]["result"] == {"summary": "All is well"}
        assert json.dumps(notes).count("wf_1") == 2
        found = await office.desk.items(text="well", kinds=["entry"])
        assert [item["session_id"] for item in found] == [child.id]
        assert len(await office.sessions()) == 2
        assert await office.is_sound()


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
    async with open_office(tmp_path) as office:
        office.write(f"projects/app/{PARENT}.jsonl", made.records)
        spilled = office.folder / "projects" / "app" / PARENT / "tool-results"
        spilled.mkdir(parents=True)
        (spilled / "small.txt").write_text("all of it", encoding="utf-8")
        (spilled / "large.txt").write_text("x" * (1 << 20) + "x", encoding="utf-8")
        (tmp_path / "x").write_text("not its own", encoding="utf-8")
        await office.take()
        results = [e.facts for e in await office.entries(await office.session(PARENT)) if "exit_code" in e.facts]
        assert [(one["content"], one.get("spilled")) for one in results] == [
            ("all of it", None),
            ("cut", "large.txt"),
            ("cut", "x"),
        ]
