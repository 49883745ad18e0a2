"""Subagents of Claude Code: all layouts feed one child each, tied to the right call."""

from shiftlog.facts.transcript import (
    ChildLink,
    DialogItem,
    Hints,
    Note,
    SessionOpened,
    Subagent,
    ToolCall,
    TurnBegun,
    VendorSession,
)
from shiftlog.ingest.readers.claude.reader import ClaudeReader
from tests.ingest.readers.claude.tally import OWN, SESSION, Script, Tally, call, hints_of, read, read_file, read_script

LIBRARY = "5e551000-0000-4000-8000-000000000003"


def child_file(**hints: object) -> tuple[ClaudeReader, Tally]:
    script = Script()
    script.user("Look around", isSidechain=True)
    script.model("Seen", isSidechain=True)
    known = {"session_id": "agent-x", "agent_id": "x", **hints}
    return read(script.lines(), Hints(**known))  # pyright: ignore[reportArgumentType]


def test_the_result_of_a_task_names_its_child_and_the_file_is_that_child() -> None:
    """Case 28, both layouts: the flat one and the nested one differ only in what the caller knows."""
    script = Script()
    script.user("Go")
    script.model(call("t1", "Task", subagent_type="scout", description="look", prompt="Look around"))
    script.result("t1", "Seen", toolUseResult={"agentId": "x"})
    tally = read_script(script)
    (link,) = tally.all(ChildLink)
    (begun,) = tally.all(TurnBegun)
    assert (link.child_agent_id, link.call_id, link.name, link.turn) == ("x", "t1", "scout", begun.turn)
    for hints in ({}, {"parent_id": SESSION, "sidecar": {"agentType": "scout", "spawnDepth": 1}}):
        _, child = child_file(**hints)
        (opened,) = child.all(SessionOpened)
        assert opened.session == VendorSession(SESSION, "x")
        assert opened.parent is not None
        assert opened.parent.session == VendorSession(SESSION)
        assert child.turns() == [("Look around", "completed")]
    assert opened.subagent == Subagent(kind="subagent", name="scout", depth=1)


def test_a_record_may_name_its_child_in_the_session_id() -> None:
    script = Script(session=f"{SESSION}#agent-x")
    script.user("Look", isSidechain=True, agentId="x")
    _, tally = read(script.lines(), Hints(agent_id="x", parent_id=SESSION, run_id="wf_1"))
    (opened,) = tally.all(SessionOpened)
    assert opened.session == VendorSession(SESSION, "x")
    assert opened.parent is not None
    assert opened.parent.run_id == "wf_1"


def test_a_workflow_ties_all_children_of_its_run() -> None:
    script = Script()
    script.user("Go")
    script.model(call("t1", "Workflow", script="…"))
    script.result("t1", toolUseResult={"runId": "wf_1", "taskId": "task_1"})
    (link,) = read_script(script).all(ChildLink)
    assert (link.run_id, link.call_id, link.child_agent_id) == ("wf_1", "t1", None)


def test_a_notice_names_the_child_whose_task_ended() -> None:
    script = Script()
    script.user("Go")
    script.model("Waiting")
    script.user("<task-notification><task-id>x</task-id><tool-use-id>t1</tool-use-id></task-notification>")
    (link,) = read_script(script).all(ChildLink)
    assert (link.child_agent_id, link.call_id) == ("x", "t1")


def test_progress_records_make_a_child_and_its_file_adds_nothing_twice() -> None:
    """Case 30."""
    _, tally = read_file(OWN / "progress_parent.jsonl")
    child = VendorSession(LIBRARY, "lib1")
    assert [item.content for item in tally.all(DialogItem, child)] == ["Find the book", "On shelf two."]
    assert tally.used["cm1", "cr1"][1] == [4, 6, 100, 8000]
    assert tally.used["cm1", "cr1"][0] == child
    ranks = {(link.child_agent_id, link.call_id) for link in tally.all(ChildLink)}
    assert ranks == {("lib1", "toolu_lib")}
    path = OWN / "agent-lib1.jsonl"
    reader = ClaudeReader(hints_of(path))
    for line in path.read_bytes().splitlines():
        tally.add(reader.feed(line))
    assert tally.said().count("On shelf two.") == 1
    assert tally.used["cm1", "cr1"][1] == [4, 798, 100, 8000]


def test_calls_known_only_from_progress_are_marked() -> None:
    script = Script()
    script.user("Go")
    message = {"id": "m", "content": [call("n1", "Read", file_path="a")]}
    nested = {"type": "assistant", "uuid": "n", "message": message}
    script.record("progress", data={"type": "agent_progress", "agentId": "x", "message": nested}, parentToolUseID="t1")
    (made,) = read_script(script).all(ToolCall)
    assert (made.nested, made.session.agent_id, made.turn) == (True, "x", None)


def test_inline_side_chains_become_children_at_the_right_calls() -> None:
    """Case 31."""
    _, tally = read_file(OWN / "inline_scouts.jsonl")
    children = [opened.session for opened in tally.all(SessionOpened) if opened.session.agent_id]
    first_words = {begun.session: begun.query_text for begun in tally.all(TurnBegun)}
    calls = {link.child_agent_id: link.call_id for link in tally.all(ChildLink)}
    assert len(children) == 2
    assert {first_words[child]: calls[child.agent_id] for child in children} == {
        "Look north": "toolu_t1",
        "Look south": "toolu_t2",
    }
    assert [status for _, status in tally.turns()] == ["completed"] * 3


def test_a_side_chain_of_nothing_is_the_session_itself() -> None:
    script = Script()
    script.user("Hello", isSidechain=True)
    script.model("Hi", isSidechain=True)
    tally = read_script(script)
    assert [opened.session for opened in tally.all(SessionOpened)] == [VendorSession(SESSION)]


def test_a_workflow_journal_notes_its_children_and_opens_nothing() -> None:
    lines = [b'{"type":"started","key":"k","agentId":"x"}', b'{"type":"result","key":"k","agentId":"x","result":"ok"}']
    _, tally = read(lines, Hints(session_id="journal", parent_id=SESSION, run_id="wf_1"))
    notes = tally.all(Note)
    assert [note.session for note in notes] == [VendorSession(SESSION, "x")] * 2
    assert notes[1].body == {"workflow": "result", "key": "k", "run": "wf_1", "result": "ok"}
    assert tally.all(SessionOpened) == []
