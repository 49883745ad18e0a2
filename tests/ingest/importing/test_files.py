"""Files between imports: unchanged, grown, cut, rewritten, renamed, copied, compressed, broken or not ours."""

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import zstandard

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.model.errors import InvalidParameter, TranscriptNotFound
from tests.ingest.import_app import NOW, SHARED, Claude, Codex, ImportApp, entries_of, only, open_import_app
from tests.journal.harness import files_holding

THREAD = "9c000000-0000-4000-8000-000000000003"


def script(turns: int = 2) -> Claude:
    made = Claude()
    for number in range(turns):
        made.prompt(f"Question {number}").says(f"Answer {number}").ends()
    return made


async def test_an_empty_home_imports_nothing(tmp_path: Path) -> None:
    """Case 1."""
    async with open_import_app(tmp_path) as app:
        report = await app.discover({"HOME": str(tmp_path / "nobody")})
        assert report.ok
        assert set(report.shown()["totals"].values()) == {0}


async def test_every_folder_of_claude_config_dir_is_read_and_the_default_is_not(tmp_path: Path) -> None:
    """Case 2."""
    async with open_import_app(tmp_path) as app:
        for name, session in (("a", "1"), ("b", "2"), ("user/.claude", "3")):
            own = (
                Claude(session=f"5e551000-0000-4000-8000-00000000000{session}", letter=session).prompt("Hi").says("Yes")
            )
            app.write(f"{name}/projects/-srv/{own.session}.jsonl", own.records)
        folders = f"{app.folder / 'a'}, {app.folder / 'b'}"
        report = await app.discover({"CLAUDE_CONFIG_DIR": folders, "HOME": str(app.folder / "user")})
        assert report.shown()["totals"]["sessions"] == 2
        assert sorted(str(s.vendor_session_id)[-1] for s in (await app.sessions()).values()) == ["1", "2"]


async def test_the_content_decides_whose_transcript_it_is(tmp_path: Path) -> None:
    """Case 6."""
    async with open_import_app(tmp_path) as app:
        path = app.write(".gemini/tmp/x/chats/session-1.jsonl", script().records)
        assert only(await app.take(path)).agent == "ClaudeCode"


@pytest.mark.parametrize("broken", [None, "yesterday"])
async def test_first_records_without_a_time_have_that_of_the_first_one_with_it(
    broken: str | None, tmp_path: Path
) -> None:
    """3.1: only a file without any valid time has ids of 1970."""
    async with open_import_app(tmp_path) as app:
        made, rollout = script(1), Codex(thread=THREAD).turn("t1", "Go", "Gone")
        made.records[0]["timestamp"] = made.records[1]["timestamp"] = broken
        rollout.lines[0]["timestamp"] = rollout.lines[0]["payload"]["timestamp"] = broken
        app.write("claude.jsonl", made.records)
        app.write(f"rollout-x-{THREAD}.jsonl", rollout.lines)
        await app.take()
        opened = sorted(await app.sessions())
        assert opened == [f"ClaudeCode-20260304T050003Z-{made.session}", f"Codex-20260304T060001Z-{THREAD}"]
        (turn,) = await app.turns(await app.session(made.session))
        assert turn.request_id.startswith("req-20260304T050003Z-")


async def test_what_was_read_is_as_large_as_the_files(tmp_path: Path) -> None:
    """8.2: bytes that are looked at twice, to tell whose they are, count once."""
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", script(400).records)
        packed = app.folder / "b.jsonl.zst"
        other = Claude(session="5e551000-0000-4000-8000-00000000000b", letter="b").prompt("Go").says("Gone").records
        text = "".join(json.dumps(record) + "\n" for record in other).encode()
        packed.write_bytes(zstandard.compress(text))
        report = (await app.take()).shown()
        assert report["bytes_read"] == path.stat().st_size + len(text)


async def test_new_sessions_are_counted_apart_from_new_children(tmp_path: Path) -> None:
    """8.1: `sessions (new)` and `children` are two columns; a child is no session of the first."""
    async with open_import_app(tmp_path) as app:
        made = script(1)
        kid = Claude(letter="b", common={"agentId": "k1d", "isSidechain": True}).prompt("Look").says("Fine")
        app.write(f"{made.session}.jsonl", made.records)
        app.write(f"{made.session}/subagents/agent-k1d.jsonl", kid.records)
        totals = (await app.take()).shown()["totals"]
        assert (totals["sessions"], totals["sessions_new"], totals["child_sessions"]) == (1, 1, 1)


