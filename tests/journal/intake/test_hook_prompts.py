"""Prompts that both a hook and a transcript report: one turn each, in their order."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.moves import TurnStatus
from tests.ingest.hooks.hook_app import SESSION, THREAD, open_hook_app, transcript
from tests.ingest.import_app import NOW, Claude, Codex


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


async def test_a_session_that_only_hooks_tell_of_is_named_by_its_first_prompt(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("SessionStart", source="startup")
        hooked.spool("UserPromptSubmit", prompt="\nFix the upload\nplease")
        hooked.spool("UserPromptSubmit", prompt="Another thing")
        await hooked.drain()
        assert (await hooked.app.session(SESSION)).title == "Fix the upload"


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
