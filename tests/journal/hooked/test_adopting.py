"""A turn that a hook began and its agent then begins too, with calls of its own, is one turn."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.mcp.calls import with_meta
from shiftlog.model.caller import NO_SIGNS, ClientSigns
from tests.ingest.hooks.hook_app import SESSION, THREAD, HookApp, open_hook_app, transcript
from tests.ingest.import_app import NOW, Claude, Codex
from tests.journal.harness import client


async def begun(hooked: HookApp, **more: Any) -> dict[str, Any]:
    """Begin a turn with the native tool, as an agent does whose prompt a hook has seen."""
    session = await hooked.app.session(SESSION)
    hooked.later(seconds=1)
    given = {"session_id": session.id, "query_title": "Upload", "query_text": "Fix how uploads work", **more}
    return await hooked.app.harness.call("begin_turn", given)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("late", [True, False])
async def test_a_turn_that_its_agent_begins_too_is_one_turn(named: bool, late: bool, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        path = hooked.app.folder / "projects" / "app" / f"{SESSION}.jsonl"
        hooked.spool("SessionStart", source="startup", transcript_path=str(path))
        await hooked.drain()
        hooked.spool("UserPromptSubmit", prompt="Fix the upload", transcript_path=str(path))
        if not late:
            await hooked.drain()
        name = "req-20261101T120003Z-upload-001"
        made = await begun(hooked, **({"request_id": name} if named else {}))
        await hooked.drain()
        assert made["superseded_request_id"] is None
        assert not named or made["request_id"] == name
        session = await hooked.app.session(SESSION)
        (turn,) = await hooked.app.turns(session)
        assert (turn.request_id, turn.query_title) == (made["request_id"], "Upload")
        transcript(hooked, ended=True)
        await hooked.app.take(path)
        (turn,) = await hooked.app.turns(session)
        assert (turn.status, turn.query_text, turn.response) == ("completed", "Fix how uploads work", "It is fixed")
        assert await hooked.app.dialog(session) == ["It is fixed"]
        assert await hooked.app.is_sound()


async def test_a_second_turn_of_an_agent_supersedes_the_one_that_it_took_over(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix the upload")
        await hooked.drain()
        first = await begun(hooked)
        second = await begun(hooked)
        assert second["superseded_request_id"] == first["request_id"]
        hooked.later(minutes=11)
        assert len(await hooked.app.turns(await hooked.app.session(SESSION))) == 2


async def test_a_hooks_turn_of_long_ago_or_with_an_agents_words_in_it_is_superseded(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix the upload")
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        said = {"role": "model", "category": "reasoning", "content": "I look at it"}
        await hooked.app.harness.update(session.id, dialog=[said])
        assert (await begun(hooked))["superseded_request_id"] is not None
        hooked.spool("UserPromptSubmit", prompt="And now?")
        hooked.spool("UserPromptSubmit", prompt="And then?", later_s=1, transcript_path=None)
        await hooked.drain()
        hooked.at += timedelta(minutes=11)
        assert (await begun(hooked))["superseded_request_id"] is not None


@pytest.mark.parametrize("named", [True, False])
async def test_a_codex_turn_that_its_agent_begins_too_is_one_turn(named: bool, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        codex = Codex(thread=THREAD, started=NOW).turn("turn-1", "Explain", "It works so")
        path = hooked.app.write(f"sessions/2026/rollout-2026-11-01T12-00-00-{THREAD}.jsonl", codex.lines)
        common: dict[str, Any] = {"agent": "Codex", "session_id": THREAD, "turn_id": "turn-1"}
        hooked.spool("UserPromptSubmit", prompt="Explain", **common)
        await hooked.drain()
        session = await hooked.app.session(THREAD)
        hooked.later(seconds=1)
        given = {"session_id": session.id, "query_title": "Why", "query_text": "Explain why"}
        name = {"request_id": "req-20261101T120003Z-why-001"} if named else {}
        made = await hooked.app.harness.call("begin_turn", given | name)
        assert made["superseded_request_id"] is None
        await hooked.app.take(path)
        (turn,) = await hooked.app.turns(session)
        assert (turn.request_id, turn.query_text, turn.status) == (made["request_id"], "Explain why", "completed")
        assert await hooked.app.dialog(session) == ["It works so"]
        assert await hooked.app.is_sound()


BEGIN = "mcp__plugin_shiftlog_shiftlog__begin_turn"
PROMPTS = ("11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002")


async def begun_by_call(hooked: HookApp, session_id: str, signs: ClientSigns, text: str) -> dict[str, Any]:
    hooked.later(seconds=1)
    given = {"session_id": session_id, "query_title": text, "query_text": text}
    return await hooked.app.harness.call("begin_turn", given, client("agent", signs=signs))


async def answers_by_prompt(hooked: HookApp, vendor_id: str) -> dict[str, tuple[str, str]]:
    turns = await hooked.app.turns(await hooked.app.session(vendor_id))
    assert await hooked.app.is_sound()
    return {turn.query_text: (str(turn.status), turn.response) for turn in turns}


async def test_a_turn_of_an_earlier_prompt_is_not_taken_over_when_the_hooks_between_were_lost(tmp_path: Path) -> None:
    """The stop of the first prompt and the hook of the second are lost; the hook before the call names the prompt."""
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix the upload", prompt_id=PROMPTS[0])
        hooked.spool("PreToolUse", prompt_id=PROMPTS[1], tool_name=BEGIN, tool_use_id="toolu_1", tool_input={})
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        made = await begun_by_call(hooked, session.id, ClientSigns(tool_call="toolu_1"), "Now the download")
        assert made["superseded_request_id"] is None, "how the first one ended is not known yet"
        told = Claude(session=SESSION, started=NOW).prompt("Fix the upload").says("It is fixed").ends()
        told.prompt("Now the download").calls("toolu_1", BEGIN).returns("toolu_1", json.dumps(made))
        told.says("That too").ends()
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", told.records))
        assert await answers_by_prompt(hooked, SESSION) == {
            "Fix the upload": ("completed", "It is fixed"),
            "Now the download": ("completed", "That too"),
        }


async def test_a_call_of_the_same_prompt_takes_the_hooks_turn_over(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix the upload", prompt_id=PROMPTS[0])
        hooked.spool("PreToolUse", prompt_id=PROMPTS[0], tool_name=BEGIN, tool_use_id="toolu_1", tool_input={})
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        await begun_by_call(hooked, session.id, ClientSigns(tool_call="toolu_1"), "Mend it")
        assert [*await answers_by_prompt(hooked, SESSION)] == ["Mend it"]


@pytest.mark.parametrize(("turn", "texts"), [("turn-1", ["Go on"]), ("turn-2", ["Explain", "Go on"])])
async def test_a_call_of_codex_names_the_turn_that_it_belongs_to(turn: str, texts: list[str], tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", agent="Codex", session_id=THREAD, turn_id="turn-1", prompt="Explain")
        await hooked.drain()
        session = await hooked.app.session(THREAD)
        meta = {"threadId": THREAD, "x-codex-turn-metadata": {"thread_id": THREAD, "turn_id": turn}}
        await begun_by_call(hooked, session.id, with_meta(NO_SIGNS, meta), "Go on")
        assert [*await answers_by_prompt(hooked, THREAD)] == texts


async def test_a_turn_that_has_stopped_is_not_taken_over(tmp_path: Path) -> None:
    """Only the hook of the second prompt is lost, in a client that names no prompts."""
    async with open_hook_app(tmp_path) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix the upload")
        hooked.spool("Stop", last_assistant_message="It is fixed")
        await hooked.drain()
        session = await hooked.app.session(SESSION)
        await begun_by_call(hooked, session.id, NO_SIGNS, "Now the download")
        hooked.later(seconds=30)
        await hooked.drain()
        assert await answers_by_prompt(hooked, SESSION) == {
            "Fix the upload": ("completed", "It is fixed"),
            "Now the download": ("in_progress", ""),
        }
