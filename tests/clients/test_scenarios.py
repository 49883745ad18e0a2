"""What happens around a turn in the real clients: people who edit, interrupts, links, subagents at once, big output."""

import json
import os
import signal
import threading

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, ended
from tests.clients.script import Call, Json, Request, Scripted, Step, calls, ours, says
from tests.clients.test_guard import results, running, switch_on
from tests.clients.test_one_session import answer
from tests.clients.test_rewinding import resumed
from tests.clients.test_undo import files
from tests.daemon.support import eventually

BOTH = pytest.mark.parametrize("agent", ["claude", "codex"])


def bash(agent: str, command: str) -> Step:
    """Return a call of the client's shell tool that may take a minute."""
    if agent == "claude":
        return calls("Bash", command=command)
    return calls("exec_command", cmd=command, yield_time_ms=60_000)


def turns_of(harness: ClientHarness) -> list[Json]:
    """Return the turns of the only session, when its checkpoints are made."""
    (session,) = harness.sessions()
    harness.shiftlog("checkpoints")
    return harness.shown("show", session["session_id"])["turns"]


@tries("rewind")
@BOTH
def test_what_a_person_edits_between_two_turns_stays_when_the_second_is_rewound(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    for name in ("one", "two"):
        command = f"echo {name} > {name}.txt; echo {name} >> both.txt"
        harness.script.on(f"Make {name}", bash(agent, command), says(f"Made {name}."))
    first = harness.run(agent, "Make one")
    turns_of(harness)
    for name in ("both.txt", "mine.txt"):
        (harness.work / name).write_text("mine\n")
    resumed(harness, agent, first.session, "Make two")
    _, second = turns_of(harness)
    done = harness.shown("rewind", second["request_id"], "--with-conversation")
    assert files(harness.work) == {"one.txt": "one\n", "both.txt": "mine\n", "mine.txt": "mine\n"}
    harness.script.on("Go on", says("Going on."))
    resumed(harness, agent, done["conversation"]["vendor_session_id"], "Go on")
    told = harness.script.told("Go on")[-1].text
    assert ("Made one." in told, "Make two" in told) == (True, False)


@tries("subagents")
def test_subagents_that_run_at_once_have_a_child_session_each(claude: ClientHarness) -> None:
    both = threading.Barrier(2, timeout=60)
    names = ("LEFTWORK", "RIGHTWORK")

    def together(request: Request) -> Step:
        both.wait()
        return ours("open_session", agent="ClaudeCode", title="part")

    def spawned(name: str) -> Call:
        given = {"description": name, "prompt": f"{name} please", "subagent_type": "general-purpose"}
        return Call(name="Agent", arguments=given)

    claude.script.on("Delegate", Step(calls=[spawned(name) for name in names]), says("Both done."))
    for name in names:
        claude.script.on(name, bash("claude", f"echo {name} > {name}.txt"), together, says(f"{name} done"))
    claude.claude("Delegate")
    opened = [answer(claude.script.told(name)[-1]) for name in names]
    assert len({one["session_id"] for one in opened}) == len(names)
    assert not any(one.get("attribution") for one in opened)
    (session,) = claude.sessions()
    assert {claude.lineage(each)["parent_session_id"] for each in opened} == {session["session_id"]}
    claude.shiftlog("undo")
    assert files(claude.work) == {}


@tries("undo")
@BOTH
def test_a_workspace_that_is_a_link_is_written_in_the_sandbox_and_undone(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    switch_on(harness, agent, "enforce")
    real = harness.root / "real"
    harness.work.rename(real)
    harness.work.symlink_to(real)
    (real / "kept.txt").write_text("kept\n")
    steps: list[Scripted] = [bash(agent, "mv kept.txt a.txt")]
    if agent == "claude":
        steps.append(calls("Write", file_path=str(harness.work / "b.py"), content="2\n"))
    said = results(harness, agent, *steps, bash(agent, "echo 3 > c.txt"))
    expected = {"a.txt": "kept\n", "c.txt": "3\n"} | ({"b.py": "2\n"} if agent == "claude" else {})
    assert files(real) == expected, said
    turns_of(harness)
    harness.shiftlog("undo")
    assert files(real) == {"kept.txt": "kept\n"}


@tries("undo")
def test_a_notebook_that_is_edited_is_undone(claude: ClientHarness) -> None:
    cell: Json = {
        "cell_type": "code",
        "id": "a1",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": "1",
    }
    before = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    path = claude.work / "n.ipynb"
    path.write_text(before)
    edit = calls("NotebookEdit", notebook_path=str(path), cell_id="a1", new_source="2")
    claude.script.on("Edit it", calls("Read", file_path=str(path)), edit, says("ok"))
    claude.claude("Edit it")
    assert path.read_text() != before
    (turn,) = turns_of(claude)
    assert (turn["files_modified"], turn["files_seen"]) == (["n.ipynb"], [])
    claude.shiftlog("undo")
    assert path.read_text() == before


@tries("restarts")
@BOTH
@pytest.mark.parametrize("mode", ["watch", "enforce"])
def test_an_interrupted_command_ends_and_the_next_prompt_goes_on_in_its_session(
    agent: str, mode: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    switch_on(harness, agent, mode)
    nap = f"sleep 61.{os.getpid()}"
    harness.script.on("Wait", bash(agent, f"echo x > a.txt; {nap}"), says("never"))
    process = harness.start_claude("Wait") if agent == "claude" else harness.start_codex("Wait")
    eventually(lambda: running(nap) or None)
    process.send_signal(signal.SIGINT)
    done = ended(process)
    eventually(lambda: not running(nap) or None)
    harness.settle()
    harness.script.on("Go on", says("Going on."))
    resumed(harness, agent, done.session, "Go on")
    turns = turns_of(harness)
    told = [(turn["query_text"], turn["status"], turn["files_seen"]) for turn in turns]
    assert told == [("Wait", "failed", ["a.txt"]), ("Go on", "completed", [])]
    assert turns[0]["failure_note"] == "Turn aborted: interrupted"
    harness.shiftlog("rewind", turns[0]["request_id"])
    assert files(harness.work) == {}


@tries("sandbox")
@BOTH
def test_a_huge_output_and_its_status_reach_the_model_as_the_client_cuts_them(
    agent: str, request: pytest.FixtureRequest
) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    switch_on(harness, agent, "enforce")
    (said,) = results(harness, agent, bash(agent, "seq 1 3000000; echo end >&2; exit 4"))
    assert "1\n2\n3\n" in said
    assert "4" in said.split("1\n2\n3\n")[0]  # the status
    assert len(said) < 100_000
    (finished,) = [entry for entry in turns_of(harness) if entry["query_text"] == "Go"]
    assert finished["status"] == "completed"
