"""Events of hooks become sessions, turns, runs and capsules, once, whichever of hook and transcript comes first."""

import json
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.moves import SessionState, TurnStatus
from tests.hooks.bureau import PID, SESSION, THREAD, Bureau, open_bureau, transcript
from tests.ingest.office import NOW, Claude, Codex
from tests.journal.desk import files_holding


def spool_a_turn(bureau: Bureau, path: Path | None) -> None:
    fields: dict[str, Any] = {"transcript_path": str(path) if path else None}
    bureau.spool("SessionStart", source="startup", model="claude-opus-4-6", **fields)
    bureau.spool("UserPromptSubmit", prompt="Fix the upload", **fields)
    bureau.spool("Stop", last_assistant_message="It is fixed", later_s=3, **fields)


@pytest.mark.parametrize("order", ["hooks", "transcript", "both"])
async def test_hooks_and_the_transcript_are_one_session_with_every_text_once(order: str, tmp_path: Path) -> None:
    """Case 48."""
    async with open_bureau(tmp_path) as bureau:
        office = bureau.office
        path = bureau.office.folder / "projects" / "app" / f"{SESSION}.jsonl"
        if order != "hooks":
            transcript(bureau)
        if order == "transcript":
            await office.take(path)
        spool_a_turn(bureau, path)
        bureau.later(seconds=1)
        await bureau.drain()
        transcript(bureau)
        await office.take(path)
        bureau.later(seconds=11)
        await bureau.drain()
        session = await office.session(SESSION)
        assert session.state is SessionState.OPEN
        (turn,) = await office.turns(session)
        assert (turn.query_text, turn.response, turn.status) == ("Fix the upload", "It is fixed", TurnStatus.COMPLETED)
        assert await office.dialog(session) == ["It is fixed"]
        assert session.title == "Fix the upload"
        assert session.run is not None
        assert session.run.pid == PID
        assert await office.is_sound()
        assert bureau.files() == []


async def test_a_turn_is_completed_by_its_hook_where_no_transcript_comes(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        spool_a_turn(bureau, None)
        bureau.later(seconds=9)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        assert [turn.status for turn in await bureau.office.turns(session)] == [TurnStatus.IN_PROGRESS]
        bureau.later(seconds=10)
        await bureau.drain()
        (turn,) = await bureau.office.turns(session)
        assert (turn.status, turn.response) == (TurnStatus.COMPLETED, "It is fixed")
        assert turn.finished_at == bureau.at
        assert "capsule.saved" in await bureau.office.desk.kinds(session.id)


@pytest.mark.parametrize("next_event", ["UserPromptSubmit", "SessionEnd"])
async def test_a_turn_that_stopped_is_completed_by_what_comes_next_where_no_hook_names_the_transcript(
    next_event: str, tmp_path: Path
) -> None:
    """What an import from elsewhere adds after the stop, such as a compaction, does not make it unanswered."""
    async with open_bureau(tmp_path) as bureau:
        spool_a_turn(bureau, None)
        bureau.later(seconds=1)
        await bureau.drain()
        claude = Claude(session=SESSION, started=NOW + timedelta(seconds=1)).prompt("Fix the upload")
        claude.says("It is fixed").add("system", subtype="compact_boundary", content="Conversation compacted")
        claude.records[-1]["timestamp"] = (bureau.at + timedelta(seconds=2)).isoformat()
        await bureau.office.take(bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records))
        bureau.spool(next_event, later_s=4, prompt="More", reason="exit")
        bureau.later(seconds=1)
        await bureau.drain()
        first, *_ = await bureau.office.turns(await bureau.office.session(SESSION))
        assert (first.status, first.response) == (TurnStatus.COMPLETED, "It is fixed")


