"""Tool calls of a rollout: pairing, exit codes, and what the calls did."""

import base64
import json
from typing import Any

import pytest

from shiftlog.facts.transcript import Action, ChildLink, ToolCall, ToolResult, TurnBegun
from shiftlog.ingest.readers.codex.calls import files_read
from shiftlog.ingest.readers.codex.patch import changes_in_patch
from tests.ingest.readers.codex.rollouts import called, event, item, meta, output, read, started

PATCH = """*** Begin Patch
*** Add File: new file
+one
+two
*** Update File: src/a.py
*** Move to: src/b.py
@@ def f():
 keep
-old
+new
*** Delete File: gone.txt
*** End Patch"""


def ran(command: Any, result: Any, tool: str = "shell", **more: Any) -> Any:
    """Read a turn with one command."""
    return read(meta(), started(1, "a"), called(2, "c", tool, command=command, **more), output(3, "c", result),
                event(4, "task_complete", turn_id="a"))  # fmt: skip


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"output":"x","metadata":{"exit_code":2,"duration_seconds":0.5}}', 2),
        ("Exit code: 7\nWall time: 1 seconds\nOutput:\nExit code: 0", 7),
        ("Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nx", 0),
        ("Chunk ID: a\nProcess running with session ID 4\nOutput:\n", None),
        ("Wall time: 1 seconds\nOutput:\nExit code: 9", None),
        ([{"type": "input_text", "text": "Exit code: 3\nOutput:\nx"}], 3),
        ({"stdout": "a", "stderr": "b", "exitCode": 4}, 4),
        ({"content": "fine", "success": True}, None),
        (None, None),
        (17, None),
    ],
)
def test_the_exit_code_is_found_in_every_form_of_an_output(result: Any, code: int | None) -> None:
    """Only where the client writes it, never inside the program's own output."""
    found = ran(["ls"], result).of(ToolResult)[0]
    assert (found.exit_code, found.is_error) == (code, code not in (None, 0))


def test_the_inner_text_of_a_wrapped_output_is_its_content() -> None:
    """The wrapper's figures are fields of the result."""
    found = ran(["ls"], '{"output":"x\\n","metadata":{"exit_code":0,"duration_seconds":0.5}}').of(ToolResult)[0]
    assert (found.content, found.exit_code, found.duration_ms) == ("x\n", 0, 500)


def test_the_end_of_a_command_joins_its_call() -> None:
    """Exit code and duration of the event, text of the output, once."""
    end = event(
        3, "exec_command_end", call_id="c", exit_code=3, aggregated_output="no", duration={"secs": 1, "nanos": 5e8}
    )
    found = read(meta(), started(1, "a"), called(2, "c", "exec_command", cmd="ls"), end, output(4, "c", "no"))
    assert len(found.of(ToolCall)) == 1
    result = found.of(ToolResult)[0]
    assert (result.exit_code, result.duration_ms, result.is_error, result.content) == (3, 1500, True, "no")


def test_an_end_without_a_call_is_a_call_of_its_own() -> None:
    """Code mode; it does not count as a call of the model."""
    found = read(
        meta(), started(1, "a"),
        event(2, "exec_command_end", call_id="exec-1", command=["bash", "-lc", "uv add httpx"], exit_code=0,
              aggregated_output="ok"),
        event(3, "mcp_tool_call_end", call_id="exec-2", invocation={"server": "s", "tool": "t", "arguments": {"q": 1}},
              result={"Err": "down"}),
    )  # fmt: skip
    assert [(call.tool, call.call_id, call.nested) for call in found.of(ToolCall)] == [
        ("exec_command", "exec-1", True),
        ("s.t", "exec-2", True),
    ]
    assert [(result.content, result.is_error) for result in found.of(ToolResult)] == [("ok", False), ("down", True)]
    assert found.actions() == [("dependency_add", "uv: httpx")]


