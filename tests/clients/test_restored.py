"""A restored session in the real client: it sends what it would have sent with its own transcript."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, ended
from tests.clients.script import says
from tests.ingest.import_app import Claude, ImportApp, only, open_import_app, usage_of
from tests.ingest.test_restoring import restored

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
        "0000000049454e44ae426082"
    )
).decode()

Json = dict[str, Any]


def a_conversation(work: Path) -> Claude:
    """Return a transcript with what a client keeps for the model beside prompts and answers."""
    made = Claude(common={"cwd": str(work), "gitBranch": "feature/x", "userType": "external"})
    made.prompt("Lost by the compaction").says("Old answer").ends()
    boundary: Json = {
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": {"trigger": "manual", "preTokens": 1000},
        "logicalParentUuid": made.records[-1]["uuid"],
    }
    made.add("system", **boundary)
    made.records[-1]["parentUuid"] = None
    summary = {"role": "user", "content": "Summary of what was before."}
    made.add("user", message=summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
    command = (
        "<command-message>greet</command-message>\n<command-name>/greet</command-name>\n<command-args>me</command-args>"
    )
    made.add("user", message={"role": "user", "content": command})
    body = [{"type": "text", "text": "The body of the skill: greet politely."}]
    made.add("user", message={"role": "user", "content": body}, isMeta=True)
    made.says("Good day").ends()
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    seen = [{"type": "text", "text": "What is in the picture?"}, picture]
    made.add("user", message={"role": "user", "content": seen})
    made.calls("toolu_01AbCdEfGhIjKlMnOpQr", command="ls").returns("toolu_01AbCdEfGhIjKlMnOpQr", "a.py")
    made.says("One pixel").ends()
    left = made.records[-1]["uuid"]
    made.prompt("A wrong way").says("Wrong").ends()
    made.prompt("The right way")
    made.records[-1]["parentUuid"] = left
    made.says("Right").ends()
    for number, record in enumerate(made.records):
        if record["type"] == "assistant":
            record["message"] |= {"id": f"msg_{number:024d}", "type": "message", "usage": usage_of(7, number, 0, 9)}
            record["requestId"] = f"req_{number:024d}"
    return made


def sent(harness: ClientHarness, home: Path, session: str) -> list[tuple[str, str]]:
    """Resume a session in the client with one more prompt; return the messages that it sends, as role and block."""
    before = len(harness.script.requests)
    done = harness.claude("And now?", "--resume", session, HOME=str(home))
    assert done.code == 0, done.out + done.err
    asked = [request for request in harness.script.requests[before:] if request.tools]
    messages: list[tuple[str, str]] = []
    for message in asked[-1].body["messages"]:
        content = message["content"]
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            block.pop("cache_control", None)
            messages.append((message["role"], block.get("text") or json.dumps(block, sort_keys=True)))
    # The client adds reminders of its own, which depend on the day and on what is installed.
    return [(role, text) for role, text in messages if role != "system" and "<system-reminder>" not in text]


def put(home: Path, place: str, records: list[Json]) -> None:
    path = home / ".claude" / place
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


async def exported(app: ImportApp, made: Claude) -> tuple[list[Json], Json]:
    await app.take(app.write(f"{made.session}.jsonl", made.records), keep_images=True)
    return await restored(app, await app.session(made.session), "claude")


@tries("export")
def test_codex_resumes_what_the_journal_gives_back_under_its_own_provider(codex: ClientHarness) -> None:
    """The provider is that of the session where it is known, else that of the settings."""
    codex.script.on("First", says("Half done."))
    done = codex.codex("First")
    (session,) = codex.sessions()
    (rollout,) = (codex.home / ".codex" / "sessions").rglob("rollout-*.jsonl")
    for number, known in enumerate((True, False)):
        if not known:
            rollout.unlink()
        codex.shiftlog("export", session["session_id"], "--as", "codex", "-o", "restored.jsonl")
        text = (codex.work / "restored.jsonl").read_text()
        assert ("model_provider" in text.splitlines()[0]) == known
        rollout.write_text(text)
        prompt = f"Go on {number}"
        codex.script.on(prompt, says("Going on."))
        resumed = ended(codex.start_codex(prompt, resume=done.session))
        assert resumed.code == 0, resumed.out + resumed.err
        assert "Half done." in codex.script.told(prompt)[-1].text


@tries("export")
async def test_a_restored_session_is_what_the_client_would_have_had(claude: ClientHarness, tmp_path: Path) -> None:
    made = a_conversation(claude.work)
    async with open_import_app(tmp_path) as app:
        records, about = await exported(app, made)
        before = await app.heads()
        path = app.folder / "restored.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        again = await app.take(path)
        assert (only(again).counts["entries"], await app.heads()) == (0, before), "an export brings nothing new"
    put(tmp_path / "own", about["place"], made.records)
    put(tmp_path / "restored", about["place"], records)
    own = sent(claude, tmp_path / "own", made.session)
    assert sent(claude, tmp_path / "restored", made.session) == own
    spent = [record["message"]["usage"]["output_tokens"] for record in records if record["type"] == "assistant"]
    assert spent == [record["message"]["usage"]["output_tokens"] for record in made.records if "requestId" in record]
    assert {record["gitBranch"] for record in records if "uuid" in record} == {"feature/x"}
    texts = "\n".join(text for _, text in own)
    for kept in (
        "Summary of what was before",
        "body of the skill",
        "/greet",
        "One pixel",
        PNG,
        "The right way",
        "a.py",
    ):
        assert kept in texts
    assert "Lost by the compaction" not in texts
    assert "A wrong way" not in texts
