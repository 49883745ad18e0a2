"""Turns of an agent with hooks can be undone, whatever changed the files: real hooks, a real daemon, real git."""

import fcntl
import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.support import PROGRAM, Done
from tests.daemon.support import DEADLINE_S, environment, eventually
from tests.ingest.hooks.hook_app import SESSION as TOLD
from tests.ingest.hooks.hook_app import open_hook_app
from tests.ingest.hooks.test_program import HOOK

SESSION = "5e551000-0000-4000-8000-00000000c0de"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An agent's own program, as its hooks see it: what it sends, and commands of a person beside it."""

    home: Path
    project: Path
    agent: str = "claude"

    def hook(self, name: str, **fields: Any) -> str:
        """Send an event and return what the hook printed."""
        event = {"hook_event_name": name, "session_id": SESSION, "cwd": str(self.project), **fields}
        done = subprocess.run(
            [str(HOOK), self.agent],
            input=json.dumps(event).encode(),
            env=environment(self.home),
            capture_output=True,
            check=False,
            timeout=DEADLINE_S,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def begins(self) -> None:
        self.hook("SessionStart", source="startup")

    def prompt(self, text: str) -> None:
        self.hook("UserPromptSubmit", prompt=text, **({"turn_id": text.replace(" ", "-")} if self.is_codex else {}))
        self.shiftlog("checkpoints", status=None)  # waits for a save that a busy machine makes slowly

    def before_tool(self, name: str = "Bash", call: str = "toolu_1", **given: Any) -> None:
        assert self.hook("PreToolUse", tool_name=name, tool_use_id=call, tool_input=given) == ""

    def stop(self, said: str = "Done") -> None:
        self.hook("Stop", last_assistant_message=said)

    @property
    def is_codex(self) -> bool:
        return self.agent == "codex"

    def shiftlog(self, *arguments: str, status: int | None = 0, **more: str) -> Done:
        done = subprocess.run(
            [*PROGRAM, *arguments], env=environment(self.home, **more), cwd=self.project, capture_output=True,
            text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        result = Done(status=done.returncode, out=done.stdout, err=done.stderr)
        assert status in (None, result.status), result
        return result

    def turn(self, number: int = 1) -> dict[str, Any]:
        self.shiftlog("checkpoints")  # waits for those that are being made
        return self.shiftlog("show", SESSION, "--json").json()["turns"][number - 1]

    def entries(self, kind: str) -> list[dict[str, Any]]:
        lines = self.shiftlog("export", SESSION, "--format", "jsonl", "-o", "-").out.splitlines()
        return [entry for line in lines if (entry := json.loads(line)).get("kind") == kind]

    def files(self) -> dict[str, str]:
        found = (path for path in self.project.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(self.project)): path.read_text() for path in found}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "src").mkdir(parents=True)
    (path / "src" / "main.py").write_text("print(1)\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    return path


@pytest.fixture(params=["claude", "codex"])
def client(home: Path, project: Path, request: pytest.FixtureRequest) -> Client:
    return Client(home=home, project=project, agent=request.param)


BEFORE = {"src/main.py": "print(1)\n", "run.sh": "#!/bin/sh\n"}


def test_undo_takes_back_a_turn_whatever_changed_the_files_and_brings_it_back(client: Client) -> None:
    client.begins()
    client.prompt("write two files")
    client.before_tool("Bash", command="echo x > a.txt")
    (client.project / "a.txt").write_text("x\n")
    (client.project / "b.py").write_text("print(2)\n")
    client.stop()
    turn = client.turn()
    assert sorted(turn["files_modified"]) == ["a.txt", "b.py"] == sorted(turn["files_seen"])
    done = client.shiftlog("undo").out
    assert f"undone  turn {turn['request_id']}\n" in done
    assert client.files() == BEFORE
    again = done.rpartition("--to ")[2].split()[0]
    client.shiftlog("undo", "--to", again)
    assert client.files() == {**BEFORE, "a.txt": "x\n", "b.py": "print(2)\n"}


async def test_a_hook_that_waits_no_longer_does_not_take_the_checkpoint_of_its_prompt_away(
    project: Path, tmp_path: Path
) -> None:
    async with open_hook_app(tmp_path, at=datetime.now(UTC)) as hooked:
        hooked.spool("UserPromptSubmit", prompt="Fix it", cwd=str(project), later_s=0)
        waiting = {"agent": "ClaudeCode", "event": {"hook_event_name": "UserPromptSubmit", "session_id": TOLD}}
        async with anyio.create_task_group() as asking:
            asking.start_soon(hooked.app.harness.app.hook_answers.answer, waiting)
            while await hooked.hooks.turns.turn_of("ClaudeCode", TOLD) is None:
                pass
            asking.cancel_scope.cancel()
        (location,) = await hooked.app.harness.app.workspaces.log.locations()
        assert location.path == str(project)


def test_rewind_brings_back_a_deleted_folder_with_its_modes(client: Client) -> None:
    client.begins()
    client.prompt("tidy up")
    client.before_tool("Bash", command="rm -rf src run.sh")
    subprocess.run(["rm", "-rf", "src", "run.sh"], cwd=client.project, check=True)
    client.stop()
    client.prompt("go on")
    client.stop()
    first = client.turn(1)
    assert sorted(first["files_seen"]) == ["run.sh", "src/main.py"]
    client.shiftlog("rewind", first["request_id"])
    assert client.files() == BEFORE
    assert (client.project / "run.sh").stat().st_mode & 0o777 == 0o755


def test_each_undo_goes_back_one_turn_and_turns_without_changes_do_not_count(client: Client) -> None:
    client.begins()
    for number in (1, 2, 3):
        client.prompt(f"do {number}")
        client.before_tool("Write")
        if number != 3:
            (client.project / "a.txt").write_text(f"{number}\n")
        client.stop()
    client.shiftlog("undo")
    assert client.files()["a.txt"] == "1\n"
    client.shiftlog("undo")
    assert client.files() == BEFORE


def test_a_turn_that_never_stopped_can_be_undone(client: Client) -> None:
    client.begins()
    client.prompt("write a file")
    client.before_tool("Write")
    (client.project / "a.txt").write_text("x\n")
    client.shiftlog("undo")
    assert client.files() == BEFORE


def test_what_an_edit_tool_told_is_not_marked_as_seen(home: Path, project: Path) -> None:
    client = Client(home=home, project=project)
    client.begins()
    client.prompt("write a file")
    path = str(project / "told.txt")
    given = {"file_path": path, "content": "t\n"}
    client.before_tool("Write", **given)
    (project / "told.txt").write_text("t\n")
    (project / "seen.txt").write_text("s\n")
    client.hook(
        "PostToolUse",
        tool_name="Write",
        tool_use_id="toolu_1",
        tool_input=given,
        tool_response={"type": "create", "filePath": path, "content": "t\n"},
    )
    client.stop()
    turn = client.turn()
    assert turn["files_seen"] == ["seen.txt"]
    assert len(turn["files_modified"]) == 2
    text = client.shiftlog("show", SESSION).out
    assert "- seen.txt  found by checkpoints\n" in text
    assert "told.txt\n" in text


def test_with_checkpoints_per_call_every_call_can_be_undone(home: Path, project: Path) -> None:
    (home / "config.toml").write_text('[hooks]\ncheckpoints = "call"\n')
    client = Client(home=home, project=project)
    client.begins()
    client.prompt("write two files")
    for number in (1, 2):
        client.before_tool("Bash", call=f"toolu_{number}")
        (project / f"{number}.txt").write_text("x\n")
    client.stop()
    assert client.shiftlog("undo").out.startswith("undone  toolu_2\n")
    assert client.files() == {**BEFORE, "1.txt": "x\n"}


def test_without_checkpoints_nothing_is_saved(home: Path, project: Path) -> None:
    (home / "config.toml").write_text('[hooks]\ncheckpoints = "off"\n')
    client = Client(home=home, project=project)
    client.begins()
    client.prompt("write a file")
    client.before_tool("Bash")
    (project / "a.txt").write_text("x\n")
    client.stop()
    assert "no checkpoint of" in client.shiftlog("undo", status=1).err
    shown = client.shiftlog("show", SESSION, "--json").json()
    assert shown["turns"][0]["files_seen"] == []


def test_a_call_that_could_not_wait_for_the_checkpoint_is_noted(home: Path, project: Path) -> None:
    """The shadow repository is locked by another process, so the daemon cannot save in time."""
    client = Client(home=home, project=project)
    client.begins()
    client.prompt("first")
    client.stop()
    (lock,) = eventually(lambda: list((home / "checkpoints").glob("*/lock")) or None)
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        client.hook("UserPromptSubmit", prompt="second")
        client.before_tool("Bash", call="toolu_9")
    client.stop()
    notes = [entry["body"] for entry in client.entries("import.noted") if entry["body"].get("checkpoint")]
    assert [(note["checkpoint"], note["tool_use_id"]) for note in notes] == [("late", "toolu_9")]


def test_a_home_directory_is_never_saved_and_the_turn_says_so(home: Path, project: Path) -> None:
    client = Client(home=home, project=project)
    for name, fields in (("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": "hello"})):
        event = {"hook_event_name": name, "session_id": SESSION, "cwd": str(project), **fields}
        subprocess.run(
            [str(HOOK), "claude"], input=json.dumps(event).encode(), check=True, timeout=DEADLINE_S,
            env=environment(home, HOME=str(project)),
        )  # fmt: skip
    client.shiftlog("checkpoints", status=None)  # waits for the daemon, which the prompt's hook only started
    notes = eventually(lambda: [e["body"] for e in client.entries("import.noted") if e["body"].get("checkpoint")])
    assert notes[0]["checkpoint"] == "failed"
    assert "holds the home directory" in notes[0]["reason"]