def test_a_command_that_goes_on_is_judged_when_its_exit_code_comes() -> None:
    """`write_stdin` of its session carries it."""
    found = read(
        meta(), started(1, "a"), called(2, "c", "exec_command", cmd="git commit -m x"),
        output(3, "c", "Process running with session ID 12\nOutput:\n"),
        called(4, "w", "write_stdin", session_id=12, chars=""),
        output(5, "w", "Process exited with code 0\nOutput:\n[main 1a2b3c4] x\n 1 file changed"),
    )  # fmt: skip
    assert [(result.call_id, result.exit_code) for result in found.of(ToolResult)] == [("c", None), ("w", 0)]
    actions = found.of(Action)
    assert [(action.type, action.description, action.call_id) for action in actions] == [("commit", "git: x", "c")]
    assert found.field("commits") == [{"sha": "1a2b3c4", "branch": "main", "message": "x"}]


def test_a_commit_that_a_command_prints_before_it_goes_on_is_told() -> None:
    found = read(
        meta(), started(1, "a"), called(2, "c", "exec_command", cmd="git commit -m x && git commit -m y && serve"),
        output(3, "c", "Process running with session ID 12\nOutput:\n[main 1a2b3c4] x\n 1 file changed"),
        called(4, "w", "write_stdin", session_id=12, chars=""),
        output(5, "w", "Process running with session ID 12\nOutput:\n[main 2b3c4d5] y\n 1 file changed"),
        called(6, "v", "write_stdin", session_id=12, chars=""),
        output(7, "v", "Process exited with code 0\nOutput:\nserved"),
    )  # fmt: skip
    assert [action.description for action in found.of(Action)] == ["git: x", "git: y"]
    assert [commit["sha"] for commit in found.field("commits")] == ["1a2b3c4", "2b3c4d5"]


def test_results_pair_with_unnamed_calls_by_order() -> None:
    """Early files have no call ids."""
    found = read(
        meta(), item(1, "tool_call", function={"name": "a"}, arguments="1"),
        item(2, "tool_call", function={"name": "b"}, arguments="2"), item(3, "tool_result", name="a", result="ra"),
        item(4, "tool_result", name="b", result="rb"), item(5, "tool_result", name="z", result="rz"),
    )  # fmt: skip
    calls = {call.call_id: call.tool for call in found.of(ToolCall)}
    results = [(calls.get(result.call_id), result.content, result.orphan) for result in found.of(ToolResult)]
    assert results == [("a", "ra", False), ("b", "rb", False), (None, "rz", True)]


def test_a_result_without_a_known_call_is_an_orphan() -> None:
    """It is kept."""
    assert read(meta(), output(1, "nobody", "x")).of(ToolResult)[0].orphan


def test_the_files_of_an_applied_patch_are_actions() -> None:
    """Case 24: add, update with a new path, delete, and one that failed."""
    changes = {
        "/work/app/new file": {"type": "add", "content": "one\ntwo\n"},
        "/work/app/src/a.py": {
            "type": "update",
            "unified_diff": "@@ -1 +1 @@\n-a\n+b\n",
            "move_path": "/work/app/b.py",
        },
        "/other/gone": {"type": "delete", "content": "bye\n"},
    }
    found = read(
        meta(), started(1, "a"), item(2, "custom_tool_call", name="apply_patch", call_id="c", input=PATCH),
        event(3, "patch_apply_end", call_id="c", success=True, changes=changes),
        item(4, "custom_tool_call_output", call_id="c", output="Exit code: 0\nOutput:\nSuccess. Updated"),
        item(5, "custom_tool_call", name="apply_patch", call_id="d", input=PATCH.replace("src", "lib")),
        event(6, "patch_apply_end", call_id="d", success=False, changes={"/work/app/x": {"type": "add"}}),
        item(7, "custom_tool_call_output", call_id="d", output="Exit code: 0\nOutput:\nSuccess. Updated"),
        event(8, "task_complete", turn_id="a"),
    )  # fmt: skip
    assert found.actions() == [("create", "new file"), ("edit", "b.py"), ("delete", "/other/gone")]
    created, edited, deleted = found.of(Action)
    assert created.diff == "--- /dev/null\n+++ b/new file\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert (edited.moved_from, edited.diff) == ("src/a.py", "--- a/src/a.py\n+++ b/b.py\n@@ -1 +1 @@\n-a\n+b\n")
    assert deleted.diff == "--- a//other/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-bye\n"
    assert created.description == "Applied patch to new file"
    assert found.field("files_modified") == ["new file", "b.py", "/other/gone"]


