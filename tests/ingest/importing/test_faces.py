"""The faces of an import: the MCP tool, the session log's method and tool, the daemon's watch."""

from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.tools import call_tool
from shiftlog.ingest.importing.ports import ImportOptions, StopSign
from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Reply, Selection
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, TranscriptNotFound, TranscriptUnreadable
from tests.ingest.files.test_opencode_db import Database
from tests.ingest.import_app import Claude, Codex, ImportApp, open_import_app

METHOD = "repl.sessionlog.ingestTranscripts"


def transcript() -> Claude:
    return Claude().prompt("Go").says("Done").ends()


async def called(app: ImportApp, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call `import_transcripts` as an agent whose server was started in the folder."""
    registry = registry_for(app.harness.app).select(Selection(toolsets=("ingest",)))
    (tool,) = registry.tools
    reply = await tool.run(Caller(face="mcp", cwd=str(app.folder), workspace=str(app.folder)), arguments)
    assert isinstance(reply, Reply)
    assert isinstance(reply.data, dict)
    return reply.data


async def test_the_tool_is_only_listed_where_its_toolset_is_asked_for(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        everything = registry_for(app.harness.app)
        assert "import_transcripts" not in [tool.name for tool in everything.select(Selection()).tools]
        assert [tool.name for tool in everything.select(Selection(toolsets=("ingest",))).tools] == [
            "import_transcripts"
        ]


@pytest.mark.parametrize("path", ["", "  "])
async def test_a_path_that_says_nothing_is_refused_not_taken_for_the_whole_workspace(path: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().records)
        with pytest.raises(InvalidParameter, match="'paths'"):
            await called(app, {"paths": [path]})
        assert await app.sessions() == {}


async def test_the_tool_imports_from_its_workspace_and_answers_with_the_report(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().records)
        shown = await called(app, {"paths": [str(app.folder)]})
        assert shown["totals"]["sessions_new"] == 1
        assert shown["files"][0]["status"] == "imported"
        again = await called(app, {"paths": [str(app.folder)], "max_files_listed": 0})
        assert (again["totals"]["entries"], again["files"]) == (0, [])


async def test_a_file_that_is_as_it_was_is_listed_after_those_that_changed(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().records)
        first = await called(app, {"paths": [str(app.folder)]})
        app.write("b.jsonl", Claude(session="5e551000-0000-4000-8000-0000000000b2", letter="b").prompt("Hi").records)
        again = await called(app, {"paths": [str(app.folder)]})
        assert [file["status"] for file in again["files"]] == ["imported", "unchanged"]
        assert again["files"][1]["sessions"] == first["files"][0]["sessions"]
        assert again["skipped"]["unchanged"] == 1


async def test_the_tool_refuses_paths_outside_and_reads_nothing(tmp_path: Path) -> None:
    """Case 53."""
    async with open_import_app(tmp_path) as app:
        with pytest.raises(InvalidParameter):
            await called(app, {"paths": ["/etc"]})
        assert await app.sessions() == {}


async def test_a_path_may_begin_with_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_import_app(tmp_path) as app:
        monkeypatch.setenv("HOME", str(app.folder))
        app.write("old/a.jsonl", transcript().records)
        context = CallContext(caller=Caller(face="repl"), workspace=str(app.folder))
        assert (await called(app, {"paths": ["~/old"], "dry_run": True}))["totals"]["sessions_new"] == 1
        done = await app.harness.app.sessionlog.call(METHOD, {"path": "~/old/a.jsonl"}, context)
        assert done is not None
        assert done["totals"]["sessionsNew"] == 1


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 5000, "a\0b"])
async def test_a_path_that_can_lead_nowhere_is_refused_by_name(path: str, tmp_path: Path) -> None:
    """7: a PATH names nothing; of an agent only what lies in its folders is looked for."""
    async with open_import_app(tmp_path) as app:
        with pytest.raises((InvalidParameter, TranscriptNotFound)):
            await called(app, {"paths": [path]})
        with pytest.raises(TranscriptNotFound):
            await app.take(path)
        assert (await app.discover({"CLAUDE_CONFIG_DIR": path, "CODEX_HOME": path})).ok


@pytest.mark.parametrize(("name", "value"), [("agents", ["foo"]), ("since", "yesterdayish")])
async def test_what_is_wrong_with_a_request_is_said_under_its_name_before_anything_is_looked_for(
    name: str, value: object, tmp_path: Path
) -> None:
    async with open_import_app(tmp_path) as app:
        with pytest.raises(InvalidParameter) as refused:
            await called(app, {"paths": ["nowhere.jsonl"], name: value})
        assert refused.value.details["parameter"] == name


async def test_the_session_log_ingests_and_counts_what_it_skipped(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", transcript().records)
        path.write_text(path.read_text(encoding="utf-8") + "{broken\n", encoding="utf-8")
        context = CallContext(caller=Caller(face="repl"), workspace=str(app.folder))
        log = app.harness.app.sessionlog
        tried = await log.call(METHOD, {"path": str(path), "persist": False}, context)
        assert tried is not None
        assert (tried["dryRun"], tried["totals"]["sessionsNew"], tried["skippedLines"]) == (True, 1, 1)
        assert await app.sessions() == {}
        done = await log.call(METHOD, {"path": str(path), "agent": "ClaudeCode", "source": "Claude"}, context)
        assert done is not None
        assert (done["ok"], done["unknownRecords"]) == (True, {})
        assert len(await app.sessions()) == 1


async def test_unknown_records_of_one_name_are_counted_together_whosever_they_are(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().add("frame-link").records)
        rollout = Codex(thread="9c000000-0000-4000-8000-000000000001").turn("t1", "Go", "Gone").line("frame-link")
        app.write("rollout-b.jsonl", rollout.lines)
        context = CallContext(caller=Caller(face="repl"), workspace=str(app.folder))
        done = await app.harness.app.sessionlog.call(METHOD, {"path": str(app.folder)}, context)
        assert done is not None
        assert done["unknown"] == {"ClaudeCode/frame-link": 1, "Codex/frame-link": 1}
        assert done["unknownRecords"] == {"frame-link": 2}


async def test_a_strict_ingest_says_what_it_did_not_find(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().records)
        context = CallContext(caller=Caller(face="repl"), workspace=str(app.folder))
        log = app.harness.app.sessionlog
        with pytest.raises(TranscriptNotFound):
            await log.call(METHOD, {"path": str(app.folder), "source": "Codex"}, context)
        with pytest.raises(InvalidParameter):
            await log.call(METHOD, {"path": str(app.folder), "agent": "Codex"}, context)
        (app.folder / "b.jsonl.zst").write_bytes(b"no zstd")
        with pytest.raises(TranscriptUnreadable) as failed:
            await log.call(METHOD, {"path": str(app.folder)}, context)
        totals: Any = failed.value.details["totals"]
        assert (totals["sessions"], totals["sessionsNew"], failed.value.details["skippedLines"]) == (1, 1, 0)
        lenient = await log.call(METHOD, {"path": str(app.folder), "strict": False}, context)
        assert lenient is not None
        assert lenient["ok"] is False


async def test_only_the_folders_own_files_where_recursion_is_off(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", transcript().records)
        app.write(
            "deep/b.jsonl", Claude(session="5e551000-0000-4000-8000-00000000000b", letter="b").prompt("Hi").records
        )
        context = CallContext(caller=Caller(face="mcp"), workspace=str(app.folder), strict=True)
        given = {"path": str(app.folder), "agent": "ClaudeCode", "recursive": False}
        done = await call_tool(app.harness.app.sessionlog, "sessionlog_ingest_path", given, context)
        assert (done["success"], done["totals"]["sessionsNew"]) == (True, 1)


async def test_watching_goes_on_when_what_is_watched_goes_and_comes_back(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = transcript()
        path = app.write("a.jsonl", made.records)
        other = app.write("b.jsonl", Claude(session="5e551000-0000-4000-8000-00000000000b", letter="b").records)
        stop = StopSign()
        reports = app.harness.app.imports.watch(ImportOptions(paths=[str(path), str(other)], jobs=0), stop)
        await anext(reports)
        path.unlink()
        more = Claude(session="5e551000-0000-4000-8000-00000000000b", letter="b").prompt("Other").says("Yes")
        app.write("b.jsonl", more.records)
        with anyio.fail_after(10):
            assert (await anext(reports)).shown()["totals"]["turns"] == 1
        other.unlink()
        app.write("a.jsonl", made.prompt("More").records)
        with anyio.fail_after(10):
            assert (await anext(reports)).shown()["totals"]["turns"] == 1
        stop.set()
        await reports.aclose()


async def test_watching_sees_a_database_grow_in_its_log(tmp_path: Path) -> None:
    """8.1: growth is imported within a second of its writing; a database in use is written to its log."""
    async with open_import_app(tmp_path) as app:
        database = Database(app.folder / "opencode" / "opencode.db")
        with closing(database.db):
            database.session("ses_one", "Count")
            database.turn(1, "ses_one", "Count the files", "Three")
            stop = StopSign()
            reports = app.harness.app.imports.watch(ImportOptions(paths=[str(app.folder)], jobs=0), stop)
            await anext(reports)
            database.turn(2, "ses_one", "And the folders", "Two")
            with anyio.fail_after(10):
                assert (await anext(reports)).shown()["totals"]["turns"] == 1
            stop.set()
            await reports.aclose()


async def test_watching_imports_growth_as_it_comes(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = transcript()
        path = app.write("a.jsonl", made.records)
        stop = StopSign()
        reports = app.harness.app.imports.watch(ImportOptions(paths=[str(app.folder)], jobs=0), stop)
        with anyio.fail_after(20):
            first = await anext(reports)
            assert first.shown()["totals"]["turns"] == 1
            made.prompt("More")
            app.write(path.name, made.records)
            second = await anext(reports)
            assert second.shown()["totals"]["turns"] == 1
            stop.set()
            with pytest.raises(StopAsyncIteration):
                await anext(reports)
