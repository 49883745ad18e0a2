"""Turns and dialog of a rollout: where they begin and end, and which of the doubly logged texts are kept."""

import json
from typing import Any

import pytest

from shiftlog.facts.transcript import DialogItem, Note, SessionOpened, SessionUpdated, TurnBegun, TurnEnded, TurnUpdated
from tests.ingest.readers.codex.rollouts import (
    OWN,
    Reading,
    called,
    epoch,
    event,
    figures,
    item,
    line,
    meta,
    output,
    read,
    read_file,
    said,
    stamp,
    started,
)


def test_a_rollout_of_our_own_is_read_whole() -> None:
    """The fixture beside this test: three turns of one afternoon, with the header repeated at the end."""
    found = read_file(OWN / "codex" / "rollout.jsonl")
    assert found.turns == [
        ("Speed up the parser", "completed", None),
        ("Also add a benchmark", "failed", "Turn aborted: interrupted"),
        ("Go on", "in_progress", None),
    ]
    assert found.actions() == [
        ("edit", "src/parser.py"),
        ("commit", "git: Cache token table"),
        ("dependency_add", "uv: pyperf"),
    ]
    assert found.field("requirements_discovered") == ["TR-PARSE-7"]
    assert figures(found)["usage"]["total_tokens"] == 5300
    assert found.reader.counts.unknown_names == {"event_msg/moonbeam": 1}


