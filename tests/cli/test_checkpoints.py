"""`checkpoints`, `diff`, `undo`, `rewind` and `gc`: real shells change a real directory, and it comes back."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agent import Agent, agent
from tests.cli.support import PROGRAM, Done, on_terminal, shiftlog
from tests.daemon.support import DEADLINE_S, environment


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a workspace with one file."""
    path = tmp_path / "work"
    (path / "sub").mkdir(parents=True)
    (path / "a.txt").write_text("good\n")
    return path


def here(home: Path, cwd: Path, *arguments: str, status: int = 0) -> Done:
    """Run a command of ours in a directory."""
    done = subprocess.run(
        [*PROGRAM, *arguments], env=environment(home), cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip
    result = Done(status=done.returncode, out=done.stdout, err=done.stderr)
    assert result.status == status, result
    return result


def at_work(client: Agent, place: Path, *commands: str) -> str:
    """Run commands in a shell of an agent and return its id."""
    shell_id: str = client.call("open_shell", workspace=str(place))["shell_id"]
    for command in commands:
        assert client.call("run_command", shell_id=shell_id, command=command)["exit_code"] == 0
    return shell_id


def files(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in place.iterdir() if path.is_file()}


def test_undo_takes_back_what_the_last_command_changed_and_can_be_undone(served: Path, place: Path) -> None:
    with agent(served) as client:
        shell_id = at_work(client, place, "echo BAD > a.txt; echo n > new.txt", "cat a.txt")
        preview = here(served, place / "sub", "undo", "--dry-run").out
        assert f"would undo  {shell_id}#1\n" in preview
        assert files(place) == {"a.txt": "BAD\n", "new.txt": "n\n"}
        done = here(served, place / "sub", "undo").out
        assert f"undone  {shell_id}#1\n" in done
        assert "  written back   a.txt\n  removed        new.txt\n2 files changed.\n" in done
        assert files(place) == {"a.txt": "good\n"}
        safety = done.rpartition("--to ")[2].split()[0]
        here(served, place, "undo", "--to", safety)
        assert files(place) == {"a.txt": "BAD\n", "new.txt": "n\n"}
        client.call("close_shell", shell_id=shell_id)


def test_undo_after_a_restart_still_names_the_command_that_changed_something(home: Path, place: Path) -> None:
    with agent(home) as client:
        shell_id = at_work(client, place, "echo BAD > a.txt", "cat a.txt")
        client.call("close_shell", shell_id=shell_id)
    shiftlog(home, "daemon", "stop")
    assert here(home, place, "undo", "--json").json()["commands"] == [f"{shell_id}#1"]


def test_what_a_person_takes_back_is_recorded_as_a_persons_work_in_its_project(home: Path, place: Path) -> None:
    here(home, place, "exec", "--workspace", ".", "--", "echo x > a.txt")
    here(home, place, "undo")
    session = shiftlog(home, "sessions", "--json").json()["items"][0]
    assert (session["agent_id"], session["title"], session["state"]) == ("Person", f"Restore of {place.name}", "closed")
    assert session["project"] == place.name
    lines = shiftlog(home, "export", "last", "--format", "jsonl", "-o", "-").out.splitlines()
    restored = next(line for line in lines if '"checkpoint.restored"' in line)
    assert json.loads(restored)["body"]["cause"]["by"] == "person"


def test_undo_of_several_counts_only_commands_that_changed_something(served: Path, place: Path) -> None:
    commands = ["echo 1 > a.txt", "ls", "echo 2 > a.txt", "true; true", "rm a.txt", "echo 3 > b.txt", "touch -c b.txt"]
    with agent(served) as client:
        shell_id = at_work(client, place, *commands)
        done = here(served, place, "undo", "2", "--json").json()
        assert done["commands"] == [f"{shell_id}#5", f"{shell_id}#6"]
        assert files(place) == {"a.txt": "2\n"}
        assert here(served, place, "undo", "--json").json()["commands"] == [f"{shell_id}#3"]
        assert files(place) == {"a.txt": "1\n"}
        too_many = here(served, place, "undo", "2", status=1)
        assert too_many.err.startswith("error: only 1 command changed files here\n")
        here(served, place, "undo")
        assert files(place) == {"a.txt": "good\n"}
        assert "no command changed files here" in here(served, place, "undo", "3", status=1).err
        client.call("close_shell", shell_id=shell_id)


def test_undo_can_leave_new_files_and_keep_to_a_path(served: Path, place: Path) -> None:
    with agent(served) as client:
        shell_id = at_work(client, place, "echo BAD > a.txt; echo n > new.txt; echo s > sub/s.txt")
        outside = here(served, place, "undo", "--path", "..", status=2)
        assert f"a path inside {place}" in outside.err
        here(served, place / "sub", "undo", "--path", "s.txt")
        assert not (place / "sub" / "s.txt").exists()
        assert files(place) == {"a.txt": "BAD\n", "new.txt": "n\n"}
        done = here(served, place, "undo", "--keep-new").out
        assert "1 newer file left in place: new.txt" in done
        assert files(place) == {"a.txt": "good\n", "new.txt": "n\n"}
        client.call("close_shell", shell_id=shell_id)


def test_rewind_goes_back_to_before_a_turn(served: Path, place: Path) -> None:
    with agent(served) as client:
        session_id = client.call("open_session", agent="Tester", title="Two turns")["session_id"]
        shell_id = client.call("open_shell", workspace=str(place), session_id=session_id)["shell_id"]
        turns: list[str] = []
        for number in (1, 2):
            begun = client.call("begin_turn", session_id=session_id, query_title=f"Turn {number}", query_text="Do it")
            turns.append(begun["request_id"])
            client.call("run_command", shell_id=shell_id, command=f"echo {number} >> a.txt; touch n{number}")
            client.call("finish_turn", session_id=session_id, outcome="completed", response="Done")
        assert files(place) == {"a.txt": "good\n1\n2\n", "n1": "", "n2": ""}
        changed = here(served, place, "diff", "--turn", turns[1], "--patch").out
        assert "\n+2\n" in changed
        assert "\n+1\n" not in changed
        assert here(served, place, "rewind", "last", "--dry-run", "--json").json()["files_changed"] == 2
        done = here(served, place, "rewind", turns[1]).out
        assert f"rewound  to before {turns[1]}\n" in done
        assert files(place) == {"a.txt": "good\n1\n", "n1": ""}
        here(served, place, "rewind", turns[0])
        assert files(place) == {"a.txt": "good\n"}
        lost = here(served, place, "rewind", "req-nowhere", status=1).err.splitlines()
        assert lost == ["error: turn 'req-nowhere' not found", "hint: shiftlog show SESSION lists the turns"]
        client.call("close_session", session_id=session_id, reason="done")


def test_checkpoints_are_listed_from_anywhere_below_the_workspace(served: Path, place: Path) -> None:
    with agent(served) as client:
        shell_id = at_work(client, place, "echo 1 > a.txt", "echo 2 > a.txt")
        made = client.call("create_checkpoint", shell_id=shell_id, label="before \x1b[31mrefactor")
        lines = here(served, place / "sub", "checkpoints").out.splitlines()
        assert lines[0] == str(place)
        assert lines[1].split() == ["CHECKPOINT", "TAKEN", "KIND", "FILES", "TURN", "BEFORE", "COMMAND", "LABEL"]
        assert lines[2].startswith(f"{made['checkpoint_id'][:12]}  *")
        assert [line.split()[-2:] for line in lines[3:]] == [["before", "command"], ["shell", "opened"]]
        found = here(served, place, "checkpoints", "--kind", "manual", "--json").json()
        assert [row["checkpoint_id"] for row in found["checkpoints"]] == [made["checkpoint_id"]]
        assert found == here(served, Path("/"), "checkpoints", str(place), "--kind", "manual", "--json").json()
        assert found == here(served, Path("/"), "checkpoints", "--shell", "last", "--kind", "manual", "--json").json()
        shown = on_terminal(served, "checkpoints", str(place), width=200)
        assert "\x1b[31mrefactor" not in shown.text
        client.call("close_shell", shell_id=shell_id)
    assert here(served, place, "checkpoints").out.splitlines()[0] == str(place)


def test_diff_says_what_changed_in_lines_and_as_a_patch(served: Path, place: Path) -> None:
    with agent(served) as client:
        shell_id = at_work(client, place, "echo more >> a.txt; echo n > new.txt", "rm a.txt")
        assert here(served, place, "diff").out.splitlines()[0] == "D  a.txt  +0 -2"
        first = here(served, place, "checkpoints", "--json").json()["checkpoints"][-1]["checkpoint_id"]
        since_first = here(served, place, "diff", first[:6])
        assert since_first.out.splitlines()[:2] == ["D  a.txt  +0 -1", "A  new.txt  +1 -0"]
        assert since_first.out.splitlines()[2].startswith("2 files changed, +1 -1, from ")
        patch = here(served, place, "diff", "--command", f"{shell_id}#1", "--patch", "--path", "new.txt").out
        assert "\n+n\n" in patch
        assert "a.txt" not in patch
        assert "\x1b[32m+n" in on_terminal(served, "diff", "-p", "-w", str(place), first).text
        assert here(served, place, "diff", "--json").json()["files"][0]["status"] == "deleted"
        unknown = here(served, place, "diff", "0000", status=1)
        assert unknown.err == "error: checkpoint '0000' not found\nhint: shiftlog checkpoints lists them\n"
        client.call("close_shell", shell_id=shell_id)


def test_a_directory_without_checkpoints_is_told_apart_from_known_ones(home: Path, place: Path) -> None:
    nothing = here(home, place, "undo", status=1)
    assert nothing.err.startswith(f"error: no checkpoint of {place} or a directory above it is known\n")
    assert "shiftlog exec --workspace" in nothing.err
    here(home, place, "exec", "--workspace", ".", "--", "echo x > a.txt")
    elsewhere = here(home, place.parent, "undo", status=1)
    assert f"these have checkpoints: {place}" in elsewhere.err
    both = here(home, place, "undo", "--workspace", ".", "--shell", "x", status=2)
    assert "cannot be combined" in both.err
    here(home, place, "undo")
    assert files(place) == {"a.txt": "good\n"}
    states = [item["state"] for item in here(home, place, "sessions", "--json").json()["items"]]
    assert states == ["closed", "closed"]


def test_nothing_inside_a_shell_can_go_back_past_its_rules(served: Path, place: Path) -> None:
    with agent(served) as client:
        opening: dict[str, Any] = {"workspace": str(place), "sandbox": "full-access", "env": {"H": str(served)}}
        shell_id = client.call("open_shell", **opening)["shell_id"]
        client.call("run_command", shell_id=shell_id, command="echo x > a.txt")
        other = client.call("open_shell", **{**opening, "workspace": None, "cwd": str(place)})["shell_id"]
        inner = f"SHIFTLOG_HOME=$H {PROGRAM[0]} -c '{PROGRAM[2]}' undo"
        refused = client.call("run_command", shell_id=other, command=inner)
        assert "Only an operator may ask for undo" in refused["stderr"]
        assert files(place) == {"a.txt": "x\n"}


def test_gc_removes_what_is_beyond_the_limits(home: Path, place: Path) -> None:
    (home / "config.toml").write_text("[policy.limits]\ncheckpoints_auto = 2\n")
    commands = [f"echo {number} > a.txt" for number in range(6)]
    with agent(home) as client:
        client.call("close_shell", shell_id=at_work(client, place, *commands))
    before = here(home, place, "checkpoints", "--json").json()["checkpoints"]
    done = here(home, place, "gc", "--json").json()
    after = here(home, place, "checkpoints", "--json").json()["checkpoints"]
    assert done["checkpoints_removed"] == len(before) - len(after) > 0
    assert (done["workspaces"], done["outputs_removed"]) == (1, 0)
    assert here(home, place, "gc").out.startswith("0 checkpoints of 1 workspace removed.\n")
    here(home, place, "undo")
    assert files(place) == {"a.txt": "4\n"}


def test_gc_leaves_the_turns_of_a_session_that_waits_for_its_successor(home: Path, place: Path) -> None:
    (home / "config.toml").write_text("[policy.limits]\ncheckpoints_auto = 2\n")
    with agent(home) as client:
        opened = client.call("open_session", agent="Codex", title="One", cwd=str(place))["session_id"]
        client.call("begin_turn", session_id=opened, query_title="Work", query_text="Work")
        client.call("close_shell", shell_id=at_work(client, place, *(f"echo {number} > a.txt" for number in range(6))))
        client.call("finish_turn", session_id=opened, outcome="completed", response="Done")
        client.call("close_session", session_id=opened, succession_policy="successor_required")
    before = here(home, place, "checkpoints", "--json").json()["checkpoints"]
    here(home, place, "gc")
    after = here(home, place, "checkpoints", "--json").json()["checkpoints"]
    of_turns = [[one["checkpoint_id"] for one in listed if one["request_id"]] for listed in (before, after)]
    assert len(of_turns[0]) > 2
    assert of_turns[1] == of_turns[0]
