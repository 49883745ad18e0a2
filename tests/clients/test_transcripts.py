"""Transcripts of current releases: everything in them is known, and they tell nothing again that hooks recorded."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.clients.desk import Desk, ended
from tests.clients.script import calls, ours, says
from tests.daemon.support import eventually

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FOLDERS = {"claude": ".claude/projects", "codex": ".codex/sessions"}
PATCH = "*** Begin Patch\n*** Add File: b.py\n+print(1)\n*** End Patch\n"


def work(desk: Desk, agent: str) -> None:
    """Let a client use its shell, its file tools, a subagent and one of our tools."""
    if agent == "claude":
        path = str(desk.work / "b.py")
        steps = [
            calls("Bash", command="echo x > a.txt; false", description="write"),
            calls("Write", file_path=path, content="print(1)\n"),
            calls("Edit", file_path=path, old_string="print(1)", new_string="print(2)"),
            calls("Agent", description="look", prompt="SUBWORK please", subagent_type="general-purpose"),
        ]
        desk.script.on("SUBWORK", calls("Bash", command="ls", description="list"), says("sub done"))
    else:
        steps = [
            calls("exec_command", cmd="echo x > a.txt; false"),
            calls("exec_command", cmd=f"apply_patch <<'E'\n{PATCH}E"),
            calls("spawn_agent", message="SUBWORK please"),
        ]
        desk.script.on("SUBWORK", calls("exec_command", cmd="ls"), says("sub done"))
    desk.script.on("Do it all", *steps, ours("query_history"), says("All done."))


def imported(desk: Desk, agent: str) -> Any:
    return desk.shown("import", str(desk.home / FOLDERS[agent]), "--full")


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_importing_after_a_recorded_run_changes_nothing_and_knows_every_record(
    agent: str, request: pytest.FixtureRequest
) -> None:
    desk: Desk = request.getfixturevalue(agent)
    work(desk, agent)
    done = desk.run(agent, "Do it all")
    desk.run(agent, "And more", *(["--resume", done.session] if agent == "claude" else []))
    desk.settle()
    first = imported(desk, agent)
    assert first["unknown"] == {}
    heads = {each["session_id"]: desk.session(each["session_id"])["session"]["head_hash"] for each in desk.sessions()}
    again = imported(desk, agent)
    assert (again["totals"]["entries"], again["totals"]["unknown_records"]) == (0, 0)
    for name, head in heads.items():
        assert desk.session(name)["session"]["head_hash"] == head


def test_codex_without_trusted_hooks_is_one_session_all_the_same(codex: Desk) -> None:
    codex.script.on("Fix it", ours("open_session", agent="Codex", title="My title"), says("ok"))
    done = codex.codex("Fix it", trusted=False)
    codex.settle()
    imported(codex, "codex")
    (session,) = codex.sessions()
    whole = codex.session(session["session_id"])
    assert (session["title"], whole["session"]["vendor_session_id"]) == ("My title", done.session)
    assert [turn["query_title"] for turn in whole["turns"]] == ["Fix it"]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_client_killed_in_mid_turn_is_handed_over_to_the_next(agent: str, request: pytest.FixtureRequest) -> None:
    desk: Desk = request.getfixturevalue(agent)
    hold = threading.Event()
    desk.script.on("Never ends", says("never", hold=hold))
    start = desk.start_claude if agent == "claude" else desk.start_codex
    running = start("Never ends")
    eventually(lambda: desk.script.told("Never ends") or None, within_s=60)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    hold.set()
    desk.run(agent, "Next work")
    told = desk.script.told("Next work")[0]
    assert "Shiftlog hand-over" in told.text
    assert "Never ends" in told.text


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_secret_that_is_typed_and_printed_is_kept_nowhere(agent: str, request: pytest.FixtureRequest) -> None:
    desk: Desk = request.getfixturevalue(agent)
    shown = f"echo token={SECRET}"
    step = calls("Bash", command=shown, description="x") if agent == "claude" else calls("exec_command", cmd=shown)
    desk.script.on("Use the key", step, says("Used."))
    desk.run(agent, f"Use the key {SECRET}")
    (session,) = desk.sessions()
    imported(desk, agent)
    for text in (
        desk.shiftlog("show", session["session_id"]),
        desk.shiftlog("export", session["session_id"]),
        desk.shiftlog("brief", "--session", session["session_id"], check=False),
    ):
        assert SECRET not in text
    desk.shiftlog("daemon", "stop", check=False)
    held = [path for path in Path(desk.state).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == []


def test_doctor_says_that_hooks_of_codex_are_not_trusted_and_how_to_trust_them(codex: Desk) -> None:
    checks = {check["name"]: check for check in codex.shown("doctor")["checks"]}
    assert checks["codex"]["state"] == "warn"
    assert "not trusted" in checks["codex"]["message"]
    codex.trust_codex_hooks()
    checks = {check["name"]: check for check in codex.shown("doctor")["checks"]}
    assert checks["codex"]["state"] == "ok"
    codex.codex("Recorded", trusted=False)
    (session,) = codex.sessions()
    assert session["title"] == "Recorded"
