"""Results of Claude Code's calls and the actions that they show."""

import base64
import hashlib

import pytest

from shiftlog.facts.transcript import Action, DialogItem, Hints, Image, ToolCall, ToolResult, TurnBegun, UsageFact
from tests.ingest.readers.claude.tally import OWN, Script, call, read, read_file, read_script, text

PNG = b"\x89PNG\r\n\x1a\n0123"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()},
}


@pytest.fixture
def script() -> Script:
    made = Script()
    made.user("Go")
    return made


def only_action(script: Script) -> Action:
    (action,) = read_script(script).all(Action)
    return action


def test_an_edit_gives_a_unified_diff_of_its_patch(script: Script) -> None:
    """Case 23, edit: two hunks."""
    script.model(call("t1", "Edit", file_path="/srv/app/a.py", old_string="x", new_string="y"))
    hunks = [
        {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-x", "+y"]},
        {"oldStart": 9, "oldLines": 1, "newStart": 9, "newLines": 2, "lines": [" z", "+w"]},
    ]
    script.result("t1", toolUseResult={"filePath": "/srv/app/a.py", "structuredPatch": hunks, "userModified": True})
    tally = read_script(script)
    (action,) = tally.all(Action)
    assert (action.type, action.file_path, action.approximate, action.user_modified) == ("edit", "a.py", False, True)
    assert action.diff == "--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-x\n+y\n@@ -9,1 +9,2 @@\n z\n+w\n"
    assert tally.field("files_modified") == ["a.py"]


def test_a_written_new_file_is_created_with_all_its_lines(script: Script) -> None:
    """Case 23, create."""
    script.model(call("t1", "Write", file_path="/srv/app/b.py", content="1\n2\n"))
    script.result("t1", toolUseResult={"type": "create", "filePath": "/srv/app/b.py", "content": "1\n2\n"})
    action = only_action(script)
    assert (action.type, action.diff) == ("create", "--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,2 @@\n+1\n+2\n")


def test_a_failed_edit_is_an_action_without_diff(script: Script) -> None:
    """Case 23, failed."""
    script.model(call("t1", "Edit", file_path="/srv/app/a.py", old_string="x", new_string="y"))
    script.result("t1", "String not found", error=True)
    tally = read_script(script)
    (action,) = tally.all(Action)
    assert (action.status, action.diff, action.file_path) == ("failed", None, "a.py")
    assert tally.field("files_modified") == []


def test_edits_without_a_patch_give_an_approximate_diff(script: Script) -> None:
    edits = [{"old_string": "a\nb", "new_string": "a\nc"}, {"old_string": "q", "new_string": "r"}]
    script.model(call("t1", "MultiEdit", file_path="D:\\x\\a.py", edits=edits))
    script.result("t1")
    action = only_action(script)
    assert action.approximate
    assert action.file_path == "D:/x/a.py"
    assert action.diff is not None
    assert action.diff.count("\n@@ ") == 2


def test_a_commit_is_known_by_what_git_printed(script: Script) -> None:
    """Case 26."""
    script.model(call("t1", "Bash", command="git commit -m x"), call("t2", "Bash", command='echo "git commit"'))
    script.result("t1", "[main 1a2b3c4] x\n 1 file changed")
    script.result("t2", "[main 9999999] git commit")
    tally = read_script(script)
    (action,) = tally.all(Action)
    assert (action.type, action.description) == ("commit", "git: x")
    assert tally.field("commits") == [{"sha": "1a2b3c4", "branch": "main", "message": "x"}]


def test_packages_added_by_name_are_told(script: Script) -> None:
    """Case 27."""
    for n, command in enumerate(("pip install -r r.txt", "uv add httpx==1.0", "npm i left-pad ./local")):
        script.model(call(f"t{n}", "Bash", command=command))
        script.result(f"t{n}")
    actions = [(action.type, action.description) for action in read_script(script).all(Action)]
    assert actions == [("dependency_add", "uv: httpx==1.0"), ("dependency_add", "npm: left-pad")]


def test_nothing_was_done_by_a_call_that_failed(script: Script) -> None:
    script.model(call("t1", "Bash", command="uv add httpx"), call("t2", "WebFetch", url="https://example.org"))
    script.result("t1", "Exit code 2\nno network", error=True)
    script.result("t2", "no network", error=True)
    tally = read_script(script)
    assert tally.all(Action) == []
    assert [(result.is_error, result.exit_code) for result in tally.all(ToolResult)] == [(True, 2), (True, None)]


def test_pages_and_searches_are_references(script: Script) -> None:
    script.model(call("t1", "WebFetch", url="https://example.org/a"), call("t2", "WebSearch", query="soap"))
    script.result("t1", toolUseResult={"durationMs": 120})
    script.result("t2", toolUseResult={"query": "soap", "searchCount": 2})
    reader_facts = read_script(script)
    assert [action.description for action in reader_facts.all(Action)] == ["https://example.org/a", "search: soap"]
    assert reader_facts.all(ToolResult)[0].duration_ms == 120


def test_searches_count_with_the_response_that_asked_for_them(script: Script) -> None:
    script.model(call("t1", "WebSearch", query="soap"))
    script.result("t1", toolUseResult={"searchCount": 2})
    reader, _ = read([])
    facts = [fact for line in script.lines() for fact in reader.feed(line)]
    found = [fact for fact in facts if isinstance(fact, UsageFact)]
    assert [(fact.key, fact.web_searches) for fact in found] == [(("use", "msg2/req2"), 2)]


def test_plans_and_answers_are_decisions() -> None:
    _, tally = read_file(OWN / "kitchen.jsonl")
    decisions = [action.description for action in tally.all(Action) if action.type == "design_decision"]
    assert decisions == ["Dry everything", "Which towel? → The blue one"]


def test_a_denied_call_is_failed_and_a_blocker(script: Script) -> None:
    script.model(call("t1", "Bash", command="rm x"))
    script.result("t1", "The user doesn't want to proceed with this tool use.")
    tally = read_script(script)
    (result,) = tally.all(ToolResult)
    assert (result.denied, result.is_error) == (True, True)
    assert tally.field("blockers") == ["Denied: Bash"]


def test_a_result_without_call_is_an_orphan_and_kept(script: Script) -> None:
    script.result("gone", "text of it")
    (result,) = read_script(script).all(ToolResult)
    assert (result.orphan, result.content) == (True, "text of it")


def test_the_exit_code_of_a_shell_call_is_zero_unless_told(script: Script) -> None:
    script.model(call("t1", "Bash", command="a"), call("t2", "Bash", command="b"), call("t3", "Grep", pattern="c"))
    script.result("t1")
    script.result("t2", toolUseResult={"exitCode": 3, "interrupted": True})
    script.result("t3")
    results = read_script(script).all(ToolResult)
    assert [(result.exit_code, result.interrupted) for result in results] == [(0, False), (3, True), (None, False)]


def test_an_output_spilled_to_a_file_is_named(script: Script) -> None:
    script.model(call("t1", "Bash", command="a"), call("t2", "Bash", command="b"))
    script.result("t1", "short", toolUseResult={"persistedOutputPath": "/p/s/tool-results/x.txt"})
    script.result("t2", "<persisted-output>\nFull output saved to: /p/s/tool-results/y.txt\n</persisted-output>")
    spilled = [result.spilled for result in read_script(script).all(ToolResult)]
    assert spilled == ["/p/s/tool-results/x.txt", "/p/s/tool-results/y.txt"]


def test_a_call_shows_its_main_argument_and_keeps_its_whole_input(script: Script) -> None:
    script.model(call("t1", "Bash", command="x" * 300, description="long"))
    (made,) = read_script(script).all(ToolCall)
    assert made.content == "Bash: " + "x" * 200
    assert made.input == {"command": "x" * 300, "description": "long"}


def test_texts_beside_a_result_are_the_users(script: Script) -> None:
    script.model(call("t1", "Bash", command="a"))
    script.user([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}, text("but faster")])
    assert read_script(script).said("user") == ["but faster"]