def test_an_event_without_changes_names_its_files_in_its_output() -> None:
    """Paths may hold spaces or lack an ending."""
    text = "Success. Updated the following files:\nA my notes\nM src/a.py\nD LICENSE\n"
    found = read(meta(), started(1, "a"), event(2, "patch_apply_end", call_id="c", success=True, stdout=text))
    assert found.actions() == [("create", "my notes"), ("edit", "src/a.py"), ("delete", "LICENSE")]


WRAPPED = '{"output":"Success. Updated the following files:\\nA x","metadata":{"exit_code":0}}'
REJECTED = '{"output":"patch rejected by user","metadata":{"exit_code":1}}'


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-lc", f"apply_patch <<'PATCH'\n{PATCH}\nPATCH"],
        ["bash", "-lc", f"cd /work/app && apply_patch <<EOF\n{PATCH}\nEOF\n"],
        ["apply_patch", PATCH],
        ["/usr/bin/applypatch", PATCH],
    ],
)
def test_a_patch_in_a_shell_call_gives_its_files(command: list[str]) -> None:
    """Case 25: here-documents and arguments; a rejected one gives none."""
    wanted = [("create", "new file"), ("edit", "src/b.py"), ("delete", "gone.txt")]
    assert ran(command, WRAPPED).actions() == wanted
    assert ran(command, REJECTED).actions() == []


def test_a_patch_that_is_only_shown_gives_no_files() -> None:
    """Printing a patch applies nothing."""
    assert ran(["bash", "-lc", f"cat <<'EOF'\n{PATCH}\nEOF"], WRAPPED).actions() == []
    assert ran(["grep", "-r", "*** Begin Patch"], "Exit code: 0\nOutput:\nx").actions() == []


def test_paths_of_a_patch_are_relative_to_where_it_ran() -> None:
    """Then made relative to the session's first directory."""
    script = f"apply_patch <<'P'\n{PATCH}\nP"
    assert ran(["bash", "-lc", script], WRAPPED, workdir="/work/app/sub").actions("create") == [
        ("create", "sub/new file")
    ]
    assert ran(["bash", "-lc", script], WRAPPED, workdir="/tmp/x").actions("create") == [("create", "/tmp/x/new file")]


def test_a_patch_in_a_script_of_code_mode_gives_its_files() -> None:
    """As a template or as a quoted string."""
    for quoted in (f"`{PATCH}`", json.dumps(PATCH)):
        text = f"const r = await tools.apply_patch({quoted}); text(r)"
        found = read(
            meta(), started(1, "a"), item(2, "custom_tool_call", name="exec", call_id="c", input=text),
            item(3, "custom_tool_call_output", call_id="c",
                 output=[{"type": "input_text", "text": "Script completed\nOutput:\n"},
                         {"type": "input_text", "text": "Success. Updated the following files:\nA x"}]),
        )  # fmt: skip
        assert found.actions("create") == [("create", "new file")]


def test_a_patch_text_becomes_an_approximate_diff() -> None:
    """It names no line numbers."""
    change = changes_in_patch(PATCH)[1]
    assert change.diff("src/b.py", "src/a.py") == (
        "--- a/src/a.py\n+++ b/src/b.py\n@@ -1,2 +1,2 @@ def f():\n keep\n-old\n+new\n"
    )
    assert change.approximate


def test_commits_are_read_from_what_git_printed() -> None:
    """Case 26."""
    found = ran("git commit -m x", "Exit code: 0\nOutput:\n[main 1a2b3c4] x\n", tool="shell_command")
    assert found.actions() == [("commit", "git: x")]
    assert ran('echo "git commit"', "Exit code: 0\nOutput:\ngit commit", tool="shell_command").actions() == []
    failing = ran("git commit -m x", "Exit code: 1\nOutput:\nnothing to commit", tool="shell_command")
    assert failing.actions() == []


