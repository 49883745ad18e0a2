"""Transcripts of current releases: everything in them is known, and they tell nothing again that hooks recorded."""

import json
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, ended
from tests.clients.script import Json, Request, Step, calls, ours, says
from tests.clients.tools import HOOKED, TRANSCRIPTS, shell, write
from tests.daemon.support import eventually

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PATCH = "*** Begin Patch\n*** Add File: b.py\n+print(1)\n*** End Patch\n"


def work(harness: ClientHarness, agent: str) -> None:
    """Let a client use its shell, its file tools, a subagent and one of our tools."""
    if agent == "claude":
        path = str(harness.work / "b.py")
        steps = [
            calls("Bash", command="echo x > a.txt; false", description="write"),
            calls("Write", file_path=path, content="print(1)\n"),
            calls("Edit", file_path=path, old_string="print(1)", new_string="print(2)"),
            calls("Agent", description="look", prompt="SUBWORK please", subagent_type="general-purpose"),
        ]
        harness.script.on("SUBWORK", calls("Bash", command="ls", description="list"), says("sub done"))
    elif agent == "codex":
        steps = [
            calls("exec_command", cmd="echo x > a.txt; false"),
            calls("exec_command", cmd=f"apply_patch <<'E'\n{PATCH}E"),
            calls("spawn_agent", message="SUBWORK please"),
        ]
        harness.script.on("SUBWORK", calls("exec_command", cmd="ls"), says("sub done"))
    else:
        path = harness.work / "b.py"
        names = (
            ("filePath", "oldString", "newString") if agent == "opencode" else ("file_path", "old_string", "new_string")
        )
        edit = dict(zip(names, (str(path), "print(1)", "print(2)"), strict=True))
        steps = [
            shell(agent, "echo x > a.txt; false"),
            write(agent, path, "print(1)\n"),
            calls("edit", **edit) if agent == "opencode" else calls("replace", instruction="change it", **edit),
        ]
        if agent == "opencode":
            steps.append(calls("task", description="look", prompt="SUBWORK please", subagent_type="general"))
            harness.script.on("SUBWORK", shell(agent, "ls"), says("sub done"))
    harness.script.on("Do it all", *steps, ours("query_history"), says("All done."))


def imported(harness: ClientHarness, agent: str) -> Any:
    return harness.shown("import", str(harness.home / TRANSCRIPTS[agent]), "--full")


