"""The session that a caller is in: by the client's own id, by its process, or by place and time."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.journal.clients import place_of, sessions_around
from shiftlog.model.caller import META, Caller, ClientSigns
from shiftlog.model.entry import Kind
from shiftlog.model.nouns import Session
from tests.ingest.hooks.hook_app import SESSION, THREAD, HookApp, open_hook_app
from tests.ingest.import_app import Claude
from tests.journal.harness import client

OTHER = "5e551000-0000-4000-8000-0000000000ff"
PROCESS, SECOND = (4242, "77"), (5353, "88")
TITLED = {"agent": "ClaudeCode", "title": "My own title"}


def spool(hooked: HookApp, event: str, *, process: tuple[int, str] = PROCESS, **fields: Any) -> None:
    line = hooked.line(event, **fields) | {"ppid": process[0], "ppid_started": process[1]}
    hooked.append("hooks-20261101.jsonl", json.dumps(line) + "\n")


async def started(hooked: HookApp, **fields: Any) -> Session:
    """Let a client start, with a prompt, and return the session of its hooks."""
    spool(hooked, "SessionStart", source="startup", **fields)
    spool(hooked, "UserPromptSubmit", prompt=f"Work of {fields.get('session_id', SESSION)}", **fields)
    hooked.later(seconds=1)
    await hooked.drain()
    return await hooked.app.session(fields.get("session_id", SESSION))


def by_id(vendor_id: str = SESSION, *processes: tuple[int, str], **signs: Any) -> Caller:
    return client(signs=ClientSigns(vendor_ids={"ClaudeCode": vendor_id}, processes=processes, **signs))


def by_process(*processes: tuple[int, str]) -> Caller:
    return client(signs=ClientSigns(processes=processes))


async def place(hooked: HookApp, caller: Caller, agent: str | None = "ClaudeCode") -> tuple[str | None, str | None]:
    found = await hooked.app.harness.read(lambda reader: place_of(reader, caller, agent))
    return (found.session.id if found.session else None, found.by)


@pytest.mark.parametrize("caller", [by_id(), by_process((9, "1"), PROCESS)], ids=["vendor_id", "process"])
async def test_opening_joins_the_session_of_the_hooks(caller: Caller, tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        harness, session = hooked.app.harness, await started(hooked)
        given = {**TITLED, "tags": ["urgent"], "agent_id": "night shift", "model": "claude-x"}
        opened = await harness.call("open_session", given, caller)
        assert (opened["session_id"], opened["joined"], opened["agent_id"]) == (session.id, True, "night shift")
        session = await harness.session(session.id)
        assert (session.title, session.tags, session.agent_key) == ("My own title", ("urgent",), "night-shift")
        assert session.run is not None
        assert (session.run.pid, session.run.model) == (PROCESS[0], "claude-x")
        (joined,) = [entry for entry in await harness.entries(session.id) if entry.kind is Kind.CLIENT_JOINED]
        assert joined.facts["by"] == ("vendor_id" if caller.signs.vendor_ids else "process")
        assert len(await hooked.app.sessions()) == 1
        again = await harness.call("open_session", {**TITLED, "title": "Better"}, caller)
        assert (again["session_id"], again["joined"]) == (session.id, True)
        assert await hooked.app.is_sound()


async def test_a_title_that_the_agent_gave_outlasts_the_transcript(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        await started(hooked)
        await hooked.app.harness.call("open_session", TITLED, by_id())
        made = Claude(session=SESSION).prompt("Another title").says("Yes").ends()
        await hooked.app.take(hooked.app.write(f"projects/app/{SESSION}.jsonl", made.records))
        assert (await hooked.app.session(SESSION)).title == "My own title"


async def test_a_call_before_the_hook_makes_the_session_that_the_hook_joins(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        opened = await hooked.app.harness.call("open_session", TITLED, by_id())
        assert not opened["joined"]
        session = await started(hooked)
        assert session.id == opened["session_id"]
        kinds = await hooked.app.harness.kinds(session.id)
        assert kinds.count("client.joined") == 1
        assert session.run is not None
        assert session.run.pid == PROCESS[0]
        assert await hooked.app.is_sound()


async def test_another_id_in_the_call_makes_a_child_of_the_clients_session(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        session = await started(hooked)
        named = {**TITLED, "session_id": "ClaudeCode-20261101T120000Z-mine"}
        opened = await hooked.app.harness.call("open_session", named, by_id())
        assert (opened["session_id"], opened["joined"]) == (named["session_id"], False)
        child = await hooked.app.harness.session(named["session_id"])
        assert (child.parent_session_id, child.vendor_session_id) == (session.id, None)
        same = await hooked.app.harness.call("open_session", {**TITLED, "session_id": session.id}, by_id())
        assert (same["session_id"], same["joined"]) == (session.id, True)


async def test_a_subagent_that_names_its_parent_has_a_session_of_its_own(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        session = await started(hooked)
        opened = await hooked.app.harness.call("open_session", {**TITLED, "parent_session_id": session.id}, by_id())
        assert not opened["joined"]
        child = await hooked.app.harness.session(opened["session_id"])
        assert (child.parent_session_id, child.vendor_session_id) == (session.id, None)
        assert (await hooked.app.harness.session(session.id)).title != "My own title"


async def test_resuming_never_means_the_clients_own_session_unless_it_is_named(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        harness, own = hooked.app.harness, await started(hooked)
        refused = await harness.refusal("resume_session", {"agent_id": "ClaudeCode"}, by_id())
        assert refused.code == "no_resumable_session"
        spool(hooked, "SessionEnd", reason="other")
        second = await started(hooked, session_id=OTHER, process=SECOND)
        resumed = await harness.call("resume_session", {"agent_id": "ClaudeCode"}, by_id(OTHER, SECOND))
        assert resumed["session_id"] == own.id
        named = {"agent_id": "ClaudeCode", "session_id": second.id}
        assert (await harness.call("resume_session", named, by_id(OTHER, SECOND)))["session_id"] == second.id


async def test_two_clients_in_one_folder_are_told_apart_by_their_processes(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        one = await started(hooked)
        two = await started(hooked, session_id=OTHER, process=SECOND)
        assert await place(hooked, by_process(PROCESS)) == (one.id, "process")
        assert await place(hooked, by_process(SECOND)) == (two.id, "process")
        assert await place(hooked, by_process((1, "1"))) == (None, None)


async def test_a_pid_that_another_process_has_now_joins_nothing(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        await started(hooked)
        assert await place(hooked, by_process((PROCESS[0], "78"))) == (None, None)


@pytest.mark.parametrize(
    ("since_s", "second", "found"),
    [(5, False, True), (11, False, False), (-1, False, False), (5, True, False)],
    ids=["just before", "too long ago", "later", "two of them"],
)
async def test_place_and_time_join_only_the_one_session_that_fits(
    since_s: float, second: bool, found: bool, tmp_path: Path
) -> None:
    async with open_hook_app(tmp_path) as hooked:
        session = await started(hooked)
        if second:
            await started(hooked, session_id=OTHER, process=SECOND, later_s=0)
        at = session.started + timedelta(seconds=since_s)
        caller = replace(client(), cwd="/srv/app", signs=ClientSigns(since=at))
        assert await place(hooked, caller) == ((session.id, "workspace") if found else (None, None))
        elsewhere = replace(caller, signs=replace(caller.signs, processes=((1, "1"),)))
        assert await place(hooked, elsewhere) == (None, None), "the processes of both are known"


async def test_clear_is_followed_though_the_environment_still_names_the_session_before(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        before = await started(hooked)
        spool(hooked, "SessionEnd", reason="clear")
        spool(hooked, "SessionStart", source="clear", session_id=OTHER)
        hooked.later(seconds=1)
        await hooked.drain()
        after = await hooked.app.session(OTHER)
        assert after.predecessor_session_id == before.id
        assert await place(hooked, by_id(SESSION, PROCESS)) == (after.id, "process")
        assert await hooked.app.is_sound()


async def test_a_client_inside_another_agents_client_is_not_that_one(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        outer = await started(hooked)
        inner = by_process((9, "1"), PROCESS)
        opened = await hooked.app.harness.call("open_session", {"agent": "Codex", "title": "Inner"}, inner)
        assert not opened["joined"]
        assert (await hooked.app.harness.session(opened["session_id"])).parent_session_id == outer.id
        unknown = by_id(OTHER, (9, "1"), PROCESS)
        nested = await hooked.app.harness.call("open_session", TITLED, unknown)
        assert (nested["joined"], nested["session_id"] == outer.id) == (False, False)
        around = await hooked.app.harness.read(lambda reader: sessions_around(reader, unknown))
        assert around >= {outer.id, nested["session_id"]}


async def test_a_subagents_call_goes_to_its_child_session(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        parent = await started(hooked)
        spool(hooked, "SubagentStart", agent_id="a1", agent_type="Explore")
        hooked.later(seconds=1)
        await hooked.drain()
        (child,) = [one for one in (await hooked.app.sessions()).values() if one.subagent]
        assert await place(hooked, by_id()) == (child.id, "vendor_id"), "exactly one runs"
        spool(hooked, "SubagentStart", agent_id="a2", agent_type="Plan")
        hooked.later(seconds=1)
        await hooked.drain()
        opened = await hooked.app.harness.call("open_session", TITLED, by_id())
        assert opened["session_id"] == parent.id
        assert [warning["code"] for warning in opened["warnings"]] == ["attribution_uncertain"]
        (joined,) = [e for e in await hooked.app.harness.entries(parent.id) if e.kind is Kind.CLIENT_JOINED]
        assert joined.facts["attribution"] == "uncertain"
        tool = "mcp__plugin_shiftlog_shiftlog__open_session"
        asked = {"hook_event_name": "PreToolUse", "session_id": SESSION, "tool_name": tool}
        for call, agent_id in (("toolu_1", "a1"), ("toolu_2", None)):
            event = {**asked, "tool_use_id": call} | ({"agent_id": agent_id} if agent_id else {})
            assert await hooked.app.harness.app.hook_answers.answer({"agent": "ClaudeCode", "event": event}) == {
                "print": ""
            }
        assert await place(hooked, by_id(tool_call="toolu_1")) == (child.id, "vendor_id")
        assert await place(hooked, by_id(tool_call="toolu_2")) == (parent.id, "vendor_id")
        assert await hooked.app.is_sound()


async def test_the_thread_in_the_metadata_of_a_call_names_the_session_exactly(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        spool(hooked, "SessionStart", agent="Codex", session_id=THREAD, source="startup")
        hooked.later(seconds=1)
        await hooked.drain()
        session = await hooked.app.session(THREAD)
        caller = client(signs=ClientSigns(vendor_ids={"Codex": THREAD}, via=META))
        assert await place(hooked, caller, "Codex") == (session.id, "vendor_id")
        opened = await hooked.app.harness.call("open_session", {"agent": "Codex", "title": "T"}, caller)
        assert (opened["joined"], opened["session_id"]) == (True, session.id)


async def test_a_second_client_of_the_same_session_writes_beside_the_first(tmp_path: Path) -> None:
    async with open_hook_app(tmp_path) as hooked:
        await started(hooked)
        harness = hooked.app.harness
        first = await harness.call("open_session", TITLED, by_id())
        second = await harness.call("open_session", TITLED, replace(by_id(), client_id="client-two"))
        assert (second["joined"], second["lease"]["expires_at"]) == (True, None)
        assert first["lease"]["fence"] == second["lease"]["fence"]
        await harness.update(first["session_id"], by_id(), response="still mine", request_id=None)
