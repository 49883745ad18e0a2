"""What is a turn of Claude Code, when it ends, and what it says."""

import json

import pytest

from shiftlog.facts.transcript import (
    DialogItem,
    Hints,
    Note,
    SessionOpened,
    SessionUpdated,
    TitleSource,
    TurnBegun,
    TurnEnded,
    TurnUpdated,
)
from shiftlog.ingest.readers.claude.reader import ClaudeReader
from tests.ingest.readers.claude.tally import OWN, SESSION, Script, call, read, read_file, read_script, text


@pytest.fixture
def script() -> Script:
    return Script()


def test_a_prompt_a_text_and_a_duration_are_one_completed_turn(script: Script) -> None:
    """Case 7."""
    script.user("Fix it\nplease")
    script.model("Fixed.")
    script.system("turn_duration", durationMs=1500)
    tally = read_script(script, end_idle=False)
    (end,) = tally.all(TurnEnded)
    assert (end.status, end.response, end.duration_ms) == ("completed", "Fixed.", 1500)
    (begun,) = tally.all(TurnBegun)
    assert (begun.query_title, begun.turn) == ("Fix it", "req-20260304T050001Z-u1")


def test_an_interrupted_turn_fails_and_the_next_one_goes_on(script: Script) -> None:
    """Case 8."""
    script.user("First")
    script.model(call("t1", "Bash", command="make"))
    script.user([text("[Request interrupted by user for tool use]")])
    script.user("Second")
    script.model("Done")
    tally = read_script(script)
    assert tally.turns() == [("First", "Turn aborted: interrupted"), ("Second", "completed")]
    assert tally.field("blockers") == ["Turn aborted: interrupted"]


def test_the_newest_record_decides_when_a_turn_settles_though_a_clock_was_set_back(script: Script) -> None:
    script.user("Fix it", timestamp="2026-03-04T06:00:00.000Z")
    script.model("Fixed.", timestamp="2026-03-04T05:00:00.000Z")
    reader, _ = read(script.lines(), end_idle=False)
    assert [standing.last_at for standing in reader.standings()] == ["2026-03-04T06:00:00.000Z"]


def test_a_command_that_nobody_answers_is_told_once_time_has_passed(script: Script) -> None:
    script.user("Fix it")
    script.model("Fixed.")
    script.user("<command-name>/exit</command-name>")
    reader, tally = read(script.lines(), end_idle=False)
    assert "<command-name>/exit</command-name>" not in tally.said()
    tally.add(reader.end_idle())
    assert tally.turns() == [("Fix it", "completed")]
    assert tally.said("system") == ["<command-name>/exit</command-name>"]
    assert list(reader.standings()) == []


def test_a_command_behind_a_turn_at_work_is_told_without_ending_it(script: Script) -> None:
    script.user("Fix it")
    script.model(call("t1", "Bash", command="make"))
    script.user("<command-name>/exit</command-name>")
    reader, tally = read(script.lines(), end_idle=False)
    assert [standing.ends_as for standing in reader.standings()] == ["observed"]
    tally.add(reader.end_idle())
    assert tally.turns() == [("Fix it", "in_progress")]
    assert tally.said("system") == ["<command-name>/exit</command-name>"]


def test_a_stop_by_a_hook_says_so(script: Script) -> None:
    script.user("First")
    script.model("Working")
    script.user("Operation stopped by hook: no")
    assert read_script(script).turns() == [("First", "Turn aborted: stopped by hook")]


def test_a_prompt_without_answer_is_superseded(script: Script) -> None:
    """Case 9."""
    script.user("One")
    script.user("Two")
    script.model("Two it is")
    assert read_script(script).turns() == [
        ("One", "superseded: No answer before the next prompt"),
        ("Two", "completed"),
    ]


def test_a_turn_at_work_when_the_next_opens_is_unfinished(script: Script) -> None:
    script.user("One")
    script.model(call("t1", "Bash", command="make"))
    script.user("Two")
    assert read_script(script).turns()[0] == ("One", "Turn aborted: unfinished")


