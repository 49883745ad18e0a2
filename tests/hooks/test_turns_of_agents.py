"""A turn that a hook began and its agent then begins too, with calls of its own, is one turn."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.bureau import SESSION, THREAD, Bureau, open_bureau, transcript
from tests.ingest.office import NOW, Codex


async def begun(bureau: Bureau, **more: Any) -> dict[str, Any]:
    """Begin a turn with the native tool, as an agent does whose prompt a hook has seen."""
    session = await bureau.office.session(SESSION)
    bureau.later(seconds=1)
    given = {"session_id": session.id, "query_title": "Upload", "query_text": "Fix how uploads work", **more}
    return await bureau.office.desk.call("begin_turn", given)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("late", [True, False])
async def test_a_turn_that_its_agent_begins_too_is_one_turn(named: bool, late: bool, tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        path = bureau.office.folder / "projects" / "app" / f"{SESSION}.jsonl"
        bureau.spool("SessionStart", source="startup", transcript_path=str(path))
        await bureau.drain()
        bureau.spool("UserPromptSubmit", prompt="Fix the upload", transcript_path=str(path))
        if not late:
            await bureau.drain()
        name = "req-20261101T120003Z-upload-001"
        made = await begun(bureau, **({"request_id": name} if named else {}))
        await bureau.drain()
        assert made["superseded_request_id"] is None
        assert not named or made["request_id"] == name
        session = await bureau.office.session(SESSION)
        (turn,) = await bureau.office.turns(session)
        assert (turn.request_id, turn.query_title) == (made["request_id"], "Upload")
        transcript(bureau, ended=True)
        await bureau.office.take(path)
        (turn,) = await bureau.office.turns(session)
        assert (turn.status, turn.query_text, turn.response) == ("completed", "Fix how uploads work", "It is fixed")
        assert await bureau.office.dialog(session) == ["It is fixed"]
        assert await bureau.office.is_sound()


async def test_a_second_turn_of_an_agent_supersedes_the_one_that_it_took_over(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Fix the upload")
        await bureau.drain()
        first = await begun(bureau)
        second = await begun(bureau)
        assert second["superseded_request_id"] == first["request_id"]
        bureau.later(minutes=11)
        assert len(await bureau.office.turns(await bureau.office.session(SESSION))) == 2


async def test_a_hooks_turn_of_long_ago_or_with_an_agents_words_in_it_is_superseded(tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        bureau.spool("UserPromptSubmit", prompt="Fix the upload")
        await bureau.drain()
        session = await bureau.office.session(SESSION)
        said = {"role": "model", "category": "reasoning", "content": "I look at it"}
        await bureau.office.desk.update(session.id, dialog=[said])
        assert (await begun(bureau))["superseded_request_id"] is not None
        bureau.spool("UserPromptSubmit", prompt="And now?")
        bureau.spool("UserPromptSubmit", prompt="And then?", later_s=1, transcript_path=None)
        await bureau.drain()
        bureau.at += timedelta(minutes=11)
        assert (await begun(bureau))["superseded_request_id"] is not None


@pytest.mark.parametrize("named", [True, False])
async def test_a_codex_turn_that_its_agent_begins_too_is_one_turn(named: bool, tmp_path: Path) -> None:
    async with open_bureau(tmp_path) as bureau:
        codex = Codex(thread=THREAD, started=NOW).turn("turn-1", "Explain", "It works so")
        path = bureau.office.write(f"sessions/2026/rollout-2026-11-01T12-00-00-{THREAD}.jsonl", codex.lines)
        common: dict[str, Any] = {"agent": "Codex", "session_id": THREAD, "turn_id": "turn-1"}
        bureau.spool("UserPromptSubmit", prompt="Explain", **common)
        await bureau.drain()
        session = await bureau.office.session(THREAD)
        bureau.later(seconds=1)
        given = {"session_id": session.id, "query_title": "Why", "query_text": "Explain why"}
        name = {"request_id": "req-20261101T120003Z-why-001"} if named else {}
        made = await bureau.office.desk.call("begin_turn", given | name)
        assert made["superseded_request_id"] is None
        await bureau.office.take(path)
        (turn,) = await bureau.office.turns(session)
        assert (turn.request_id, turn.query_text, turn.status) == (made["request_id"], "Explain why", "completed")
        assert await bureau.office.dialog(session) == ["It works so"]
        assert await bureau.office.is_sound()