def test_packages_are_read_by_their_literal_names() -> None:
    """Case 27."""
    script = "pip install -r r.txt && uv add httpx==1.0; npm i left-pad ./local"
    found = ran(["bash", "-lc", script], "Exit code: 0\nOutput:\n")
    assert found.actions() == [("dependency_add", "uv: httpx==1.0"), ("dependency_add", "npm: left-pad")]


def test_a_commit_in_code_mode_is_seen() -> None:
    """The commands of a script are its quoted `cmd` values."""
    text = 'const r = await tools.exec_command({cmd: "git commit -m \\"two words\\"", workdir: "/x"})'
    found = read(
        meta(), started(1, "a"), item(2, "custom_tool_call", name="exec", call_id="c", input=text),
        item(3, "custom_tool_call_output", call_id="c", output="Script completed\nOutput:\n[dev abcdef1] two words"),
    )  # fmt: skip
    assert found.actions() == [("commit", "git: two words")]


def test_what_a_script_did_is_told_once() -> None:
    """By the events of its steps where there are any."""
    text = f"await tools.apply_patch(`{PATCH}`); await tools.exec_command({{cmd: 'uv add httpx'}})"
    found = read(
        meta(), started(1, "a"), item(2, "custom_tool_call", name="exec", call_id="c", input=text),
        event(3, "patch_apply_end", call_id="exec-1", success=True, changes={"/work/app/new file": {"type": "add"}}),
        event(4, "exec_command_end", call_id="exec-2", command=["bash", "-lc", "uv add httpx"], exit_code=0),
        item(5, "custom_tool_call_output", call_id="c", output="Script completed\nOutput:\nSuccess. Updated"),
    )  # fmt: skip
    assert found.actions() == [("create", "new file"), ("dependency_add", "uv: httpx")]


def test_words_of_a_program_that_ended_well_are_no_error() -> None:
    """The exit code decides where there is one."""
    wrapped = '{"output":"error: 0 of 5 checks","metadata":{"exit_code":0}}'
    assert not ran(["check"], wrapped).of(ToolResult)[0].is_error
    assert ran(["check"], "error: no such tool").of(ToolResult)[0].is_error
    stopped = ran(["check"], "aborted by user after 3.1s").of(ToolResult)[0]
    assert (stopped.interrupted, stopped.is_error) == (True, True)
    assert not ran(["check"], "Aborted (core dumped)").of(ToolResult)[0].interrupted


@pytest.mark.parametrize(("tool", "kind"), [("write_file", "edit"), ("create_file", "create"), ("edit", "edit")])
def test_write_tools_change_the_file_they_name(tool: str, kind: str) -> None:
    """Unless their output is an error."""
    done = read(meta(), started(1, "a"), called(2, "c", tool, path="/work/app/x y"), output(3, "c", "ok"),
                event(4, "task_complete", turn_id="a"))  # fmt: skip
    failed = read(meta(), started(1, "a"), called(2, "c", tool, path="x"), output(3, "c", "error: no such folder"))
    assert done.actions() == [(kind, "x y")]
    assert done.field("files_modified") == ["x y"]
    assert [action.status for action in failed.of(Action)] == ["failed"]
    assert failed.field("files_modified") == []


def test_a_web_search_logged_twice_is_one_reference() -> None:
    """The halves may come in either order, with or without an id."""
    action = {"type": "search", "query": "sqlite wal"}
    page = {"type": "open_page", "url": "https://sqlite.org/wal.html"}
    found = read(
        meta(), started(1, "a"), event(2, "web_search_end", call_id="ws_1", query="sqlite wal", action=action),
        item(2, "web_search_call", action=action), item(3, "web_search_call", id="ws_2", action=page),
        event(3, "web_search_end", call_id="ws_9", query="x", action=page),
        event(4, "web_search_end", call_id="ws_3", query="sqlite wal", action=action),
    )  # fmt: skip
    assert found.actions() == [
        ("web_reference", "search: sqlite wal"),
        ("web_reference", "https://sqlite.org/wal.html"),
        ("web_reference", "search: sqlite wal"),
    ]


