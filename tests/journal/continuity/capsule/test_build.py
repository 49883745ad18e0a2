"""The capsule: what it says of a session, what it cites, and what becomes of an agent's statement."""

import pytest

from shiftlog.model.entry import Kind
from tests.journal.continuity.capsule.diary import Diary, texts


def test_an_empty_session_gives_its_title_as_goal_and_nothing_else() -> None:
    diary = Diary()
    assert diary.capsule() == {
        "origin": "auto",
        "goal": {"text": "Fix the cache bug", "basis": "recorded"},
        "asked": [],
        "done": [],
        "next": [],
        "blockers": [],
        "do_not": [],
        "refuted": [],
        "decisions": [],
        "requirements": [],
        "files_touched": [],
        "open_turn": None,
        "last_shell_cwd": None,
        "last_commands": [],
        "shells": [],
        "usage": None,
        "checkpoints": [],
        "receipts": [f"head {diary.session.head_hash}"],
        "closing_note": None,
        "stated": None,
        "truncated": {},
        "budget_bytes": 8000,
    }


def test_the_work_of_a_session_is_found_in_its_capsule_and_cited() -> None:
    diary = Diary()
    first, first_seq = diary.begin("Reproduce")
    diary.add(first, commits=[{"sha": "9f2c1ab"}], blockers=["No runner"])
    diary.complete(first, "fails 3 of 10 runs\nin detail …")
    second, second_seq = diary.begin("Blame the clock")
    refuted = diary.say(second, "Refuted: clock skew")
    diary.fail(second, "superseded: wrong track")
    third, third_seq = diary.begin("Fix eviction", "Fix eviction for good")
    decided = diary.say(third, "Decision: lock per shard")
    forbidden = diary.say(third, "Do not raise the TTL again")
    diary.say(third, "Do nothing more?", category="reasoning")
    diary.act(third, "Lock the shard", path="./cache/evict.py")
    diary.act(third, "Lock the shard again", path="cache/evict.py", kind="create")
    pending = diary.act(third, "Guard eviction", status="pending")
    designed = diary.act(third, "One lock per shard", kind="design_decision")
    diary.add(third, design_decisions=["Keep the TTL", "Decision: lock per shard"])

    capsule = diary.capsule()

    def recorded(*items: tuple[str, int]) -> list[dict[str, object]]:
        return [{"text": text, "basis": "recorded", "seq": seq} for text, seq in items]

    assert capsule["done"] == recorded(("Reproduce: fails 3 of 10 runs", first_seq))
    [opened] = recorded(("Fix eviction", third_seq))
    [planned] = recorded(("Guard eviction", pending))
    assert capsule["next"] == [opened, {**planned, "status": "pending"}]
    assert capsule["blockers"] == recorded(("superseded: wrong track", second_seq))
    assert capsule["refuted"] == recorded(("Refuted: clock skew", refuted))
    assert capsule["do_not"] == recorded(("Do not raise the TTL again", forbidden))
    assert capsule["decisions"] == recorded(
        ("Keep the TTL", third_seq), ("Decision: lock per shard", decided), ("One lock per shard", designed)
    )
    assert capsule["files_touched"] == [{"path": "cache/evict.py", "changes": 2, "last_type": "create", "git": None}]
    assert capsule["receipts"] == ["commit 9f2c1ab", f"head {diary.session.head_hash}"]
    assert capsule["open_turn"] == {
        "request_id": third,
        "query_title": "Fix eviction",
        "query_text": "Fix eviction for good",
        "begun_at": "2026-07-01T10:08:00Z",
        "dialog_items": 3,
        "actions": 4,
        "interpretation": "",
        "response": "",
        "last_dialog": [
            {"role": "model", "category": "decision", "text": "Decision: lock per shard", "seq": decided},
            {"role": "model", "category": "decision", "text": "Do not raise the TTL again", "seq": forbidden},
            {"role": "model", "category": "reasoning", "text": "Do nothing more?", "seq": forbidden + 1},
        ],
        "last_command": None,
    }


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("Do not merge", "do_not"),
        ("  do not merge", "do_not"),
        ("Do nothing on Fridays", "decisions"),
        ("Rejected: a global lock", "refuted"),
        ("Refuted the idea", "decisions"),
        ("We do not merge", "decisions"),
    ],
)
def test_a_decision_is_listed_by_how_it_begins(content: str, field: str) -> None:
    diary = Diary()
    turn, _ = diary.begin("Think")
    diary.say(turn, content)
    capsule = diary.capsule()
    assert texts(capsule[field]) == [content.strip()]
    assert sum(len(capsule[name]) for name in ("do_not", "refuted", "decisions")) == 1


