"""An export that is read into the journal that it comes from brings nothing new, whatever kind of session it is."""

import json
from pathlib import Path

import pytest

from shiftlog.model.nouns import Session
from tests.ingest.import_app import SHARED, Claude, Codex, ImportApp, open_import_app
from tests.ingest.test_restoring import restored

PARENT = "019f5500-0000-7000-8000-00000000000a"
CHILD = "019f5500-0000-7000-8000-00000000000c"
VENDORS = {"ClaudeCode": "claude", "Codex": "codex"}

# Documents of the fixtures without an identity of their own: why their exports are not what was read.
WITHOUT_IDENTITY = {
    "s1": "three documents with different conversations share their session and record ids",
    "ses_stage0_small": "its record ids are those of another document's subagent",
    "u1": "its record ids are those of another document's session",
    "todowrite_session": "two documents of one session id, one of which ends in the middle of a turn",
    "a102bdd": "a subagent whose own file is missing: its parent's notes of progress say nothing of its turns",
    "019fc8be-3658-7ca3-9e29-000000000000": "ids and times were trimmed",
}


async def gains(app: ImportApp, session: Session) -> list[tuple[str, str]]:
    """Export a session, read the export where its client looks for it, and return the kinds of new entries."""
    records, about = await restored(app, session, VENDORS[session.agent])
    before = {name: one.head_seq for name, one in (await app.sessions()).items()}
    await app.take(app.write(f"exports/{session.id}/{about['place']}", records))
    return [
        (name, f"{entry.seq} {entry.kind} {entry.facts}")
        for name, one in (await app.sessions()).items()
        for entry in await app.entries(one)
        if entry.seq > before.get(name, 0)
    ]


def a_parent() -> Claude:
    parent = Claude().prompt("Have it reviewed").calls("toolu_1", "Task", prompt="Review it", subagent_type="reviewer")
    result = {"toolUseResult": {"agentId": "ab12", "status": "completed"}}
    return parent.returns("toolu_1", "No findings", **result).says("Reviewed").ends()


async def test_the_export_of_a_subagent_is_the_file_that_its_client_keeps_beside_the_parents(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        parent = a_parent()
        child = Claude(letter="b", common={"isSidechain": True, "agentId": "ab12", "cwd": "/srv/app/tree"})
        child.prompt("Review it").calls("toolu_2", command="ls").returns("toolu_2", "a.py").says("No findings")
        app.write(f"{parent.session}.jsonl", parent.records)
        app.write(f"{parent.session}/subagents/agent-ab12.jsonl", child.records)
        await app.take()
        session = await app.session("ab12")
        records, about = await restored(app, session, "claude")
        assert about["place"] == f"projects/-srv-app/{parent.session}/subagents/agent-ab12.jsonl"
        assert about["command"] == f"claude --resume {parent.session}"
        assert {(r["sessionId"], r["agentId"], r["isSidechain"]) for r in records} == {(parent.session, "ab12", True)}
        assert not await gains(app, session)
    async with open_import_app(tmp_path, name="other") as other:
        await other.take(other.write(f"alone/{about['place']}", records))
        assert (await other.session("ab12")).subagent


async def test_the_export_of_a_subagent_for_another_client_is_a_session_of_its_own(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        parent = a_parent()
        child = Claude(letter="b", common={"isSidechain": True, "agentId": "ab12"}).prompt("Review it").says("Fine")
        app.write(f"{parent.session}.jsonl", parent.records)
        app.write(f"{parent.session}/subagents/agent-ab12.jsonl", child.records)
        await app.take()
        records, about = await restored(app, await app.session("ab12"), "codex")
        assert about["command"] == f"codex resume {about['vendor_session_id']}"
        assert records[0]["payload"]["source"] == "cli"


@pytest.mark.parametrize("source", [{"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}, "review"])
@pytest.mark.parametrize("forked", [False, True])
async def test_the_export_of_a_thread_that_another_thread_spawned_names_it(
    source: object, forked: bool, tmp_path: Path
) -> None:
    async with open_import_app(tmp_path) as app:
        parent = Codex(thread=PARENT).turn("t-1", "Have it reviewed", "I have it reviewed")
        app.write("rollout-a.jsonl", parent.lines)
        meta = {"source": {"subagent": source}, "parent_thread_id": PARENT, "agent_nickname": "Hubble"}
        meta |= {"agent_path": "/root/review"} | ({"forked_from_id": PARENT} if forked else {})
        child = Codex(thread=CHILD, started=parent.started.replace(hour=7), meta=meta)
        child.lines += parent.lines if forked else []
        start = int(child.started.timestamp()) + 60
        child.event("task_started", turn_id="t-2", started_at=start)
        told = [{"type": "input_text", "text": "Review it"}]
        child.line("response_item", type="agent_message", author="/root", recipient="/root/review", content=told)
        child.event("agent_message", message="No findings")
        child.event("task_complete", turn_id="t-2", last_agent_message="No findings")
        app.write("rollout-b.jsonl", child.lines)
        await app.take()
        session = await app.session(CHILD)
        header = (await restored(app, session, "codex"))[0][0]["payload"]
        assert (header["parent_thread_id"], header["agent_nickname"]) == (PARENT, "Hubble")
        assert header.get("forked_from_id") == (PARENT if forked else None)
        assert [turn.query_text for turn in await app.turns(session)] == ["Review it"]
        assert not await gains(app, session)


@pytest.mark.skipif(not SHARED.exists(), reason="the fixtures are not beside the checkout")
async def test_no_export_of_the_fixtures_brings_anything_into_the_journal_that_holds_them_all(tmp_path: Path) -> None:
    async with open_import_app(tmp_path, now=None) as app:
        await app.take(SHARED)
        sessions = [one for one in (await app.sessions()).values() if one.agent in VENDORS]
        known = {one.vendor_session_id for one in sessions}
        assert known.issuperset(WITHOUT_IDENTITY), "a fixture that is an exception is gone"
        wrong = {
            session.id: await gains(app, session)
            for session in sessions
            if session.vendor_session_id not in WITHOUT_IDENTITY
        }
        assert not {name: changed for name, changed in wrong.items() if changed}, json.dumps(list(wrong))