@tries("transcripts")
@pytest.mark.parametrize("agent", HOOKED)
def test_importing_after_a_recorded_run_changes_nothing_and_knows_every_record(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    work(harness, agent)
    done = harness.run(agent, "Do it all")
    harness.run(agent, "And more", *(["--resume", done.session] if agent == "claude" else []))
    harness.settle()
    first = imported(harness, agent)
    assert first["unknown"] == {}
    heads = {
        each["session_id"]: harness.session(each["session_id"])["session"]["head_hash"] for each in harness.sessions()
    }
    again = imported(harness, agent)
    assert (again["totals"]["entries"], again["totals"]["unknown_records"]) == (0, 0)
    for name, head in heads.items():
        assert harness.session(name)["session"]["head_hash"] == head


@tries("record")
def test_codex_with_trusted_hooks_is_recorded_as_its_rollout_says(codex: ClientHarness) -> None:
    """Case 16: turns, tool calls and usage, also of a subagent."""
    codex.trust_codex_hooks()
    ended_below = threading.Event()

    def finish(_: Request) -> Step:
        ended_below.set()
        return says("sub done")

    codex.script.on(
        "Do it all",
        shell("codex", "echo x > a.txt; false"),
        shell("codex", f"apply_patch <<'E'\n{PATCH}E"),
        calls("spawn_agent", message="SUBWORK please", task_name="part"),
        ours("query_history"),
        says("All done.", hold=ended_below),
    )
    codex.script.on("SUBWORK", shell("codex", "ls"), finish)
    done = codex.codex("Do it all", trusted=False)  # by the user's trust alone
    codex.settle()
    found = codex.sessions()
    assert [done.session in each["session_id"] for each in found] == [True], found
    session = found[0]
    (child,) = [each for each in codex.sessions(children=True) if each["session_id"] != session["session_id"]]
    assert codex.lineage(child)["parent_session_id"] == session["session_id"]
    told_as_in_rollout(codex, session, "Do it all")
    told_as_in_rollout(codex, child, "SUBWORK please")


def told_as_in_rollout(codex: ClientHarness, session: Json, prompt: str) -> None:
    """Compare a session with the rollout of its thread: turns, tool calls, usage."""
    name = session["session_id"]
    thread = codex.session(name)["session"]["vendor_session_id"]
    (rollout,) = (codex.home / ".codex" / "sessions").rglob(f"rollout-*{thread}.jsonl")
    records = [json.loads(line) for line in rollout.read_text().splitlines()]
    payloads = [record["payload"] for record in records if record["type"] in ("response_item", "event_msg")]
    whole = eventually(lambda: ((one := codex.session(name))["turns"][0]["status"] == "completed" and one) or None)
    said = [one["content"][-1]["text"] for one in payloads if one["type"] == "message" and one["role"] == "user"]
    asked = [text for text in said if not text.startswith(("<", "#"))]  # the rest is context of the client's own
    assert [turn["query_text"] for turn in whole["turns"]] == asked == [prompt]
    made = [one["call_id"] for one in payloads if one["type"] in ("function_call", "custom_tool_call")]
    assert [body["call_id"] for body in dialog(codex, session) if body.get("category") == "tool_call"] == made
    spent = [one["info"]["total_token_usage"] for one in payloads if one["type"] == "token_count" and one["info"]][-1]
    usage = whole["session"]["usage"]
    assert (usage["input_tokens"] + usage["cached_input_tokens"], usage["output_tokens"]) == (
        spent["input_tokens"],
        spent["output_tokens"],
    )


def dialog(harness: ClientHarness, session: Json) -> list[Json]:
    lines = harness.shiftlog("export", session["session_id"], "--format", "jsonl", "-o", "-").splitlines()
    return [entry["body"] for line in lines if (entry := json.loads(line)).get("kind") == "dialog"]


@tries("one session")
def test_codex_without_trusted_hooks_is_one_session_all_the_same(codex: ClientHarness) -> None:
    codex.script.on("Fix it", ours("open_session", agent="Codex", title="My title"), says("ok"))
    done = codex.codex("Fix it", trusted=False)
    codex.settle()
    imported(codex, "codex")
    (session,) = codex.sessions()
    whole = codex.session(session["session_id"])
    assert (session["title"], whole["session"]["vendor_session_id"]) == ("My title", done.session)
    assert [turn["query_title"] for turn in whole["turns"]] == ["Fix it"]


@tries("brief")
@pytest.mark.parametrize("agent", HOOKED)
def test_a_client_killed_in_mid_turn_is_handed_over_to_the_next(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    hold = threading.Event()
    harness.script.on("Never ends", says("never", hold=hold))
    running = harness.start(agent, "Never ends")
    eventually(lambda: harness.script.told("Never ends") or None, within_s=60)
    os.killpg(running.pid, signal.SIGKILL)
    killed = ended(running)
    hold.set()
    (left,) = harness.sessions()
    # The daemon looks every thirty seconds for clients that are gone.
    eventually(lambda: harness.session(left["session_id"])["session"]["state"] == "suspended" or None, within_s=90)
    assert "interrupted" in harness.shiftlog("show", left["session_id"]), killed.out
    harness.run(agent, "Next work")
    told = harness.script.told("Next work")[0]
    assert "Shiftlog hand-over" in told.text
    assert "Never ends" in told.text


@tries("daemon killed")
@pytest.mark.parametrize("agent", HOOKED)
def test_a_daemon_killed_in_mid_turn_loses_nothing_of_the_turn(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)

    def kill(_: Request) -> Step:
        pid = int((harness.state / "daemon.lock").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        return shell(agent, "echo two > two.txt")

    harness.script.on("Write both", shell(agent, "echo one > one.txt"), kill, says("Both are there."))
    done = harness.run(agent, "Write both")
    assert done.code == 0, done.out + done.err
    assert {path.name for path in harness.work.iterdir()} == {"one.txt", "two.txt"}
    (session,) = harness.sessions()
    name = session["session_id"]
    eventually(lambda: harness.session(name)["turns"][0]["status"] == "completed" or None)
    (turn,) = harness.session(name)["turns"]
    assert (turn["query_text"], turn["response"]) == ("Write both", "Both are there.")
    called = [body for body in dialog(harness, session) if body.get("category") == "tool_call"]
    assert len(called) == 2
    harness.shiftlog("checkpoints")
    harness.shiftlog("undo")
    assert list(harness.work.iterdir()) == []


@tries("secrets")
@pytest.mark.parametrize("agent", HOOKED)
def test_a_secret_that_is_typed_and_printed_is_kept_nowhere(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on("Use the key", shell(agent, f"echo token={SECRET}"), says("Used."))
    done = harness.run(agent, f"Use the key {SECRET}")
    (session,) = harness.sessions()
    imported(harness, agent)
    name = session["session_id"]
    record, brief = harness.shiftlog("show", name), harness.shiftlog("brief")
    page = harness.shiftlog("export", name, "--format", "html", "-o", "-")
    for text in (record, page, brief, *served(harness, name)):
        assert SECRET not in text
        assert "REDACTED" in text
    if agent in ("claude", "codex"):
        rewound(harness, agent, done.session, name)
    harness.shiftlog("daemon", "stop", check=False)
    held = [path for path in Path(harness.state).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == []


def served(harness: ClientHarness, name: str) -> Iterator[str]:
    """Yield a session as the page shows it, and its JSON twin."""
    (harness.state / "config.toml").write_text("[http]\nenabled = true\nport = 0\n")
    harness.shiftlog("daemon", "stop", check=False)
    harness.settle()
    place = urlsplit(eventually(lambda: harness.shown("status").get("http")))
    token = (harness.state / "http.token").read_text().strip()
    for path in (f"/sessions/{name}", f"/sessions/{name}.json"):
        request = urllib.request.Request(f"http://{place.netloc}{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            yield answer.read().decode()


def rewound(harness: ClientHarness, agent: str, vendor_id: str, name: str) -> None:
    """Go back to the turn after the secret: the new transcript has it masked, and the command says so."""
    if agent == "claude":
        harness.claude("More", "--resume", vendor_id)
    else:
        ended(harness.start_codex("More", resume=vendor_id))
    harness.settle()
    harness.shiftlog("checkpoints")
    last = harness.session(name)["turns"][-1]["request_id"]
    before = set((harness.home / TRANSCRIPTS[agent]).rglob("*.jsonl"))
    said = harness.shiftlog("rewind", last, "--with-conversation")
    assert "masked" in said
    (new,) = set((harness.home / TRANSCRIPTS[agent]).rglob("*.jsonl")) - before
    text = new.read_text()
    assert SECRET not in text
    assert "REDACTED" in text


@tries("doctor")
def test_doctor_says_that_hooks_of_codex_are_not_trusted_and_how_to_trust_them(codex: ClientHarness) -> None:
    checks = {check["name"]: check for check in codex.shown("doctor")["checks"]}
    assert checks["codex"]["state"] == "warn"
    assert "not trusted" in checks["codex"]["message"]
    codex.trust_codex_hooks()
    checks = {check["name"]: check for check in codex.shown("doctor")["checks"]}
    assert checks["codex"]["state"] == "ok"
    codex.codex("Recorded", trusted=False)
    (session,) = codex.sessions()
    assert session["title"] == "Recorded"


@tries("doctor")
@pytest.mark.parametrize("agent", ["claude", "gemini", "opencode"])
def test_doctor_says_that_hooks_run_and_when_they_are_missing(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)

    def found() -> Json:
        return {check["name"]: check for check in harness.shown("doctor")["checks"]}[agent]

    assert (found()["state"], "no event seen yet" in found()["message"]) == ("ok", True)
    harness.run(agent, "Recorded")
    harness.settle()
    assert (found()["state"], "last event" in found()["message"]) == ("ok", True)
    switches: dict[str, Json] = {"claude": {"disableAllHooks": True}, "gemini": {"hooksConfig": {"enabled": False}}}
    if agent in switches:
        path = harness.home / f".{agent}" / "settings.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | switches[agent]))
        expected = "hooks are switched off"
    else:
        (harness.home / ".config" / "opencode" / "plugins" / "shiftlog.js").unlink()
        expected = "is missing"
    assert (found()["state"], expected in found()["message"]) == ("warn", True), found()