def test_a_decision_recorded_in_three_ways_is_listed_once_and_cites_the_dialog() -> None:
    diary = Diary()
    turn, _ = diary.begin("Think")
    said = diary.say(turn, "Decision: lock per shard")
    diary.act(turn, "Lock per shard", kind="design_decision")
    diary.add(turn, design_decisions=["lock per shard"])
    assert diary.capsule()["decisions"] == [{"text": "Decision: lock per shard", "basis": "recorded", "seq": said}]


def test_an_action_that_was_appended_again_as_completed_is_not_next() -> None:
    diary = Diary()
    turn, _ = diary.begin("Test")
    diary.act(turn, "Run the tests", status="pending")
    running = diary.act(turn, "Run the linter", status="in_progress")
    diary.act(turn, "Run the tests", status="completed")
    diary.complete(turn, "green")
    [planned] = diary.capsule()["next"]
    assert planned == {"text": "Run the linter", "basis": "recorded", "seq": running, "status": "in_progress"}


def test_a_file_that_an_action_told_of_is_not_counted_again_by_the_list_of_files() -> None:
    diary = Diary()
    turn, _ = diary.begin("Make and remove")
    diary.act(turn, "Write a.py", kind="create", path="a.py")
    diary.act(turn, "Remove b.py", kind="delete", path="b.py")
    diary.add(turn, files_modified=["a.py", "b.py", "c.py"])
    diary.act(turn, "Remove c.py", kind="delete", path="c.py")
    assert diary.capsule()["files_touched"] == [
        {"path": "a.py", "changes": 1, "last_type": "create", "git": None},
        {"path": "b.py", "changes": 1, "last_type": "delete", "git": None},
        {"path": "c.py", "changes": 1, "last_type": "delete", "git": None},
    ]


def test_a_file_touched_in_several_turns_is_listed_once_as_it_was_touched_last() -> None:
    diary = Diary()
    for kind, path in (("create", "a.py"), ("edit", "b.py"), ("delete", "./a.py")):
        turn, _ = diary.begin(kind)
        diary.act(turn, kind, kind=kind, path=path)
        diary.complete(turn, "ok")
    assert diary.capsule()["files_touched"] == [
        {"path": "b.py", "changes": 1, "last_type": "edit", "git": None},
        {"path": "a.py", "changes": 2, "last_type": "delete", "git": None},
    ]


def test_a_blocker_that_is_also_the_failure_note_is_listed_once() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    seq = diary.add(turn, blockers=["Turn aborted: interrupted"])
    diary.fail(turn, "Turn aborted: interrupted")
    assert diary.capsule()["blockers"] == [{"text": "Turn aborted: interrupted", "basis": "recorded", "seq": seq}]


@pytest.mark.parametrize("note", ["Turn aborted: interrupted", "Turn aborted: unfinished", "Denied: Edit"])
def test_a_stop_blocks_nothing_once_the_user_went_on_and_its_request_is_told(note: str) -> None:
    diary = Diary()
    first, _ = diary.begin("Cache the rates")
    diary.complete(first, "Cached.")
    second, asked = diary.begin("No Redis, keep them in memory")
    diary.add(second, blockers=[note])
    diary.fail(second, note)
    assert texts(diary.capsule()["blockers"]) == [note]
    diary.begin("Go on")
    capsule = diary.capsule()
    assert capsule["blockers"] == []
    assert capsule["asked"] == [{"text": "No Redis, keep them in memory", "basis": "recorded", "seq": asked}]


def test_checkpoints_of_the_same_files_are_one_under_the_name_that_the_agent_gave() -> None:
    diary = Diary()
    for n, (tree, kind, label) in enumerate(
        [
            ("t1", "open", "shell opened"),
            ("t2", "turn", "turn ended"),
            ("t2", "manual", "before the switch"),
            ("t3", "safety", "before restore"),
            ("t2", "end", "before the switch"),
        ]
    ):
        diary.write(Kind.CHECKPOINT_SAVED, {"id": f"c{n}", "tree": tree, "kind": kind, "label": label})
    assert [item["id"] for item in diary.capsule()["checkpoints"]] == ["c0", "c2", "c3"]


