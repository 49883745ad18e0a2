"""Secrets are masked in whole texts, before anything is cut, and each is counted once."""

import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.ingest.capture import read_rollout
from shiftlog.ingest.importing.masking import MAX_TEXT_CHARS
from shiftlog.journal.intake.service import import_key
from tests.ingest.import_app import NOW, Claude, Codex, ImportApp, open_import_app
from tests.journal.harness import files_holding

KEY = f"ghp_{'a1B2' * 9}"
SECRETS = {
    "AKIAABCDEFGHIJKLMNOP": "AKIA",
    KEY: "ghp_",
    "postgres://user:s3cr3tpass@db/x": "s3c",
    "password=hunter2hunter2": "hunter",
}


async def everything(app: ImportApp) -> str:
    """Return all that the journal shows."""
    sessions = list((await app.sessions()).values())
    entries = [entry for session in sessions for entry in await app.entries(session)]
    return repr([(session.title, await app.turns(session)) for session in sessions] + [e.facts for e in entries])


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [58, 64, 70, 74])
async def test_no_title_keeps_the_beginning_of_a_secret(secret: str, before: int, tmp_path: Path) -> None:
    prompt = f"{'x' * before} {secret}"
    claude = Claude().prompt(prompt).says("Done").ends()
    codex = Codex(thread="9c000000-0000-4000-8000-000000000001").turn("t1", prompt, "Done")
    late = Codex(thread="9c000000-0000-4000-8000-000000000002").event("task_started", turn_id="t2")
    late.event("agent_message", message="Hello").event("user_message", message=prompt)
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", claude.records)
        app.write("rollout-b.jsonl", codex.lines)
        app.write("rollout-c.jsonl", late.lines)
        await app.take()
        assert SECRETS[secret] not in await everything(app)
        assert {len(session.title) for session in (await app.sessions()).values()} <= {*range(before, 81)}


async def test_the_kind_of_a_subagent_holds_no_secret_either(tmp_path: Path) -> None:
    """6: strings of a tool's input are text, also where one of them names a child."""
    parent = Claude().prompt("Go").calls("toolu_1", "Task", prompt="Look", subagent_type=f"kind {KEY}")
    parent.returns("toolu_1", "Found", toolUseResult={"agentId": "x"}).says("Done").ends()
    child = Claude(letter="c", common={"agentId": "x", "isSidechain": True}).prompt("Look").says("Found")
    async with open_import_app(tmp_path) as app:
        app.write("projects/p/agent-x.jsonl", child.records)
        await app.take()
        app.write(f"projects/p/{parent.session}.jsonl", parent.records)
        await app.take()
        (subagent,) = [one.subagent for one in (await app.sessions()).values() if one.subagent]
        assert subagent["name"] == "kind [REDACTED:provider_key]"
        assert KEY not in await everything(app)
    assert files_holding(app.harness.home, KEY) == []


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", [176, 182, 188, 194])
async def test_no_line_of_a_call_keeps_the_beginning_of_a_secret(secret: str, before: int, tmp_path: Path) -> None:
    claude = Claude().prompt("Go").calls("t1", command=f"echo {'x' * before} {secret}").returns("t1", "ok").says("Done")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", claude.records)
        await app.take()
        assert SECRETS[secret] not in await everything(app)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "git commit -m 'password=hunter2hunter2'"}),
        ("WebFetch", {"url": "https://user:hunter2hunter2@example.com/"}),
        ("Edit", {"file_path": "/srv/app/a", "old_string": "x", "new_string": "password=hunter2hunter2"}),
    ],
)
async def test_a_secret_is_counted_once_however_often_it_is_told(
    tool: str, given: dict[str, Any], tmp_path: Path
) -> None:
    claude = Claude().prompt("Go").calls("t1", tool, **given).returns("t1", "ok").says("Done")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", claude.records)
        report = await app.take()
        assert report.shown()["totals"]["redactions"] == 1
        assert "hunter2" not in await everything(app)


async def test_a_short_data_url_is_folded_in_texts_and_in_inputs(tmp_path: Path) -> None:
    url = "data:image/png;base64,aGVsbG8gd29ybGQ="
    claude = Claude().prompt(f"Look at {url} please").calls("t1", "Show", image=url, more=[url])
    claude.returns("t1", f"shown {url}").says(f"Seen {url}")
    async with open_import_app(tmp_path) as app:
        app.write("a.jsonl", claude.records)
        await app.take()
        shown = await everything(app)
    assert "aGVsbG8" not in shown
    assert shown.count("[BLOB:image/png:11:b94d27b9934d]") >= 5


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("back", [4, 10, 16])
def test_captured_turns_keep_no_beginning_of_a_secret(secret: str, back: int, tmp_path: Path) -> None:
    def before(limit: int) -> str:
        return "x" * (limit - back - 1) + " " + secret

    codex = Codex(thread="9c000000-0000-4000-8000-000000000003").event("task_started", turn_id="t1")
    codex.event("user_message", message=before(80))
    codex.line(
        "response_item", type="function_call", name="run", call_id="c1", arguments=json.dumps({"q": before(200)})
    )
    codex.line("response_item", type="function_call_output", call_id="c1", output=before(2000))
    codex.event("task_complete", turn_id="t1", last_agent_message="Done")
    path = tmp_path / "rollout-x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in codex.lines), encoding="utf-8")
    redactor = Redactor()
    (turn,) = read_rollout(str(path), lambda value: redactor.value(value)[0]).turns
    assert SECRETS[secret] not in repr(turn)


