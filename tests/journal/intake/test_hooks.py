"""Events of hooks become sessions, turns, runs and capsules, once, whichever of hook and transcript comes first."""

import json
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import anyio
import pytest

from shiftlog.journal.history.items import seen_files
from shiftlog.model.moves import SessionState, TurnStatus
from tests.ingest.hooks.hook_app import PID, SESSION, THREAD, HookApp, open_hook_app, transcript
from tests.ingest.import_app import NOW, Claude, Codex
from tests.journal.harness import files_holding


def spool_a_turn(hooked: HookApp, path: Path | None) -> None:
    fields: dict[str, Any] = {"transcript_path": str(path) if path else None}
    hooked.spool("SessionStart", source="startup", model="claude-opus-4-6", **fields)
    hooked.spool("UserPromptSubmit", prompt="Fix the upload", **fields)
    hooked.spool("Stop", last_assistant_message="It is fixed", later_s=3, **fields)


@pytest.mark.parametrize("order", ["hooks", "transcript", "both"])
async def test_hooks_and_the_transcript_are_one_session_with_every_text_once(order: str, tmp_path: Path) -> None:
    """Case 48."""
    async with open_hook_app(tmp_path) as hooked:
        app = hooked.app
        path = hooked.app.folder / "projects" / "app" / f"{SESSION}.jsonl"
        if order != "hooks":
            transcript(hooked)
        if order == "transcript":
            await app.take(path)
        spool_a_turn(hooked, path)
        hooked.later(seconds=1)
        await hooked.drain()
        transcript(hooked)
        await app.take(path)
        hooked.later(seconds=11)
        await hooked.drain()
        session = await app.session(SESSION)
        assert session.state is SessionState.OPEN
        (turn,) = await app.turns(session)
        assert (turn.query_text, turn.response, turn.status) == ("Fix the upload", "It is fixed", TurnStatus.COMPLETED)
        assert await app.dialog(session) == ["It is fixed"]
        assert session.title == "Fix the upload"
        assert session.run is not None
        assert session.run.pid == PID
        assert await app.is_sound()
        assert hooked.files() == []


async def test_the_checkpoint_at_the_end_of_a_turn_does_not_keep_it_from_being_completed(tmp_path: Path) -> None:
    project = tmp_path / "work"
    project.mkdir()
    await anyio.run_process(["git", "init", "-q", str(project)])
    async with open_hook_app(tmp_path, at=datetime.now(UTC)) as hooked:  # only what is fresh is saved
        hooked.spool("SessionStart", source="startup", cwd=str(project))
        hooked.spool("UserPromptSubmit", prompt="Write it", cwd=str(project))
        hooked.later(seconds=0)
        await hooked.drain()
        (project / "a.txt").write_text("x\n")
        hooked.spool("Stop", last_assistant_message="It is written", cwd=str(project))
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        saved = [entry for entry in await hooked.app.entries(session) if entry.kind == "checkpoint.saved"]
        assert saved[-1].at > hooked.at, "the workspace is saved after the stop was reported"
        (turn,) = await hooked.app.turns(session)
        assert seen_files(turn) == ["a.txt"]
        assert session.last_activity <= hooked.at, "what a checkpoint sees is nobody's activity"
        hooked.later(seconds=11)
        await hooked.drain()
        (turn,) = await hooked.app.turns(session)
        assert (turn.status, turn.response) == (TurnStatus.COMPLETED, "It is written")


async def test_a_turn_is_completed_by_its_hook_where_no_transcript_comes(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        spool_a_turn(hooked, None)
        hooked.later(seconds=9)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        assert [turn.status for turn in await hooked.app.turns(session)] == [TurnStatus.IN_PROGRESS]
        hooked.later(seconds=10)
        await hooked.drain()
        (turn,) = await hooked.app.turns(session)
        assert (turn.status, turn.response) == (TurnStatus.COMPLETED, "It is fixed")
        assert turn.finished_at == hooked.at
        assert "capsule.saved" in await hooked.app.harness.kinds(session.id)


@pytest.mark.parametrize("next_event", ["UserPromptSubmit", "SessionEnd"])
async def test_a_turn_that_stopped_is_completed_by_what_comes_next_where_no_hook_names_the_transcript(
    next_event: str, tmp_path: Path
) -> None:
    """What an import from elsewhere adds after the stop, such as a compaction, does not make it unanswered."""
    async with open_hook_app(tmp_path) as hooked:
        spool_a_turn(hooked, None)
        hooked.later(seconds=1)
        await hooked.drain()
        claude = Claude(session=SESSION, started=NOW + timedelta(seconds=1)).prompt("Fix the upload")
        claude.says("It is fixed").add("system", subtype="compact_boundary", content="Conversation compacted")
        claude.records[-1]["timestamp"] = (hooked.at + timedelta(seconds=2)).isoformat()
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records))
        hooked.spool(next_event, later_s=4, prompt="More", reason="exit")
        hooked.later(seconds=1)
        await hooked.drain()
        first, *_ = await hooked.app.turns(await hooked.app.session(SESSION))
        assert (first.status, first.response) == (TurnStatus.COMPLETED, "It is fixed")