def test_erased_and_cleared_entries_say_nothing() -> None:
    diary = Diary()
    turn, _ = diary.begin("Think")
    diary.say(turn, "Do not look here")
    diary.act(turn, "Cleared", status="pending")
    diary.write(Kind.TURN_UPDATED, {"clear": ["dialog", "actions"]}, turn)
    kept = diary.say(turn, "Do not forget")
    erased = diary.say(turn, "Do not remember")
    diary.erase(erased)
    capsule = diary.capsule()
    assert capsule["do_not"] == [{"text": "Do not forget", "basis": "recorded", "seq": kept}]
    assert texts(capsule["next"]) == ["Think"]


def test_what_an_import_brought_later_counts_and_cites_its_own_entry() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    diary.add(turn, files_modified=["a.py"])
    diary.complete(turn, "ok")
    brought = {
        "design_decisions": ["Late decision"],
        "blockers": ["Late blocker"],
        "files_modified": ["./a.py", "b.py"],
        "commits": [{"sha": "c0ffee"}],
    }
    seq = diary.write(Kind.IMPORT_NOTED, {"source": "codex", "fields": brought}, turn)
    capsule = diary.capsule()
    assert capsule["decisions"] == [{"text": "Late decision", "basis": "recorded", "seq": seq}]
    assert capsule["blockers"] == [{"text": "Late blocker", "basis": "recorded", "seq": seq}]
    assert {item["path"]: item["changes"] for item in capsule["files_touched"]} == {"a.py": 2, "b.py": 1}
    assert "commit c0ffee" in capsule["receipts"]


def test_shells_commands_and_checkpoints_are_read_from_the_journal() -> None:
    diary = Diary()
    diary.write(Kind.SHELL_OPENED, {"shell_id": "4c82-1_local", "cwd": "/srv"})
    diary.write(Kind.SHELL_OPENED, {"shell_id": "4c82-2_local", "cwd": "/tmp"})
    started: list[int] = []
    for n in range(1, 8):
        command = {"command_id": f"4c82-1_local#{n}", "command": f"step {n}", "shell_id": "4c82-1_local"}
        started.append(diary.write(Kind.COMMAND_STARTED, command))
        if n < 7:
            body = {"command_id": f"4c82-1_local#{n}", "exit_code": n, "cwd": f"/srv/{n}"}
            diary.write(Kind.COMMAND_FINISHED, body)
    diary.write(Kind.SHELL_ENDED, {"shell_id": "4c82-2_local"})
    diary.write(Kind.CHECKPOINT_SAVED, {"id": "9f1c", "label": "before lock"})
    capsule = diary.capsule()
    assert capsule["last_shell_cwd"] == "/srv/6"
    assert [(item["command"], item["exit_code"], item["seq"]) for item in capsule["last_commands"]] == [
        ("step 5", 5, started[4]),
        ("step 6", 6, started[5]),
        ("step 7", None, started[6]),
    ]
    assert capsule["shells"] == [
        {"shell_id": "4c82-1_local", "state": "busy", "cwd": "/srv/6"},
        {"shell_id": "4c82-2_local", "state": "ended", "cwd": "/tmp", "ended_reason": None},
    ]
    assert capsule["checkpoints"] == [{"id": "9f1c", "created_at": "2026-07-01T10:18:00Z", "label": "before lock"}]


def test_long_gone_shells_and_old_checkpoints_are_counted_instead_of_listed() -> None:
    diary = Diary()
    for n in range(8):
        diary.write(Kind.SHELL_OPENED, {"shell_id": f"s{n}", "cwd": "/"})
        if n:
            diary.write(Kind.SHELL_ENDED, {"shell_id": f"s{n}"})
    for n in range(25):
        diary.write(Kind.CHECKPOINT_SAVED, {"id": f"c{n}", "label": None})
    capsule = diary.capsule()
    assert [shell["shell_id"] for shell in capsule["shells"]] == ["s0", "s3", "s4", "s5", "s6", "s7"]
    assert [item["id"] for item in capsule["checkpoints"]] == [f"c{n}" for n in range(5, 25)]
    assert capsule["truncated"] == {"shells": 2, "checkpoints": 5}