def test_one_event_and_item_of_a_text_are_one_dialog_item() -> None:
    """Messages and reasoning are written twice."""
    found = read(
        meta(), started(1, "a"), event(2, "agent_reasoning", text="hm"),
        item(2, "reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
        event(3, "agent_message", message="Done"), said(3, "Done"), event(4, "task_complete", turn_id="a"),
    )  # fmt: skip
    assert found.dialog == [("model", "reasoning", "hm"), ("model", "observation", "Done")]


@pytest.mark.parametrize("order", ["eiei", "eeii", "iiee", "ieei"])
def test_the_same_text_twice_in_a_turn_is_two_dialog_items(order: str) -> None:
    """Case 33: event and item of the same text twice."""
    made = {"e": event(2, "agent_message", message="go on"), "i": said(2, "go on")}
    found = read(meta(), started(1, "a"), *(made[letter] for letter in order))
    assert found.dialog == [("model", "observation", "go on")] * 2


def test_stored_copies_are_the_larger_of_both_counts() -> None:
    """Three events and one item of a text make three."""
    found = read(meta(), started(1, "a"), said(2, "x"), *[event(3, "agent_message", message="x")] * 3)
    assert len(found.dialog) == 3


def test_a_turn_still_open_is_superseded_by_the_next_start() -> None:
    """Case 34, first half."""
    found = read(
        meta(), started(1, "a"), event(2, "user_message", message="one"), started(3, "b"),
        event(4, "user_message", message="two"), event(5, "task_complete", turn_id="b", last_agent_message="ok"),
    )  # fmt: skip
    assert found.turns == [
        ("one", "failed", "superseded: Next turn started"),
        ("two", "completed", None),
    ]
    assert [end.response for end in found.of(TurnEnded)] == [None, "ok"]


def test_a_start_alone_stays_in_progress() -> None:
    """Case 34, second half: whatever time passes."""
    found = read(meta(), started(1, "a"), event(2, "user_message", message="one"), said(3, "hello"))
    assert found.turns == [("one", "in_progress", None)]
    assert [standing.ends_as for standing in found.reader.standings()] == [None]


def test_an_aborted_turn_fails_with_its_reason_and_a_blocker() -> None:
    """No turn id means the open turn; no reason means interrupted."""
    found = read(meta(), started(1, "a"), event(2, "turn_aborted", reason="replaced"))
    assert found.turns == [("", "failed", "Turn aborted: replaced")]
    assert found.field("blockers") == ["Turn aborted: replaced"]
    assert read(meta(), started(1, "a"), event(2, "turn_aborted")).turns[0][2] == "Turn aborted: interrupted"


def test_a_later_end_of_an_aborted_turn_changes_nothing() -> None:
    """Nothing leaves a terminal state."""
    found = read(meta(), started(1, "a"), event(2, "turn_aborted", turn_id="a"), event(3, "task_complete", turn_id="a"))
    assert [end.status for end in found.of(TurnEnded)] == ["failed"]


def test_an_end_with_an_error_fails_the_turn() -> None:
    """The error's text is note and blocker."""
    found = read(
        meta(), started(1, "a"),
        event(2, "task_complete", turn_id="a", error={"message": "quota", "codex_error_info": "usage_limit"}),
    )  # fmt: skip
    end = found.of(TurnEnded)[0]
    assert (end.status, end.failure_note, end.error_code) == ("failed", "quota", "usage_limit")
    assert found.field("blockers") == ["quota"]


def test_a_user_message_just_before_its_start_belongs_to_that_turn() -> None:
    """Whether or not a turn is still open before it."""
    found = read(
        meta(), started(1, "a"), event(2, "user_message", message="one"), said(3, "fine"),
        event(4, "user_message", message="two"), said(4, "two", role="user"),
        line(4, "turn_context", {"turn_id": "b", "model": "m"}), started(5, "b"),
        event(6, "task_complete", turn_id="b"),
    )  # fmt: skip
    assert [(prompt, status) for prompt, status, _ in found.turns] == [("one", "failed"), ("two", "completed")]
    assert ("user", "observation", "two") not in found.dialog


def test_a_user_message_within_a_turn_is_an_observation_of_it() -> None:
    """Steering while the model works."""
    found = read(
        meta(), started(1, "a"), event(2, "user_message", message="one"), event(3, "user_message", message="hurry"),
        said(3, "hurry", role="user"), said(4, "yes"), event(5, "task_complete", turn_id="a"),
    )  # fmt: skip
    assert found.turns == [("one", "completed", None)]
    assert found.dialog == [("user", "observation", "hurry"), ("model", "observation", "yes")]


def test_a_held_user_message_is_not_lost_at_the_end_of_what_is_there() -> None:
    """The next growth of the file tells its turn."""
    found = read(
        meta(), started(1, "a"), event(2, "task_complete", turn_id="a"), event(3, "user_message", message="two"),
        started(4, "b"), every=1,
    )  # fmt: skip
    assert [prompt for prompt, _, _ in found.turns] == ["", "two"]


def test_a_file_without_starts_opens_a_turn_with_each_user_message() -> None:
    """Old releases: completed with a model text, else superseded; the last one once settled and quiet."""
    lines = [
        meta(), said(1, "<environment_context>x", role="user"), said(2, "one", role="user"),
        event(2, "user_message", message="one"), said(3, "first"), said(4, "two", role="user"),
        event(4, "user_message", message="two"), event(5, "user_message", message="three"), said(6, "third"),
    ]  # fmt: skip
    found = read(*lines)
    assert found.turns == [
        ("one", "completed", None),
        ("two", "failed", "superseded: No answer before the next prompt"),
        ("three", "completed", None),
    ]
    assert found.dialog[0] == ("system", "observation", "<environment_context>x")
    assert [text for role, _, text in found.dialog if role == "user"] == []
    assert [end.settled for end in found.of(TurnEnded)] == [False, False, True]


def test_an_old_file_that_ends_with_a_tool_stays_in_progress() -> None:
    """Its last item is no model text."""
    found = read(
        meta(), event(1, "user_message", message="go"), said(2, "ok"), called(3, "c", "shell", command=["ls"]),
        output(4, "c", "x"),
    )  # fmt: skip
    assert found.turns == [("go", "in_progress", None)]


def test_bare_lines_without_an_envelope_are_read() -> None:
    """The first releases wrote items alone."""
    records = [
        {"id": "old-thread", "timestamp": stamp(0), "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a","metadata":{"exit_code":0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one file"}]},
    ]
    found = read(*(json.dumps(record).encode() for record in records))
    assert found.turns == [("hi", "completed", None)]
    assert found.of(SessionOpened)[0].session.vendor_id == "old-thread"
    assert found.reader.counts.unknown == 0


def test_context_of_an_editor_goes_beside_the_prompt() -> None:
    """The request stands after its heading."""
    text = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nFix it\n"
    found = read(meta(), started(1, "a"), event(2, "user_message", message=text))
    assert found.of(TurnBegun)[0].query_text == "Fix it"
    assert found.field("context_list") == ["# Context from my IDE setup:\n\n## Active file: a.py"]


def test_decisions_and_requirements_are_gathered_from_model_texts() -> None:
    """Categories by the words of a text, then by its phase."""
    found = read(
        meta(), started(1, "a"), event(2, "agent_message", message="Looking", phase="commentary"),
        event(3, "agent_message", message="Decision: use WAL for FR-STORE-12 and FR-STORE-12", phase="commentary"),
        event(4, "task_complete", turn_id="a"),
    )  # fmt: skip
    assert [category for _, category, _ in found.dialog] == ["reasoning", "decision"]
    assert found.field("design_decisions") == ["Decision: use WAL for FR-STORE-12 and FR-STORE-12"]
    assert found.field("requirements_discovered") == ["FR-STORE-12"]
    assert found.of(TurnUpdated)[0].sets["interpretation"] == "Looking"


def test_rolled_back_turns_are_abandoned_once() -> None:
    """Each time the last ones that are not yet."""
    ends = [event(2 * n + 2, "task_complete", turn_id=name) for n, name in enumerate("abc")]
    starts = [started(2 * n + 1, name) for n, name in enumerate("abc")]
    lines = [part for pair in zip(starts, ends, strict=True) for part in pair]
    found = read(
        meta(), *lines, event(8, "thread_rolled_back", num_turns=1), event(9, "thread_rolled_back", num_turns=2)
    )
    ids = [begun.turn for begun in found.of(TurnBegun)]
    notes = [note.body["abandoned"] for note in found.of(Note) if note.kind == "abandoned"]
    assert notes == [ids[2:], ids[:2]]


def test_a_message_of_another_agent_is_the_prompt_of_a_turn_without_one() -> None:
    """To this thread: user; from it: tool."""
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "agent_path": "/root/b", "agent_nickname": "Ada"}}}
    found = read(
        meta(source=spawn), started(1, "a"),
        item(2, "agent_message", author="/root", recipient="/root/b", content=[{"type": "text", "text": "Do x"}]),
        item(3, "agent_message", author="/root/b", recipient="/root", content=[{"type": "text", "text": "Did x"}]),
    )  # fmt: skip
    assert found.of(TurnBegun)[0].query_text == "Do x"
    assert found.dialog == [("user", "observation", "Do x"), ("tool", "observation", "Did x")]
    opened = found.of(SessionOpened)[0]
    assert opened.parent is not None
    assert opened.subagent is not None
    assert (opened.parent.session.vendor_id, opened.subagent.kind, opened.subagent.name) == ("p", "thread_spawn", "Ada")


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ({"subagent": "review"}, "review"),
        ({"subagent": "compact"}, "compact"),
        ({"subagent": "memory_consolidation"}, "memory_consolidation"),
        ({"subagent": {"other": "guardian"}}, "guardian"),
    ],
)
def test_the_word_of_the_source_is_the_kind_of_child(source: dict[str, object], kind: str) -> None:
    """A parent thread at the top level links it."""
    opened = read(meta(source=source, parent_thread_id="p"), started(1, "a")).of(SessionOpened)[0]
    assert opened.subagent is not None
    assert (opened.subagent.kind, opened.parent is not None) == (kind, True)


