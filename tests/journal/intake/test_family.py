"""Children and live sessions: either side may come first, and what was recorded live and its transcript are one."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.dialects.mcpserver.current import CallContext
from shiftlog.dialects.mcpserver.tools import call_tool
from shiftlog.model.caller import Caller
from tests.ingest.import_app import Claude, Codex, ImportApp, entries_of, open_import_app, usage_of

KID = "kid1234"


def parent(*, done: bool = True) -> Claude:
    """Return a session with a Task call that names its subagent."""
    made = Claude().prompt("Review the code").calls("toolu_task", "Task", prompt="Look", subagent_type="reviewer")
    made.returns(
        "toolu_task", [{"type": "text", "text": "All fine"}], toolUseResult={"agentId": KID, "status": "completed"}
    )
    return made.says("Reviewed").ends() if done else made


def child() -> Claude:
    made = Claude(letter="b", common={"agentId": KID, "isSidechain": True}).prompt("Look")
    return made.block({"type": "text", "text": "All fine"}, message="K", request="r9", usage=usage_of(1, 5, 0, 0))


def place_child(app: ImportApp, layout: str) -> Path:
    own = child()
    name = f"{own.session}/subagents/agent-{KID}.jsonl" if layout == "nested" else f"agent-{KID}.jsonl"
    return app.write(name, own.records)


@pytest.mark.parametrize("layout", ["nested", "flat"])
async def test_a_subagents_file_becomes_a_child_at_its_turn_and_call(layout: str, tmp_path: Path) -> None:
    """Case 28."""
    async with open_import_app(tmp_path) as app:
        made = parent()
        app.write(f"{made.session}.jsonl", made.records)
        place_child(app, layout)
        await app.take()
        main, kid = await app.session(made.session), await app.session(KID)
        (turn,) = await app.turns(main)
        assert (kid.parent_session_id, kid.parent_turn, kid.parent_call) == (main.id, turn.request_id, "toolu_task")
        assert kid.id.endswith(f"-5e551000-agent-{KID}")
        assert len(await app.sessions()) == 2
        assert await app.is_sound()
        context = CallContext(caller=Caller(face="repl"), workspace="/srv/app")
        listed = await app.harness.app.sessionlog.call("workflow.sessionlog.queryHistory", {}, context)
        assert listed is not None
        assert [(one["sessionId"], one["turnCount"]) for one in listed["sessions"]] == [(main.id, 2)]
        whole = await call_tool(app.harness.app.sessionlog, "sessionlog_query", {"text": "All fine"}, context)
        own, subagents = whole["items"][0]["turns"]
        assert own["requestId"] == turn.request_id
        assert subagents["requestId"].startswith("req-20260304T050001Z-subagent-reviewer-")
        assert subagents["tags"][:2] == ["subagent", "reviewer"]
        assert subagents["tags"][-1] == f"parent:{turn.request_id}"


async def test_a_child_that_comes_first_is_linked_when_its_parent_comes(tmp_path: Path) -> None:
    """Case 29."""
    async with open_import_app(tmp_path) as app:
        await app.take(place_child(app, "nested"))
        kid = await app.session(KID)
        before = [entry.hash for entry in await app.entries(kid)]
        assert kid.parent_session_id is None
        made = parent()
        await app.take(app.write(f"{made.session}.jsonl", made.records))
        main, kid = await app.session(made.session), await app.session(KID)
        (turn,) = await app.turns(main)
        assert (kid.parent_session_id, kid.parent_turn, kid.parent_call) == (main.id, turn.request_id, "toolu_task")
        after = await app.entries(kid)
        assert [entry.hash for entry in after[: len(before)]] == before
        assert {str(entry.kind) for entry in after[len(before) :]} == {"session.updated"}
        assert await app.is_sound()


def progress(uuid: str, text: str, output: int) -> dict[str, Any]:
    message = {"id": "K", "role": "assistant", "model": "claude-opus-4-6", "usage": usage_of(1, output, 0, 0)}
    content = [{"type": "text", "text": text}]
    nested = {
        "type": "assistant",
        "uuid": uuid,
        "timestamp": "2026-03-04T05:00:09.000Z",
        "requestId": "r9",
        "message": {**message, "content": content},
    }
    return {"type": "agent_progress", "agentId": KID, "prompt": "Look", "message": nested}


@pytest.mark.parametrize("first", ["parent", "child"])
async def test_a_child_without_a_name_of_its_own_has_that_of_the_call(first: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = parent()
        steps = [lambda: app.write(f"{made.session}.jsonl", made.records), lambda: place_child(app, "flat")]
        for step in steps if first == "parent" else steps[::-1]:
            step()
            await app.take()
        assert (await app.session(KID)).subagent["name"] == "reviewer"
        assert entries_of(await app.take(full=True)) == 0


async def test_side_chains_inside_a_session_have_the_names_of_their_calls(tmp_path: Path) -> None:
    made = Claude().prompt("Go").calls("k1", "Task", prompt="Find X", subagent_type="finder")
    made.prompt("Find X", isSidechain=True, parentUuid=None).says("Found", isSidechain=True)
    made.returns("k1", "Found").says("Done")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", made.records)
        await app.take()
        kids = [session for session in (await app.sessions()).values() if session.subagent]
        assert [(kid.subagent["name"], kid.parent_call) for kid in kids] == [("finder", "k1")]


async def test_progress_records_and_the_later_file_are_one_child(tmp_path: Path) -> None:
    """Case 30."""
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Review").calls("toolu_task", "Task", prompt="Look", subagent_type="reviewer")
        own = child()
        made.add("progress", data=progress(own.records[1]["uuid"], "All fine", 2), parentToolUseID="toolu_task")
        path = app.write(f"{made.session}.jsonl", made.records)
        await app.take(path)
        kid = await app.session(KID)
        assert "All fine" in await app.dialog(kid)
        assert (await app.used())[1] == 2
        await app.take(place_child(app, "nested"))
        kid = await app.session(KID)
        assert (await app.dialog(kid)).count("All fine") == 1
        assert (await app.used())[1] == 5
        assert len(await app.sessions()) == 2
        assert await app.is_sound()


async def test_a_session_recorded_live_and_its_transcript_are_one(tmp_path: Path) -> None:
    """Case 55."""
    async with open_import_app(tmp_path) as app:
        made = Claude()
        live = await app.harness.open(agent="ClaudeCode", title="Mine", vendor_session_id=made.session)
        request = await app.harness.begin(live, query_title="Fix", query_text="Fix it")
        await app.harness.complete(live, response="What the agent wrote")
        made.prompt("Fix it").calls("toolu_1", "mcp__shiftlog__begin_turn", session_id=live)
        made.returns("toolu_1", f'{{"session_id":"{live}","request_id":"{request}"}}')
        made.block(
            {"type": "text", "text": "From the transcript"}, message="M", request="r", usage=usage_of(1, 7, 0, 0)
        )
        made.ends()
        await app.take(app.write("a.jsonl", made.records))
        (session,) = (await app.sessions()).values()
        (turn,) = await app.turns(session)
        assert (session.id, session.title, turn.response) == (live, "Mine", "What the agent wrote")
        assert "From the transcript" in str([note.fields for note in turn.amendments])
        assert (await app.used())[1] == 7
        assert str(session.state) == "open"
        assert await app.is_sound()


def worked(made: Claude, session_id: str, request_id: str) -> Claude:
    """Have the agent of a transcript begin a turn with our own tool."""
    made.prompt("Fix it").calls("toolu_1", "mcp__shiftlog__begin_turn", session_id=session_id)
    made.returns("toolu_1", f'{{"session_id":"{session_id}","request_id":"{request_id}"}}')
    return made.says("Fixed").ends()


async def test_a_session_that_an_agent_opened_without_saying_whose_it_is_is_known_by_its_turns(tmp_path: Path) -> None:
    """5.4: what a vendor's turn tells goes to the turn that its agent began; so both are of one session."""
    async with open_import_app(tmp_path) as app:
        live = await app.harness.open(agent="ClaudeCode", title="Mine")
        request = await app.harness.begin(live, query_title="Fix", query_text="Fix it")
        made = worked(Claude(), live, request).prompt("More").says("Done").ends()
        path = app.write("a.jsonl", made.records)
        await app.take(path)
        (session,) = (await app.sessions()).values()
        assert (session.id, session.title, session.vendor_session_id) == (live, "Mine", made.session)
        assert [turn.query_text for turn in await app.turns(session)] == ["Fix it", "More"]
        assert entries_of(await app.take(path, full=True)) == 0
        later = Claude(session="5e551000-0000-4000-8000-00000000000b", letter="b")
        await app.take(app.write("b.jsonl", worked(later, live, request).records))
        assert (await app.session(later.session)).id != live
        assert await app.is_sound()