def test_usage_and_the_closing_note_are_shown_and_the_note_outlives_a_resume() -> None:
    diary = Diary()
    diary.write(Kind.USAGE, {"input_tokens": 5, "cost_usd": 0.5})
    diary.write(Kind.SESSION_CLOSED, {"reason": "done", "note": "Narrowed to eviction."})
    assert diary.capsule()["closing_note"] == "Narrowed to eviction."
    diary.write(Kind.SESSION_RESUMED, {})
    capsule = diary.capsule()
    assert capsule["closing_note"] == "Narrowed to eviction."
    assert capsule["usage"] == {
        "input_tokens": 5,
        "cached_input_tokens": 0,
        "cache_creation_tokens": 0,
        "output_tokens": 0,
        "reasoning_tokens": 0,
        "cost_usd": 0.5,
    }


# The statement

WHOLE = {
    "version": "1",
    "goal": "Ship the fix",
    "done": "Narrowed it down.\nTo eviction.",
    "next": "Guard eviction",
    "blockers": "Slow CI",
    "do_not": "Raise the TTL",
    "refuted": "Clock skew",
    "receipts": ["run 1123"],
    "written_by": "codex",
    "written_at": "2026-06-28T18:00:00+00:00",
    "ttl_days": 2,
    "handoff_to": "beta",
}


def test_a_statement_comes_first_as_claimed_and_cites_the_entry_that_holds_it() -> None:
    diary = Diary()
    turn, seq = diary.begin("Fix")
    diary.complete(turn, "ok")
    saved = diary.write(Kind.CAPSULE_SAVED, {"statement": WHOLE})
    capsule = diary.capsule()
    assert capsule["origin"] == "agent"
    assert capsule["goal"] == {"text": "Ship the fix", "basis": "claimed"}
    assert capsule["done"] == [
        {"text": "Narrowed it down.\nTo eviction.", "basis": "claimed", "seq": saved},
        {"text": "Fix: ok", "basis": "recorded", "seq": seq},
    ]
    for name, text in (("next", "Guard eviction"), ("do_not", "Raise the TTL"), ("refuted", "Clock skew")):
        assert capsule[name] == [{"text": text, "basis": "claimed", "seq": saved}]
    assert capsule["receipts"][0] == "run 1123"
    assert capsule["stated"] == {
        "version": "1",
        "written_by": "codex",
        "written_at": "2026-06-28T18:00:00Z",
        "age_days": 3,
        "stale": True,
        "handoff_to": "beta",
    }


def test_a_statement_that_is_being_made_counts_before_it_is_in_the_journal() -> None:
    diary = Diary()
    diary.write(Kind.CAPSULE_SAVED, {"statement": WHOLE})
    fresh = {"version": "v1", "next": "Something else"}
    capsule = diary.capsule(fresh)
    assert capsule["next"] == [{"text": "Something else", "basis": "claimed", "seq": None}]
    assert capsule["goal"]["basis"] == "recorded"
    assert capsule["stated"] == {
        "version": "v1",
        "written_by": None,
        "written_at": "2026-07-01T18:00:00Z",
        "age_days": 0,
        "stale": False,
        "handoff_to": None,
    }
    saved = diary.write(Kind.CAPSULE_SAVED, {"statement": fresh})
    assert diary.capsule(fresh)["next"][0]["seq"] == saved


def test_a_capsule_saved_by_itself_does_not_hide_the_statement() -> None:
    diary = Diary()
    diary.write(Kind.CAPSULE_SAVED, {"statement": WHOLE})
    diary.write(Kind.CAPSULE_SAVED, {"origin": "auto", "statement": None})
    assert diary.capsule()["origin"] == "agent"


