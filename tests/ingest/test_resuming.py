"""A restored session in the real client: it sends what it would have sent with its own transcript.

Needs Claude Code below `build/`: `npm install --prefix build/npm @anthropic-ai/claude-code`. The client runs with an
empty environment and a home of its own, against a scripted API on loopback.
"""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.import_app import Claude, ImportApp, only, open_import_app, usage_of
from tests.ingest.messages_api import MessagesApi, serving
from tests.ingest.test_restoring import restored

BUILD = Path(__file__).parents[2] / "build"
CLIENTS = sorted(BUILD.glob("*/node_modules/@anthropic-ai/claude-code-*/claude"))
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
        "0000000049454e44ae426082"
    )
).decode()

pytestmark = pytest.mark.skipif(not CLIENTS, reason="Claude Code is not installed below build/")

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


def sent(api: MessagesApi, home: Path, work: Path, session: str) -> list[tuple[str, str]]:
    """Resume a session in the client with one more prompt; return the messages that it sends, as role and block."""
    environ = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    api.requests.clear()
    subprocess.run(
        [str(CLIENTS[-1]), "-p", "And now?", "--resume", session, "--output-format", "json"],
        env=environ,
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    messages: list[tuple[str, str]] = []
    for message in api.requests[-1]["messages"]:
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


async def test_a_restored_session_is_what_the_client_would_have_had(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    made = a_conversation(work)
    async with open_import_app(tmp_path) as app:
        records, about = await exported(app, made)
        before = await app.heads()
        path = app.folder / "restored.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        again = await app.take(path)
        assert (only(again).counts["entries"], await app.heads()) == (0, before), "an export brings nothing new"
    with serving() as api:
        put(tmp_path / "own", about["place"], made.records)
        put(tmp_path / "restored", about["place"], records)
        own = sent(api, tmp_path / "own", work, made.session)
        assert sent(api, tmp_path / "restored", work, made.session) == own
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