@pytest.mark.parametrize("other", ["another agent's", "no turn of it", "a subagent's"])
async def test_a_transcript_does_not_join_a_session_that_is_not_its_own(other: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        live = await app.harness.open(agent="Codex" if other == "another agent's" else "ClaudeCode", title="Mine")
        request = await app.harness.begin(live, query_title="Fix", query_text="Fix it")
        named = "req-20261101T120000Z-never-begun" if other == "no turn of it" else request
        made = Claude(common={"isSidechain": True, "agentId": "x1"} if other == "a subagent's" else {})
        await app.take(app.write("agent-x1.jsonl", worked(made, live, named).records))
        assert len(await app.sessions()) == 2
        assert (await app.sessions())[live].vendor_session_id is None


async def test_into_an_open_live_turn_a_transcript_only_fills_what_is_empty(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude()
        live = await app.harness.open(agent="ClaudeCode", title="Mine", vendor_session_id=made.session)
        request = await app.harness.begin(live, query_title="Fix", query_text="Fix it")
        await app.harness.update(live, interpretation="My own reading")
        made.prompt("Fix it").calls("toolu_1", "mcp__shiftlog__begin_turn", session_id=live)
        made.returns("toolu_1", f'{{"session_id":"{live}","request_id":"{request}"}}').says("The answer").ends()
        await app.take(app.write("a.jsonl", made.records))
        (session,) = (await app.sessions()).values()
        (turn,) = await app.turns(session)
        assert turn.interpretation == "My own reading"
        assert (str(turn.status), turn.response) == ("completed", "The answer")
        assert "The answer" in await app.dialog(session)


async def test_a_sealed_session_takes_nothing_and_says_so(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = parent()
        live = await app.harness.open(agent="ClaudeCode", title="Mine", vendor_session_id=made.session)
        arguments = {"session_id": live, "reason": "done", "succession_policy": "closed_without_successor"}
        await app.harness.call("close_session", arguments)
        heads = await app.heads()
        report = await app.take(app.write("a.jsonl", made.records))
        assert report.files[0].reason == "sealed"
        assert entries_of(report) == 0
        assert await app.heads() == heads


async def sealed(app: ImportApp, vendor_id: str) -> str:
    """Close a session without successor and return its head."""
    session_id = (await app.session(vendor_id)).id
    arguments = {"session_id": session_id, "reason": "done", "succession_policy": "closed_without_successor"}
    await app.harness.call("close_session", arguments)
    return (await app.session(vendor_id)).head_hash


@pytest.mark.parametrize("late", ["child", "parent"])
async def test_a_sealed_session_is_not_changed_by_its_relatives_either(late: str, tmp_path: Path) -> None:
    """5.4: what comes later about a sealed session stands on the other side alone."""
    async with open_import_app(tmp_path) as app:
        made = parent()
        files = [app.write("a.jsonl", made.records), place_child(app, "flat")]
        names = [made.session, KID]
        if late == "parent":
            files, names = files[::-1], names[::-1]
        await app.take(files[0])
        head = await sealed(app, names[0])
        await app.take(files[1])
        assert (await app.session(names[0])).head_hash == head
        assert await app.is_sound()


async def test_a_sealed_sessions_response_that_grew_elsewhere_is_counted_there(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        await app.take(place_child(app, "flat"))
        head = await sealed(app, KID)
        other = Claude(letter="c", session="5e551000-0000-4000-8000-00000000000c").prompt("Look again")
        other.block({"type": "text", "text": "Fine"}, message="K", request="r9", usage=usage_of(1, 90, 0, 0))
        await app.take(app.write("c.jsonl", other.records))
        assert (await app.session(KID)).head_hash == head
        assert await app.used() == (1, 90, 0, 0)
        assert await app.is_sound()


async def test_a_sealed_forks_copied_tokens_are_not_counted_again_when_its_parent_comes(tmp_path: Path) -> None:
    thread, fork = "9a000000-0000-4000-8000-000000000001", "9b000000-0000-4000-8000-000000000002"
    total = (1000, 200, 50, 10, 1050)
    first = Codex(thread=thread).turn("p1", "one", "1").tokens(total, total)
    copy = Codex(thread=fork, started=first.started + timedelta(hours=1), meta={"forked_from_id": thread})
    copy.lines.extend(first.lines)
    copy.turn("f1", "two", "2").tokens((2500, 900, 120, 30, 2620), (1500, 700, 70, 20, 1570))
    async with open_import_app(tmp_path) as app:
        await app.take(app.write("rollout-f.jsonl", copy.lines))
        head, used = await sealed(app, fork), await app.used()
        await app.take(app.write("rollout-p.jsonl", first.lines))
        assert (await app.session(fork)).head_hash == head
        assert await app.used() == used
        assert await app.is_sound()


async def test_an_edit_that_failed_is_not_among_the_files(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Go").calls("toolu_1", "Edit", file_path="/srv/app/a.py", old_string="a", new_string="b")
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "No such text", "is_error": True}
        made.add("user", message={"role": "user", "content": [block]}).says("Sorry").ends()
        await app.take(app.write("a.jsonl", made.records))
        (turn,) = await app.turns(await app.session(made.session))
        assert turn.files == {}
        assert turn.actions == 1


async def test_a_copy_that_names_its_own_session_within_a_turn_has_no_turn_of_it(tmp_path: Path) -> None:
    """5.3: a resume of 1.x rewrites the session of some records only; what another session owns begins nothing."""
    copying = "5e551000-0000-4000-8000-00000000000b"
    first = Claude().prompt("Say lol").says("lol")
    prompt, answer = first.records
    own = Claude(session=copying, letter="b", started=first.started + timedelta(hours=1)).prompt("More").says("Done")
    async with open_import_app(tmp_path) as app:
        app.write("z-original.jsonl", first.records)
        app.write("a-copy.jsonl", [prompt, {**answer, "sessionId": copying}, *own.records])
        await app.take()
        assert [turn.query_text for turn in await app.turns(await app.session(first.session))] == ["Say lol"]
        copy = await app.session(copying)
        assert [turn.query_text for turn in await app.turns(copy)] == ["More"]
        assert copy.forked_from == (await app.session(first.session)).id
        assert entries_of(await app.take(full=True)) == 0
        assert await app.is_sound()


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
async def test_a_fork_has_model_and_place_of_what_it_copied(order: tuple[str, str], tmp_path: Path) -> None:
    """2.4, 3.1: they are facts of each session, also where the record that told them is another's."""
    copying = "5e551000-0000-4000-8000-00000000000b"
    first = Claude().prompt("Say lol").says("lol")
    first.common = {"cwd": "/srv/app/web", "gitBranch": "dev"}
    first.prompt("Go on").says("Done").ends()
    own = Claude(session=copying, letter="b", started=first.started + timedelta(hours=1), common=first.common)
    own.prompt("More").says("Done")
    files = {"a": first.records, "b": [*({**one, "sessionId": copying} for one in first.records), *own.records]}
    async with open_import_app(tmp_path) as app:
        for name in order:
            await app.take(app.write(f"{name}.jsonl", files[name]))
        for vendor_id in (first.session, copying):
            session = await app.session(vendor_id)
            assert session.model == "claude-opus-4-6"
            told = [entry.facts for entry in await app.entries(session)]
            assert [one["branch"] for one in told if "branch" in one] == ["main", "dev"]
            assert [one["backend"] for one in told if "backend" in one] == ["claude"]
        assert entries_of(await app.take(full=True)) == 0
        assert await app.is_sound()


async def test_a_shared_turn_with_a_subagent_stays_shared(tmp_path: Path) -> None:
    """Case 36, with a child in what was copied."""
    copying = "5e551000-0000-4000-8000-00000000000b"
    first = parent()
    own = Claude(session=copying, letter="c", started=first.started + timedelta(hours=1)).prompt("More").says("Done")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", first.records)
        app.write("b.jsonl", [*({**record, "sessionId": copying} for record in first.records), *own.records])
        await app.take()
        assert [turn.query_text for turn in await app.turns(await app.session(copying))] == ["More"]


async def test_an_end_that_only_a_copy_has_begins_no_turn_in_it(tmp_path: Path) -> None:
    copying = "5e551000-0000-4000-8000-00000000000b"
    first = Claude().prompt("Say lol").says("lol")
    own = Claude(session=copying, letter="b", started=first.started + timedelta(hours=1)).ends().prompt("More")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", first.records)
        app.write("b.jsonl", [*({**record, "sessionId": copying} for record in first.records), *own.records])
        await app.take()
        assert [turn.query_text for turn in await app.turns(await app.session(copying))] == ["More"]
