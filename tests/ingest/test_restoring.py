"""Restoring: a transcript written from the journal is read back as the same session, by the reader of either vendor."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftlog.control.questions import answer
from shiftlog.journal.continuity.lineage import lineage
from shiftlog.model.caller import LIBRARY
from shiftlog.model.moves import TurnStatus
from shiftlog.model.nouns import Session
from tests.cli.support import shiftlog
from tests.daemon.support import end_daemon
from tests.ingest.hooks.hook_app import open_hook_app
from tests.ingest.import_app import NOW, SHARED, Claude, Codex, ImportApp, open_import_app

THREAD = "019f5500-0000-7000-8000-00000000000a"


async def restored(app: ImportApp, session: Session, vendor: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the records of a session in a vendor's form, and what is said about them."""
    items: Any = answer(app.harness.app, "restore", {"session_id": session.id, "as": vendor}, LIBRARY)
    given = [item async for item in items]
    return [json.loads(item["line"]) for item in given[:-1]], given[-1]["about"]


async def told(app: ImportApp, session: Session) -> list[tuple[str, str, TurnStatus]]:
    turns = await app.turns(session)
    return [(turn.query_text, turn.response, turn.status) for turn in turns]


def a_session() -> Claude:
    claude = Claude().prompt("Fix it").block({"type": "thinking", "thinking": "Hm", "signature": "s"})
    claude.says("I look").calls("toolu_1", command="ls").returns("toolu_1", "a.py\nb.py")
    claude.calls("toolu_2", "Read", file_path="/srv/app/a.py").says("Fixed").ends()
    return claude.prompt("Thanks").says("You are welcome").ends()


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_a_restored_transcript_is_read_as_the_same_turns_and_texts(vendor: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        claude = a_session()
        await app.take(app.write(f"{claude.session}.jsonl", claude.records))
        session = await app.session(claude.session)
        before = await told(app, session)
        texts = [text for text in await app.dialog(session) if text != "Hm"]
        records, about = await restored(app, session, vendor)
    async with open_import_app(tmp_path, name="other") as other:
        path = other.folder / about["place"]
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        report = await other.take(path)
        assert report.files[0].counts["bad_lines"] == 0
        assert not report.files[0].unknown
        again = await other.session(about["vendor_session_id"])
        assert again.agent == ("ClaudeCode" if vendor == "claude" else "Codex")
        assert again.title == "Fix it"
        assert await told(other, again) == before
        found = await other.dialog(again)
        assert set(texts) <= set(found)
    if vendor == "claude":
        assert about["vendor_session_id"] == claude.session
        assert about["command"] == f"claude --resume {claude.session}"
        assert about["place"] == f"projects/-srv-app/{claude.session}.jsonl"
        assert about["left_out"] == 1


def failures() -> Claude:
    claude = Claude().prompt("Unheard").prompt("Stopped").says("I begin").calls("t1", command="sleep 9")
    claude.prompt("[Request interrupted by user for tool use]")
    claude.prompt("Refused").says("Limit reached", isApiErrorMessage=True, error="rate_limit").ends()
    claude.prompt("Cut off").calls("t2", command="sleep 9").prompt("Last").says("Done").ends()
    return claude


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_failed_turns_are_failed_in_the_restored_transcript_too(vendor: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        claude = failures()
        await app.take(app.write(f"{claude.session}.jsonl", claude.records))
        session = await app.session(claude.session)
        before = [(turn.query_text, turn.status, turn.failure_note) for turn in await app.turns(session)]
        assert [status for _, status, _ in before] == ["failed"] * 4 + ["completed"]
        records, about = await restored(app, session, vendor)
    async with open_import_app(tmp_path, name="other") as other:
        await other.take(other.write(Path(about["place"]).name, records))
        again = await other.session(about["vendor_session_id"])
        after = [(turn.query_text, turn.status, turn.failure_note) for turn in await other.turns(again)]
        if vendor == "claude":
            assert after == before
        assert [turn[:2] for turn in after] == [turn[:2] for turn in before]
        assert "[no answer was recorded]" not in await other.dialog(again)


async def test_calls_of_a_restored_transcript_have_the_results_that_they_had_and_every_record_a_parent(
    tmp_path: Path,
) -> None:
    async with open_import_app(tmp_path) as app:
        claude = a_session()
        await app.take(app.write(f"{claude.session}.jsonl", claude.records))
        records, _ = await restored(app, await app.session(claude.session), "claude")
    blocks = [block for r in records if "message" in r and isinstance(r["message"]["content"], list) for block in
              r["message"]["content"]]  # fmt: skip
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert calls == ["toolu_1", "toolu_2"]
    assert results == ["toolu_1"], "the client knows how to go on from a call without a result"
    chain = [record for record in records if "uuid" in record]
    assert [record["parentUuid"] for record in chain] == [None, *(record["uuid"] for record in chain[:-1])]
    assert len({record["uuid"] for record in chain}) == len(chain)


async def test_importing_a_restored_transcript_where_the_session_is_changes_no_turn(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        claude = a_session()
        path = app.write(f"{claude.session}.jsonl", claude.records)
        await app.take(path)
        session = await app.session(claude.session)
        before = await told(app, session)
        records, _ = await restored(app, session, "claude")
        path.unlink()
        heads = await app.heads()
        await app.take(app.write(f"{claude.session}.jsonl", records))
        assert await told(app, await app.session(claude.session)) == before
        assert await app.heads() == heads, "an export brings nothing new"


async def test_a_live_session_and_a_rollout_can_be_restored_too(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        name = await app.harness.open(agent="Codex", title="Live")
        await app.harness.begin(name, query_text="Why?")
        await app.harness.complete(name, response="Because")
        records, about = await restored(app, await app.harness.session(name), "codex")
        ends = [record["payload"] for record in records if record["payload"].get("type") == "task_complete"]
        assert [end["last_agent_message"] for end in ends] == ["Because"]
        assert about["masked"] == 0
        codex = Codex(thread=THREAD).turn("one", "Use ghp_" + "a1B2" * 9, "Done")
        codex.event("task_started", turn_id="two").event("user_message", message="And?")
        codex.event("turn_aborted", turn_id="two", reason="interrupted")
        await app.take(app.write(f"rollout-2026-03-04T06-00-00-{THREAD}.jsonl", codex.lines))
        records, about = await restored(app, await app.session(THREAD), "codex")
        assert about["masked"] == 3  # the prompt twice, and the title
        assert about["place"] == f"sessions/2026/03/04/rollout-2026-03-04T06-00-00-{THREAD}.jsonl"
        assert records[0]["payload"]["id"] == THREAD


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_calls_that_their_agent_did_not_name_are_told_as_text(vendor: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        name = await app.harness.open(agent="Codex", title="Live")
        await app.harness.begin(name, query_text="Why?")
        dialog = [
            {"role": "model", "category": "tool_call", "content": "grep -n charge app.log"},
            {"role": "tool", "category": "tool_result", "content": "10:02 charge accepted"},
        ]
        await app.harness.update(name, dialog=dialog)
        await app.harness.complete(name, response="Because")
        records, about = await restored(app, await app.harness.session(name), vendor)
        assert "grep -n charge app.log" in json.dumps(records)
        assert about["left_out"] == 1, "a result without its call cannot be taken back"


@pytest.mark.parametrize("known", ["journal", "rollout", "nowhere"])
async def test_a_restored_rollout_names_the_sessions_own_provider_where_it_is_known(known: str, tmp_path: Path) -> None:
    """Codex refuses to resume a session under a provider that its settings do not have."""
    async with open_hook_app(tmp_path) as hooked:
        app = hooked.app
        codex = Codex(thread=THREAD, started=NOW, meta={"model_provider": "our-gateway"})
        lines = codex.turn("turn-1", "Hi", "Hello").lines
        path = app.write(f"sessions/2026/rollout-2026-11-01T12-00-00-{THREAD}.jsonl", lines)
        if known == "journal":
            await app.take(path)
            path.unlink()
        else:
            there = str(path) if known == "rollout" else None
            common: dict[str, Any] = {
                "agent": "Codex",
                "session_id": THREAD,
                "turn_id": "turn-1",
                "transcript_path": there,
            }
            hooked.spool("SessionStart", source="startup", **common)
            hooked.spool("UserPromptSubmit", prompt="Hi", **common)
            hooked.later(seconds=1)
            await hooked.drain()
        session = await app.session(THREAD)
        header = (await restored(app, session, "codex"))[0][0]["payload"]
        assert header.get("model_provider") == (None if known == "nowhere" else "our-gateway")
        claude = a_session()
        await app.take(app.write(f"{claude.session}.jsonl", claude.records))
        header = (await restored(app, await app.session(claude.session), "codex"))[0][0]["payload"]
        assert "model_provider" not in header


async def test_a_restored_rollout_keeps_exit_codes_and_how_turns_failed(tmp_path: Path) -> None:
    codex = Codex(thread=THREAD)
    for name, reason in (("one", None), ("two", {"message": "Slow down", "code": "rate_limit"}), ("three", None)):
        codex.event("task_started", turn_id=name).event("user_message", message=name)
        if reason is not None:
            codex.event("task_complete", turn_id=name, error=reason)
    for call, output in (("c1", '{"output": "no", "metadata": {"exit_code": 2}}'), ("c2", "Exit code: 3\nOutput:\nx")):
        codex.line("response_item", type="function_call", name="shell", arguments='{"command": "x"}', call_id=call)
        codex.line("response_item", type="function_call_output", call_id=call, output=output)
    async with open_import_app(tmp_path) as app, open_import_app(tmp_path, name="other") as other:
        await app.take(app.write(f"rollout-{THREAD}.jsonl", codex.lines))
        records, _ = await restored(app, await app.session(THREAD), "codex")
        await other.take(other.write(f"restored/rollout-{THREAD}.jsonl", records))
        found: list[list[Any]] = []
        for each in (app, other):
            session = await each.session(THREAD)
            codes = [e.facts.get("exit_code") for e in await each.entries(session) if e.facts.get("role") == "tool"]
            turns = await each.turns(session)
            found.append([(turn.query_text, turn.status, turn.failure_note, turn.error_code) for turn in turns] + codes)
        assert found[0] == found[1]
        assert found[0][-4:] == [None, 2, None, 3]


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_what_codex_says_between_its_calls_is_said_in_the_restored_transcript_too(
    vendor: str, tmp_path: Path
) -> None:
    """The journal takes it for reasoning (3.1), but it is part of the conversation that goes on."""
    codex = Codex(thread=THREAD).event("task_started", turn_id="one").event("user_message", message="Fix it")
    for phase, text in (("commentary", "I look first"), ("final_answer", "Fixed")):
        codex.event("agent_message", message=text, phase=phase)
        content = [{"type": "output_text", "text": text}]
        codex.line("response_item", type="message", role="assistant", phase=phase, content=content)
    codex.event("agent_reasoning", text="Hm").event("task_complete", turn_id="one", last_agent_message="Fixed")
    async with open_import_app(tmp_path) as app, open_import_app(tmp_path, name="other") as other:
        await app.take(app.write(f"rollout-{THREAD}.jsonl", codex.lines))
        session = await app.session(THREAD)
        records, about = await restored(app, session, vendor)
        await other.take(other.write(about["place"], records))
        again = await other.session(about["vendor_session_id"])
        kinds = [(e.facts["category"], e.facts["content"]) for e in await other.entries(again) if e.kind == "dialog"]
        if vendor == "codex":
            assert kinds == [("reasoning", "I look first"), ("observation", "Fixed"), ("reasoning", "Hm")]
            said = [line["payload"] for line in records if line["payload"].get("role") == "assistant"]
            assert [(one["phase"], one["content"][0]["text"]) for one in said] == [
                ("commentary", "I look first"), ("final_answer", "Fixed"),
            ]  # fmt: skip
        else:
            assert kinds == [("observation", "I look first"), ("observation", "Fixed")]


@pytest.mark.skipif(not SHARED.exists(), reason="the fixtures are not beside the checkout")
@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_every_fixture_can_be_restored_and_read_again(vendor: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app, open_import_app(tmp_path, name="other") as other:
        for folder in ("claude/cases", "codex/cases"):
            await app.take(SHARED / folder)
        for session in list((await app.sessions()).values()):
            if not session.turns_total or session.subagent or session.parent_session_id:
                continue
            records, about = await restored(app, session, vendor)
            path = other.folder / about["place"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
            report = await other.take(path)
            assert report.ok
            assert not report.files[0].unknown
            assert report.files[0].counts["bad_lines"] == 0


def test_the_command_writes_the_transcript_and_says_what_stays_masked(tmp_path: Path) -> None:
    home, folder = tmp_path / "h", tmp_path / "t"
    folder.mkdir()
    codex = Codex(thread=THREAD).turn("one", "Use ghp_" + "a1B2" * 9, "Done")
    (folder / f"rollout-2026-03-04T06-00-00-{THREAD}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in codex.lines)
    )
    try:
        shiftlog(home, "import", str(folder))
        out = tmp_path / "restored.jsonl"
        done = shiftlog(home, "export", THREAD, "--as", "codex", "-o", str(out))
        assert f"codex resume {THREAD}" in done.err
        assert "stay masked" in done.err
        assert json.loads(out.read_text().splitlines()[0])["type"] == "session_meta"
        assert "[REDACTED:provider_key]" in shiftlog(home, "export", "last", "--as", "claude").out
        shiftlog(home, "export", "last", "--as", "claude", "--format", "md", status=2)
    finally:
        end_daemon(home)


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_what_a_transcript_said_of_a_turn_that_its_agent_had_finished_comes_back_whole(
    vendor: str, tmp_path: Path
) -> None:
    """3.1: call ids and whole inputs are kept beside the text, also where they are an amendment."""
    command = f"echo {'long ' * 100}"
    async with open_import_app(tmp_path) as app:
        claude = Claude().prompt("Fix it")
        live = await app.harness.open(agent="ClaudeCode", title="Mine", vendor_session_id=claude.session)
        request = await app.harness.begin(live, query_title="Fix", query_text="Fix it")
        await app.harness.complete(live, response="What the agent wrote")
        claude.calls("toolu_1", "mcp__shiftlog__begin_turn", session_id=live)
        claude.returns("toolu_1", f'{{"session_id":"{live}","request_id":"{request}"}}')
        claude.calls("toolu_2", command=command).returns("toolu_2", "Exit code 1", is_error=True).says("Done").ends()
        await app.take(app.write(f"{claude.session}.jsonl", claude.records))
        records, about = await restored(app, await app.session(claude.session), vendor)
        assert about["left_out"] == 0
    async with open_import_app(tmp_path, name="other") as other:
        path = other.folder / about["place"]
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        await other.take(path)
        again = await other.session(about["vendor_session_id"])
        calls = [entry.facts for entry in await other.entries(again) if entry.facts.get("category") == "tool_call"]
        assert [(call["call_id"], call["input"].get("command")) for call in calls] == [
            ("toolu_1", None), ("toolu_2", command),
        ]  # fmt: skip
        assert {"Exit code 1", "Done"} <= set(await other.dialog(again))


async def test_a_fork_is_restored_with_the_conversation_that_it_inherited(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        first = a_session()
        app.write(f"{first.session}.jsonl", first.records)
        name = "5e551000-0000-4000-8000-00000000000b"
        fork = Claude(session=name, records=[{**record, "sessionId": name} for record in first.records])
        app.write(f"{name}.jsonl", fork.prompt("Go on from here").says("Gone on").ends().records)
        await app.take()
        heads = await app.heads()
        session = await app.session(name)
        records, about = await restored(app, session, "claude")
        assert about["turns"] == 3
        texts = json.dumps([record.get("message") for record in records])
        assert all(text in texts for text in ("Fix it", "a.py", "You are welcome", "Go on from here", "Gone on"))
        assert {record["sessionId"] for record in records} == {name}
        app.write("again.jsonl", records)
        await app.take()
        assert await app.heads() == heads
        tree = await app.harness.read(lambda reader: lineage(reader, session))
        assert [child["session_id"] for child in tree["children"]] == [session.id]
        assert (tree["session_id"], tree["children"][0]["relation"]) == ((await app.session(first.session)).id, "fork")


async def test_a_rollout_that_was_forked_is_restored_with_what_it_inherited(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        parent = Codex(thread=THREAD).turn("t-1", "One", "1")
        app.write("rollout-a.jsonl", parent.lines)
        name = "019f5500-0000-7000-8000-00000000000f"
        child = Codex(thread=name, started=NOW, meta={"forked_from_id": THREAD})
        child.lines += parent.lines
        app.write("rollout-b.jsonl", child.turn("t-2", "Two", "2").lines)
        await app.take()
        session = await app.session(name)
        records, about = await restored(app, session, "codex")
        texts = json.dumps(records)
        assert about["turns"] == 2
        assert all(f'"message": "{text}"' in texts for text in ("One", "1", "Two", "2"))
        tree = await app.harness.read(lambda reader: lineage(reader, session))
        assert tree["session_id"] == (await app.session(THREAD)).id


async def test_a_fork_whose_hooks_opened_its_session_says_where_it_comes_from(tmp_path: Path) -> None:
    name = "019f5500-0000-7000-8000-00000000000f"
    async with open_hook_app(tmp_path) as hooked:
        parent = Codex(thread=THREAD, started=NOW).turn("t-1", "One", "1")
        hooked.app.write("rollout-a.jsonl", parent.lines)
        await hooked.app.take()
        hooked.spool("SessionStart", agent="Codex", session_id=name, source="startup")
        hooked.spool("UserPromptSubmit", agent="Codex", session_id=name, turn_id="t-2", prompt="Two")
        hooked.later(seconds=1)
        await hooked.drain()
        child = Codex(thread=name, started=hooked.at, meta={"forked_from_id": THREAD}).turn("t-2", "Two", "2")
        hooked.app.write("rollout-b.jsonl", child.lines)
        await hooked.app.take()
        origin, fork = await hooked.app.session(THREAD), await hooked.app.session(name)
        assert fork.forked_from == origin.id
        head = fork.head_hash
        await hooked.app.take(full=True)
        assert (await hooked.app.session(name)).head_hash == head


async def test_a_fork_that_answers_a_prompt_anew_is_restored_without_a_second_prompt(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        first = Claude().prompt("Fix it")
        name = "5e551000-0000-4000-8000-00000000000b"
        fork = Claude(session=name, records=[{**record, "sessionId": name} for record in first.records], letter="b")
        fork.says("Fixed another way", parentUuid=first.records[-1]["uuid"]).ends()
        app.write(f"{first.session}.jsonl", first.says("Fixed").ends().records)
        app.write(f"{name}.jsonl", fork.prompt("Go on").says("Gone on").ends().records)
        await app.take()
        heads = await app.heads()
        records, about = await restored(app, await app.session(name), "claude")
        assert [record["message"]["content"] for record in records if record["type"] == "user"] == ["Fix it", "Go on"]
        app.write("again.jsonl", records)
        await app.take()
        assert await app.heads() == heads
        rollout, _ = await restored(app, await app.session(name), "codex")
        assert "(continued)" not in json.dumps([*records, *rollout, about])


async def test_messages_between_agents_are_restored_as_such(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        codex = Codex(thread=THREAD)
        codex.event("task_started", turn_id="t-1", started_at=int(codex.started.timestamp()))
        codex.event("user_message", message="Review it")
        content = [{"type": "input_text", "text": "No findings"}]
        codex.line("response_item", type="agent_message", author="/root/reviewer", recipient="/root", content=content)
        codex.event("agent_message", message="Reviewed")
        codex.event("task_complete", turn_id="t-1", last_agent_message="Reviewed")
        path = app.write("rollout-a.jsonl", codex.lines)
        await app.take(path)
        heads = await app.heads()
        records, _ = await restored(app, await app.session(THREAD), "codex")
        told = [record["payload"] for record in records if record["payload"].get("type") == "agent_message"]
        assert told[0] == {
            "type": "agent_message",
            "author": "/root/reviewer",
            "recipient": "/root",
            "content": content,
        }
        path.unlink()
        await app.take(app.write("rollout-a.jsonl", records))
        assert await app.heads() == heads


async def test_a_compaction_that_rewrote_the_history_comes_back_as_the_same(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        codex = Codex(thread=THREAD).turn("t-1", "One", "1")
        codex.line("compacted", message="All of it", replacement_history=[{"type": "message", "role": "user"}])
        path = app.write("rollout-a.jsonl", codex.turn("t-2", "Two", "2").lines)
        await app.take(path)
        heads = await app.heads()
        records, _ = await restored(app, await app.session(THREAD), "codex")
        path.unlink()
        await app.take(app.write("rollout-a.jsonl", records))
        assert await app.heads() == heads


@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_a_compaction_is_restored_with_its_summary(vendor: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude().prompt("Old").says("Old answer").ends()
        made.add(
            "system", subtype="compact_boundary", content="Conversation compacted", compactMetadata={"trigger": "x"}
        )
        made.add("user", message={"role": "user", "content": "The summary"}, isCompactSummary=True)
        app.write("a.jsonl", made.prompt("New").says("New answer").ends().records)
        await app.take()
        records, _ = await restored(app, await app.session(made.session), vendor)
        if vendor == "codex":
            assert [line["payload"] for line in records if line["type"] == "compacted"] == [{"message": "The summary"}]
            return
        (mark,) = [record for record in records if record.get("subtype") == "compact_boundary"]
        (summary,) = [record for record in records if record.get("isCompactSummary")]
        assert (mark["parentUuid"], mark["compactMetadata"]) == (None, {"trigger": "x"})
        assert (summary["parentUuid"], summary["message"]["content"]) == (mark["uuid"], "The summary")


@pytest.mark.parametrize(("agent", "is_last"), [("claude", False), ("codex", False), ("codex", True)])
@pytest.mark.parametrize("vendor", ["claude", "codex"])
async def test_turns_that_were_rewound_are_no_part_of_the_restored_conversation(
    agent: str, is_last: bool, vendor: str, tmp_path: Path
) -> None:
    async with open_import_app(tmp_path) as app:
        if agent == "claude":
            made = Claude().prompt("One").says("First")
            back = {"parentUuid": made.records[-1]["uuid"]}
            made.prompt("Two").says("Second").prompt("Three", **back).says("Third").ends()
            name, records = made.session, made.records
        else:
            rollout = Codex(thread=THREAD).turn("t-1", "One", "First").turn("t-2", "Two", "Second")
            rollout.event("thread_rolled_back", num_turns=1)
            name, records = THREAD, (rollout if is_last else rollout.turn("t-3", "Three", "Third")).lines
        await app.take(app.write("a.jsonl", records))
        lines, about = await restored(app, await app.session(name), vendor)
    async with open_import_app(tmp_path, name="other") as other:
        await other.take(other.write(about["place"], lines))
        session = await other.session(about["vendor_session_id"])
        left = [turn.query_text for turn in await other.turns(session) if turn.request_id not in session.abandoned]
        assert left == ["One"] if is_last else left == ["One", "Three"]
        if vendor == "claude":
            last = next(line for line in reversed(lines) if line.get("uuid"))
            parents = {line["uuid"]: line["parentUuid"] for line in lines if line.get("uuid")}
            way: list[str] = []
            at: str | None = last["uuid"]
            while at is not None:
                way.append(at)
                at = parents[at]
            prompts = [
                line["message"]["content"] for line in lines if line.get("uuid") in way and line["type"] == "user"
            ]
            assert prompts == left