def test_an_action_completed_later_in_any_turn_is_not_next_and_one_that_failed_is_refuted() -> None:
    diary = Diary()
    first, _ = diary.begin("Plan")
    diary.act(first, "Write the parser", status="pending", path="parser.py")
    planned = diary.act(first, "Write the tests", status="pending", path="test_parser.py")
    diary.complete(first, "Planned")
    second, _ = diary.begin("Work")
    diary.act(second, "Write the parser", status="completed", path="parser.py")
    failed = diary.act(second, "Parse with a regular expression", status="failed")
    diary.complete(second, "Parsed")
    capsule = diary.capsule()
    assert capsule["next"] == [
        {
            "text": "Write the tests",
            "basis": "recorded",
            "seq": planned,
            "status": "pending",
            "file_path": "test_parser.py",
        }
    ]
    assert capsule["refuted"] == [{"text": "Parse with a regular expression", "basis": "recorded", "seq": failed}]


def test_what_an_agent_tells_during_work_is_in_the_capsule_at_once() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    seq = diary.add(turn, next=["Run the migration"], do_not=["Touch the schema"], refuted=["It is the cache"])
    diary.add(turn, requirements_discovered=["R-7"])
    capsule = diary.capsule()
    for name, text in (("do_not", "Touch the schema"), ("refuted", "It is the cache")):
        assert capsule[name] == [{"text": text, "basis": "recorded", "seq": seq}]
    assert texts(capsule["next"]) == ["Work", "Run the migration"]
    assert capsule["requirements"] == ["R-7"]


def test_plans_and_blockers_of_a_turn_end_with_it_but_not_those_of_the_request_that_ends_it() -> None:
    diary = Diary()
    first, _ = diary.begin("Ask for the key")
    diary.add(first, blockers=["No key"], next=["Wait for the key"])
    diary.complete(first, "Got it")
    second, _ = diary.begin("Deploy")
    seq = diary.add(second, blockers=["The gate is closed until Monday"], next=["Deploy on Monday"])
    diary.write(Kind.TURN_COMPLETED, {"response": "Built", "from_seq": seq}, second)
    capsule = diary.capsule()
    assert texts(capsule["blockers"]) == ["The gate is closed until Monday"]
    assert texts(capsule["next"]) == ["Deploy on Monday"]


@pytest.mark.parametrize("answer", ["Resolved: no runner for arm64", "unblocked: No runner for ARM64!"])
def test_what_is_said_to_be_resolved_is_dropped(answer: str) -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    diary.add(turn, blockers=["No runner for arm64"], do_not=["No runner for arm64"])
    diary.say(turn, answer, category="observation")
    capsule = diary.capsule()
    assert (capsule["blockers"], capsule["do_not"]) == ([], [])
    diary.add(turn, blockers=["No runner for arm64 again"])
    assert texts(diary.capsule()["blockers"]) == ["No runner for arm64 again"]


@pytest.mark.parametrize(
    ("answer", "is_resolved"),
    [
        ("Access works.\n- Resolved: the VPN is down, since noon", True),
        ("Resolved: VPN", True),
        ("Resolved: it", False),
        ("Resolved: is", False),
        ("Unresolved: the VPN is down", False),
        ("Resolved: PN is", False),
    ],
)
def test_only_whole_words_of_an_answer_resolve_and_any_line_of_it_can(answer: str, is_resolved: bool) -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    diary.add(turn, blockers=["The VPN is down"])
    diary.fail(turn, "Later")
    turn, _ = diary.begin("Look again")
    diary.complete(turn, answer)
    assert ("The VPN is down" not in texts(diary.capsule()["blockers"])) == is_resolved


def test_a_turn_that_failed_and_was_completed_later_blocks_nothing() -> None:
    diary = Diary()
    failed, _ = diary.begin("Fix the import")
    diary.fail(failed, "The disk was full")
    other, _ = diary.begin("Another thing")
    diary.fail(other, "No idea")
    again, _ = diary.begin("Fix the import")
    diary.complete(again, "Fixed")
    assert texts(diary.capsule()["blockers"]) == ["No idea"]