def test_a_quiet_last_turn_is_open_until_it_is_settled(script: Script) -> None:
    """Case 10: the caller decides when time has passed, without the file changing."""
    script.user("Fix it")
    script.model("Fixed.")
    reader, tally = read(script.lines(), end_idle=False)
    assert tally.turns() == [("Fix it", "in_progress")]
    (standing,) = reader.standings()
    assert (standing.quiet, standing.ends_as, standing.last_at) == (True, "completed", "2026-03-04T05:00:02.000Z")
    later = ClaudeReader(Hints(session_id=SESSION), reader.save())
    tally.add(later.end_idle([standing.session]))
    assert tally.turns() == [("Fix it", "completed")]
    (end,) = tally.all(TurnEnded)
    assert (end.settled, end.at) == (True, "2026-03-04T05:00:02.000Z")
    assert later.standings() == []


def test_a_turn_with_an_unanswered_call_never_settles(script: Script) -> None:
    """Case 11."""
    script.user("Fix it")
    script.model(call("t1", "Bash", command="make"))
    reader, tally = read(script.lines())
    assert tally.turns() == [("Fix it", "in_progress")]
    assert [standing.ends_as for standing in reader.standings()] == [None]


def test_a_local_command_is_no_turn(script: Script) -> None:
    """Case 12, first half."""
    script.user("<command-name>/model</command-name>")
    script.user("<local-command-stdout>Set model</local-command-stdout>")
    tally = read_script(script)
    assert tally.turns() == []
    assert tally.said("system") == [
        "<command-name>/model</command-name>",
        "<local-command-stdout>Set model</local-command-stdout>",
    ]


def test_a_command_that_a_model_answers_is_a_turn(script: Script) -> None:
    """Case 12, second half."""
    script.user("<command-message>x</command-message>")
    script.user("Instructions", isMeta=True)
    script.model("Done")
    tally = read_script(script)
    assert tally.turns() == [("/x", "completed")]
    (begun,) = tally.all(TurnBegun)
    injected = next(item for item in tally.all(DialogItem) if item.content == "Instructions")
    assert (begun.vendor_turn_id, begun.at) == ("u1", "2026-03-04T05:00:01.000Z")
    assert (injected.role, injected.turn) == ("system", begun.turn)


def test_a_command_takes_its_name_and_arguments(script: Script) -> None:
    script.user(
        "<command-message>r</command-message><command-name>/review</command-name><command-args>a b</command-args>"
    )
    script.model("Done")
    assert read_script(script).turns() == [("/review a b", "completed")]


def test_a_synthetic_answer_does_not_open_the_turn_of_a_command(script: Script) -> None:
    script.user("<command-name>/cost</command-name>")
    script.model("No response requested.", message={"model": "<synthetic>"})
    script.user("Real prompt")
    assert read_script(script).turns() == [("Real prompt", "in_progress")]


def test_an_api_error_that_answers_a_command_fails_its_turn_and_not_the_one_before(script: Script) -> None:
    script.user("Go")
    script.model("Done")
    script.user("<command-name>/review</command-name>")
    script.model("Limit hit", isApiErrorMessage=True, error="rate_limit", message={"model": "<synthetic>"})
    assert read_script(script).turns() == [("Go", "completed"), ("/review", "Limit hit")]


def test_a_notice_opens_a_turn_only_when_none_is_at_work(script: Script) -> None:
    """Case 13."""
    script.user("Go")
    script.model(call("t1", "Bash", command="make"))
    script.user("<task-notification><task-id>a1</task-id></task-notification>")
    script.result("t1")
    script.model("Made")
    script.user("<task-notification><task-id>a2</task-id></task-notification>")
    script.model("Noted")
    tally = read_script(script)
    assert [status for _, status in tally.turns()] == ["completed", "completed"]
    assert tally.said("system") == ["<task-notification><task-id>a1</task-id></task-notification>"]


def test_a_notice_is_known_by_its_origin_too(script: Script) -> None:
    script.user("Go")
    script.model(call("t1", "Bash", command="make"))
    script.user("agent finished", origin={"kind": "task-notification"})
    assert [query for query, _ in read_script(script).turns()] == ["Go"]


