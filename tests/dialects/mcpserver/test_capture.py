"""Rollouts of Codex in the session log: importing, capturing at the end of a session, subagents, the client script."""

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.mcpserver.log import OTHER_SESSION, SESSION, TURN, Log, Tools
from tests.ingest.import_app import Codex
from tests.journal.harness import stored_rows

PROGRAM = [sys.executable, "-c", "import sys; from shiftlog.entry import main; sys.exit(main())"]
SCRIPT = Path(__file__).parents[3] / "plugins" / "claude-code" / "shiftlog" / "lib" / "repl-invoke.sh"
PARENT = "019f5500-0000-7000-8000-00000000000a"
CHILDREN = ("019f5500-0000-7000-8000-00000000000b", "019f5500-0000-7000-8000-00000000000c")


def patch(codex: Codex, call: str, path: str, **more: Any) -> Codex:
    changes = {path: {"update": {"unified_diff": "@@ -1 +1 @@\n-a\n+b\n"}}}
    return codex.event("patch_apply_end", call_id=call, success=True, changes=changes, **more)


def two_turns(log: Log) -> Codex:
    codex = Codex(thread=PARENT)
    codex.lines[0]["payload"]["cwd"] = str(log.workspace)
    codex.event("task_started", turn_id="turn-one")
    codex.event("user_message", message="Fix both files")
    codex.event("agent_message", message="Decision: patch them in place. FR-UP-001")
    patch(codex, "call-1", "src/up.py")
    patch(codex, "call-2", f"{log.workspace}/docs/read me")
    codex.event("patch_apply_end", call_id="call-3", success=False, changes={"failed.py": {"delete": {"content": "x"}}})
    codex.event("task_complete", turn_id="turn-one", last_agent_message="Patched. See the file for more.")
    return codex.turn("turn-two", "And now?", "Nothing more")


def written(log: Log, codex: Codex) -> Path:
    path = log.workspace.parent / "codex" / "sessions" / "2026" / f"rollout-2026-03-04T06-00-00-{codex.thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in codex.lines))
    return path


