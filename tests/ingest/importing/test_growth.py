"""Imports that meet a file or the store halfway: the journal is that of one import of all at the end."""

from pathlib import Path

import pytest

from shiftlog.model.entry import Kind
from shiftlog.store.protocol import Writer
from tests.ingest.import_app import NOW, Claude, Codex, entries_of, open_import_app


async def test_a_prompt_that_comes_after_its_turn_was_read_is_its_query(tmp_path: Path) -> None:
    """3.1: queryText is the prompt, wherever an import met the end of the file; 5: again and whole adds nothing."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000001")
    made.line("turn_context", turn_id="t1", model="gpt-5.5", effort="high")
    made.event("task_started", turn_id="t1").event("user_message", message="Speed it up\nBy half")
    made.event("agent_message", message="Looking").line("turn_context", turn_id="t1", model="gpt-5.5", effort="low")
    async with open_import_app(tmp_path) as app:
        for count in range(1, len(made.lines) + 1):
            await app.take(app.write("rollout-a.jsonl", made.lines[:count]))
        (turn,) = await app.turns(await app.session(made.thread))
        assert (turn.query_title, turn.query_text) == ("Speed it up", "Speed it up\nBy half")
        assert entries_of(await app.take(full=True)) == 0
        assert await app.is_sound()


async def test_images_of_a_prompt_are_kept_also_where_it_comes_after_its_turn_was_read(tmp_path: Path) -> None:
    """3.5: `images` of a user message become digests."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000002").event("task_started", turn_id="t1")
    async with open_import_app(tmp_path) as app:
        await app.take(app.write("rollout-a.jsonl", made.lines))
        made.event("user_message", message="Look", images=["data:image/png;base64,iVBORw0KGgo="])
        await app.take(app.write("rollout-a.jsonl", made.lines))
        (updated,) = [one for one in await app.entries(await app.session(made.thread)) if one.kind is Kind.TURN_UPDATED]
        (image,) = updated.facts["more"]["images"]
        assert (image["media_type"], image["bytes"], len(image["sha256"])) == ("image/png", 8, 64)
        assert entries_of(await app.take(full=True)) == 0


async def test_a_turn_that_went_on_after_it_had_settled_is_not_said_to_be_aborted(tmp_path: Path) -> None:
    """Case 5, for a turn that was quiet for long before its agent went on without a prompt."""
    made = Claude().prompt("Wait for it").says("I shall")
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        made.calls("toolu_1", command="make").prompt("Stop").says("Stopped").ends()
        app.write("a.jsonl", made.records)
        await app.take(path)
        assert entries_of(await app.take(path, full=True)) == 0
        first, *_ = await app.turns(await app.session(made.session))
        assert (str(first.status), first.response, first.blockers) == ("completed", "I shall", ())
        assert first.amendments == ()


async def test_a_turn_that_failed_after_it_had_settled_keeps_its_end(tmp_path: Path) -> None:
    """Case 5, where the record that came late is an error whose text is the blocker."""
    made = Claude().prompt("Wait for it").says("I shall")
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        made.says("Overloaded", isApiErrorMessage=True, error="overloaded").prompt("Again").says("Done").ends()
        app.write("a.jsonl", made.records)
        await app.take(path)
        assert entries_of(await app.take(path, full=True)) == 0
        first, *_ = await app.turns(await app.session(made.session))
        assert (str(first.status), first.blockers, first.amendments) == ("completed", (), ())


@pytest.mark.parametrize("halves", [("item", "event"), ("event", "item")])
async def test_both_halves_of_an_old_prompt_are_one_wherever_an_import_met_the_file(
    halves: tuple[str, str], tmp_path: Path
) -> None:
    """3.5: the event and the item of a text are one, whichever comes first."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000003")
    for half in halves:
        if half == "event":
            made.event("user_message", message="Speed it up")
        else:
            made.line(
                "response_item", type="message", role="user", content=[{"type": "input_text", "text": "Speed it up"}]
            )
    made.event("agent_message", message="Done")
    async with open_import_app(tmp_path, now=made.started) as app:
        for count in range(1, len(made.lines) + 1):
            await app.take(app.write("rollout-a.jsonl", made.lines[:count]))
        session = await app.session(made.thread)
        assert [turn.query_text for turn in await app.turns(session)] == ["Speed it up"]
        assert await app.dialog(session) == ["Done"]
        app.harness.set_time(NOW)
        await app.take()
        assert [str(turn.status) for turn in await app.turns(session)] == ["completed"]
        assert entries_of(await app.take(full=True)) == 0


async def test_a_prompt_before_the_start_of_its_turn_belongs_to_it_wherever_an_import_met_the_file(
    tmp_path: Path,
) -> None:
    """3.5: a user message that comes just before its `task_started` belongs to that turn."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000004")
    made.line("turn_context", turn_id="t1", model="gpt-5.5").event("user_message", message="Speed it up")
    made.event("task_started", turn_id="t1").event("agent_message", message="Done").event("task_complete", turn_id="t1")
    async with open_import_app(tmp_path, now=made.started) as app:
        for count in range(1, len(made.lines) + 1):
            await app.take(app.write("rollout-a.jsonl", made.lines[:count]))
        (turn,) = await app.turns(await app.session(made.thread))
        assert (turn.query_text, str(turn.status)) == ("Speed it up", "completed")