def test_the_thread_source_alone_makes_no_child() -> None:
    """Only a parent or a subagent source does."""
    opened = read(meta(thread_source="subagent", source="cli")).of(SessionOpened)[0]
    assert (opened.subagent, opened.parent) == (None, None)


def test_a_huge_header_repeated_five_times_is_one_session() -> None:
    """Case 32: the first one counts."""
    big: dict[str, Any] = {"base_instructions": {"text": "x" * 200_000}}
    found = read(
        meta(**big), *(meta(n, cwd=f"/elsewhere/{n}", **big) for n in range(1, 6)), started(7, "a"),
        event(8, "user_message", message="hi"),
    )  # fmt: skip
    assert [opened.cwd for opened in found.of(SessionOpened)] == ["/work/app"]
    assert found.of(SessionOpened)[0].extra["base_instructions"]["bytes"] > 200_000
    assert found.reader.counts.counted == 5


def test_title_goal_and_settings_follow_the_thread() -> None:
    """Titles carry where they come from; unchanged values are not written again."""
    context = {"model": "gpt-5", "effort": "high", "cwd": "/work/app", "approval_policy": "never"}
    found = read(
        meta(), started(1, "a"), event(2, "user_message", message="Fix the build\nplease"),
        line(3, "turn_context", context), line(4, "turn_context", context | {"approval_policy": "on-request"}),
        event(5, "thread_name_updated", thread_name="Build fix"),
        event(6, "thread_goal_updated", goal={"objective": "green"}), event(7, "task_complete", turn_id="a"),
    )  # fmt: skip
    changes = [(update.changes, update.title) for update in found.of(SessionUpdated)]
    assert changes == [
        ({}, "Fix the build"),
        ({"approval_policy": "never"}, None),
        ({"approval_policy": "on-request"}, None),
        ({}, "Build fix"),
        ({"goal": "green"}, None),
    ]
    assert found.of(TurnEnded)[0].model == "gpt-5"


def test_the_turn_id_is_made_of_its_start_and_the_vendors_id() -> None:
    """Equal on every machine."""
    found = read(meta(), started(30, "0190-Ab", started_at=epoch(20)))
    assert [begun.turn for begun in found.of(TurnBegun)] == ["req-20260301T100020Z-0190-ab"]
    assert [begun.turn for begun in read(meta(), started(30, "")).of(TurnBegun)] == ["req-20260301T100030Z-t1"]