def test_a_refused_call_is_a_blocker() -> None:
    """Denied by the user."""
    found = ran(["rm", "x"], "exec command rejected by user")
    assert (found.of(ToolResult)[0].denied, found.field("blockers")) == (True, ["Denied: shell"])


def test_files_that_a_command_shows_are_context() -> None:
    """cat, head, tail, nl and sed."""
    script = "cat a.py 'b c.py' | head -n 5; sed -n '1,20p' d.py && sed -i s/x/y/ e.py; nl -ba /work/app/f; tail -20 $X"
    assert files_read(script) == ["a.py", "b c.py", "d.py", "/work/app/f"]
    found = ran(["bash", "-lc", script], "Exit code: 0\nOutput:\n")
    assert found.field("context_list") == ["a.py", "b c.py", "d.py", "f"]


def test_a_file_opened_with_a_read_tool_is_context() -> None:
    """Unless it could not be read."""
    found = read(meta(), started(1, "a"), called(2, "c", "read_file", path="/work/app/x.py"), output(3, "c", "text"),
                 called(4, "d", "read_file", path="y.py"), output(5, "d", "error: no such file"))  # fmt: skip
    assert found.field("context_list") == ["x.py"]


def test_children_are_linked_to_the_call_that_started_them() -> None:
    """By either of the two events."""
    found = read(
        meta(), started(1, "a"), called(2, "c1", "spawn_agent", message="x"),
        event(3, "sub_agent_activity", event_id="c1", agent_thread_id="t1", agent_path="/root/x", kind="started"),
        event(4, "sub_agent_activity", event_id="c1", agent_thread_id="t1", agent_path="/root/x", kind="interacted"),
        event(5, "collab_agent_spawn_end", call_id="c2", new_thread_id="t2", new_agent_nickname="Ada", prompt="y"),
    )  # fmt: skip
    turn = found.of(TurnBegun)[0].turn
    links = [(link.child_thread_id, link.call_id, link.turn, link.name) for link in found.of(ChildLink)]
    assert links == [("t1", "c1", turn, None), ("t2", "c2", turn, "Ada")]
    assert [content for role, _, content in found.dialog if role == "system"] == [
        "Subagent started: /root/x",
        "Subagent interacted: /root/x",
        "collab_agent_spawn\ny",
    ]


def test_images_are_kept_as_digests() -> None:
    """Case 45 for this format: in outputs, prompts and generated ones."""
    data = base64.b64encode(b"\x89PNG12345").decode()
    url = f"data:image/png;base64,{data}"
    lines = [
        meta(), started(1, "a"), event(2, "user_message", message="look", images=[url]),
        called(3, "c", "view_image", path="x.png"), output(4, "c", [{"type": "input_image", "image_url": url}]),
        event(5, "image_generation_end", call_id="g", revised_prompt="a cat", result=data),
        item(5, "image_generation_call", id="g", revised_prompt="a cat", result=data),
    ]  # fmt: skip
    found = read(*lines)
    prompt = found.of(TurnBegun)[0].images
    assert [(image.media_type, image.size, image.data) for image in prompt] == [("image/png", 9, None)]
    assert [len(result.images) for result in found.of(ToolResult)] == [1, 1]
    assert data not in repr(found.facts)
    assert read(*lines, keep_images=True).of(TurnBegun)[0].images[0].data == b"\x89PNG12345"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_patch_is_read_by_its_lines_and_nothing_else_ends_one(end: str) -> None:
    """Form feeds and separators of other scripts stand inside of lines."""
    lines = [
        "*** Begin Patch",
        "*** Add File: a",
        "+one\x0ctwo\u2028three",
        "*** Update File: b",
        "@@",
        "-x\x1cy",
        "+z",
    ]
    found = read(
        meta(),
        started(1, "t"),
        item(2, "custom_tool_call", name="apply_patch", input=end.join([*lines, "*** End Patch", ""]), call_id="c"),
        output(3, "c", "Success. Updated the following files:"),
    )
    assert [action.diff for action in found.of(Action)] == [
        "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+one\x0ctwo\u2028three\n",
        "--- a/b\n+++ b/b\n@@ -1,1 +1,1 @@\n-x\x1cy\n+z\n",
    ]