def test_a_prompt_that_comes_after_the_turn_has_begun_is_captured(tmp_path: Path) -> None:
    codex = Codex(thread="9c000000-0000-4000-8000-000000000004").event("task_started", turn_id="t1")
    codex.event("agent_message", message="Hello").event("user_message", message="Fix it\nplease")
    path = tmp_path / "rollout-x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in codex.lines), encoding="utf-8")
    (turn,) = read_rollout(str(path), lambda value: value).turns
    assert (turn["queryTitle"], turn["queryText"]) == ("Fix it", "Fix it\nplease")


async def test_no_word_beside_the_texts_keeps_a_secret(tmp_path: Path) -> None:
    """What a vendor says of a response, and the name of an error, may be anything."""
    async with open_import_app(tmp_path) as app:
        used = {"input_tokens": 1, "output_tokens": 2, "service_tier": "standard", "note": KEY, "more": {"deep": KEY}}
        script = Claude().prompt("Go")
        for number in range(2):
            given = {**used, "note": "plain"} if number else used
            script.block({"type": "text", "text": "Gone"}, message=f"m{number}", request="r", usage=given)
        script.says("Failed", isApiErrorMessage=True, error=f"unheard of {KEY}")
        await app.take(app.write("a.jsonl", script.records))
        session = await app.session(script.session)
        told = [entry.facts["vendor"] for entry in await app.entries(session) if entry.kind == "usage"]
        assert [one["service_tier"] for one in told] == ["standard", "standard"]
        assert KEY not in repr([entry.facts for entry in await app.entries(session)])
        (turn,) = await app.turns(session)
        assert turn.error_code == "unheard of [REDACTED:provider_key]"


async def test_a_text_too_long_to_store_is_cut_wherever_it_stands(tmp_path: Path) -> None:
    """7: the first part, with the length and the digest of the whole."""
    long = "long word " * 110_000
    async with open_import_app(tmp_path) as app:
        script = Claude().prompt("Go").calls("toolu_1", "Write", file_path="/srv/a", edits=[{"content": long}])
        script.says(f"Decision: {long}")
        await app.take(app.write("a.jsonl", script.records))
        session = await app.session(script.session)
        (call,) = [entry.facts for entry in await app.entries(session) if entry.facts.get("category") == "tool_call"]
        assert call["input"] == {"file_path": "/srv/a", "edits": [{"content": long[:MAX_TEXT_CHARS]}]}
        assert call["full"] == {"chars": len(long), "sha256": hashlib.sha256(long.encode()).hexdigest()}
        (turn,) = await app.turns(session)
        assert [len(text) for text in turn.design_decisions] == [MAX_TEXT_CHARS]


async def test_what_readers_remember_between_imports_shows_no_secret_on_the_disk(tmp_path: Path) -> None:
    """6: open calls, titles and lines held back are kept as they are, but not to be read."""
    started = NOW - timedelta(minutes=5)
    claude = Claude(started=started).prompt("Deploy").add("custom-title", customTitle=f"Deploy with {KEY}")
    claude.says(f"With {KEY}").calls("t1", command=f"deploy --key {KEY}")
    fork = Codex(thread="9c000000-0000-4000-8000-000000000001", started=started, meta={"forked_from_id": "other"})
    fork.event("user_message", message=f"Use {KEY}").event("agent_message", message=f"Using {KEY}")
    async with open_import_app(tmp_path) as app:
        claudes, codex = app.write("a.jsonl", claude.records), app.write("rollout-b.jsonl", fork.lines)
        await app.take()
        assert files_holding(app.harness.home, KEY) == []
        assert files_holding(app.harness.home, f"deploy --key {KEY}"[:16]) == []
        claude.returns("t1", "deployed").says("Done").ends()
        app.write(claudes.name, claude.records)
        app.write(codex.name, fork.turn("t1", "Go on", "Gone on").lines)
        report = await app.take()
        assert [file.status for file in report.files] == ["grown", "grown"]
        (turn,) = await app.turns(await app.session(claude.session))
        assert (str(turn.status), turn.response) == ("completed", "Done")
        assert files_holding(app.harness.home, KEY) == []


async def test_a_file_whose_state_is_of_another_key_is_read_whole_and_brings_nothing_twice(tmp_path: Path) -> None:
    claude = Claude().prompt("Deploy").calls("t1", command="deploy")
    async with open_import_app(tmp_path) as app:
        path = app.write("a.jsonl", claude.records)
        await app.take()
        before = await app.dialog(await app.session(claude.session))
    (app.harness.home / "keys" / "import.key").write_bytes(b"k" * 32)
    async with open_import_app(tmp_path) as app:
        app.write(path.name, claude.returns("t1", "deployed").says("Done").ends().records)
        assert (await app.take()).ok
        session = await app.session(claude.session)
        assert await app.dialog(session) == [*before, "deployed", "Done"]
        assert [str(turn.status) for turn in await app.turns(session)] == ["completed"]


@pytest.mark.parametrize("left", [b"", b"half of"])
async def test_a_key_of_imports_that_is_not_whole_is_drawn_anew(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "keys" / "import.key"
    path.parent.mkdir()
    path.write_bytes(left)
    key = import_key(path)
    assert len(key) == 32
    assert import_key(path) == path.read_bytes() == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["import.key"]