@pytest.mark.parametrize(
    ("response", "shown"),
    [
        ("# Summary\n\nThe lock is per shard.", "The lock is per shard."),
        ("Summary\n=======\nThe lock is per shard.", "The lock is per shard."),
        ("**Done**\n\n- The lock is per shard.\n- More", "The lock is per shard."),
        ("What I did:\n1. The lock is per shard.", "The lock is per shard."),
        ("The lock is per shard.\nMore", "The lock is per shard."),
        ("## Only a heading", "## Only a heading"),
        ("```json\n{\n```\nThe lock is per shard.", "The lock is per shard."),
        ("{", "{"),
        (
            f"{'Of all the ways ' * 5}take this one:\n\n```\nmake -j2\n```",
            f"{'Of all the ways ' * 5}take this one: make -j2",
        ),
    ],
)
def test_a_heading_is_no_items_text(response: str, shown: str) -> None:
    diary = Diary()
    turn, _ = diary.begin("Lock")
    diary.complete(turn, response)
    assert texts(diary.capsule()["done"]) == [f"Lock: {shown}"]


def test_the_open_turn_says_where_it_stopped() -> None:
    diary = Diary()
    turn, _ = diary.begin("Fix it", "Fix the flaky test")
    diary.write(Kind.TURN_UPDATED, {"set": {"interpretation": "A race", "response": "Half of it"}}, turn)
    for n in range(5):
        diary.say(turn, f"Thought {n}", category="reasoning")
    for n, command in enumerate(("pytest -q", "ls", "cat a", "ls", "git diff")):
        body = {"command_id": f"s#{n}", "command": command, "shell_id": "s"}
        diary.write(Kind.COMMAND_STARTED, body, turn)
        output = "".join(f"line {line}\n" for line in range(9)) if n == 4 else ""
        done = {**body, "exit_code": n, "stdout": output, "stderr": "1 failed" if n == 0 else ""}
        diary.write(Kind.COMMAND_FINISHED, done, turn)
    diary.write(Kind.SHELL_OPENED, {"shell_id": "s", "cwd": "/srv"})
    diary.write(Kind.SHELL_ENDED, {"shell_id": "s", "cwd": "/srv/app", "reason": "daemon_died"})
    capsule = diary.capsule()
    opened = capsule["open_turn"]
    assert (opened["interpretation"], opened["response"]) == ("A race", "Half of it")
    assert [item["text"] for item in opened["last_dialog"]] == ["Thought 2", "Thought 3", "Thought 4"]
    assert opened["last_command"] == {
        "command": "git diff",
        "exit_code": 4,
        "last_lines": [f"line {n}" for n in range(4, 9)],
    }
    assert [(item["command"], item["exit_code"], item["last_line"]) for item in capsule["last_commands"]] == [
        ("pytest -q", 0, "1 failed"),
        ("ls", 3, ""),
        ("git diff", 4, "line 8"),
    ]
    assert capsule["shells"] == [
        {"shell_id": "s", "state": "ended", "cwd": "/srv/app", "ended_reason": "daemon_died"},
    ]


def test_a_statement_may_list_its_items_and_replaces_the_same_words() -> None:
    diary = Diary()
    turn, _ = diary.begin("Work")
    diary.add(turn, blockers=["No key"], do_not=["Touch the schema"])
    capsule = diary.capsule({"version": "1", "done": ["a", "b"], "blockers": ["no key."], "next": "c"})
    assert [(item["text"], item["basis"]) for item in capsule["blockers"]] == [("no key.", "claimed")]
    assert [item["text"] for item in capsule["done"]] == ["a", "b"]
    assert texts(capsule["do_not"]) == ["Touch the schema"]


def test_what_the_first_and_the_newest_turns_were_asked_is_told_where_titles_say_less() -> None:
    diary = Diary()
    asked: list[int] = []
    for n in range(5):
        turn, seq = diary.begin(f"Step {n}", f"Step {n}, but leave the schema alone" if n != 3 else "Step 3")
        asked.append(seq)
        diary.complete(turn, "ok")
    diary.begin("The open one", "The open one tells its own")
    told = diary.capsule()["asked"]
    assert [(item["seq"], item["text"]) for item in told] == [
        (asked[n], f"Step {n}, but leave the schema alone") for n in (0, 2, 4)
    ]


def test_a_command_that_failed_is_no_approach_that_was_refuted() -> None:
    diary = Diary()
    turn, _ = diary.begin("Fix it")
    diary.act(turn, "pytest -q", status="failed", kind="command")
    call = {"order": 2, "description": "Edit a.py", "type": "edit", "status": "failed", "call_id": "toolu_1"}
    diary.write(Kind.ACTION, call, turn)
    diary.act(turn, "Lock the whole table", status="failed")
    assert texts(diary.capsule()["refuted"]) == ["Lock the whole table"]