def test_what_the_editor_selected_is_context_and_no_prompt(script: Script) -> None:
    """Case 14."""
    script.user("<ide_selection>line 7</ide_selection>Fix it")
    tally = read_script(script)
    assert tally.turns() == [("Fix it", "in_progress")]
    assert tally.field("context_list") == ["line 7"]


def test_compaction_is_two_observations_inside_one_turn(script: Script) -> None:
    """Case 15."""
    script.user("Go")
    script.model("Going")
    script.system("compact_boundary", content="Conversation compacted", compactMetadata={"preTokens": 9})
    script.user("Summary of before", isCompactSummary=True)
    script.model("Gone")
    tally = read_script(script)
    assert tally.turns() == [("Go", "completed")]
    assert tally.said("system") == ["Conversation compacted", "Summary of before"]


def test_a_rewind_abandons_the_turns_between(script: Script) -> None:
    """Case 16."""
    script.user("P1")
    script.model("A1", message={"usage": {"output_tokens": 1}})
    script.user("P2")
    script.model("A2", message={"usage": {"output_tokens": 2}})
    script.user("P3", parentUuid="u1")
    script.model("A3", message={"usage": {"output_tokens": 4}})
    tally = read_script(script)
    assert [query for query, _ in tally.turns()] == ["P1", "P2", "P3"]
    second = tally.all(TurnBegun)[1].turn
    assert [note.body for note in tally.all(Note)] == [{"abandoned": [second]}]
    assert tally.usage() == (3, [0, 7, 0, 0])


def test_a_rewind_needs_a_parent_in_an_earlier_turn(script: Script) -> None:
    script.system("away_summary", content="Before any turn")
    script.user("P1")
    script.model("A1")
    script.user("P2", parentUuid=None)
    script.user("P3", parentUuid="u1")
    script.user("P4", parentUuid="never seen")
    assert read_script(script).all(Note) == []


def test_turns_abandoned_once_are_not_abandoned_again(script: Script) -> None:
    script.user("P1")
    script.user("P2")
    script.user("P3", parentUuid="u1")
    script.user("P4", parentUuid="u1")
    tally = read_script(script)
    turns = [begun.turn for begun in tally.all(TurnBegun)]
    assert [note.body["abandoned"] for note in tally.all(Note)] == [[turns[1]], [turns[2]]]


def test_a_command_stopped_before_any_answer_is_a_failed_turn(script: Script) -> None:
    script.user("<command-name>/review</command-name>")
    script.user("[Request interrupted by user]")
    assert read_script(script).turns() == [("/review", "Turn aborted: interrupted")]


def test_a_turn_ends_at_its_own_last_record(script: Script) -> None:
    script.user("One")
    script.model("Answer")
    script.user("Two")
    (end,) = read_script(script).all(TurnEnded)
    assert end.at == "2026-03-04T05:00:02.000Z"


def test_a_refusal_and_a_hook_error_are_observations(script: Script) -> None:
    script.user("Go")
    script.system("api_refusal", apiRefusalExplanation="Not that")
    script.system("api_error", error={"error": {"error": {"message": "Overloaded"}}})
    script.system("stop_hook_summary", hookErrors=["lint failed"], preventedContinuation=True)
    script.system("stop_hook_summary", hookErrors=[], preventedContinuation=False)
    script.attach("hook_blocking_error", blockingError={"blockingError": "blocked", "command": "x"})
    script.attach("hook_additional_context", content=["one", "two"])
    tally = read_script(script)
    assert tally.said("system") == ["Not that", "Overloaded", "lint failed", "blocked", "one\ntwo"]
    assert tally.field("blockers") == ["blocked"]


def test_an_api_error_as_last_word_fails_the_turn(script: Script) -> None:
    """Case 17."""
    script.user("Go")
    script.model("Limit hit", isApiErrorMessage=True, error="rate_limit", message={"model": "<synthetic>"})
    tally = read_script(script)
    (end,) = tally.all(TurnEnded)
    assert (end.status, end.error_code, end.failure_note) == ("failed", "rate_limit", "Limit hit")
    assert tally.field("blockers") == ["Limit hit"]