async def test_a_quiet_transcript_completes_the_turn_at_once_when_its_agent_stopped(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        spool_a_turn(hooked, transcript(hooked))
        hooked.later(seconds=0)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        assert [turn.status for turn in await hooked.app.turns(session)] == [TurnStatus.COMPLETED]


async def test_two_equal_prompts_are_two_turns_taken_over_in_their_order(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        claude = Claude(session=SESSION, started=NOW)
        claude.prompt("go on").says("one").prompt("go on").says("two").ends()
        path = hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records)
        hooked.spool("UserPromptSubmit", prompt="go on", transcript_path=None)
        hooked.spool("UserPromptSubmit", prompt="go on", later_s=2, transcript_path=str(path))
        hooked.later(seconds=1)
        await hooked.drain()
        await hooked.app.take(path)
        session = await hooked.app.session(SESSION)
        turns = await hooked.app.turns(session)
        assert len(turns) == 2
        assert sorted(await hooked.app.dialog(session)) == ["one", "two"]


async def test_a_prompt_far_from_the_transcripts_is_a_turn_of_its_own(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path, at=NOW) as hooked:
        path = transcript(hooked)
        hooked.spool("UserPromptSubmit", prompt="Fix the upload", later_s=11 * 60)
        hooked.later(seconds=1)
        await hooked.drain()
        await hooked.app.take(path)
        assert len(await hooked.app.turns(await hooked.app.session(SESSION))) == 2


async def test_a_codex_turn_has_its_id_from_hook_and_rollout(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        codex = Codex(thread=THREAD, started=NOW).turn("turn-1", "Explain", "It works so")
        path = hooked.app.write(f"sessions/2026/rollout-2026-11-01T12-00-00-{THREAD}.jsonl", codex.lines)
        common: dict[str, Any] = {"agent": "Codex", "session_id": THREAD, "turn_id": "turn-1"}
        hooked.spool("SessionStart", source="startup", **common)
        hooked.spool("UserPromptSubmit", prompt="Explain", **common)
        hooked.later(seconds=1)
        await hooked.drain()
        hooked.spool("Stop", last_assistant_message="It works so", transcript_path=str(path), **common)
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(THREAD)
        (turn,) = await hooked.app.turns(session)
        assert (turn.status, turn.query_text) == (TurnStatus.COMPLETED, "Explain")
        assert session.agent == "Codex"


@pytest.mark.parametrize("agent", ["ClaudeCode", "Codex"])
@pytest.mark.parametrize("with_transcript", [True, False])
async def test_what_an_editor_put_before_a_prompt_is_its_context(
    agent: str, with_transcript: bool, tmp_path: Path
) -> None:
    """3.3, 3.5: a hook tells of the same prompt as the transcript."""
    async with open_hook_app(tmp_path) as hooked:
        codex = Codex(thread=THREAD, started=NOW)
        claude = Claude(session=THREAD, started=NOW)
        if agent == "Codex":
            context = "# Context from my IDE setup:\n\n## Open tabs:\n- up.py"
            prompt = f"{context}\n\n## My request for Codex:\nFix it"
            records = codex.turn("turn-1", prompt, "Done").lines
        else:
            context, prompt = "lines 1 to 3", "<ide_selection>lines 1 to 3</ide_selection>Fix it"
            records = claude.prompt(prompt).says("Done").ends().records
        hooked.spool("UserPromptSubmit", agent=agent, session_id=THREAD, prompt=prompt, turn_id="turn-1")
        hooked.later(seconds=1)
        await hooked.drain()
        if with_transcript:
            await hooked.app.take(hooked.app.write(f"rollout-2026-11-01T12-00-00-{THREAD}.jsonl", records))
        session = await hooked.app.session(THREAD)
        (turn,) = await hooked.app.turns(session)
        assert (turn.query_title, turn.query_text, turn.context_list) == ("Fix it", "Fix it", (context,))
        assert session.title == "Fix it"


@pytest.mark.parametrize("call", ["toolu_", "toolu_01AbCdEfGhIjKlMnOpQrStU"])
async def test_a_tool_call_told_by_a_hook_is_not_told_again_by_the_transcript(call: str, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        given = {"file_path": "/srv/app/up.py", "old_string": "a", "new_string": "b"}
        answer: dict[str, Any] = {
            "filePath": "/srv/app/up.py",
            "oldString": "a",
            "newString": "b",
            "structuredPatch": [],
        }
        hooked.spool("UserPromptSubmit", prompt="Edit it")
        hooked.spool(
            "PostToolUse",
            tool_name="Edit",
            tool_input=given,
            tool_response=answer,
            tool_use_id=f"{call}1",
            duration_ms=3,
        )
        hooked.spool("PostToolUseFailure", tool_name="Bash", tool_input={"command": "false"}, tool_use_id=f"{call}2",
                     error="Exit code 1")  # fmt: skip
        hooked.later(seconds=1)
        await hooked.drain()
        claude = Claude(session=SESSION, started=NOW).prompt("Edit it").calls(f"{call}1", "Edit", **given)
        claude.returns(f"{call}1", "done", toolUseResult=answer).calls(f"{call}2", command="false")
        claude.returns(f"{call}2", "Exit code 1").says("Edited").ends()
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await hooked.app.session(SESSION)
        (turn,) = await hooked.app.turns(session)
        kinds = await hooked.app.harness.kinds(session.id)
        assert (kinds.count("action"), kinds.count("dialog")) == (1, 5)
        assert list(turn.files) == ["up.py"]


async def test_a_subagent_is_a_child_session_that_its_own_transcript_joins(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Look into it")
        hooked.spool("SubagentStart", agent_id="abc123", agent_type="Explore")
        hooked.later(seconds=1)
        await hooked.drain()
        child = await hooked.app.session("abc123")
        parent = await hooked.app.session(SESSION)
        assert (child.state, child.parent_session_id) == (SessionState.OPEN, parent.id)
        assert child.parent_turn == (await hooked.app.turns(parent))[0].request_id
        records = Claude(session=SESSION, started=hooked.at, common={"isSidechain": True, "agentId": "abc123"})
        path = hooked.app.write(
            f"projects/app/{SESSION}/subagents/agent-abc123.jsonl", records.prompt("Find it").says("Found").records
        )
        hooked.spool("SubagentStop", agent_id="abc123", agent_transcript_path=str(path), later_s=5)
        hooked.later(seconds=1)
        await hooked.drain()
        child = await hooked.app.session("abc123")
        assert child.state is SessionState.SUSPENDED
        assert [turn.response for turn in await hooked.app.turns(child)] == ["Found"]


async def test_a_codex_subagent_without_a_path_is_found_by_its_parent(tmp_path: Path) -> None:
    child = "019f5500-0000-7000-8000-00000000000c"
    folder = tmp_path / "codex" / "sessions" / "2026"
    async with open_hook_app(tmp_path, environ={"CODEX_HOME": str(tmp_path / "codex")}) as hooked:
        codex = Codex(thread=child, started=NOW, meta={"parent_thread_id": THREAD}).turn("t-1", "Look", "Found")
        folder.mkdir(parents=True)
        lines = "".join(json.dumps(line) + "\n" for line in codex.lines)
        (folder / f"rollout-2026-11-01T12-00-00-{child}.jsonl").write_text(lines)
        hooked.spool("UserPromptSubmit", agent="Codex", session_id=THREAD, turn_id="p-1", prompt="Go")
        hooked.spool("subagentComplete", agent="Codex", session_id=THREAD, later_s=9)
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(child)
        assert session.parent_session_id == (await hooked.app.session(THREAD)).id


async def test_the_end_of_a_session_suspends_it_and_ends_its_run(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        spool_a_turn(hooked, None)
        hooked.spool("SessionEnd", reason="exit")
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        assert (session.state, session.suspended_cause) == (SessionState.SUSPENDED, "session_ended")
        assert session.run is not None
        assert str(session.run.status) == "ok"
        assert session.turns_completed == 1
        hooked.spool("SessionStart", source="resume")
        hooked.later(seconds=1)
        await hooked.drain()
        assert (await hooked.app.session(SESSION)).state is SessionState.OPEN


async def test_a_failed_stop_fails_the_turn_with_its_error(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Go")
        hooked.spool("StopFailure", error="rate_limit")
        hooked.later(seconds=1)
        await hooked.drain()
        (turn,) = await hooked.app.turns(await hooked.app.session(SESSION))
        assert (turn.status, turn.failure_note) == (TurnStatus.FAILED, "rate_limit")


async def test_compaction_saves_a_capsule_and_is_noted(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Go")
        hooked.spool("PreCompact", trigger="auto")
        hooked.spool("PostCompact", trigger="auto")
        hooked.spool("NewlyInvented", words="hello")
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        kinds = await hooked.app.harness.kinds(session.id)
        assert (kinds.count("capsule.saved"), kinds.count("import.noted")) == (1, 2)


async def test_a_run_recorded_without_a_vendor_id_is_joined_by_its_process(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        name = await hooked.app.harness.open(agent="ClaudeCode", title="Launched", pid=PID, cwd="/srv/app")
        hooked.spool("SessionStart", source="startup")
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        assert (session.id, session.title) == (name, "Launched")


async def test_secrets_in_events_reach_neither_store_nor_spool(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup", cwd=f"/srv/{secret}/app")
        hooked.spool("UserPromptSubmit", prompt=f"Use {secret} please")
        hooked.spool("NewlyInvented", words=f"token {secret}")
        hooked.spool("PostCompact", trigger=f"asked with {secret}")
        hooked.spool("Stop", last_assistant_message=f"I used {secret}")
        hooked.later(seconds=20)
        await hooked.drain()
        hooked.spool("SessionEnd", reason=f"no {secret}")
        hooked.later(seconds=20)
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        (turn,) = await hooked.app.turns(session)
        assert "[REDACTED:provider_key]" in turn.query_text
        assert "[REDACTED:provider_key]" in turn.response
        assert session.cwd == "/srv/[REDACTED:provider_key]/app"
        assert secret not in str([session, *(entry.body for entry in await hooked.app.entries(session))])
    assert files_holding(hooked.home, secret) == []


async def test_a_transcript_outside_of_the_agents_folders_is_not_read(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        records = Claude(session=SESSION, started=NOW).prompt("Private").says("words").ends().records
        path = hooked.app.write("elsewhere/notes.jsonl", records)
        link = hooked.app.folder / "projects" / "app" / f"{SESSION}.jsonl"
        link.parent.mkdir(parents=True)
        link.symlink_to(path)
        for given in (path, link):
            hooked.spool("UserPromptSubmit", prompt="Go")
            hooked.spool("Stop", transcript_path=str(given), last_assistant_message="Done")
        hooked.later(seconds=1)
        await hooked.drain()
        assert await hooked.app.dialog(await hooked.app.session(SESSION)) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_events_spread_over_files_are_taken_by_their_times(order: tuple[int, ...], tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        lines = [hooked.line(name, prompt="Go") for name in ("SessionStart", "UserPromptSubmit", "SessionEnd")]
        for place, index in enumerate(order):
            hooked.append(f"hooks-20261101-{place}.jsonl", json.dumps(lines[index]) + "\n")
        hooked.later(seconds=1)
        assert await hooked.drain() == 3
        session = await hooked.app.session(SESSION)
        assert (session.state, session.turns_total) == (SessionState.SUSPENDED, 1)


async def test_a_session_that_only_hooks_tell_of_is_named_by_its_first_prompt(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        hooked.spool("UserPromptSubmit", prompt="\nFix the upload\nplease")
        hooked.spool("UserPromptSubmit", prompt="Another thing")
        await hooked.drain()
        assert (await hooked.app.session(SESSION)).title == "Fix the upload"


@pytest.mark.parametrize("first", ["hook", "transcript"])
async def test_a_prompt_inside_a_subagent_and_its_transcript_are_one_turn(first: str, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        hooked.spool("SubagentStart", agent_id="kid", agent_type="reviewer")
        common = {"agentId": "kid", "isSidechain": True}
        claude = Claude(session=SESSION, started=NOW, common=common).prompt("Look at it").says("All fine")
        path = hooked.app.write(f"projects/app/{SESSION}/subagents/agent-kid.jsonl", claude.records)
        await hooked.drain()
        if first == "transcript":
            await hooked.app.take(path)
        hooked.spool("UserPromptSubmit", prompt="Look at it", agent_id="kid")
        await hooked.drain()
        await hooked.app.take(path)
        child = await hooked.app.session("kid")
        assert [turn.query_text for turn in await hooked.app.turns(child)] == ["Look at it"]
        assert await hooked.app.dialog(child) == ["All fine"]
        assert await hooked.app.is_sound()


async def test_a_prompt_that_never_reached_the_model_does_not_get_the_answer_of_the_next(tmp_path: Path) -> None:
    """Another hook may refuse a prompt: then its transcript never has it, and no stop is of its turn."""
    async with open_hook_app(tmp_path) as hooked:
        claude = Claude(session=SESSION, started=NOW + timedelta(seconds=3)).prompt("Ask nicely").says("It is fixed")
        path = hooked.app.write(f"projects/app/{SESSION}.jsonl", ())
        told = {"transcript_path": str(path)}
        hooked.spool("UserPromptSubmit", prompt="Refused", **told)
        hooked.later(seconds=1)
        await hooked.drain()
        hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records[:1])
        hooked.spool("UserPromptSubmit", prompt="Ask nicely", later_s=3, **told)
        hooked.later(seconds=1)
        await hooked.drain()
        hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records)
        hooked.spool("Stop", last_assistant_message="It is fixed", later_s=3, **told)
        for _ in range(2):
            hooked.later(seconds=12)
            await hooked.drain()
        turns = await hooked.app.turns(await hooked.app.session(SESSION))
        assert [(turn.query_text, str(turn.status), turn.response) for turn in turns] == [
            ("Refused", "failed", ""),
            ("Ask nicely", "completed", "It is fixed"),
        ]
        assert turns[0].error_code == "superseded"
        assert await hooked.app.is_sound()


async def test_images_of_a_prompt_that_a_hook_told_of_come_with_its_transcript(tmp_path: Path) -> None:
    """3.1: what was pasted becomes digests, also in a turn that was begun before the transcript was read."""
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Look")
        hooked.later(seconds=1)
        await hooked.drain()
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
        claude = Claude(session=SESSION, started=NOW).prompt([{"type": "text", "text": "Look"}, image]).says("A dot")
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await hooked.app.session(SESSION)
        told = [entry.facts.get("more") for entry in await hooked.app.entries(session)]
        (images,) = [more["images"] for more in told if more and "images" in more]
        assert [(one["media_type"], one["bytes"]) for one in images] == [("image/png", 8)]
        assert len(await hooked.app.turns(session)) == 1


@pytest.mark.parametrize("told", [None, "claude-sonnet-4-5"])
async def test_a_model_that_no_hook_told_comes_with_the_transcript(told: str | None, tmp_path: Path) -> None:
    """5.4: a transcript fills what is empty, and changes nothing that is not."""
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup", model=told)
        hooked.later(seconds=1)
        await hooked.drain()
        await hooked.app.take(transcript(hooked, ended=True))
        session = await hooked.app.session(SESSION)
        assert session.run is not None
        assert (session.model, session.run.model) == (told or "claude-opus-4-6",) * 2
        assert await hooked.app.is_sound()


async def test_a_rewind_names_the_turns_that_hooks_began(tmp_path: Path) -> None:
    """3.3: the turns between are abandoned, under the ids that they have in the journal."""
    async with open_hook_app(tmp_path) as hooked:
        claude = Claude(session=SESSION, started=NOW)
        for number, prompt in enumerate(("One", "Two", "Three")):
            hooked.spool("UserPromptSubmit", prompt=prompt)
            back = {"parentUuid": claude.records[1]["uuid"]} if number == 2 else {}
            claude.prompt(prompt, **back).says("Done")
        hooked.later(seconds=1)
        await hooked.drain()
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await hooked.app.session(SESSION)
        _, second, _ = await hooked.app.turns(session)
        told = [entry.facts.get("abandoned") for entry in await hooked.app.entries(session)]
        assert [names for names in told if names] == [[second.request_id]]
        assert await hooked.app.is_sound()


async def test_a_codex_turn_that_was_imported_before_its_prompt_has_the_prompt_of_its_hook(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        made = Codex(thread=THREAD, started=NOW).event("task_started", turn_id="t1")
        path = hooked.app.write(f"rollout-{THREAD}.jsonl", made.lines)
        await hooked.app.take(path)
        fields = {"agent": "Codex", "session_id": THREAD, "turn_id": "t1"}
        hooked.spool("UserPromptSubmit", prompt="Fix it", **fields)
        hooked.spool("Stop", last_assistant_message="Fixed", **fields)
        hooked.later(seconds=11)
        await hooked.drain()
        made.event("user_message", message="Fix it").event("agent_message", message="Fixed")
        hooked.app.write(f"rollout-{THREAD}.jsonl", made.lines)
        await hooked.app.take(path)
        (turn,) = await hooked.app.turns(await hooked.app.session(THREAD))
        assert (turn.query_title, turn.query_text, turn.response) == ("Fix it", "Fix it", "Fixed")


@pytest.mark.parametrize("agent", ["ClaudeCode", "Codex"])
async def test_a_fork_shows_the_turns_that_it_shares_with_a_session_of_hooks(agent: str, tmp_path: Path) -> None:
    """5.3: read whole it shows those turns, whatever ids they have where they were begun."""
    fork = "f0000000-0000-4000-8000-00000000000f"
    async with open_hook_app(tmp_path) as hooked:
        app = hooked.app
        hooked.spool("UserPromptSubmit", agent=agent, session_id=SESSION, prompt="One", turn_id="t1", later_s=3)
        hooked.later(seconds=1)
        await hooked.drain()
        if agent == "Codex":
            parent = Codex(thread=SESSION, started=NOW).turn("t1", "One", "1").lines
            copy = Codex(thread=fork, started=NOW + timedelta(minutes=5), meta={"forked_from_id": SESSION})
            copy.lines += parent
            copied = copy.turn("t2", "Two", "2").lines
        else:
            parent = Claude(session=SESSION, started=NOW).prompt("One").says("1").ends().records
            own = Claude(session=fork, letter="f", started=NOW + timedelta(minutes=5)).prompt("Two").says("2").ends()
            copied = [*({**record, "sessionId": fork} for record in parent), *own.records]
        await app.take(app.write(f"rollout-{SESSION}.jsonl", parent))
        await app.take(app.write(f"rollout-{fork}.jsonl", copied))
        (begun,) = await app.turns(await app.session(SESSION))
        found = await app.harness.query(session_id=(await app.session(fork)).id)
        assert [(turn["request_id"], turn["shared"]) for turn in found["session"]["shared_turns"]] == [
            (begun.request_id, True)
        ]
        assert [turn["title"] for turn in found["items"]] == ["Two"]


@pytest.mark.parametrize("answer", ["Found it", None])
async def test_the_turn_of_a_subagent_ends_with_it(answer: str | None, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Look into it")
        hooked.spool("SubagentStart", agent_id="abc123", agent_type="Explore")
        hooked.spool("UserPromptSubmit", agent_id="abc123", prompt="Find it")
        hooked.spool("SubagentStop", agent_id="abc123", last_assistant_message=answer)
        hooked.later(seconds=11)
        await hooked.drain()
        child, parent = await hooked.app.session("abc123"), await hooked.app.session(SESSION)
        (turn,) = await hooked.app.turns(child)
        assert (child.state, turn.status, turn.response) == (SessionState.SUSPENDED, "completed", answer or "")
        assert [turn.status for turn in await hooked.app.turns(parent)] == ["in_progress"]


async def test_a_file_that_a_turn_known_by_hooks_alone_creates_is_listed(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Write it")
        path = "/srv/app/new.py"
        made: dict[str, object] = {"type": "create", "filePath": path, "content": "x = 1\n", "structuredPatch": []}
        given = {"file_path": path, "content": "x = 1\n"}
        hooked.spool(
            "PostToolUse", tool_name="Write", tool_use_id="toolu_0123456789abcdef", tool_input=given, tool_response=made
        )
        hooked.spool("Stop", last_assistant_message="Written")
        hooked.later(seconds=11)
        await hooked.drain()
        (turn,) = await hooked.app.turns(await hooked.app.session(SESSION))
        assert (turn.status, turn.files_modified, list(turn.files)) == ("completed", ("new.py",), ["new.py"])


async def test_vendor_ids_differ_by_their_case_unless_they_are_uuids(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        for name in ("AbC-one", "abc-ONE"):
            hooked.spool("SessionStart", session_id=name, source="startup")
        hooked.later(seconds=1)
        await hooked.drain()
        for name in ("AbC-one", "abc-ONE"):
            assert (await hooked.app.session(name)).vendor_session_id == name
            found = await hooked.app.harness.read(lambda reader, name=name: reader.session_ids_of_vendor(name))
            assert len(found) == 1
        hooked.spool("SessionStart", source="startup")
        hooked.later(seconds=1)
        await hooked.drain()
        assert await hooked.app.harness.read(lambda reader: reader.session_ids_of_vendor(SESSION.upper()))
