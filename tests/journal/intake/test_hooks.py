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
from tests.ingest.hooks.hook_app import PID, SESSION, HookApp, open_hook_app, transcript
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