def test_an_answer_after_an_api_error_completes_the_turn(script: Script) -> None:
    script.user("Go")
    script.model("Limit hit", isApiErrorMessage=True, message={"model": "<synthetic>"})
    script.model("Here")
    assert read_script(script).turns() == [("Go", "completed")]


def test_a_model_record_without_turn_continues_what_was_injected(script: Script) -> None:
    script.user("Summary of before", isCompactSummary=True)
    script.model("Going on")
    tally = read_script(script)
    (begun,) = tally.all(TurnBegun)
    assert (begun.query_text, begun.query_title, begun.opened_by) == ("Summary of before", "(continued)", "continued")


def test_a_queued_prompt_belongs_to_the_turn_at_work_or_opens_one(script: Script) -> None:
    script.attach("queued_command", prompt="first", commandMode="prompt")
    script.model("Yes")
    script.attach("queued_command", prompt="and that", commandMode="prompt")
    tally = read_script(script, end_idle=False)
    assert tally.turns() == [("first", "in_progress")]
    assert tally.said("user") == ["and that"]


def test_a_repeated_record_is_counted_and_not_read_again(script: Script) -> None:
    script.user("Go")
    script.model("Gone")
    lines = script.lines()
    reader, tally = read([*lines, *lines])
    assert (reader.counts.duplicate, reader.counts.mapped) == (2, 2)
    assert tally.turns() == [("Go", "completed")]


def test_a_turn_tells_how_it_was_understood_and_answered(script: Script) -> None:
    script.user("Go")
    script.model("I will go. FR-WAY-7", message={"id": "m1"})
    script.model({"type": "thinking", "thinking": "hm", "signature": "s"}, message={"id": "m2"})
    script.model("Decision: left.", message={"id": "m2"})
    script.model("Rationale: shorter.", message={"id": "m2"})
    tally = read_script(script)
    (update,) = tally.all(TurnUpdated)
    assert update.sets == {"interpretation": "I will go. FR-WAY-7", "model": "claude-opus-4-6"}
    assert update.adds["requirements_discovered"] == ["FR-WAY-7"]
    assert update.adds["design_decisions"] == ["Decision: left.", "Rationale: shorter."]
    (end,) = tally.all(TurnEnded)
    assert end.response == "Decision: left.\n\nRationale: shorter."
    thought = next(item for item in tally.all(DialogItem) if item.category == "reasoning")
    assert (thought.content, thought.extra["signature"]["bytes"]) == ("hm", 1)


def test_sessions_in_one_file_are_told_apart_by_the_record(script: Script) -> None:
    script.user("Here")
    script.user("There", sessionId="other")
    script.model("Answer here")
    tally = read_script(script)
    assert tally.turns() == [("Here", "completed"), ("There", "in_progress")]
    assert {fact.session.vendor_id for fact in tally.all(SessionOpened)} == {SESSION, "other"}


def test_small_records_alone_open_no_session() -> None:
    lines = [
        b'{"type":"custom-title","sessionId":"s","customTitle":"T"}',
        b'{"type":"mode","mode":"plan","sessionId":"s"}',
    ]
    reader, tally = read(lines)
    assert tally.facts == []
    assert reader.counts.mapped == 2


def test_a_summary_names_the_session_that_has_its_leaf(script: Script) -> None:
    script.user("First prompt")
    summary = json.dumps({"type": "summary", "summary": "Named", "leafUuid": "u1"}).encode()
    other = json.dumps({"type": "summary", "summary": "Other", "leafUuid": "elsewhere"}).encode()
    for lines in ([summary, other, *script.lines()], [*script.lines(), other, summary]):
        _, tally = read(lines)
        titles = [(update.title, update.title_source) for update in tally.all(SessionUpdated) if update.title]
        assert titles[-1] == ("Named", TitleSource.SUMMARY)
        assert "Other" not in dict(titles)