async def test_a_file_whose_name_is_no_text_is_reported_and_the_others_are_imported(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        good = app.write("a/good.jsonl", script().records)
        shutil.copy(good, os.fsdecode(os.fsencode(good.parent) + b"/\xff.jsonl"))
        report = (await app.take(good.parent)).shown()
        json.dumps(report, ensure_ascii=False).encode()
        assert not report["ok"]
        assert [error["path"] for error in report["errors"]] == [f"{good.parent}/\\xff.jsonl"]
        assert report["errors"][0]["code"] == "transcript_unreadable"
        assert report["errors"][0]["message"] == (
            f"Transcript unreadable: {good.parent}/\\xff.jsonl: its name is not valid UTF-8"
        )
        assert report["totals"]["turns"] == 2


async def test_a_turn_with_its_duration_is_completed_with_its_response(tmp_path: Path) -> None:
    """Case 7."""
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Fix it").says("Fixed").ends(4321)
        await app.take(app.write("a.jsonl", made.records))
        session = await app.session(made.session)
        (turn,) = await app.turns(session)
        assert (str(turn.status), turn.query_text, turn.response) == ("completed", "Fix it", "Fixed")
        (ended,) = [entry for entry in await app.entries(session) if entry.kind == "turn.completed"]
        assert ended.facts["duration_ms"] == 4321
        assert str(session.state) == "suspended"
        assert session.suspended_cause == "imported"


async def test_an_unchanged_file_is_not_opened(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", script().records)
        await app.take(path)
        path.chmod(0)  # reading it would fail for anybody but root, and for root the report says what was read
        report = await app.take(path)
        assert only(report).status == "unchanged"
        assert report.shown()["bytes_read"] == 0


async def test_growth_costs_its_growth(tmp_path: Path) -> None:
    """Case 38."""
    async with open_import_app(tmp_path) as app:
        made = script(400)
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        made.prompt("One more")
        line = json.dumps(made.records[-1]) + "\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
        report = await app.take(path)
        assert only(report).status == "grown"
        assert report.shown()["bytes_read"] <= 65_536 + len(line)
        assert report.shown()["totals"]["turns"] == 1
        assert path.stat().st_size > 200_000


async def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    """Case 39."""
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go").says("The whole answer")
        path = app.write("a.jsonl", made.records)
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        report = await app.take(path)
        assert report.shown()["totals"]["partial_tails"] == 1
        path.write_bytes(whole)
        report = await app.take(path)
        assert (only(report).status, report.shown()["totals"]["partial_tails"]) == ("grown", 0)
        session = await app.session(made.session)
        assert await app.dialog(session) == ["The whole answer"]
        assert session.turns_total == 1


async def test_a_last_line_without_its_end_counts_if_it_is_whole(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go").says("Done")
        path = app.write("a.jsonl", made.records)
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
        report = await app.take(path)
        assert report.shown()["totals"]["partial_tails"] == 0
        made.prompt("More")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(made.records[-1]) + "\n")
        assert (await app.take(path)).shown()["totals"]["turns"] == 1
        assert (await app.session(made.session)).turns_total == 2


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared fixtures are not here")
async def test_a_rewritten_rollout_completes_its_turn_and_doubles_nothing(tmp_path: Path) -> None:
    """Case 40."""
    async with open_import_app(tmp_path) as app:
        path = app.folder / "rollout.jsonl"
        shutil.copy(SHARED / "codex" / "cases" / "rewrite_1.jsonl", path)
        await app.take(path)
        (session,) = (await app.sessions()).values()
        said, used = await app.dialog(session), await app.used()
        assert session.turns_open == 1
        shutil.copy(SHARED / "codex" / "cases" / "rewrite_2.jsonl", path)
        report = await app.take(path)
        assert only(report).status == "rewritten"
        (session,) = (await app.sessions()).values()
        assert session.turns_open == 0
        assert await app.dialog(session) == said
        assert await app.used() == used
        assert await app.is_sound()


async def test_a_rollout_that_is_compressed_and_back_is_the_same_file(tmp_path: Path) -> None:
    """Case 37."""
    async with open_import_app(tmp_path) as app:
        made = Codex(thread=THREAD).turn("t1", "One", "1")
        path = app.write(f"rollout-2026-03-04T06-00-00-{THREAD}.jsonl", made.lines)
        await app.take(path)
        packed = path.with_name(path.name + ".zst")
        packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        path.unlink()
        report = await app.take(packed)
        assert (only(report).status, entries_of(report)) == ("renamed", 0)
        made.event("task_started", turn_id="t2")
        app.write(path.name, made.lines)
        packed.unlink()
        report = await app.take(path)
        assert (only(report).status, report.shown()["totals"]["turns"]) == ("renamed", 1)
        assert (await app.session(THREAD)).turns_total == 2
        assert len(await app.harness.read(lambda reader: reader.sources())) == 1


async def test_a_plain_file_beside_its_compressed_one_is_the_one_that_is_read(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("rollout-x.jsonl", Codex(thread=THREAD).turn("t1", "One", "1").lines)
        path.with_name("rollout-x.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
        report = await app.take()
        assert report.shown()["skipped"] == {"duplicate": 1, "unchanged": 0}
        assert report.shown()["totals"]["sessions"] == 1


async def test_a_link_to_a_file_is_followed_once_and_a_link_to_a_folder_is_not(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("real/a.jsonl", script().records)
        (app.folder / "real" / "b.jsonl").symlink_to(path)
        (app.folder / "loop").symlink_to(app.folder)
        report = await app.take()
        assert [file.reason for file in report.files] == [None, "duplicate"]


async def test_no_link_is_followed_out_of_the_folders_that_are_looked_through(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        outside = tmp_path / "elsewhere" / "x.jsonl"
        outside.parent.mkdir()
        outside.write_text("".join(json.dumps(record) + "\n" for record in script().records), encoding="utf-8")
        inner = app.folder / "claude" / "projects" / "p"
        inner.mkdir(parents=True)
        (inner / "x.jsonl").symlink_to(outside)
        environ = {"CLAUDE_CONFIG_DIR": str(app.folder / "claude"), "HOME": str(tmp_path / "nobody")}
        report = await app.discover(environ)
        assert [(file.status, file.reason) for file in report.files] == [("skipped", "outside")]
        report = await app.take(app.folder)
        assert [(file.status, file.reason) for file in report.files] == [("skipped", "outside")]
        assert await app.sessions() == {}
        report = await app.take(inner / "x.jsonl")
        assert only(report).status == "imported", "a file that is named itself may be a link"


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["session-1.jsonl", "session-1.json"])
async def test_a_document_is_told_by_its_content_whatever_its_name(
    name: str, indent: int | None, tmp_path: Path
) -> None:
    says = {"id": "m1", "timestamp": "2026-03-04T06:00:00.000Z", "type": "user", "content": "Go"}
    answers = {"id": "m2", "timestamp": "2026-03-04T06:00:02.000Z", "type": "gemini", "content": "Done"}
    header = {"sessionId": "5e551000-0000-4000-8000-00000000000d", "projectHash": "ab", "startTime": says["timestamp"]}
    document = {**header, "messages": [says, answers]}
    async with open_import_app(tmp_path) as app:
        (app.folder / name).write_text(json.dumps(document, indent=indent), encoding="utf-8")
        report = await app.take()
        assert (only(report).agent, only(report).status, report.shown()["totals"]["turns"]) == (
            "GeminiCli",
            "imported",
            1,
        )
        again = await app.take(full=True)
        assert (only(again).status, entries_of(again)) == ("unchanged", 0)


async def test_records_in_a_file_named_as_a_document_are_read_line_by_line(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.json", script().records)
        report = await app.take()
        assert (only(report).status, report.shown()["totals"]["sessions"]) == ("imported", 1)


async def test_a_full_reading_says_of_each_file_what_happened_to_it(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = script()
        path = app.write("a.jsonl", made.records)
        await app.take()
        report = await app.take(full=True)
        assert (only(report).status, entries_of(report), report.shown()["totals"]["changed"]) == ("unchanged", 0, 0)
        os.utime(path, ns=(1, 1))
        assert only(await app.take(full=True)).status == "unchanged"
        app.write("a.jsonl", made.prompt("More").records)
        assert only(await app.take(full=True)).status == "grown"
        path.rename(app.folder / "b.jsonl")
        report = await app.take(full=True)
        assert (only(report).status, entries_of(report)) == ("renamed", 0)
        app.write("b.jsonl", script().records[:2])
        assert only(await app.take(full=True)).status == "rewritten"


async def test_a_file_that_gave_its_name_to_another_was_renamed(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", script().records)
        await app.take()
        path.rename(app.folder / "b.jsonl")
        other = Claude(session="5e551000-0000-4000-8000-00000000000c").prompt("x" * 5000)
        app.write("a.jsonl", other.records)
        report = await app.take()
        assert [(Path(file.path).name, file.status) for file in report.files] == [
            ("a.jsonl", "rewritten"),
            ("b.jsonl", "renamed"),
        ]


async def test_a_renamed_project_folder_keeps_its_sessions(tmp_path: Path) -> None:
    """Case 41."""
    async with open_import_app(tmp_path) as app:
        made = script()
        app.write(f"-srv-app/{made.session}.jsonl", made.records)
        await app.take()
        heads = await app.heads()
        (app.folder / "-srv-app").rename(app.folder / "-srv-new")
        report = await app.take()
        assert (only(report).status, entries_of(report)) == ("renamed", 0)
        assert await app.heads() == heads
        kept = await app.harness.read(lambda reader: reader.imported(next(iter(heads))))
        assert kept is not None
        paths = await app.harness.read(lambda reader: reader.paths_of(kept["project"]))
        assert paths == sorted(["/srv/app", str(app.folder / "-srv-app"), str(app.folder / "-srv-new")])


async def test_a_copy_brings_nothing(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", script().records)
        await app.take(path)
        shutil.copy(path, app.folder / "b.jsonl")
        report = await app.take(app.folder / "b.jsonl")
        assert (only(report).status, entries_of(report)) == ("copied", 0)


async def test_unknown_records_are_counted_kept_and_found(tmp_path: Path) -> None:
    """Case 43."""
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go").says("Done")
        made.add("frame-link", target="zebrastripe")
        made.add("attachment", attachment={"type": "zzz", "note": "okapi"})
        report = await app.take(app.write("a.jsonl", made.records))
        assert report.shown()["unknown"] == {"ClaudeCode/attachment/zzz": 1, "ClaudeCode/frame-link": 1}
        for word in ("zebrastripe", "okapi"):
            assert (await app.harness.query(text=word))["total"] >= 1


async def test_what_is_no_record_is_counted_and_the_good_one_is_stored(tmp_path: Path) -> None:
    """Case 44, with a limit of one megabyte in place of 128."""
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "config.toml").write_text("[ingest]\nmax_line_mb = 1\n", encoding="utf-8")
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go")
        good = json.dumps(made.records[0]).encode()
        path = app.folder / "a.jsonl"
        long = b'{"type":"user","x":"' + b"y" * (1 << 20) + b'"}'
        path.write_bytes(b"\n".join([b"{", b"[]", b"null", b'"x"', b"\xff\xfe\xff", long, good, b""]))
        report = await app.take(path)
        assert report.shown()["totals"]["bad_lines"] == 6
        assert (await app.session(made.session)).turns_total == 1
        (source,) = await app.harness.read(lambda reader: reader.sources())
        assert source.counts["oversized"] == 1


async def test_images_are_kept_as_digests(tmp_path: Path) -> None:
    """Case 45."""
    picture = os.urandom(3000)
    encoded = __import__("base64").b64encode(picture).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded}}
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt([{"type": "text", "text": "See"}, image])
        made.calls("toolu_1", "Read", file_path="/srv/app/a.png").returns("toolu_1", [image]).says("Nice")
        await app.take(app.write("a.jsonl", made.records))
        session = await app.session(made.session)
        shown = [entry.facts["images"] for entry in await app.entries(session) if "images" in entry.facts]
        digest = __import__("hashlib").sha256(picture).hexdigest()
        assert shown == [[{"media_type": "image/png", "bytes": 3000, "sha256": digest}]] * 2
        assert files_holding(app.harness.home, encoded[:200]) == []


async def test_an_environment_dump_loses_its_secrets_and_nothing_else(tmp_path: Path) -> None:
    """Case 46."""
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzKEYabcd"
    sha = "3f786850e387550fdab836ed7e6dc881de23001b"
    dump = f"HOME=/root\nPATH=/usr/bin:/bin\nGIT_SHA={sha}\nAWS_SECRET_ACCESS_KEY={secret}\nLANG=C.UTF-8"
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go").calls("toolu_1", command="env").returns("toolu_1", dump).says("Done")
        report = await app.take(app.write("a.jsonl", made.records))
        session = await app.session(made.session)
        text = "\n".join(await app.dialog(session))
        assert secret not in text
        assert "PATH=/usr/bin:/bin" in text
        assert sha in text
        assert sum(report.shown()["redactions"].values()) == 1
        assert files_holding(app.harness.home, secret) == []
        kept = await app.harness.read(lambda reader: reader.imported(session.id))
        assert kept is not None
        assert kept["redactions"] == report.shown()["redactions"]


async def test_ids_digests_paths_and_models_survive_wherever_they_stand(tmp_path: Path) -> None:
    """Case 47."""
    names = [
        "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "toolu_01A09q90qw90lq917835lq9",
        "msg_01XFDUDYJgAACzvnptvVoYEL",
        "/srv/a/secret-notes.md",
        "claude-opus-4-6",
    ]
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt(" ".join(names))
        made.calls(
            "toolu_01A09q90qw90lq917835lq9", "Write", file_path="/srv/a/secret-notes.md", content=" ".join(names)
        )
        made.returns("toolu_01A09q90qw90lq917835lq9", "\n".join(names)).says(" ".join(names))
        report = await app.take(app.write("a.jsonl", made.records))
        session = await app.session(made.session)
        everything = json.dumps([entry.facts for entry in await app.entries(session)])
        assert report.shown()["redactions"] == {}
        for name in names:
            assert everything.count(name) >= 4


async def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        with pytest.raises(TranscriptNotFound):
            await app.take(app.folder / "nothing.jsonl")


async def test_an_agent_cannot_have_arbitrary_files_read(tmp_path: Path) -> None:
    """Case 53, in the service that the tool calls."""
    async with open_import_app(tmp_path) as app:
        app.write("work/a.jsonl", script().records)
        (app.folder / "work" / "out").symlink_to("/etc")
        imports = app.harness.app.imports
        for path in ("/etc", str(app.folder / "work" / "out"), str(app.folder / "work" / ".." / "..")):
            with pytest.raises(InvalidParameter):
                await imports.run(ImportOptions(paths=[path], allowed=[str(app.folder / "work")]))
        outside = app.write("outside.jsonl", Claude(session="5e551000-0000-4000-8000-00000000000c").prompt("x").records)
        (app.folder / "work" / "link.jsonl").symlink_to(outside)
        inside = [str(app.folder / "work")]
        report = await imports.run(ImportOptions(paths=inside, allowed=inside))
        assert report.shown()["totals"]["sessions"] == 1


async def test_other_agents_old_files_and_small_records_are_skipped_and_named(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", script().records)
        app.write("b.jsonl", Codex(thread=THREAD).turn("t1", "One", "1").lines)
        app.write("c.jsonl", [{"type": "summary", "summary": "s", "leafUuid": "x"}])
        (app.folder / "d.json").write_text("{}", encoding="utf-8")
        (app.folder / "e.jsonl").touch()
        old = app.write("f.jsonl", script().records)
        os.utime(old, (1, 1))
        report = await app.take(agents=["claude"], since="7d")
        reasons = {Path(file.path).name: file.reason for file in report.files}
        assert reasons == {
            "a.jsonl": None,
            "b.jsonl": "other_agent",
            "c.jsonl": "no_conversation",
            "d.json": "not_recognised",
            "e.jsonl": "empty",
            "f.jsonl": "older",
        }


async def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_stored(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", script().records)
        (app.folder / "b.jsonl.zst").write_bytes(b"this is no zstd at all")
        report = await app.take()
        assert not report.ok
        assert [error["code"] for error in report.errors] == ["transcript_unreadable"]
        assert report.shown()["totals"]["sessions"] == 1


async def read_in_two(app: ImportApp, path: Path, cut: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    await app.take(path)
    path.write_bytes(whole)
    await app.take(path)


async def test_a_file_cut_anywhere_ends_with_the_same_turns_and_texts(tmp_path: Path) -> None:
    made = script(3)
    size = sum(len(json.dumps(record)) + 1 for record in made.records)
    async with open_import_app(tmp_path, name="whole") as app:
        await app.take(app.write("a.jsonl", made.records))
        session = await app.session(made.session)
        wanted = (await app.dialog(session), [turn.response for turn in await app.turns(session)])
    for number, cut in enumerate(range(40, size, 397)):
        async with open_import_app(tmp_path, name=f"cut{number}") as app:
            path = app.write("a.jsonl", made.records)
            await read_in_two(app, path, cut)
            session = await app.session(made.session)
            assert (await app.dialog(session), [t.response for t in await app.turns(session)]) == wanted


async def test_a_name_may_hold_any_sign(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        for number, name in enumerate(("a#1.jsonl", "b?.jsonl", "c%20.jsonl")):
            app.write(name, Claude(session=f"s{number}", letter="abc"[number]).prompt("Go").says("Gone").records)
        assert [file.status for file in (await app.take()).files] == ["imported"] * 3


async def test_a_rewritten_file_that_lacks_what_it_had_says_how_much(tmp_path: Path) -> None:
    """5.1: known facts stay in place, and their number is noted."""
    script = Claude().prompt("One").says("A").ends().prompt("Two").calls("t1", command="x").returns("t1", "y").says("B")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", script.records[:4])
        await app.take()
        path = app.write("a.jsonl", script.records)
        assert only(await app.take()).warnings == []
        assert only(await app.take(full=True)).warnings == []
        app.write("a.jsonl", script.records[:3])
        file = only(await app.take())
        assert (file.status, file.counts["entries"]) == ("rewritten", 0)
        assert [(one["code"], one["count"]) for one in file.warnings] == [("facts_missing", 4)]
        assert len(await app.turns(await app.session(script.session))) == 2
        app.write("a.jsonl", script.records)
        assert only(await app.take(path, full=True)).warnings == []


@pytest.mark.parametrize("checksum", [True, False])
async def test_a_compressed_file_that_was_cut_is_reported_and_read_as_far_as_it_goes(
    checksum: bool, tmp_path: Path
) -> None:
    """7: a corrupt archive is reported; nothing that could be read is lost, and the rest comes when it is whole."""
    script = Claude()
    for number in range(300):
        script.prompt(f"Prompt {number} {os.urandom(64).hex()}").says(f"Answer {os.urandom(64).hex()}").ends()
    text = "".join(json.dumps(record) + "\n" for record in script.records).encode()
    data = zstandard.ZstdCompressor(write_checksum=checksum).compress(text)
    async with open_import_app(tmp_path) as app:
        other = app.write("other.jsonl", Claude(session="other", letter="b").prompt("Go").says("Gone").records)
        path = app.folder / "a.jsonl.zst"
        for cut in (len(data) - 1000, len(data) // 3, 1):
            path.write_bytes(data[:-cut])
            report = await app.take(path, other)
            assert [error["code"] for error in report.errors] == ["transcript_unreadable"]
            assert report.files[1].status != "failed"
        path.write_bytes(data)
        report = await app.take(path)
        assert report.ok
        assert len(await app.turns(await app.session(script.session))) == 300
        assert entries_of(await app.take(full=True)) == 0


async def test_one_record_with_a_date_far_ahead_leaves_no_turn_open(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("One").says("1").prompt("Two").says("2")
        made.records[-1]["timestamp"] = "2099-01-01T00:00:00.000Z"
        app.write("a.jsonl", made.records)
        await app.take()
        assert [turn.status for turn in await app.turns(await app.session(made.session))] == ["completed"] * 2


async def test_a_session_with_one_date_far_ahead_is_not_the_last_one_for_ever(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        newer = Claude(started=NOW - timedelta(days=5)).prompt("Newer").says("Done").ends()
        app.write("a.jsonl", newer.records)
        made = Claude(session="5e551000-0000-4000-8000-0000000000ff", letter="f", started=NOW - timedelta(days=9))
        made.prompt("Older").says("Done").ends()
        made.records[1]["timestamp"] = "2099-01-01T00:00:00.000Z"
        app.write("b.jsonl", made.records)
        await app.take()
        resumed = await app.harness.call("resume_session", {"agent_id": "ClaudeCode"})
        assert resumed["data"]["resumed_session_id"] == (await app.session(newer.session)).id
        assert [one["title"] for one in resumed["data"]["other_candidates"]] == ["Older"]


async def test_work_of_a_turn_that_its_user_rewound_is_marked_and_what_it_planned_holds_no_more(
    tmp_path: Path,
) -> None:
    """Case 16."""
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("One").says("Decision: keep the old names")
        back = {"parentUuid": made.records[-1]["uuid"]}
        made.prompt("Two").says("Decision: rename everything").prompt("Other two", **back).says("Done").ends()
        await app.take(app.write("a.jsonl", made.records))
        (name,) = await app.sessions()
        shown = await app.harness.query(session_id=name)
        assert [item.get("abandoned", False) for item in shown["items"]] == [False, True, False]
        resumed = await app.harness.call("resume_session", {"agent_id": "ClaudeCode", "session_id": name})
        capsule = resumed["data"]["capsule"]
        assert [item["text"] for item in capsule["done"]] == [
            "One: Decision: keep the old names",
            "left by a rewind of the conversation: Two: Decision: rename everything",
            "Other two: Done",
        ]
        assert [item["text"] for item in capsule["decisions"]] == ["Decision: keep the old names"]
        assert all(result.ok for result in await app.harness.verify())
