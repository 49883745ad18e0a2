"""OpenCode's database: its rows become sessions, unchanged ones are not read again, and growth is taken."""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from tests.ingest.import_app import Claude, ImportApp, entries_of, open_import_app

STARTED_MS = 1_772_359_200_000
SCHEMA = """
CREATE TABLE session (
    id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
    title text NOT NULL, version text NOT NULL, share_url text, summary_additions integer, revert text,
    time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer
);
CREATE TABLE message (
    id text PRIMARY KEY, session_id text NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE part (
    id text PRIMARY KEY, message_id text NOT NULL REFERENCES message (id) ON DELETE CASCADE, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE INDEX message_session_idx ON message (session_id);
CREATE INDEX part_message_idx ON part (message_id);
"""


class Database:
    """A database as OpenCode keeps it, in use while we read it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True)
        self.path = path
        self.db = apsw.Connection(str(path))
        self.db.pragma("journal_mode", "wal")
        self.db.execute(SCHEMA)
        self._ms = STARTED_MS

    def _now(self) -> int:
        self._ms += 1000
        return self._ms

    def session(self, name: str, title: str, parent: str | None = None) -> None:
        now = self._now()
        self.db.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created,"
            " time_updated) VALUES (?, 'prj_1', ?, 'calm-fox', '/srv/app', ?, '1.4.2', ?, ?)",
            (name, parent, title, now, now),
        )

    def message(self, name: str, session: str, role: str, **data: Any) -> None:
        now = self._now()
        body = json.dumps({"role": role, "time": {"created": now}, **data})
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (name, session, now, now, body))

    def part(self, name: str, message: str, session: str, kind: str, **data: Any) -> None:
        now = self._now()
        body = json.dumps({"type": kind, **data})
        self.db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", (name, message, session, now, now, body))

    def change(self, name: str, **data: Any) -> None:
        self.db.execute(
            "UPDATE part SET data = ?, time_updated = ? WHERE id = ?", (json.dumps(data), self._now(), name)
        )

    def turn(self, number: int, session: str, prompt: str, answer: str, **more: Any) -> None:
        asked, said = f"msg_{session}_{number}a", f"msg_{session}_{number}b"
        self.message(asked, session, "user")
        self.part(f"prt_{asked}", asked, session, "text", text=prompt)
        tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 100, "write": 20}}
        done = {"created": self._ms, "completed": self._ms + 500}
        self.message(said, session, "assistant", modelID="gpt-5", tokens=tokens, cost=0.25, finish="stop", time=done)
        state = {"status": "completed", "input": {"command": "ls"}, "output": "a.py", "metadata": {"exit": 0}, **more}
        self.part(f"prt_{said}_1", said, session, "tool", callID=f"call_{session}_{number}", tool="bash", state=state)
        self.part(f"prt_{said}_2", said, session, "text", text=answer)


async def dialog_of(app: ImportApp, vendor_id: str) -> list[str]:
    return await app.dialog(await app.session(vendor_id))


async def test_the_sessions_of_a_database_are_imported_once_and_grow(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        database = Database(app.folder / "share" / "opencode" / "opencode.db")
        with closing(database.db):
            database.session("ses_one", "Make it faster")
            database.turn(1, "ses_one", "Make it faster", "Twice as fast")
            database.session("ses_two", "Look around", parent="ses_one")
            database.turn(1, "ses_two", "Look around", "Nothing here")
            report = await app.discover({"XDG_DATA_HOME": str(app.folder / "share"), "HOME": str(tmp_path)})
            figures = report.shown()["totals"]
            assert (figures["sessions"], figures["child_sessions"], figures["turns"]) == (1, 1, 2)
            assert (figures["tool_calls"], figures["usage_responses"]) == (2, 2)
            one = await app.session("ses_one")
            assert (one.title, one.agent, one.cwd) == ("Make it faster", "OpenCode", "/srv/app")
            assert (await app.session("ses_two")).parent_session_id == one.id
            assert await app.used() == (20, 10, 40, 200)
            assert one.usage is not None
            assert one.usage.cost_usd == 0.25
            heads = await app.heads()

            again = await app.take()
            assert {file.status for file in again.files} == {"unchanged"}
            assert entries_of(await app.take(full=True)) == 0
            assert await app.heads() == heads

            database.turn(2, "ses_one", "And now?", "Done")
            grown = await app.take()
            assert [file.status for file in grown.files if file.status != "unchanged"] == ["grown"]
            assert len(await app.turns(one)) == 2
            said = await dialog_of(app, "ses_one")
            assert [text for text in said if text in ("Twice as fast", "Done")] == ["Twice as fast", "Done"]
            assert (await app.heads())[(await app.session("ses_two")).id] == heads[(await app.session("ses_two")).id]
            assert await app.is_sound()


async def test_a_part_that_is_still_being_written_is_taken_when_it_is_done(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        database = Database(app.folder / "opencode" / "opencode.db")
        with closing(database.db):
            database.session("ses_one", "Count")
            database.message("msg_1", "ses_one", "user")
            database.part("prt_1", "msg_1", "ses_one", "text", text="Count the files")
            database.message("msg_2", "ses_one", "assistant", modelID="gpt-5")
            call = {"type": "tool", "callID": "call_1", "tool": "bash"}
            running = {"status": "running", "input": {"command": "ls | wc -l"}}
            database.part("prt_2", "msg_2", "ses_one", "tool", callID="call_1", tool="bash", state=running)
            await app.take()
            done = {**running, "status": "completed", "output": "17", "metadata": {"exit": 0}}
            database.change("prt_2", **call, state=done)
            await app.take()
            said = await dialog_of(app, "ses_one")
            assert [text for text in said if text == "17"] == ["17"]
            assert len([text for text in said if "wc -l" in text]) == 1


async def test_texts_are_taken_when_they_are_written_not_while_they_grow(tmp_path: Path) -> None:
    """3.5: an import may come at any moment of a turn; the prompt and each text are kept as they are in the end."""
    async with open_import_app(tmp_path, now=datetime.fromtimestamp(STARTED_MS / 1000 + 60, UTC)) as app:
        database = Database(app.folder / "opencode" / "opencode.db")
        with closing(database.db):
            database.session("ses_one", "Count")
            database.message("msg_1", "ses_one", "user")
            await app.take()
            database.part("prt_1", "msg_1", "ses_one", "text", text="Count the files")
            await app.take()
            database.message("msg_2", "ses_one", "assistant", modelID="gpt-5")
            database.part("prt_2", "msg_2", "ses_one", "reasoning", text="I", time={"start": STARTED_MS})
            await app.take()
            times = {"start": STARTED_MS, "end": STARTED_MS + 900}
            database.change("prt_2", type="reasoning", text="I look", time=times)
            call = {"callID": "call_1", "tool": "bash"}
            database.part("prt_3", "msg_2", "ses_one", "tool", **call, state={"status": "pending", "input": {}})
            await app.take()
            done = {"status": "completed", "input": {"command": "ls"}, "output": "17", "metadata": {"exit": 0}}
            database.change("prt_3", type="tool", **call, state=done)
            database.part("prt_4", "msg_2", "ses_one", "text", text="Seven", time={"start": STARTED_MS})
            await app.take()
            assert await dialog_of(app, "ses_one") == ["I look", "bash: ls", "17"]
            database.change("prt_4", type="text", text="Seventeen", time=times)
            await app.take()
            assert await dialog_of(app, "ses_one") == ["I look", "bash: ls", "17", "Seventeen"]
            (turn,) = await app.turns(await app.session("ses_one"))
            assert turn.query_text == "Count the files"
            assert entries_of(await app.take(full=True)) == 0
            assert await app.is_sound()


async def test_a_text_that_nobody_goes_on_with_is_taken_as_it_is(tmp_path: Path) -> None:
    async with open_import_app(tmp_path, now=datetime.fromtimestamp(STARTED_MS / 1000 + 60, UTC)) as app:
        database = Database(app.folder / "opencode" / "opencode.db")
        with closing(database.db):
            database.session("ses_one", "Count")
            database.message("msg_1", "ses_one", "user")
            database.part("prt_1", "msg_1", "ses_one", "text", text="Count the files")
            database.message("msg_2", "ses_one", "assistant", modelID="gpt-5")
            database.part("prt_2", "msg_2", "ses_one", "text", text="Seven", time={"start": STARTED_MS})
            await app.take()
            assert await dialog_of(app, "ses_one") == []
            app.harness.wait(hours=1)
            await app.take()
            assert await dialog_of(app, "ses_one") == ["Seven"]
            (turn,) = await app.turns(await app.session("ses_one"))
            assert (turn.status, turn.response) == ("completed", "Seven")
            assert await app.is_sound()


async def test_a_database_of_somebody_else_is_not_recognised(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        path = app.folder / "notes.db"
        with closing(apsw.Connection(str(path))) as db:
            db.execute("CREATE TABLE notes (text)")
        (app.folder / "broken.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
        report = await app.take()
        assert {(file.status, file.reason) for file in report.files} == {("skipped", "not_recognised")}
        assert report.ok


async def test_a_database_is_found_whatever_its_folder_is_called(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        for number, name in enumerate(("what?", "100%41", "c#", "a b")):
            database = Database(app.folder / name / "opencode.db")
            database.session(f"ses_{number}", "One")
            database.turn(1, f"ses_{number}", "Go", "Gone")
            database.db.close()
        report = await app.take()
        assert [file.status for file in report.files] == ["imported"] * 4
        assert entries_of(await app.take()) == 0


async def test_rows_of_any_type_keep_nobody_else_from_being_imported(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        folder = app.folder / "opencode"
        folder.mkdir()
        with closing(apsw.Connection(str(folder / "opencode.db"))) as db:
            db.execute("CREATE TABLE session (id, directory, title, time_created, time_updated)")
            db.execute("CREATE TABLE message (id, session_id, time_created, time_updated, data)")
            db.execute("CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data)")
            names: list[Any] = ["ses_1", "ses_2", None, 7, b"x"]
            for name, updated in zip(names, ("yesterday", 1.5e300, 1, 1, 1), strict=True):
                db.execute("INSERT INTO session VALUES (?, '/srv', ?, NULL, ?)", (name, b"\xff", updated))
            db.execute("INSERT INTO message VALUES ('m', 'ses_1', NULL, NULL, 'no JSON')")
        app.write("claude.jsonl", Claude().prompt("Go").says("Gone").records)
        report = await app.take()
        assert {Path(file.path).name: file.status for file in report.files} == {
            "claude.jsonl": "imported",
            "opencode.db#ses_1": "imported",
            "opencode.db#ses_2": "imported",
        }
        assert entries_of(await app.take()) == 0


async def test_a_document_that_cannot_be_read_is_reported_and_the_others_are_stored(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        storage = app.folder / "storage"
        for folder in ("session/prj", "message/ses_1"):
            (storage / folder).mkdir(parents=True)
        session = {"id": "ses_1", "projectID": "prj", "directory": "/srv", "time": {"created": STARTED_MS}}
        (storage / "session/prj/ses_1.json").write_text(json.dumps(session))
        (storage / "message/ses_1/msg_1.json").symlink_to(storage / "gone.json")
        app.write("claude.jsonl", Claude().prompt("Go").says("Gone").records)
        report = await app.take(storage / "session", app.folder / "claude.jsonl")
        assert [(Path(file.path).name, file.status) for file in report.files] == [
            ("ses_1.json", "failed"),
            ("claude.jsonl", "imported"),
        ]
        assert [error["code"] for error in report.errors] == ["transcript_unreadable"]