def test_directory_and_branch_are_followed_within_a_session(script: Script) -> None:
    script.user("Go")
    script.model("Gone", cwd="/srv/app/sub", gitBranch="fix")
    tally = read_script(script)
    (opened,) = tally.all(SessionOpened)
    changes = [update.changes for update in tally.all(SessionUpdated) if update.changes]
    assert (opened.cwd, opened.branch) == ("/srv/app", "main")
    assert changes == [{"cwd": "/srv/app/sub", "branch": "fix"}]


def test_the_kitchen_transcript_reads_as_written() -> None:
    """One of nearly every record, in a file of our own."""
    reader, tally = read_file(OWN / "kitchen.jsonl")
    assert tally.turns() == [
        ("Wash the dishes", "completed"),
        ("/review rack.py", "completed"),
        ("<task-notification>\n<task-id>bg1</task-id>\n<status>completed</status>\n</task-notification>", "completed"),
        ("Wipe the table", "Turn aborted: interrupted"),
        ("Wash the dishes again", "You have hit your limit"),
    ]
    assert reader.counts.bad == 4
    assert reader.counts.duplicate == 1
    assert reader.counts.unknown_names == {"frame-link": 1, "attachment/zzz": 1, "system/brand_new": 1}
    titles = [update.title for update in tally.all(SessionUpdated) if update.title]
    assert titles == ["Wash the dishes", "Washing up", "The great washing up"]
    updates = {name: value for update in tally.all(SessionUpdated) for name, value in update.changes.items()}
    assert updates["goal"] == {"condition": "All dishes washed", "met": False}


def test_facts_of_a_session_follow_its_opening() -> None:
    _, tally = read_file(OWN / "kitchen.jsonl")
    assert isinstance(tally.facts[0], SessionOpened)


def test_what_the_editor_added_to_a_command_or_a_notice_is_context_too(script: Script) -> None:
    script.user("<ide_selection>line 7</ide_selection><command-name>/fix</command-name>")
    script.model("Fixed")
    script.user("<system-reminder>be brief</system-reminder>\n<task-notification>done</task-notification>")
    script.model(call("t1", "Bash", command="ls"))
    script.user("<ide_opened_file>b.py</ide_opened_file><task-notification>more</task-notification>")
    tally = read_script(script)
    assert tally.turns() == [("/fix", "completed"), ("<task-notification>done</task-notification>", "in_progress")]
    contexts = [fact.adds["context_list"] for fact in tally.all(TurnUpdated) if "context_list" in fact.adds]
    assert contexts == [["line 7"], ["be brief", "b.py"]]


def test_an_image_that_is_elsewhere_is_a_prompt(script: Script) -> None:
    script.user([{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}])
    script.model("A cat")
    script.user([{"type": "document", "source": {"type": "file", "file_id": "file_1"}}])
    script.user([{"type": "text", "text": ""}])
    tally = read_script(script)
    assert [fact.opened_by for fact in tally.all(TurnBegun)] == ["prompt", "prompt"]
    assert [status for _, status in tally.turns()] == ["completed", "in_progress"]


def test_a_plan_attached_before_the_prompt_is_that_of_the_turn(script: Script) -> None:
    script.attach("plan_mode", planFilePath="/srv/app/plan.md")
    script.user("Plan it")
    script.model("Planned")
    (updated,) = read_script(script).all(TurnUpdated)
    assert updated.sets["plan_file"] == "plan.md"


def test_a_title_that_the_user_chose_holds_though_the_prompt_was_the_same(script: Script) -> None:
    script.user("Fix it")
    script.record("custom-title", customTitle="Fix it")
    script.record("ai-title", aiTitle="Mending things")
    titles = [(fact.title, fact.title_source) for fact in read_script(script).all(SessionUpdated) if fact.title]
    assert titles == [("Fix it", TitleSource.PROMPT), ("Fix it", TitleSource.CUSTOM)]


def test_a_session_begins_with_its_first_record_though_that_waits_for_an_answer(script: Script) -> None:
    script.user("<command-name>/fix</command-name>")
    script.model("Fixed")
    tally = read_script(script)
    (opened,), (begun,) = tally.all(SessionOpened), tally.all(TurnBegun)
    assert opened.at == begun.at == "2026-03-04T05:00:01.000Z"