def test_paginated_items_replace_the_events() -> None:
    """Message items pair with response items, tools by item id."""

    def page(second: int, kind: str, **fields: object) -> bytes:
        return event(second, "item_completed", turn_id="a", item={"type": kind, **fields})

    found = read(
        meta(history_mode="paginated"), started(1, "a"),
        page(2, "UserMessage", id="u", content=[{"type": "text", "text": "go"}]), said(2, "go", role="user"),
        page(3, "Reasoning", id="r", summary_text=["thinking"], raw_content=[]),
        item(3, "reasoning", summary=[{"type": "summary_text", "text": "thinking"}]),
        called(4, "c", "exec_command", cmd="ls"),
        page(5, "CommandExecution", id="c", command=["ls"], exit_code=3, aggregated_output="no", duration={"secs": 1}),
        output(6, "c", "no"), page(7, "Plan", id="p", text="# Steps\n1. do"),
        page(8, "AgentMessage", id="m", content=[{"type": "Text", "text": "done"}]), said(8, "done"),
        page(9, "ContextCompaction", id="k"), page(10, "Teleport", id="z"), event(11, "task_complete", turn_id="a"),
    )  # fmt: skip
    assert found.turns == [("go", "completed", None)]
    assert found.dialog == [
        ("model", "reasoning", "thinking"),
        ("model", "decision", "# Steps\n1. do"),
        ("model", "observation", "done"),
        ("system", "observation", "Context compacted"),
    ]
    assert found.reader.counts.unknown_names == {"event_msg/item_completed/Teleport": 1}


def test_reviews_are_observed_in_full() -> None:
    """Findings and explanation."""
    review = {
        "overall_explanation": "One problem.",
        "findings": [{"title": "Leak", "body": "closes late", "code_location": {"absolute_file_path": "/a.py"}}],
    }
    found = read(meta(), started(1, "a"), event(2, "exited_review_mode", review_output=review))
    assert found.dialog == [("system", "observation", "One problem.\n- Leak (/a.py)\ncloses late")]


def test_a_record_that_names_the_turn_before_goes_there() -> None:
    """Stragglers after an abort."""
    found = read(
        meta(), started(1, "a"), event(2, "turn_aborted", turn_id="a"),
        said(3, "late", metadata={"turn_id": "a"}), said(4, "nowhere"),
    )  # fmt: skip
    first = found.of(TurnBegun)[0].turn
    assert [(fact.content, fact.turn) for fact in found.of(DialogItem)] == [("late", first), ("nowhere", None)]


def test_unknown_records_are_kept_and_counted() -> None:
    """Case 43 for this format: by name, raw, never fatal."""
    odd = line(2, "event_msg", {"type": "frame_link", "x": 1})
    found = read(meta(), started(1, "a"), odd, line(3, "telemetry", {}), b'{"foo": 1}')
    names = {"event_msg/frame_link": 1, "telemetry": 1, "(none)": 1}
    assert found.reader.counts.unknown_names == names
    notes = [note.body for note in found.of(Note) if note.kind == "unknown"]
    assert notes[0] == {"unknown": "event_msg/frame_link", "raw": odd.decode()}


@pytest.mark.parametrize("lead", [[], [started(1, "z"), event(1, "task_complete", turn_id="z")], [started(1, "z")]])
def test_what_waits_for_a_turn_stays_small(lead: list[bytes]) -> None:
    """However many messages come without an answer, each is told once and few are remembered."""
    prompts = [event(2, "user_message", message=f"prompt {number}") for number in range(3000)]
    errors = [event(3, "error", message=f"error {number}") for number in range(1000)]
    found = read(meta(), *lead, *prompts, started(4, "b"), *errors, said(5, "done"))
    told = [prompt for prompt, _, _ in found.turns] + [content for role, _, content in found.dialog if role == "user"]
    assert sorted(filter(None, told)) == sorted(f"prompt {number}" for number in range(3000))
    assert sum(role == "system" for role, _, _ in found.dialog) == 1000
    reader = found.reader
    for number in range(3000):
        reader.feed(event(6, "user_message", message=f"more {number}"))
    assert len(reader.save()) < 400_000


def test_bad_lines_are_counted_and_the_good_ones_read() -> None:
    """Case 44 for this format."""
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    found = read(b"{", b"[]", b"null", b'"x"', b"\xff\xfe", deep, b"", b"  ", meta(), started(1, "a"))
    found.reader.skip_oversized()
    counts = found.reader.counts
    assert (counts.bad, counts.oversized, counts.mapped) == (7, 1, 2)
    assert len(found.turns) == 1


def test_a_time_that_does_not_parse_is_the_one_before() -> None:
    """Every field may be of another type."""
    lines = [meta(5), started(6, "a"), b'{"timestamp": [], "type": "event_msg", "payload": {"type": "error"}}']
    found: Reading = read(*lines)
    assert found.of(DialogItem)[0].at == stamp(6)
    assert found.reader.state.newest_at == stamp(6)
