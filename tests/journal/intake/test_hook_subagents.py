"""Subagents that hooks report: child sessions of their own, joined by their transcripts."""

import json
from pathlib import Path

import pytest

from shiftlog.model.moves import SessionState
from tests.ingest.hooks.hook_app import SESSION, THREAD, open_hook_app
from tests.ingest.import_app import NOW, Claude, Codex


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