def test_images_leave_a_digest_and_no_bytes() -> None:
    """Case 45."""
    script = Script()
    script.user([text("Look"), IMAGE])
    script.model(call("t1", "Read", file_path="/srv/app/a.png"))
    script.result("t1", [IMAGE])
    wanted = Image(media_type="image/png", size=len(PNG), sha256=hashlib.sha256(PNG).hexdigest())
    tally = read_script(script)
    assert tally.all(TurnBegun)[0].images == (wanted,)
    assert tally.all(ToolResult)[0].images == (wanted,)
    _, kept = read(script.lines(), Hints(session_id="s", keep_images=True))
    assert kept.all(TurnBegun)[0].images[0].data == PNG


def test_files_read_are_the_context_of_the_turn(script: Script) -> None:
    script.model(call("t1", "Read", file_path="/srv/app/docs/a.md"))
    script.result("t1")
    script.attach("nested_memory", path="/srv/app/CLAUDE.md")
    assert read_script(script).field("context_list") == ["docs/a.md", "CLAUDE.md"]


def test_integers_that_json_cannot_hold_become_text(script: Script) -> None:
    script.model(call("t1", "Bash", command="a", timeout=10**30))
    (made,) = read_script(script).all(ToolCall)
    assert made.input["timeout"] == str(10**30)


def test_a_call_without_id_is_told_but_waits_for_nothing(script: Script) -> None:
    script.model({"type": "tool_use", "name": "bash", "input": {"command": "ls"}})
    script.model("Done")
    tally = read_script(script)
    assert tally.all(ToolCall) == []
    assert [item.content for item in tally.all(DialogItem) if item.role == "tool"] == ["bash: ls"]
    assert tally.turns() == [("Go", "completed")]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Exit code 127: not found", 127),
        ("Exit code 3 (signal)\nmore", 3),
        ("Exit code -1\nmore", -1),
        ("Exit code 7", 7),
        ("Exit code unknown", 0),
        ("It said: Exit code 9", 0),
    ],
)
def test_a_leading_exit_code_counts_whatever_follows_it(script: Script, said: str, code: int) -> None:
    script.model(call("t1", "Bash", command="x"))
    script.result("t1", said)
    (result,) = read_script(script).all(ToolResult)
    assert result.exit_code == code


@pytest.mark.parametrize(
    ("plan", "decision"),
    [
        ("Here is what I would do.\n\n## Dry everything ##\n- towels", "Dry everything"),
        ("First the cups\nthen #1", "First the cups"),
        ("#hashtags are no headings\n### Cups", "Cups"),
        ("", "Plan accepted"),
    ],
)
def test_a_plan_is_named_by_its_first_heading_else_by_its_first_line(script: Script, plan: str, decision: str) -> None:
    script.model(call("t1", "ExitPlanMode", plan=plan))
    script.result("t1", "User has approved your plan")
    assert only_action(script).description == decision