def run(log: Log, *arguments: str, status: int = 0) -> str:
    sessions = log.workspace.parent / "codex" / "sessions"
    done = subprocess.run(
        [*PROGRAM, "codex-jsonl", *arguments],
        env=log.environment(CODEX_HOME=str(sessions.parent), SHIFTLOG_AGENT="Codex"),
        cwd=log.workspace,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_rollout_becomes_turns_with_the_files_of_its_successful_patches(log: Log) -> None:
    """Case 40."""
    path = written(log, two_turns(log))
    turns = json.loads(run(log, "parse", str(path)))
    assert [turn["status"] for turn in turns] == ["completed", "completed"]
    assert turns[0]["filesModified"] == ["src/up.py", "docs/read me"]
    assert turns[1]["filesModified"] == []
    assert turns[0]["requirementsDiscovered"] == ["FR-UP-001"]
    assert turns[0]["designDecisions"] == ["Decision: patch them in place. FR-UP-001"]
    run(log, "import", str(path), SESSION, "--apply")
    found = log.do("queryHistory", agent="Codex")["sessions"]
    assert [(one["turnCount"], one["filesModifiedCount"]) for one in found] == [(2, 2)]


def test_a_patch_creates_edits_or_deletes_in_every_spelling_of_its_changes(log: Log) -> None:
    codex = Codex(thread=PARENT).event("task_started", turn_id="one").event("user_message", message="Go")
    changes = {
        "old/new.py": {"add": {"content": "a\n"}},
        "old/edit.py": {"update": {"unified_diff": "@@ -1 +1 @@\n-a\n+b\n", "move_path": None}},
        "old/gone.py": {"delete": {"content": "a\n"}},
        "new.py": {"type": "add", "content": "a\n"},
        "gone.py": {"type": "delete", "content": "a\n"},
    }
    codex.event("patch_apply_end", call_id="1", success=True, changes=changes)
    (turn,) = json.loads(run(log, "parse", str(written(log, codex))))
    assert [(action["type"], action["filePath"]) for action in turn["actions"]] == [
        ("create", "old/new.py"),
        ("edit", "old/edit.py"),
        ("delete", "old/gone.py"),
        ("create", "new.py"),
        ("delete", "gone.py"),
    ]


def test_turns_without_an_id_of_their_own_are_labelled_by_their_place(log: Log) -> None:
    codex = Codex(thread=PARENT)
    for prompt in ("First", "Second"):
        codex.event("user_message", message=prompt).event("agent_message", message="Done")
    lines = run(log, "import", str(written(log, codex)), SESSION).splitlines()
    assert [line.split("\t")[2] for line in lines] == ["parent-t1", "parent-t2"]


def test_tokens_are_counted_also_where_only_their_total_is_told(log: Log) -> None:
    codex = Codex(thread=PARENT)
    codex.event("task_started", turn_id="one").event("user_message", message="Count")
    for total in (100, 100, 350):
        codex.event("token_count", info={"total_token_usage": {"total_tokens": total}})
    codex.event("task_complete", turn_id="one", last_agent_message="Counted")
    codex.event("task_started", turn_id="two").event("user_message", message="Count on")
    total, last = {"total_tokens": 360}, {"total_tokens": 10}
    codex.event("token_count", info={"total_token_usage": total, "last_token_usage": last})
    turns = json.loads(run(log, "parse", str(written(log, codex))))
    assert [turn["tokenCount"] for turn in turns] == [350, 10]


def test_an_aborted_turn_is_failed_and_an_unfinished_one_stays_open(log: Log) -> None:
    """Case 41."""
    codex = Codex(thread=PARENT)
    codex.event("task_started", turn_id="one").event("user_message", message="Go")
    codex.event("turn_aborted", turn_id="one", reason="interrupted")
    codex.event("task_started", turn_id="two").event("user_message", message="Again")
    path = written(log, codex)
    first, second = json.loads(run(log, "parse", str(path)))
    assert (first["status"], first["failureNote"]) == ("failed", "Turn aborted: interrupted")
    assert first["blockers"] == ["Turn aborted: interrupted"]
    assert second["status"] == "in_progress"


def families(log: Log) -> tuple[Path, list[Path]]:
    spawn = {"parent_thread_id": PARENT, "agent_nickname": "Ada Lovelace", "agent_role": "explorer", "depth": 1}
    first = Codex(thread=CHILDREN[0], meta={"source": {"subagent": {"thread_spawn": spawn}}})
    second = Codex(thread=CHILDREN[1], meta={"parent_thread_id": PARENT})
    paths = [written(log, child.turn(f"{child.thread[-4:]}-turn", "Look", "Found")) for child in (first, second)]
    return written(log, two_turns(log)), paths


def test_subagents_are_found_and_their_turns_have_ids_and_tags_of_their_own(log: Log) -> None:
    """Case 42."""
    parent, children = families(log)
    found = json.loads(run(log, "subagents", str(parent)))
    assert [(one["sessionId"], one["agentNickname"], one["agentRole"]) for one in found] == [
        (CHILDREN[0], "ada-lovelace", "explorer"),
        (CHILDREN[1], "codex", None),
    ]
    assert {one["parentThreadId"] for one in found} == {PARENT}
    assert json.loads(run(log, "subagents", CHILDREN[0])) == []
    for path in (parent, *children):
        run(log, "import", str(path), SESSION, TURN, "--apply")
    turns = listed(log)
    name = "req-20260304T060000Z-subagent-ada-lovelace-000b-turn"
    assert turns[name]["tags"] == ["subagent", "ada-lovelace", f"parent:{TURN}"]
    assert len(turns) == 4
    heads = log.heads()
    for path in (parent, *children):
        run(log, "import", str(path), SESSION, TURN, "--apply")
    assert (listed(log), log.heads()) == (turns, heads)


def listed(log: Log) -> dict[str, dict[str, Any]]:
    """Return the turns that the session log lists under the session."""
    with Tools(log) as tools:
        (item,) = tools.do("sessionlog_query", agent="Codex")["items"]
    return {turn["requestId"]: turn for turn in item["turns"]}


def children_in(log: Log) -> dict[str, tuple[str | None, str | None, int]]:
    """Return the sessions of subagents by thread: parent, the turn there, and how many turns of their own."""
    rows = stored_rows(log.home, "SELECT vendor_id, doc FROM sessions WHERE parent_id IS NOT NULL")
    found = {vendor: json.loads(doc) for vendor, doc in rows}
    return {
        vendor: (doc["parent_session_id"], doc.get("parent_turn"), doc["turns_total"]) for vendor, doc in found.items()
    }


def test_turns_of_another_thread_go_to_a_child_session_that_hangs_on_the_parents_turn(log: Log) -> None:
    """Case 42, natively."""
    _, children = families(log)
    log.do("openSession", sessionId=SESSION, title="Fix upload", agentSessionId=PARENT)
    log.do("beginTurn", requestId=TURN, queryTitle="Fix", queryText="Fix both files")
    for path in children:
        run(log, "import", str(path), SESSION, TURN, "--apply")
    assert children_in(log) == dict.fromkeys(CHILDREN, (SESSION, TURN, 1))
    actions = listed(log)[TURN]["actions"]
    assert [action["type"] for action in actions] == ["session_log"] * 2
    assert CHILDREN[0] in actions[0]["description"]
    assert log.do("currentSession")["turnCount"] == 3
    assert log.do("queryHistory", text="Found subagent")["totalCount"] == 1


def test_a_subagents_turn_is_addressed_among_those_of_its_parent(log: Log) -> None:
    _, children = families(log)
    log.do("openSession", sessionId=SESSION, title="Fix upload", agentSessionId=PARENT)
    for path in children:
        run(log, "import", str(path), SESSION, "--apply")
    name = "req-20260304T060000Z-subagent-ada-lovelace-000b-turn"
    refused = log.error("updateTurn", sessionId=SESSION, requestId=name, tags=["late"])
    assert (refused["code"], refused["details"]["turnRequestId"]) == ("turn_immutable", name)
    taken = log.error("beginTurn", sessionId=SESSION, requestId=name, queryTitle="x", queryText="x")
    assert (taken["code"], taken["details"]["requestId"]) == ("turn_already_exists", name)
    unfinished = {"requestId": "req-20260304T070000Z-subagent-ada-lovelace-more", "sourceThreadId": CHILDREN[0]}
    log.do("importRecovery", agent="Codex", sessionId=SESSION, title="Fix upload", turns=[unfinished])
    name = unfinished["requestId"]
    done = log.do("completeTurn", sessionId=SESSION, requestId=name, response="ok")
    assert (done["turnRequestId"], done["status"]) == (name, "completed")
    assert listed(log)[name]["response"] == "ok"


def test_a_subagent_is_stored_once_whichever_way_it_comes(log: Log) -> None:
    parent, children = families(log)
    lines = [line for path in (parent, *children) for line in run(log, "import", str(path), SESSION).splitlines()]
    requests = [json.loads(base64.b64decode(line.split("\t")[1])) for line in lines]
    first = [log.do("importRecovery", **request) for request in requests]
    assert [(one["importedTurns"], one["totalTurns"]) for one in first] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    sessions = log.workspace.parent / "codex" / "sessions"
    for _ in range(2):
        taken = log.do("repl.sessionlog.ingestTranscripts", path=str(sessions))
        assert (taken["totals"]["sessionsNew"], taken["totals"]["turns"]) == (0, 0)
    assert {thread: figures[2] for thread, figures in children_in(log).items()} == dict.fromkeys(CHILDREN, 1)
    again = [log.do("importRecovery", **request) for request in requests]
    assert [one["importedTurns"] for one in again] == [0] * 4


def test_an_open_turn_has_its_dialog_and_actions_once_whichever_ways_it_comes(log: Log) -> None:
    codex = Codex(thread=PARENT)
    codex.lines[0]["payload"]["cwd"] = str(log.workspace)
    codex.event("task_started", turn_id="turn-one").event("user_message", message="Fix it")
    codex.event("agent_message", message="Decision: patch it")
    codex.line("response_item", type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="call-0")
    codex.line("response_item", type="function_call_output", call_id="call-0", output="x" * 3_000)
    patch(patch(codex, "call-1", "src/up.py"), "call-2", "src/down.py")
    path = written(log, codex)
    lines = run(log, "import", str(path), SESSION).splitlines()
    requests = [json.loads(base64.b64decode(line.split("\t")[1])) for line in lines]
    for request in requests:
        log.do("importRecovery", **request)
    with Tools(log) as tools:
        before = tools.do("sessionlog_query")["items"][0]["turns"][0]
        assert (len(before["processingDialog"]), len(before["actions"])) == (5, 2)
        log.do("repl.sessionlog.ingestTranscripts", path=str(path))
        after = tools.do("sessionlog_query")["items"][0]["turns"][0]
    assert [after["processingDialog"].count(item) for item in before["processingDialog"]] == [1] * 5
    assert (after["actions"], after["filesModified"]) == (before["actions"], before["filesModified"])
    assert not any(log.do("importRecovery", **request)["journal"]["changed"] for request in requests)


def test_the_lines_of_an_import_are_dispatched_by_the_script_and_again_change_nothing(log: Log) -> None:
    """Case 47."""
    parent, children = families(log)
    lines = "".join(run(log, "import", str(path), SESSION) for path in (parent, *children))
    assert lines == "".join(run(log, "import", str(path), SESSION) for path in (parent, *children))
    labels = [line.split("\t")[2] for line in lines.splitlines()]
    assert labels == ["parent-turn-one", "parent-turn-two", "subagent-ada-lovelace-000b-tur", "subagent-codex-000c-tur"]
    file = log.workspace / "lines"
    file.write_text(lines)
    loop = (
        f'. "{SCRIPT}"\n'
        "tab=$(printf '\\t')\n"
        'while IFS="$tab" read -r method data label; do\n'
        '    repl_invoke "$method" "$(printf %s "$data" | base64 -d)" || exit 1\n'
        "done <lines\n"
    )

    def looped() -> list[dict[str, Any]]:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(
            ["sh", "-c", loop],
            env=log.environment(PATH=path, SHIFTLOG_AGENT="Codex"),
            cwd=log.workspace,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    first = looped()
    assert [result["importedTurns"] for result in first] == [1] * 4
    second = looped()
    assert [(result["importedTurns"], result["journal"]["changed"]) for result in second] == [(0, False)] * 4
    assert log.do("queryHistory", agent="Codex")["sessions"][0]["turnCount"] == 4


def test_capturing_a_turn_that_its_agent_completed_adds_an_amendment(log: Log) -> None:
    """Case 48."""
    codex = two_turns(log)
    codex.lines = codex.lines[:-4]
    path = written(log, codex)
    log.do("openSession", sessionId=SESSION, title="Fix upload")
    log.do("beginTurn", requestId=TURN, queryTitle="Fix", queryText="Fix both files")
    log.do("completeTurn", response="I fixed both")
    before = log.turn()
    done = json.loads(run(log, "capture"))
    assert (done["sessionId"], done["turnRequestId"], done["status"]) == (SESSION, TURN, "completed")
    assert (done["amended"], done["skippedLines"], done["unknownRecords"]) == (True, 0, {})
    after = log.turn()
    (note,) = after.pop("amendments")
    assert after == {name: value for name, value in before.items() if name != "amendments"}
    assert note["fields"]["files_modified"] == ["src/up.py", "docs/read me"]
    assert note["fields"]["design_decisions"] == ["Decision: patch them in place. FR-UP-001"]
    assert log.do("queryHistory", agent="Codex")["sessions"][0]["filesModifiedCount"] == 2
    assert json.loads(run(log, "capture", str(path)))["amended"] is False


def test_capturing_an_open_turn_completes_it_and_one_that_is_unknown_is_imported(log: Log) -> None:
    codex = two_turns(log)
    written(log, codex)
    assert json.loads(run(log, "capture"))["sessionId"].endswith(PARENT)
    log.do("openSession", sessionId=SESSION, title="Fix upload")
    log.do("beginTurn", requestId=TURN, queryTitle="Fix", queryText="Fix both files")
    done = json.loads(run(log, "capture"))
    assert (done["turnRequestId"], done["status"], done["amended"]) == (TURN, "completed", False)


def test_a_rollout_is_never_captured_into_the_turn_of_another_agent(log: Log) -> None:
    claude = "ClaudeCode-20260701T080000Z-review"
    log.open(claude)
    log.begin(sessionId=claude)
    path = written(log, Codex(thread=PARENT).turn("one", "Go", "Done"))
    assert json.loads(run(log, "capture", str(path)))["sessionId"].startswith("Codex-")
    assert log.turn(session=claude)["status"] == "in_progress"


def test_the_file_is_found_by_variable_or_workspace_and_never_taken_from_another(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = Codex(thread=PARENT).turn("one", "Go", "Done")
    path = written(log, codex)  # of /srv/app
    run(log, "enrich", status=2)
    monkeypatch.setenv("CODEX_SESSION_FILE", str(path))
    assert json.loads(run(log, "enrich"))["response"] == "Done"
    monkeypatch.setenv("CODEX_SESSION_FILE", str(path) + "x")
    run(log, "enrich", status=2)
    run(log, "import", str(path), "not-an-id", status=2)
    run(log, "parse", str(path) + "x", status=2)


def rollout_of(log: Log, thread: str, cwd: Path, said: str, last: str) -> Path:
    """Write a rollout of one turn that ends at a given time."""
    codex = Codex(thread=thread)
    codex.lines[0]["payload"]["cwd"] = str(cwd)
    codex.turn("one", "Go", said)
    codex.lines[-1]["timestamp"] = last
    return written(log, codex)


def test_of_several_rollouts_the_one_with_the_newest_last_record_is_taken(log: Log) -> None:
    newest = rollout_of(log, PARENT, log.workspace, "newest", "2026-07-01T12:00:00.900+02:00")
    rollout_of(log, CHILDREN[0], log.workspace / "below", "older", "2026-07-01T10:00:00.100Z")
    rollout_of(log, CHILDREN[1], log.workspace.parent, "elsewhere", "2026-07-01T23:00:00Z")
    with newest.open("a") as file:
        file.write('{"timestamp": "2026-07-')
    os.utime(newest, (1, 1))
    assert json.loads(run(log, "enrich"))["response"] == "newest"


def test_a_rollout_that_ran_behind_a_link_to_the_workspace_belongs_to_it(log: Log) -> None:
    link = log.workspace.parent / "link"
    link.symlink_to(log.workspace)
    rollout_of(log, PARENT, link / "src", "linked", "2026-07-01T12:00:00Z")
    assert json.loads(run(log, "enrich"))["response"] == "linked"


def test_the_transcript_of_the_current_session_is_taken_from_where_transcripts_may_be_read(log: Log) -> None:
    rollout_of(log, PARENT, log.workspace, "found", "2026-07-01T12:00:00Z")
    kept = rollout_of(log, CHILDREN[0], log.workspace, "kept", "2026-07-01T10:00:00Z").rename(log.workspace / "a.jsonl")
    log.open(agentSessionTranscriptFile=str(kept))
    assert json.loads(run(log, "enrich"))["response"] == "kept"
    outside = kept.rename(log.workspace.parent / "a.jsonl")
    log.open(OTHER_SESSION, agentSessionTranscriptFile=str(outside))
    run(log, "enrich", status=2)


def test_a_subagent_that_started_by_a_clock_with_an_offset_is_named_in_utc(log: Log) -> None:
    written(log, two_turns(log))
    child = Codex(thread=CHILDREN[0])
    child.lines[0]["payload"] |= {"parent_thread_id": PARENT, "timestamp": "2026-07-01T12:30:00.5+02:00"}
    path = written(log, child.turn("one", "Go", "Done"))
    (described,) = json.loads(run(log, "subagents", PARENT))
    assert described["startedAt"] == "2026-07-01T10:30:00Z"
    data = run(log, "import", str(path), SESSION).split("\t")[1]
    (turn,) = json.loads(base64.b64decode(data))["sessionLog"]["turns"]
    assert turn["requestId"] == "req-20260701T103000Z-subagent-codex-one"


def test_what_is_printed_holds_no_secrets(log: Log) -> None:
    secret = "ghp_" + "a1B2" * 9
    path = written(log, Codex(thread=PARENT).turn("one", f"Use {secret}", "Done"))
    assert secret not in run(log, "parse", str(path))
    line = run(log, "import", str(path), SESSION)
    assert secret not in base64.b64decode(line.split("\t")[1]).decode()


def test_a_session_of_a_transcript_can_be_submitted_as_it_was_read_here_and_under_another_id(log: Log) -> None:
    codex = Codex(thread=PARENT, started=datetime(2026, 3, 4, 6, 0, 0, 640_000, tzinfo=UTC))
    codex.lines[0]["payload"]["cwd"] = str(log.workspace)
    for turn, output in (("one", "x" * 3_000), ("two", ""), ("three", "y" * 3_000)):
        codex.event("task_started", turn_id=turn).event("user_message", message=f"Run {turn}")
        call = {"name": "shell", "arguments": '{"command":["ls"]}', "call_id": turn}
        codex.line("response_item", type="function_call", **call)
        codex.line("response_item", type="function_call_output", call_id=turn, output=output)
        if turn != "three":
            codex.event("task_complete", turn_id=turn, last_agent_message="Done")
    written(log, codex)
    log.do("repl.sessionlog.ingestTranscripts", path=str(log.workspace.parent / "codex" / "sessions"))
    with Tools(log) as tools:
        (read,) = tools.do("sessionlog_query")["items"]
        results = [item["content"] for turn in read["turns"] for item in turn["processingDialog"]]
        assert "x" * 2_000 + "\n[the first 2000 of 3000 characters]" in results
        assert "" in results
        assert tools.do("sessionlog_submit", json=read)["journal"]["changed"] is False
        for changed in (True, False):
            submitted = tools.do("sessionlog_submit", json=read | {"sessionId": OTHER_SESSION})
            assert submitted["journal"]["changed"] is changed
        (copy,) = tools.do("sessionlog_query", text=OTHER_SESSION)["items"]
    assert copy["turns"] == read["turns"]


def test_a_transcript_of_turns_that_were_imported_here_tells_nothing_twice(log: Log) -> None:
    codex = two_turns(log)
    codex.event("task_started", turn_id="turn-three").event("user_message", message="Look")
    codex.line("response_item", type="function_call", name="shell", arguments='{"command": ["ls"]}', call_id="call-9")
    codex.line("response_item", type="function_call_output", call_id="call-9", output="x" * 5000)
    codex.event("agent_message", message="Same").event("agent_message", message="Same")
    codex.event("task_complete", turn_id="turn-three", last_agent_message="Same")
    path = written(log, codex)
    run(log, "import", str(path), SESSION, "--apply")
    before = listed(log)
    assert all(turn["lastUpdated"] < "2026-03-04T06:01" for turn in before.values() if "lastUpdated" in turn)
    log.do("repl.sessionlog.ingestTranscripts", path=str(path))
    after = listed(log)
    assert [len(turn["processingDialog"]) for turn in after.values()] == [
        len(turn["processingDialog"]) for turn in before.values()
    ]
    assert not any(
        name in note["fields"]
        for turn in after.values()
        for note in turn.get("amendments", ())
        for name in ("dialog", "actions", "processingDialog")
    ), [turn.get("amendments") for turn in after.values()]