async def test_a_quiet_transcript_completes_the_turn_at_once_when_its_agent_stopped(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        spool_a_turn(bureau, transcript(bureau))
        bureau.later(seconds=0)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        assert [turn.status for turn in await bureau.office.turns(session)] == [TurnStatus.COMPLETED]


async def test_two_equal_prompts_are_two_turns_taken_over_in_their_order(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        claude = Claude(session=SESSION, started=NOW)
        claude.prompt("go on").says("one").prompt("go on").says("two").ends()
        path = bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records)
        bureau.spool("UserPromptSubmit", prompt="go on", transcript_path=None)
        bureau.spool("UserPromptSubmit", prompt="go on", later_s=2, transcript_path=str(path))
        bureau.later(seconds=1)
        await bureau.drain()
        await bureau.office.take(path)
        session = await bureau.office.session(SESSION)
        turns = await bureau.office.turns(session)
        assert len(turns) == 2
        assert sorted(await bureau.office.dialog(session)) == ["one", "two"]


async def test_a_prompt_far_from_the_transcripts_is_a_turn_of_its_own(tmp_path: Path) -> None:
    async with open_bureau(tmp_path, at=NOW) as bureau:
        path = transcript(bureau)
        bureau.spool("UserPromptSubmit", prompt="Fix the upload", later_s=11 * 60)
        bureau.later(seconds=1)
        await bureau.drain()
        await bureau.office.take(path)
        assert len(await bureau.office.turns(await bureau.office.session(SESSION))) == 2


async def test_a_codex_turn_has_its_id_from_hook_and_rollout(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        codex = Codex(thread=THREAD, started=NOW).turn("turn-1", "Explain", "It works so")
        path = bureau.office.write(f"sessions/2026/rollout-2026-11-01T12-00-00-{THREAD}.jsonl", codex.lines)
        common: dict[str, Any] = {"agent": "Codex", "session_id": THREAD, "turn_id": "turn-1"}
        bureau.spool("SessionStart", source="startup", **common)
        bureau.spool("UserPromptSubmit", prompt="Explain", **common)
        bureau.later(seconds=1)
        await bureau.drain()
        bureau.spool("Stop", last_assistant_message="It works so", transcript_path=str(path), **common)
        bureau.later(seconds=1)
        await bureau.drain()
        session = await bureau.office.session(THREAD)
        (turn,) = await bureau.office.turns(session)
        assert (turn.status, turn.query_text) == (TurnStatus.COMPLETED, "Explain")
        assert session.agent == "Codex"


@pytest.mark.parametrize("agent", ["ClaudeCode", "Codex"])
@pytest.mark.parametrize("with_transcript", [True, False])
async def test_what_an_editor_put_before_a_prompt_is_its_context(
    agent: str, with_transcript: bool, tmp_path: Path
) -> None:
    """3.3, 3.5: a hook tells of the same prompt as the transcript."""
    async with open_bureau(tmp_path) as bureau:
        codex = Codex(thread=THREAD, started=NOW)
        claude = Claude(session=THREAD, started=NOW)
        if agent == "Codex":
            context = "# Context from my IDE setup:\n\n## Open tabs:\n- up.py"
            prompt = f"{context}\n\n## My request for Codex:\nFix it"
            records = codex.turn("turn-1", prompt, "Done").lines
        else:
            context, prompt = "lines 1 to 3", "<ide_selection>lines 1 to 3</ide_selection>Fix it"
            records = claude.prompt(prompt).says("Done").ends().records
        bureau.spool("UserPromptSubmit", agent=agent, session_id=THREAD, prompt=prompt, turn_id="turn-1")
        bureau.later(seconds=1)
        await bureau.drain()
        if with_transcript:
            await bureau.office.take(bureau.office.write(f"rollout-2026-11-01T12-00-00-{THREAD}.jsonl", records))
        session = await bureau.office.session(THREAD)
        (turn,) = await bureau.office.turns(session)
        assert (turn.query_title, turn.query_text, turn.context_list) == ("Fix it", "Fix it", (context,))
        assert session.title == "Fix it"


@pytest.mark.parametrize("call", ["toolu_", "toolu_01AbCdEfGhIjKlMnOpQrStU"])
async def test_a_tool_call_told_by_a_hook_is_not_told_again_by_the_transcript(call: str, tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        given = {"file_path": "/srv/app/up.py", "old_string": "a", "new_string": "b"}
        answer: dict[str, Any] = {
            "filePath": "/srv/app/up.py",
            "oldString": "a",
            "newString": "b",
            "structuredPatch": [],
        }
        bureau.spool("UserPromptSubmit", prompt="Edit it")
        bureau.spool(
            "PostToolUse",
            tool_name="Edit",
            tool_input=given,
            tool_response=answer,
            tool_use_id=f"{call}1",
            duration_ms=3,
        )
        bureau.spool("PostToolUseFailure", tool_name="Bash", tool_input={"command": "false"}, tool_use_id=f"{call}2",
                     error="Exit code 1")  # fmt: skip
        bureau.later(seconds=1)
        await bureau.drain()
        claude = Claude(session=SESSION, started=NOW).prompt("Edit it").calls(f"{call}1", "Edit", **given)
        claude.returns(f"{call}1", "done", toolUseResult=answer).calls(f"{call}2", command="false")
        claude.returns(f"{call}2", "Exit code 1").says("Edited").ends()
        await bureau.office.take(bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await bureau.office.session(SESSION)
        (turn,) = await bureau.office.turns(session)
        kinds = await bureau.office.desk.kinds(session.id)
        assert (kinds.count("action"), kinds.count("dialog")) == (1, 5)
        assert list(turn.files) == ["up.py"]


async def test_a_subagent_is_a_child_session_that_its_own_transcript_joins(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Look into it")
        bureau.spool("SubagentStart", agent_id="abc123", agent_type="Explore")
        bureau.later(seconds=1)
        await bureau.drain()
        child = await bureau.office.session("abc123")
        parent = await bureau.office.session(SESSION)
        assert (child.state, child.parent_session_id) == (SessionState.OPEN, parent.id)
        assert child.parent_turn == (await bureau.office.turns(parent))[0].request_id
        records = Claude(session=SESSION, started=bureau.at, common={"isSidechain": True, "agentId": "abc123"})
        path = bureau.office.write(
            f"projects/app/{SESSION}/subagents/agent-abc123.jsonl", records.prompt("Find it").says("Found").records
        )
        bureau.spool("SubagentStop", agent_id="abc123", agent_transcript_path=str(path), later_s=5)
        bureau.later(seconds=1)
        await bureau.drain()
        child = await bureau.office.session("abc123")
        assert child.state is SessionState.SUSPENDED
        assert [turn.response for turn in await bureau.office.turns(child)] == ["Found"]


async def test_a_codex_subagent_without_a_path_is_found_by_its_parent(tmp_path: Path) -> None:
    child = "019f5500-0000-7000-8000-00000000000c"
    folder = tmp_path / "codex" / "sessions" / "2026"
    async with open_bureau(tmp_path, environ={"CODEX_HOME": str(tmp_path / "codex")}) as bureau:
        codex = Codex(thread=child, started=NOW, meta={"parent_thread_id": THREAD}).turn("t-1", "Look", "Found")
        folder.mkdir(parents=True)
        lines = "".join(json.dumps(line) + "\n" for line in codex.lines)
        (folder / f"rollout-2026-11-01T12-00-00-{child}.jsonl").write_text(lines)
        bureau.spool("UserPromptSubmit", agent="Codex", session_id=THREAD, turn_id="p-1", prompt="Go")
        bureau.spool("subagentComplete", agent="Codex", session_id=THREAD, later_s=9)
        bureau.later(seconds=1)
        await bureau.drain()
        session = await bureau.office.session(child)
        assert session.parent_session_id == (await bureau.office.session(THREAD)).id


async def test_the_end_of_a_session_suspends_it_and_ends_its_run(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        spool_a_turn(bureau, None)
        bureau.spool("SessionEnd", reason="exit")
        bureau.later(seconds=1)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        assert (session.state, session.suspended_cause) == (SessionState.SUSPENDED, "session_ended")
        assert session.run is not None
        assert str(session.run.status) == "ok"
        assert session.turns_completed == 1
        bureau.spool("SessionStart", source="resume")
        bureau.later(seconds=1)
        await bureau.drain()
        assert (await bureau.office.session(SESSION)).state is SessionState.OPEN


async def test_a_failed_stop_fails_the_turn_with_its_error(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Go")
        bureau.spool("StopFailure", error="rate_limit")
        bureau.later(seconds=1)
        await bureau.drain()
        (turn,) = await bureau.office.turns(await bureau.office.session(SESSION))
        assert (turn.status, turn.failure_note) == (TurnStatus.FAILED, "rate_limit")


async def test_compaction_saves_a_capsule_and_is_noted(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Go")
        bureau.spool("PreCompact", trigger="auto")
        bureau.spool("PostCompact", trigger="auto")
        bureau.spool("NewlyInvented", words="hello")
        bureau.later(seconds=1)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        kinds = await bureau.office.desk.kinds(session.id)
        assert (kinds.count("capsule.saved"), kinds.count("import.noted")) == (1, 2)


async def test_a_run_recorded_without_a_vendor_id_is_joined_by_its_process(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        name = await bureau.office.desk.open(agent="ClaudeCode", title="Launched", pid=PID, cwd="/srv/app")
        bureau.spool("SessionStart", source="startup")
        bureau.later(seconds=1)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        assert (session.id, session.title) == (name, "Launched")


async def test_secrets_in_events_reach_neither_store_nor_spool(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("SessionStart", source="startup", cwd=f"/srv/{secret}/app")
        bureau.spool("UserPromptSubmit", prompt=f"Use {secret} please")
        bureau.spool("NewlyInvented", words=f"token {secret}")
        bureau.spool("PostCompact", trigger=f"asked with {secret}")
        bureau.spool("Stop", last_assistant_message=f"I used {secret}")
        bureau.later(seconds=20)
        await bureau.drain()
        bureau.spool("SessionEnd", reason=f"no {secret}")
        bureau.later(seconds=20)
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        (turn,) = await bureau.office.turns(session)
        assert "[REDACTED:provider_key]" in turn.query_text
        assert "[REDACTED:provider_key]" in turn.response
        assert session.cwd == "/srv/[REDACTED:provider_key]/app"
        assert secret not in str([session, *(entry.body for entry in await bureau.office.entries(session))])
    assert files_holding(bureau.home, secret) == []


async def test_a_transcript_outside_of_the_agents_folders_is_not_read(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        records = Claude(session=SESSION, started=NOW).prompt("Private").says("words").ends().records
        path = bureau.office.write("elsewhere/notes.jsonl", records)
        link = bureau.office.folder / "projects" / "app" / f"{SESSION}.jsonl"
        link.parent.mkdir(parents=True)
        link.symlink_to(path)
        for given in (path, link):
            bureau.spool("UserPromptSubmit", prompt="Go")
            bureau.spool("Stop", transcript_path=str(given), last_assistant_message="Done")
        bureau.later(seconds=1)
        await bureau.drain()
        assert await bureau.office.dialog(await bureau.office.session(SESSION)) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_events_spread_over_files_are_taken_by_their_times(order: tuple[int, ...], tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        lines = [bureau.line(name, prompt="Go") for name in ("SessionStart", "UserPromptSubmit", "SessionEnd")]
        for place, index in enumerate(order):
            bureau.append(f"hooks-20261101-{place}.jsonl", json.dumps(lines[index]) + "\n")
        bureau.later(seconds=1)
        assert await bureau.drain() == 3
        session = await bureau.office.session(SESSION)
        assert (session.state, session.turns_total) == (SessionState.SUSPENDED, 1)


async def test_a_session_that_only_hooks_tell_of_is_named_by_its_first_prompt(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("SessionStart", source="startup")
        bureau.spool("UserPromptSubmit", prompt="\nFix the upload\nplease")
        bureau.spool("UserPromptSubmit", prompt="Another thing")
        await bureau.drain()
        assert (await bureau.office.session(SESSION)).title == "Fix the upload"


@pytest.mark.parametrize("first", ["hook", "transcript"])
async def test_a_prompt_inside_a_subagent_and_its_transcript_are_one_turn(first: str, tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("SessionStart", source="startup")
        bureau.spool("SubagentStart", agent_id="kid", agent_type="reviewer")
        common = {"agentId": "kid", "isSidechain": True}
        claude = Claude(session=SESSION, started=NOW, common=common).prompt("Look at it").says("All fine")
        path = bureau.office.write(f"projects/app/{SESSION}/subagents/agent-kid.jsonl", claude.records)
        await bureau.drain()
        if first == "transcript":
            await bureau.office.take(path)
        bureau.spool("UserPromptSubmit", prompt="Look at it", agent_id="kid")
        await bureau.drain()
        await bureau.office.take(path)
        child = await bureau.office.session("kid")
        assert [turn.query_text for turn in await bureau.office.turns(child)] == ["Look at it"]
        assert await bureau.office.dialog(child) == ["All fine"]
        assert await bureau.office.is_sound()


async def test_a_prompt_that_never_reached_the_model_does_not_get_the_answer_of_the_next(tmp_path: Path) -> None:
    """Another hook may refuse a prompt: then its transcript never has it, and no stop is of its turn."""
    async with open_bureau(tmp_path) as bureau:
        claude = Claude(session=SESSION, started=NOW + timedelta(seconds=3)).prompt("Ask nicely").says("It is fixed")
        path = bureau.office.write(f"projects/app/{SESSION}.jsonl", ())
        told = {"transcript_path": str(path)}
        bureau.spool("UserPromptSubmit", prompt="Refused", **told)
        bureau.later(seconds=1)
        await bureau.drain()
        bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records[:1])
        bureau.spool("UserPromptSubmit", prompt="Ask nicely", later_s=3, **told)
        bureau.later(seconds=1)
        await bureau.drain()
        bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records)
        bureau.spool("Stop", last_assistant_message="It is fixed", later_s=3, **told)
        for _ in range(2):
            bureau.later(seconds=12)
            await bureau.drain()
        turns = await bureau.office.turns(await bureau.office.session(SESSION))
        assert [(turn.query_text, str(turn.status), turn.response) for turn in turns] == [
            ("Refused", "failed", ""),
            ("Ask nicely", "completed", "It is fixed"),
        ]
        assert turns[0].error_code == "superseded"
        assert await bureau.office.is_sound()


async def test_images_of_a_prompt_that_a_hook_told_of_come_with_its_transcript(tmp_path: Path) -> None:
    """3.1: what was pasted becomes digests, also in a turn that was begun before the transcript was read."""
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Look")
        bureau.later(seconds=1)
        await bureau.drain()
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
        claude = Claude(session=SESSION, started=NOW).prompt([{"type": "text", "text": "Look"}, image]).says("A dot")
        await bureau.office.take(bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await bureau.office.session(SESSION)
        told = [entry.facts.get("more") for entry in await bureau.office.entries(session)]
        (images,) = [more["images"] for more in told if more and "images" in more]
        assert [(one["media_type"], one["bytes"]) for one in images] == [("image/png", 8)]
        assert len(await bureau.office.turns(session)) == 1


@pytest.mark.parametrize("told", [None, "claude-sonnet-4-5"])
async def test_a_model_that_no_hook_told_comes_with_the_transcript(told: str | None, tmp_path: Path) -> None:
    """5.4: a transcript fills what is empty, and changes nothing that is not."""
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("SessionStart", source="startup", model=told)
        bureau.later(seconds=1)
        await bureau.drain()
        await bureau.office.take(transcript(bureau, ended=True))
        session = await bureau.office.session(SESSION)
        assert session.run is not None
        assert (session.model, session.run.model) == (told or "claude-opus-4-6",) * 2
        assert await bureau.office.is_sound()


async def test_a_rewind_names_the_turns_that_hooks_began(tmp_path: Path) -> None:
    """3.3: the turns between are abandoned, under the ids that they have in the journal."""
    async with open_bureau(tmp_path) as bureau:
        claude = Claude(session=SESSION, started=NOW)
        for number, prompt in enumerate(("One", "Two", "Three")):
            bureau.spool("UserPromptSubmit", prompt=prompt)
            back = {"parentUuid": claude.records[1]["uuid"]} if number == 2 else {}
            claude.prompt(prompt, **back).says("Done")
        bureau.later(seconds=1)
        await bureau.drain()
        await bureau.office.take(bureau.office.write(f"projects/app/{SESSION}.jsonl", claude.records))
        session = await bureau.office.session(SESSION)
        _, second, _ = await bureau.office.turns(session)
        told = [entry.facts.get("abandoned") for entry in await bureau.office.entries(session)]
        assert [names for names in told if names] == [[second.request_id]]
        assert await bureau.office.is_sound()


async def test_a_codex_turn_that_was_imported_before_its_prompt_has_the_prompt_of_its_hook(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        made = Codex(thread=THREAD, started=NOW).event("task_started", turn_id="t1")
        path = bureau.office.write(f"rollout-{THREAD}.jsonl", made.lines)
        await bureau.office.take(path)
        fields = {"agent": "Codex", "session_id": THREAD, "turn_id": "t1"}
        bureau.spool("UserPromptSubmit", prompt="Fix it", **fields)
        bureau.spool("Stop", last_assistant_message="Fixed", **fields)
        bureau.later(seconds=11)
        await bureau.drain()
        made.event("user_message", message="Fix it").event("agent_message", message="Fixed")
        bureau.office.write(f"rollout-{THREAD}.jsonl", made.lines)
        await bureau.office.take(path)
        (turn,) = await bureau.office.turns(await bureau.office.session(THREAD))
        assert (turn.query_title, turn.query_text, turn.response) == ("Fix it", "Fix it", "Fixed")


@pytest.mark.parametrize("agent", ["ClaudeCode", "Codex"])
async def test_a_fork_shows_the_turns_that_it_shares_with_a_session_of_hooks(agent: str, tmp_path: Path) -> None:
    """5.3: read whole it shows those turns, whatever ids they have where they were begun."""
    fork = "f0000000-0000-4000-8000-00000000000f"
    async with open_bureau(tmp_path) as bureau:
        office = bureau.office
        bureau.spool("UserPromptSubmit", agent=agent, session_id=SESSION, prompt="One", turn_id="t1", later_s=3)
        bureau.later(seconds=1)
        await bureau.drain()
        if agent == "Codex":
            parent = Codex(thread=SESSION, started=NOW).turn("t1", "One", "1").lines
            copy = Codex(thread=fork, started=NOW + timedelta(minutes=5), meta={"forked_from_id": SESSION})
            copy.lines += parent
            copied = copy.turn("t2", "Two", "2").lines
        else:
            parent = Claude(session=SESSION, started=NOW).prompt("One").says("1").ends().records
            own = Claude(session=fork, letter="f", started=NOW + timedelta(minutes=5)).prompt("Two").says("2").ends()
            copied = [*({**record, "sessionId": fork} for record in parent), *own.records]
        await office.take(office.write(f"rollout-{SESSION}.jsonl", parent))
        await office.take(office.write(f"rollout-{fork}.jsonl", copied))
        (begun,) = await office.turns(await office.session(SESSION))
        found = await office.desk.query(session_id=(await office.session(fork)).id)
        assert [(turn["request_id"], turn["shared"]) for turn in found["session"]["shared_turns"]] == [
            (begun.request_id, True)
        ]
        assert [turn["title"] for turn in found["items"]] == ["Two"]