@pytest.mark.parametrize("named", [True, False])
async def test_a_prompt_whose_turn_never_starts_is_kept_when_time_has_passed(named: bool, tmp_path: Path) -> None:
    """3.5: in a file that marks no starts it opens a turn, also where nothing follows it."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000005")
    made.line("turn_context", model="gpt-5.5", **({"turn_id": "t1"} if named else {}))
    made.event("user_message", message="Speed it up")
    async with open_import_app(tmp_path, now=made.started) as app:
        path = app.write("rollout-a.jsonl", made.lines)
        await app.take(path)
        app.harness.set_time(NOW)
        await app.take(path)
        (turn,) = await app.turns(await app.session(made.thread))
        assert (turn.query_text, str(turn.status)) == ("Speed it up", "in_progress")
        assert entries_of(await app.take(path, full=True)) == 0


async def test_a_session_that_time_alone_opened_is_not_begun_again_when_it_is_read_whole(tmp_path: Path) -> None:
    """Case 5, for a command that nobody answered, also where its agent goes on in the end."""
    made = Claude().prompt("<command-name>/init</command-name>").prompt("Look around", isMeta=True)
    async with open_import_app(tmp_path, now=made.started) as app:
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        assert await app.sessions() == {}
        app.harness.set_time(NOW)
        await app.take(path)
        assert len(await app.dialog(await app.session(made.session))) == 2
        assert entries_of(await app.take(path, full=True)) == 0
        app.write("a.jsonl", made.prompt("Go on").says("Done").ends().records)
        await app.take(path)
        assert entries_of(await app.take(path, full=True)) == 0


async def test_what_was_erased_does_not_come_back_with_the_next_import(tmp_path: Path) -> None:
    """Keys outlive the bodies, also where the file is read whole or has grown."""
    made = Claude().prompt("The secret plan").says("I keep it").ends()
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        session = await app.session(made.session)
        every = [entry.seq for entry in await app.entries(session)]
        await app.harness.app.maintenance.erase(session.id, every, "privacy")
        assert entries_of(await app.take(path, full=True)) == 0
        app.write("a.jsonl", made.prompt("More").says("Done").ends().records)
        await app.take(path)
        entries = await app.entries(session)
        assert [entry.seq for entry in entries if entry.body is None] == every
        assert "secret plan" not in str([entry.body for entry in entries])
        assert (await app.session(made.session)).id == session.id
        assert [turn.query_text for turn in await app.turns(session)] == ["[erased]", "More"]
        assert await app.is_sound()


REFUSALS = {
    "to last": "INSERT ON sources WHEN EXISTS (SELECT 1 FROM sources WHERE path = NEW.path)",
    "projects": "INSERT ON project_paths",
}


@pytest.mark.parametrize("refused", REFUSALS)
async def test_a_store_that_refuses_the_end_of_an_import_still_tells_what_was_stored(
    refused: str, tmp_path: Path
) -> None:
    """8.2: what the others brought is stored, and the report says so, also where the disk is full at the end."""
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", Claude().prompt("Go").says("Done").ends().records)
        with app.harness.database() as database:
            database.execute(f"CREATE TRIGGER full BEFORE {REFUSALS[refused]} BEGIN SELECT RAISE(FAIL, 'no room'); END")
        report = (await app.take()).shown()
        assert (report["ok"], report["totals"]["entries"], report["totals"]["turns"]) == (False, 9, 1)
        (error,) = report["errors"]
        assert (error["path"], error["code"]) == (str(path), "storage_error")
        assert "no room" in error["message"]
        with app.harness.database() as database:
            database.execute("DROP TRIGGER full")
        again = (await app.take()).shown()
        assert (again["ok"], again["totals"]["entries"]) == (True, 0)


async def test_an_import_that_did_not_come_to_its_end_leaves_no_session_without_its_project(tmp_path: Path) -> None:
    """5.2: after a kill at any instant the next run ends where an undisturbed one does, also beside the journal."""
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", Claude().prompt("Go").says("Done").ends().records)
        await app.take()
        session_id = (await app.session(Claude().session)).id

        def forget(writer: Writer) -> None:
            writer.put_imported(session_id, {})

        whole = await app.harness.read(lambda reader: reader.imported(session_id))
        await app.harness.app.store.write(forget)  # as it stands before the last transaction of an import
        await app.take()
        assert await app.harness.read(lambda reader: reader.imported(session_id)) == whole == {"project": "/srv/app"}
