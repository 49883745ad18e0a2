"""One client is one session: its hooks, its calls of our tools, its subagents; and what restarts make of it."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.clients.features import tries
from tests.clients.harness import ClientHarness, ended
from tests.clients.script import Json, Request, Step, calls, ours, says
from tests.clients.tools import HOOKED, KINDS, shell


def answer(request: Request, number: int = -1) -> Json:
    """Return what one of our tools answered, as JSON; some clients put lines of their own around it."""
    text = request.results[number]
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def turns(harness: ClientHarness, session: Json) -> list[Any]:
    return [turn["query_title"] for turn in harness.session(session["session_id"])["turns"]]


@tries("one session")
@pytest.mark.parametrize("agent", HOOKED)
def test_opening_a_session_in_a_client_joins_the_one_of_its_hooks(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on("Fix it", ours("open_session", agent=KINDS[agent], title="My own title"), says("ok"))
    done = harness.run(agent, "Fix it")
    opened = answer(harness.script.told("Fix it")[-1])
    assert opened["joined"] is True
    (session,) = harness.sessions()
    assert (session["session_id"], session["title"]) == (opened["session_id"], "My own title")
    assert turns(harness, session) == ["Fix it"]
    assert harness.session(session["session_id"])["session"]["vendor_session_id"] == done.session


@tries("restarts")
def test_the_last_work_is_resumed_by_the_kind_alone(claude: ClientHarness) -> None:
    claude.script.on("First work", says("Half done."))
    claude.script.on("Go on", ours("resume_session", agent_id="ClaudeCode"), says("ok"))
    first = claude.claude("First work")
    claude.settle()
    claude.claude("Go on")
    resumed = answer(claude.script.told("Go on")[-1])
    assert first.session in resumed["data"]["resumed_session_id"]
    assert len(claude.sessions()) == 2


@tries("restarts")
def test_a_client_alone_has_nothing_to_resume(claude: ClientHarness) -> None:
    claude.script.on("Go on", ours("resume_session", agent_id="ClaudeCode"), says("ok"))
    claude.claude("Go on")
    assert answer(claude.script.told("Go on")[-1])["code"] == "no_resumable_session"


@tries("subagents")
def test_a_subagent_works_in_its_child_session_and_resumes_neither_it_nor_its_parent(claude: ClientHarness) -> None:
    claude.script.on("First work", says("Half done."))
    first = claude.claude("First work")
    claude.settle()
    spawn = calls("Agent", description="look", prompt="SUBWORK please", subagent_type="general-purpose")
    own = ours("open_session", agent="ClaudeCode", title="The main work")
    claude.script.on("Delegate", spawn, own, says("Waiting."))
    claude.script.on(
        "SUBWORK",
        ours("open_session", agent="ClaudeCode", title="The part"),
        ours("resume_session", agent_id="ClaudeCode"),
        says("sub done"),
    )
    main = claude.claude("Delegate")
    part, resumed = (json.loads(result) for result in claude.script.told("SUBWORK")[-1].results[:2])
    assert part["joined"]
    assert "-agent-" in part["session_id"]
    assert first.session in resumed["data"]["resumed_session_id"]
    opened = answer(claude.script.told("Delegate")[-1], 1)
    assert (opened["joined"], main.session in opened["session_id"]) == (True, True)
    assert [each["title"] for each in claude.sessions()][-1] == "The main work"


@tries("subagents")
def test_a_subagent_of_codex_works_in_its_child_session(codex: ClientHarness) -> None:
    done = threading.Event()

    def finish(request: Request) -> Step:
        done.set()
        return says("sub done")

    spawn = calls("spawn_agent", message="SUBWORK please", task_name="part")
    codex.script.on("Delegate", spawn, says("All done.", hold=done))
    codex.script.on("SUBWORK", ours("open_session", agent="Codex", title="The part"), finish)
    main = codex.codex("Delegate")
    part = answer(codex.script.told("SUBWORK")[-1])
    (session,) = codex.sessions()
    assert main.session in session["session_id"]
    assert part["joined"]
    assert codex.lineage(part)["parent_session_id"] == session["session_id"]


@tries("one session")
def test_two_clients_in_one_folder_have_a_session_each(claude: ClientHarness) -> None:
    both = threading.Barrier(2, timeout=60)

    def together(request: Request) -> Step:
        both.wait()
        return says("ok")

    for name in ("Alpha", "Beta"):
        claude.script.on(f"{name} task", ours("open_session", agent="ClaudeCode", title=name), together)
    running = [claude.start_claude(f"{name} task") for name in ("Alpha", "Beta")]
    done = [ended(process) for process in running]
    found = {session["title"]: session for session in claude.sessions()}
    assert set(found) == {"Alpha", "Beta"}
    for name, run in zip(("Alpha", "Beta"), done, strict=True):
        assert run.session in found[name]["session_id"]
        assert turns(claude, found[name]) == [f"{name} task"]


@tries("restarts")
def test_a_resumed_client_goes_on_in_its_session_and_a_fork_is_a_session_beside_it(claude: ClientHarness) -> None:
    first = claude.claude("One")
    again = claude.claude("Two", "--resume", first.session)
    last = claude.claude("Three", "--continue")
    fork = claude.claude("Four", "--resume", first.session, "--fork-session")
    assert first.session == again.session == last.session != fork.session
    one, other = claude.sessions()
    assert turns(claude, one) == ["One", "Two", "Three"]
    assert turns(claude, other) == ["Four"]
    assert claude.lineage(other)["forked_from"] == one["session_id"]


@tries("restarts")
def test_clear_ends_a_session_and_the_next_one_follows_it(claude: ClientHarness) -> None:
    claude.script.on("After", ours("open_session", agent="ClaudeCode", title="Afresh"), says("ok"))
    claude.converse("Before", "/clear", "After")
    before, after = claude.sessions()
    assert turns(claude, before) == ["Before"]
    assert (turns(claude, after), after["title"]) == (["After"], "Afresh")
    assert claude.lineage(after)["predecessor_session_id"] == before["session_id"]


@tries("restarts")
def test_compaction_goes_on_in_the_same_session(claude: ClientHarness) -> None:
    claude.script.on("After", ours("open_session", agent="ClaudeCode", title="Still the same"), says("ok"))
    claude.converse("Before", "/compact", "After")
    (session,) = claude.sessions()
    assert session["title"] == "Still the same"
    assert [title for title in turns(claude, session) if title in ("Before", "After")] == ["Before", "After"]


@tries("subagents")
def test_a_client_that_an_agent_starts_has_a_child_session(claude: ClientHarness) -> None:
    inner = " ".join(claude.claude_command("Inner task"))
    claude.script.on("Outer task", calls("Bash", command=f"{inner} > inner.log 2>&1", timeout=90_000), says("ok"))
    claude.script.on("Inner task", ours("open_session", agent="ClaudeCode", title="Inner"), says("ok"))
    outer = claude.claude("Outer task")
    found = {session["title"]: session for session in claude.sessions(children=True)}
    assert set(found) == {"Outer task", "Inner"}, (claude.work / "inner.log").read_text()
    assert outer.session in found["Outer task"]["session_id"]
    assert claude.lineage(found["Inner"])["parent_session_id"] == found["Outer task"]["session_id"]


@tries("subagents")
def test_a_subagent_of_opencode_works_in_its_child_session(opencode: ClientHarness) -> None:
    spawn = calls("task", description="look", prompt="SUBWORK please", subagent_type="general")
    opencode.script.on("Delegate it", spawn, says("Waiting."))
    opencode.script.on("SUBWORK", shell("opencode", "ls"), says("Looked."))
    opencode.opencode("Delegate it")
    (parent,) = opencode.sessions()
    (child,) = [each for each in opencode.sessions(children=True) if each["session_id"] != parent["session_id"]]
    assert turns(opencode, parent) == ["Delegate it"]
    assert turns(opencode, child) == ["SUBWORK please"]
    assert opencode.lineage(child)["parent_session_id"] == parent["session_id"]


@tries("restarts")
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_a_client_that_goes_on_has_the_same_session(agent: str, request: pytest.FixtureRequest) -> None:
    harness: ClientHarness = request.getfixturevalue(agent)
    harness.script.on("First work", says("Half done."))
    harness.script.on("Second work", says("Done."))
    first = harness.run(agent, "First work")
    if agent == "codex":
        ended(harness.start_codex("Second work", resume=first.session))
    else:
        harness.run(agent, "Second work", *{"gemini": ["--resume", "latest"], "opencode": ["-s", first.session]}[agent])
    (session,) = harness.sessions()
    assert turns(harness, session) == ["First work", "Second work"]


@tries("restarts")
def test_compaction_of_codex_goes_on_in_the_same_session(codex: ClientHarness) -> None:
    """It compacts in the middle of a turn when the tokens that the model counted pass its limit."""
    listing = replace(shell("codex", "ls"), tokens_in=50_000)
    codex.script.on("Do it all", lambda request: says("All done.") if "THE SUMMARY" in request.text else listing)
    codex.script.on("COMPACTION", says("THE SUMMARY"))
    done = codex.codex("Do it all", "-c", "model_auto_compact_token_limit=10000")
    assert done.code == 0, done.out + done.err
    assert codex.script.told("COMPACTION"), "it did not compact"
    (session,) = codex.sessions()
    assert done.session in session["session_id"]
    assert turns(codex, session) == ["Do it all"]


@tries("one session")
def test_a_turn_that_an_agent_begins_is_that_of_its_prompt_although_hooks_were_lost(claude: ClientHarness) -> None:
    """The stop of the first prompt and the hook of the second one are lost."""
    lost = claude.root / "lost"
    hooks = claude.state / "plugins" / "shiftlog" / "hooks" / "hooks.json"
    document = json.loads(hooks.read_text())
    for event in ("UserPromptSubmit", "Stop"):
        for hook in (one for group in document["hooks"][event] for one in group["hooks"]):
            hook["command"] = f"[ -e {lost} ] || {hook['command']}"
    hooks.write_text(json.dumps(document))

    def lose(_: Request) -> Step:
        lost.touch()
        return says("First done.")

    def begin(request: Request) -> Step:
        session = answer(request)["session_id"]
        return ours("begin_turn", session_id=session, query_title="The second", query_text="My words")

    opened = ours("open_session", agent="ClaudeCode", title="Both")
    claude.script.on("First prompt", opened, lose)
    claude.script.on("Second prompt", opened, begin, says("Second done."))
    claude.converse("First prompt", "Second prompt")
    (session,) = claude.sessions()
    name = session["session_id"]
    claude.shown("import", str(claude.home / ".claude" / "projects"))
    told = [(turn["query_text"], turn["response"]) for turn in claude.session(name)["turns"]]
    assert told == [("First prompt", "First done."), ("My words", "Second done.")]
