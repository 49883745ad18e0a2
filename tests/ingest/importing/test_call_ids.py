"""Ids of calls and turns that are only counted, such as `functions.Bash:0`, come again in every session."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from shiftlog.facts.batch import origin_key
from shiftlog.ingest.readers import records
from shiftlog.store.sources import Origin
from tests.ingest.import_app import NOW, Claude, Codex, Record, entries_of, open_import_app

COUNTED = "functions.Bash:0"


def claude(number: int) -> Claude:
    made = Claude(
        session=f"5e551000-0000-4000-8000-{number:012d}", letter="0abc"[number], started=NOW - timedelta(days=number)
    )
    for word in ("one", "two"):
        made.prompt(word).calls(COUNTED, command=f"echo {word} {number}")
        made.returns(COUNTED, f"{word} {number}").says(f"Done {word}").ends()
    return made


def codex(number: int) -> Codex:
    made = Codex(thread=f"9a000000-0000-4000-8000-{number:012d}", started=NOW - timedelta(days=number))
    for word in ("one", "two"):
        made.event("task_started", turn_id=f"turn-{word}").event("user_message", message=word)
        given = json.dumps({"command": ["echo", word, str(number)]})
        made.line("response_item", type="function_call", name="shell", arguments=given, call_id=COUNTED)
        made.line("response_item", type="function_call_output", call_id=COUNTED, output=f"{word} {number}")
        made.event("task_complete", turn_id=f"turn-{word}", last_agent_message=f"Done {word}")
    return made


async def test_calls_of_claude_code_that_are_only_counted_are_all_kept(tmp_path: Path) -> None:
    """Nothing is lost: neither in another session nor in a later turn does such an id name a known call."""
    async with open_import_app(tmp_path) as app:
        for number in (1, 2):
            app.write(f"{number}.jsonl", claude(number).records)
        report = await app.take()
        assert report.shown()["totals"]["tool_calls"] == 4
        for number in (1, 2):
            session = await app.session(claude(number).session)
            assert session.forked_from is None
            assert await app.dialog(session) == [
                f"Bash: echo one {number}", f"one {number}", "Done one",
                f"Bash: echo two {number}", f"two {number}", "Done two",
            ]  # fmt: skip
        assert entries_of(await app.take(full=True)) == 0


async def test_calls_of_codex_that_are_only_counted_are_all_kept(tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        for number in (1, 2):
            app.write(f"rollout-{number}.jsonl", codex(number).lines)
        await app.take()
        for number in (1, 2):
            session = await app.session(codex(number).thread)
            assert session.forked_from is None
            assert [turn.query_text for turn in await app.turns(session)] == ["one", "two"]
            assert await app.dialog(session) == [
                f"shell: echo one {number}", f"one {number}", f"shell: echo two {number}", f"two {number}",
            ]  # fmt: skip
        assert entries_of(await app.take(full=True)) == 0


async def test_a_call_that_was_never_answered_leaves_its_number_to_the_next_turn(tmp_path: Path) -> None:
    made = codex(1)
    without_first_output = [line for line in made.lines if line["payload"].get("output") != "one 1"]
    async with open_import_app(tmp_path) as app:
        app.write("rollout-1.jsonl", without_first_output)
        await app.take()
        dialog = await app.dialog(await app.session(made.thread))
        assert dialog == ["shell: echo one 1", "shell: echo two 1", "two 1"]


async def test_a_copy_shares_its_counted_calls_with_the_original(tmp_path: Path) -> None:
    """5.3: only `sessionId` is rewritten in a fork, so that its records are known by their uuids."""
    original, fork = claude(1).records, "f0000000-0000-4000-8000-00000000000f"
    copied: list[Record] = [{**record, "sessionId": fork} for record in original]
    own = Claude(session=fork, letter="f", started=NOW - timedelta(hours=1))
    own.prompt("three").calls(COUNTED, command="echo three").returns(COUNTED, "three").says("Done three").ends()
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", original)
        app.write("b.jsonl", [*copied, *own.records])
        await app.take()
        session = await app.session(fork)
        assert await app.dialog(session) == ["Bash: echo three", "three", "Done three"]
        assert session.forked_from == (await app.session(claude(1).session)).id


MASKED = ["toolu_REDACTED", "[REDACTED]", "toolu_01XXXXXXXXXXXXXXXXXXXX", "***", "call_00000000000000000000000"]


@pytest.mark.parametrize("name", MASKED)
async def test_calls_that_share_a_masked_id_are_told_apart(name: str, tmp_path: Path) -> None:
    async with open_import_app(tmp_path) as app:
        made = Claude(session="5e551000-0000-4000-8000-000000000007").prompt("Go")
        for word in ("one", "two"):
            made.calls(name, command=f"echo {word}").returns(name, word)
        app.write("a.jsonl", made.says("Done").ends().records)
        thread = Codex(thread="9a000000-0000-4000-8000-000000000007").event("task_started", turn_id="turn-x")
        thread.event("user_message", message="Go")
        for word in ("one", "two"):
            given = json.dumps({"command": ["echo", word]})
            thread.line("response_item", type="function_call", name="shell", arguments=given, call_id=name)
            thread.line("response_item", type="function_call_output", call_id=name, output=word)
        app.write("rollout-b.jsonl", thread.event("task_complete", turn_id="turn-x").lines)
        await app.take()
        said = ["Bash: echo one", "one", "Bash: echo two", "two", "Done"]
        assert await app.dialog(await app.session(made.session)) == said
        assert await app.dialog(await app.session(thread.thread)) == [
            text.replace("Bash", "shell") for text in said[:-1]
        ]
        assert entries_of(await app.take(full=True)) == 0


async def test_a_call_that_an_earlier_release_kept_under_its_id_alone_is_known(tmp_path: Path) -> None:
    """Before ids that only count were told apart, their keys were the ids; a full reading finds them there."""
    async with open_import_app(tmp_path) as app:
        made = claude(1)
        app.write("1.jsonl", made.records[:1])
        await app.take()
        session = await app.session(made.session)
        owned = Origin(session_id=session.id)
        former = {origin_key("ClaudeCode", f"{kind}:{COUNTED}"): owned for kind in ("call", "result")}
        await app.harness.app.store.write(lambda writer: writer.put_origins(former))
        app.write("1.jsonl", made.records)
        await app.take(full=True)
        # The first call was brought by the earlier release, which had lost the second one.
        assert await app.dialog(session) == ["Done one", "Bash: echo two 1", "two 1", "Done two"]
        assert entries_of(await app.take(full=True)) == 0


async def test_turns_that_an_earlier_release_kept_under_their_masked_id_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before masked ids were told from unique ones, the keys of such turns and of their calls had no thread."""
    made = Codex(thread="9a000000-0000-4000-8000-000000000009")
    for number, word in enumerate(("one", "two"), 1):
        turn = f"0195a000-0000-7000-8000-{number:012d}"
        made.event("task_started", turn_id=turn).event("user_message", message=word)
        for name, command in ((f"c{number}", "echo"), (f"commit{number}", "git commit -m")):
            given = json.dumps({"command": ["bash", "-lc", f"{command} {word}"]})
            made.line("response_item", type="function_call", name="shell", arguments=given, call_id=name)
            output = f"[main 12345{number}a] {word}\n 1 file changed" if "git" in command else word
            made.line("response_item", type="function_call_output", call_id=name, output=output)
        made.event("task_complete", turn_id=turn, last_agent_message="Done")
    async with open_import_app(tmp_path) as app:
        app.write("rollout-1.jsonl", made.lines)
        with monkeypatch.context() as earlier:
            earlier.setattr(records, "_MASKED", re.compile("(?!)"))
            assert (await app.take()).shown()["totals"]["tool_calls"] == 4
        assert entries_of(await app.take(full=True)) == 0
        assert entries_of(await app.take(full=True)) == 0