class Client(Diary):
    """The diary of a client whose own tools ran commands and kept the plan."""

    def call(self, turn: str, tool: str, call_id: str, **given: object) -> int:
        body = {"role": "tool", "category": "tool_call", "tool": tool, "call_id": call_id, "input": given}
        return self.write(Kind.DIALOG, {**body, "content": f"{tool}: …"}, turn)

    def answer(self, turn: str, tool: str, call_id: str, content: str, **facts: object) -> None:
        body = {"role": "tool", "category": "tool_result", "tool": tool, "call_id": call_id, "content": content}
        self.write(Kind.DIALOG, {**body, **facts}, turn)


def test_commands_of_an_agents_own_tools_are_told_as_those_of_shells() -> None:
    diary = Client()
    turn, _ = diary.begin("Fix it")
    thought = diary.say(turn, "The lock is taken twice", "reasoning")
    ran = diary.call(turn, "Bash", "toolu_1", command="pytest -q")
    diary.answer(turn, "Bash", "toolu_1", "Exit code 1\n1 failed", exit_code=1, is_error=True)
    for n in range(3):
        diary.call(turn, "exec_command", f"call_{n}", cmd=f"ls {n}", workdir="/srv/shop")
        diary.answer(turn, "exec_command", f"call_{n}", f"Chunk ID: 1\nOutput:\nfile {n}\n", exit_code=0)
    diary.call(turn, "shell", "call_9", command=["bash", "-lc", "make all"])
    diary.call(turn, "Read", "toolu_2", file_path="a.py", command="none")
    capsule = diary.capsule()
    assert [(item["command"], item["exit_code"], item["last_line"]) for item in capsule["last_commands"]] == [
        ("pytest -q", 1, "1 failed"),
        ("ls 2", 0, "file 2"),
        ("make all", None, ""),
    ]
    assert capsule["last_commands"][0]["seq"] == ran
    assert capsule["last_shell_cwd"] == "/srv/shop"
    assert capsule["open_turn"]["last_command"] == {"command": "make all", "exit_code": None, "last_lines": []}
    assert [item["seq"] for item in capsule["open_turn"]["last_dialog"]] == [thought, thought + 10]


def test_the_plan_of_an_agents_own_tools_is_next_as_it_was_told_last() -> None:
    diary = Client()
    turn, _ = diary.begin("Fix it")
    steps = [{"content": "Find it", "status": "pending"}, {"content": "Mend it", "status": "pending"}]
    diary.call(turn, "TodoWrite", "toolu_1", todos=steps)
    steps = [{"content": "Find it", "status": "completed"}, {"content": "Mend it", "status": "in_progress"}]
    told = diary.call(turn, "TodoWrite", "toolu_2", todos=[*steps, {"content": "Test it", "status": "pending"}, "odd"])
    plan = [(item["text"], item.get("status"), item["seq"]) for item in diary.capsule()["next"][1:]]
    assert plan == [("Mend it", "in_progress", told), ("Test it", "pending", told)]
    diary.complete(turn, "Found; shall I go on?")
    assert len(diary.capsule()["next"]) == 2, "the turn ended before its plan"
    turn, _ = diary.begin("No, another thing")
    diary.complete(turn, "Done")
    assert diary.capsule()["next"] == []
    turn, _ = diary.begin("Codex plans too")
    diary.call(turn, "update_plan", "call_1", plan=[{"step": "Push", "status": "pending"}])
    assert texts(diary.capsule()["next"]) == ["Codex plans too", "Push"]


def test_tasks_that_were_made_one_by_one_are_a_plan() -> None:
    diary = Client()
    turn, _ = diary.begin("Fix it")
    for n, subject in enumerate(("Find it", "Mend it", "Test it"), start=1):
        diary.call(turn, "TaskCreate", f"toolu_{n}", subject=subject)
        diary.answer(turn, "TaskCreate", f"toolu_{n}", f"Task #{n} created successfully: {subject}")
    diary.call(turn, "TaskUpdate", "toolu_4", taskId="1", status="completed")
    diary.call(turn, "TaskUpdate", "toolu_5", taskId="3", status="deleted")
    assert texts(diary.capsule()["next"]) == ["Fix it", "Mend it"]
