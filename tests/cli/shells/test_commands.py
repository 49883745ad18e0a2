"""`shells`, `watch`, `exec` and `replay`: real daemons, real shells, and what people see of them."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agent import Agent, agent
from tests.cli.support import PROGRAM, Terminal, on_terminal, recorded_session, shiftlog
from tests.daemon.support import DEADLINE_S, control, end_daemon, environment, eventually


@contextmanager
def live_shell(home: Path, place: Path, **opening: Any) -> Generator[tuple[Agent, str, Path]]:
    """Give an agent with a shell that runs a command until something is written to a file."""
    gate = place / "gate"
    os.mkfifo(gate)
    with agent(home) as client:
        shell_id: str = client.call("open_shell", cwd=str(place), **opening)["shell_id"]
        command = "echo begun; read line < gate; echo $line; echo oops >&2; cd /tmp"
        client.begin("run_command", shell_id=shell_id, command=command)
        eventually(lambda: shell_of(home, shell_id)["running"])
        yield client, shell_id, gate
        client.call("close_shell", shell_id=shell_id)


def shell_of(home: Path, shell_id: str) -> dict[str, Any]:
    with control(home) as client:
        rows = client.call("shells", {"include_ended": True})["shells"]
    return next(row for row in rows if row["shell_id"] == shell_id)


def test_exec_gives_both_streams_and_the_exit_status_of_the_command(home: Path) -> None:
    done = shiftlog(home, "exec", "--", "echo out; echo err >&2; printf end; exit 7", status=7)
    assert (done.out, done.err) == ("out\nend", "err\n")
    assert shiftlog(home, "shells", "--json").json()["shells"] == []


@pytest.mark.parametrize(
    ("env", "kept"),
    [({"MAKELEVEL": "1", "MAKEFLAGS": "r", "MFLAGS": "-r"}, ""), ({"MAKEFLAGS": "-j8"}, "-j8")],
)
def test_a_daemon_that_make_or_a_hook_of_git_started_gives_shells_nothing_of_theirs(
    home: Path, env: dict[str, str], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS"):  # the suite itself may run below make
        monkeypatch.delenv(name, raising=False)
    shiftlog(home, "daemon", "start", env={**env, "GIT_DIR": "/elsewhere/.git", "GIT_INDEX_FILE": "index"})
    done = shiftlog(home, "exec", "--", 'echo "$MAKEFLAGS|$MAKELEVEL|$MFLAGS|$GIT_DIR|$GIT_INDEX_FILE"')
    assert done.out == f"{kept}||||\n"


def test_exec_takes_several_words_as_a_program_and_its_arguments(served: Path) -> None:
    assert shiftlog(served, "exec", "printf", "%s|", "a b", "$HOME", "*").out == "a b|$HOME|*|"


def test_a_secret_in_a_command_is_masked_in_the_title_though_the_title_is_cut(served: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    shiftlog(served, "exec", "--", f": {'x' * 60} {secret}")
    session = shiftlog(served, "sessions", "--json").json()["items"][0]
    assert session["title"].startswith(": xxx")
    assert "ghp_" not in session["title"] + session["session_id"]


def test_exec_runs_where_it_is_called_and_is_recorded(served: Path, tmp_path: Path) -> None:
    command = [*PROGRAM, "exec", "--", "pwd"]
    done = subprocess.run(
        command, env=environment(served), cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    assert done.stdout == f"{tmp_path}\n"
    session = shiftlog(served, "sessions", "--json").json()["items"][0]
    assert (session["agent_id"], session["state"], session["title"]) == ("Person", "closed", "pwd")
    kinds = [
        json.loads(line)["entry_kind"]
        for line in shiftlog(served, "tail", "last", "--json", "-n", "99").out.splitlines()
    ]
    assert [kind for kind in kinds if kind.startswith(("shell", "command"))] == [
        "shell.opened",
        "command.started",
        "command.finished",
        "shell.ended",
    ]


def test_exec_feeds_standard_input_and_passes_named_variables_on(served: Path) -> None:
    done = shiftlog(
        served, "exec", "-i", "--env", "GIVEN=one", "--env", "TAKEN", "--", "cat; echo $GIVEN $TAKEN", stdin="hi\n",
        env={"TAKEN": "two"},
    )  # fmt: skip
    assert done.out == "hi\none two\n"
    refused = shiftlog(served, "exec", "--env", "NOWHERE_SET", "--", "true", status=2)
    assert "'NOWHERE_SET' is not set here" in refused.err


def test_exec_passes_piped_input_on_as_it_comes(served: Path, tmp_path: Path) -> None:
    assert shiftlog(served, "exec", "--", "cat; echo end", stdin="hi\nthere\n").out == "hi\nthere\nend\n"
    assert shiftlog(served, "exec", "--", "wc -c", stdin="x" * 3_000_000).out.strip() == "3000000"
    given = tmp_path / "given"
    given.write_text("of a file\n")
    command = [*PROGRAM, "exec", "--", "read -r line; echo got $line"]
    with given.open() as stdin:
        done = subprocess.run(
            command,
            env=environment(served),
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
    assert done.stdout == "got of a file\n"
    with subprocess.Popen(
        command, env=environment(served), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        asked.stdin.write("a line\n")
        asked.stdin.flush()
        assert asked.stdout.read() == "got a line\n", "the command ends although the input is still open"
    done = subprocess.run(
        [*PROGRAM, "exec", "--", "cat"], env=environment(served), input=b"ab\xff", capture_output=True,
        timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    assert b"is not UTF-8" in done.stderr


def test_exec_feeds_standard_input_as_it_is_or_says_why_not(served: Path) -> None:
    assert shiftlog(served, "exec", "-i", "--", "od -An -c", stdin="a\r\nb\r").out.split() == [
        "a",
        "\\r",
        "\\n",
        "b",
        "\\r",
    ]
    command = [*PROGRAM, "exec", "-i", "--", "cat"]
    for given, says in ((b"\xff", b"is not UTF-8"), (b"x" * ((1 << 20) + 1), b"is longer than 1 MiB")):
        done = subprocess.run(
            command, env=environment(served), input=given, capture_output=True, timeout=DEADLINE_S, check=False
        )
        assert (done.returncode, says in done.stderr) == (2, True)
    closed = subprocess.run(
        ["bash", "-c", '"$@" <&-', "bash", *command], env=environment(served), timeout=DEADLINE_S, check=False
    )
    assert closed.returncode == 0


def test_exec_prints_the_result_of_the_tool_with_json(served: Path) -> None:
    result = shiftlog(served, "exec", "--json", "--", "echo x; false", status=1).json()
    assert (result["stdout"], result["exit_code"], result["state"], result["verdict"]) == (
        "x",
        1,
        "finished",
        "allowed",
    )


def test_exec_shows_output_of_any_length_whole(served: Path) -> None:
    done = shiftlog(served, "exec", "--", "seq 1 100000")
    assert done.out == "".join(f"{n}\n" for n in range(1, 100_001))


def test_exec_is_refused_by_the_policy_with_126_and_the_reason(home: Path) -> None:
    (home / "config.toml").write_text('[policy]\ndeny = ["curl"]\n')
    refused = shiftlog(home, "exec", "--", "curl -V", status=126)
    assert refused.err.startswith("error: blocked by operator policy: 'curl' is denylisted\n")
    assert "shiftlog policy check" in refused.err
    body = shiftlog(home, "exec", "--json", "--", "curl -V", status=126).json()
    assert (body["error"]["code"], body["error"]["details"]["source"]) == ("policy_denied", "operator")
    assert shiftlog(home, "exec", "--deny", "ls", "--", "ls", status=126).err.startswith("error: blocked by policy")


def test_exec_says_what_does_not_parse_and_when_time_is_over(served: Path) -> None:
    broken = shiftlog(served, "exec", "--", 'echo "abc', status=2)
    assert broken.err.startswith("syntax error: line 1, column 6")
    late = shiftlog(served, "exec", "--timeout", "1", "--", "echo p; sleep 60", status=124)
    assert late.out == "p\n"
    assert "--timeout gives it more" in late.err


def test_exec_in_a_shell_that_is_there_keeps_what_it_changes(served: Path, tmp_path: Path) -> None:
    with live_shell(served, tmp_path) as (_, shell_id, gate):
        refused = shiftlog(served, "exec", "--shell", shell_id, "--", "true", status=1)
        assert f"error: shell {shell_id} is running {shell_id}#1" in refused.err
        gate.write_text("go on\n")
        eventually(lambda: shell_of(served, shell_id)["state"] == "idle")
        assert shiftlog(served, "exec", "--shell", shell_id.partition("_")[0] + "_", "--", "pwd; A=5").out == "/tmp\n"
        assert shiftlog(served, "exec", "--shell", "last", "--", "echo $A").out == "5\n"
    conflict = shiftlog(served, "exec", "--shell", "x", "--cwd", "/tmp", "--", "pwd", status=2)
    assert "--cwd cannot be used with --shell" in conflict.err
    assert "unknown shell_id 'x'" in shiftlog(served, "exec", "--shell", "x", "--", "pwd", status=1).err


def test_ctrl_c_ends_the_command_and_its_shell(served: Path, tmp_path: Path) -> None:
    with Terminal(served, "exec", "--cwd", str(tmp_path), "--", "echo begun; sleep 60; touch done") as terminal:
        terminal.wait_for("begun")
        terminal.interrupt()
        assert terminal.end() == 130
    with control(served) as client:
        shell = client.call("shells", {"include_ended": True})["shells"][0]
    assert (shell["state"], shell["last_command"]["state"], shell["last_command"]["exit_code"]) == (
        "ended",
        "cancelled",
        130,
    )
    assert not (tmp_path / "done").exists()


def test_a_client_that_is_killed_takes_its_command_with_it(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    running = subprocess.Popen(
        [*PROGRAM, "exec", "--", "echo begun; sleep 60"], env=environment(home), stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    running.send_signal(signal.SIGKILL)
    running.wait(DEADLINE_S)
    running.stdout.close()
    with control(home) as client:
        eventually(lambda: not client.call("shells")["shells"])
        [shell] = client.call("shells", {"include_ended": True})["shells"]
    assert shell["last_command"]["state"] == "cancelled"


def test_a_terminal_gets_no_control_sequence_from_a_command(served: Path) -> None:
    shown = on_terminal(served, "exec", "--", r"printf 'a\033]0;title\007\033[31mred\342\200\256x\n'")
    assert "title" not in shown.text
    assert "\x1b[31m" not in shown.text
    assert "red<U+202E>x" in shown.text


def test_nothing_inside_a_shell_can_run_another_past_its_rules(served: Path) -> None:
    inner = f"{PROGRAM[0]} -c '{PROGRAM[2]}' exec -- ls"
    refused = shiftlog(served, "exec", "--deny", "ls", "--env", f"SHIFTLOG_HOME={served}", "--", inner, status=1)
    assert "Only an operator may ask for exec" in refused.err


def test_shells_are_listed_with_what_they_run_and_can_be_ended(served: Path, tmp_path: Path) -> None:
    assert shiftlog(served, "shells").out == "No shell lives.\n"
    with live_shell(served, tmp_path, name="the shell of a test") as (_, shell_id, _gate):
        [shell] = shiftlog(served, "shells", "--json").json()["shells"]
        assert (shell["shell_id"], shell["state"], shell["running"]) == (shell_id, "busy", [f"{shell_id}#1"])
        header, row = shiftlog(served, "shells").out.splitlines()[:2]
        assert header.split()[:3] == ["SHELL", "STATE", "IDLE"]
        assert row.startswith(f"{shell_id}  busy")
        assert shiftlog(served, "shells", "--session", shell["session_id"], "--json").json()["shells"] == [
            {**shell, "idle_s": 0}
        ]
        words = {"_SHIFTLOG_COMPLETE": "bash_complete", "COMP_WORDS": "shiftlog watch ", "COMP_CWORD": "2"}
        assert shell_id in shiftlog(served, env=words).out
        ended = shiftlog(served, "shells", "--close", shell_id.partition("_")[0] + "_").out
        assert ended.startswith(f"ended  {shell_id} with ")
        assert f"{shell_id}#1 was stopped" in ended
    assert f"{shell_id}  ended (closed)" in shiftlog(served, "shells", "--all").out
    assert "had ended before" in shiftlog(served, "shells", "--close", shell_id).out


def test_watch_shows_a_shell_live_until_it_ends(served: Path, tmp_path: Path) -> None:
    with live_shell(served, tmp_path) as (_, shell_id, gate), Terminal(served, "watch", shell_id) as terminal:
        terminal.wait_for(f"==> {shell_id} local")
        terminal.wait_for("$ echo begun; read line")
        terminal.wait_for("\nbegun\n")
        gate.write_text("and more\n")
        terminal.wait_for("\nand more\n")
        terminal.wait_for("\noops\n")
        terminal.wait_for("exit 0")
        shiftlog(served, "exec", "--shell", shell_id, "--", "printf 'no newline'; exit 4", status=4)
        terminal.wait_for("#2 /tmp$ printf")
        terminal.wait_for("no newline\nexit 4")
        terminal.wait_for(f"==> {shell_id} ended: exited <==")
        assert terminal.end() == 0


def test_watch_without_a_shell_shows_all_and_ends_by_ctrl_c_alone(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    with Terminal(home, "watch") as terminal:
        terminal.wait_for("No shell lives yet")
        shiftlog(home, "exec", "--", "echo one")
        terminal.wait_for("$ echo one\none\n")
        shiftlog(home, "exec", "--deny", "ls", "--", "ls", status=126)
        terminal.wait_for("blocked by policy: 'ls' is denylisted")
        terminal.interrupt()
        assert terminal.end() == 130


def test_watch_with_json_gives_an_event_a_line(served: Path, tmp_path: Path) -> None:
    with live_shell(served, tmp_path) as (_, shell_id, gate):
        gate.write_text("more\n")
        watching = subprocess.Popen(
            [*PROGRAM, "watch", shell_id, "--json"], env=environment(served), stdout=subprocess.PIPE, text=True
        )
        assert watching.stdout is not None
        events = [json.loads(watching.stdout.readline()) for _ in range(2)]
        shiftlog(served, "shells", "--close", shell_id)
        events += [json.loads(line) for line in watching.stdout]
        watching.stdout.close()
        assert watching.wait(DEADLINE_S) == 0
    assert [event["event"] for event in events if event["event"] != "output"] == [
        "shell",
        "command",
        "finished",
        "ended",
    ]
    text = "".join(event["text"] for event in events if event["event"] == "output" and event["stream"] == "stdout")
    assert text == "begun\nmore\n"
    assert "unknown shell_id 'x'" in shiftlog(served, "watch", "x", status=1).err


def test_watch_shows_where_commands_began_masked_and_by_bytes(served: Path, tmp_path: Path) -> None:
    secret = "abcDEF123456xyz"
    with agent(served) as client:
        shell_id: str = client.call("open_shell", cwd=str(tmp_path))["shell_id"]
        first = f"export MY_TOKEN={secret}; mkdir {secret} && cd {secret}"
        for command in (first, "mkdir $'\\xff' && cd $'\\xff'", "echo 'open"):
            client.call("run_command", shell_id=shell_id, command=command)
        watching = subprocess.Popen(
            [*PROGRAM, "watch", shell_id, "-n", "9"], env=environment(served), stdout=subprocess.PIPE, text=True
        )
        assert watching.stdout is not None
        heading = watching.stdout.readline()
        client.call("run_command", shell_id=shell_id, command="exit 4")
        shown = watching.stdout.read()  # not communicate, which misses what a read line left in the buffer
        watching.stdout.close()
    assert watching.wait(DEADLINE_S) == 0
    assert heading.startswith(f"==> {shell_id}")
    assert secret not in shown
    assert f"#1 {tmp_path}$ export MY_TOKEN=[REDACTED" in shown
    assert f"#2 {tmp_path}/[REDACTED:learned]$ mkdir" in shown
    assert f"#4 {tmp_path}/[REDACTED:learned]/\\xff$ exit 4" in shown
    assert shown.count("is never closed") == 1


def test_replay_prints_commands_and_outputs_in_order_when_piped(served: Path) -> None:
    shiftlog(served, "exec", "--cwd", "/", "--", "echo one; echo two >&2; sleep 0.3; exit 3", status=3)
    lines = shiftlog(served, "replay", "last").out.splitlines()
    assert lines[0].startswith("Person-")
    assert lines[1].startswith("==> ")
    assert lines[2] == "#1 /$ echo one; echo two >&2; sleep 0.3; exit 3"
    assert sorted(lines[3:5]) == ["one", "two"]
    assert lines[5].startswith("exit 3, 0.")
    assert lines[6].endswith("ended: exited <==")
    events = [json.loads(line) for line in shiftlog(served, "replay", "last", "--json").out.splitlines()]
    assert [event["event"] for event in events] == [
        "session",
        "shell.opened",
        "command.started",
        "output",
        "output",
        "command.finished",
        "shell.ended",
    ]


def test_replay_shows_refused_commands_and_long_outputs_whole_only_when_asked(home: Path) -> None:
    shiftlog(home, "exec", "--", "seq 1 20000")
    assert "chars elided" in shiftlog(home, "replay", "last").out
    assert "\n9999\n10000\n" in shiftlog(home, "replay", "last", "--full").out
    shiftlog(home, "exec", "--deny", "ls", "--", "ls", status=126)
    assert "$ ls\nblocked by policy: 'ls' is denylisted\n" in shiftlog(home, "replay", "last").out
    (home / "outputs").rename(home / "outputs-gone")
    shiftlog(home, "daemon", "stop")
    shiftlog(home, "exec", "--", "true")
    found = shiftlog(home, "sessions", "--json").json()["items"][-1]["session_id"]
    assert "the output is no longer kept" in shiftlog(home, "replay", found).out


def test_replay_says_what_does_not_parse_once_and_behind_its_command(served: Path) -> None:
    shiftlog(served, "exec", "--cwd", "/", "--", "echo 'open", status=2)
    lines = shiftlog(served, "replay", "last").out.splitlines()
    assert lines[2] == "#1 /$ echo 'open"
    assert lines[3].startswith("syntax error: line 1, column 6: ")
    assert lines[4] == "syntax error, exit 2"


def test_replay_shows_what_a_command_wrote_before_its_daemon_died(home: Path) -> None:
    with agent(home) as client:
        shell = client.call("open_shell", cwd="/")
        command = "echo before; sleep 60"
        running = client.call("run_command", shell_id=shell["shell_id"], command=command, background=True)
        page = client.call("read_output", command_id=running["command_id"], wait_s=10)
        assert page["text"] == "before\n"
        end_daemon(home)
    told = "echo before; sleep 60 &\nbefore\nunknown\n"
    # The next daemon records what became of it beside its first answers.
    assert eventually(lambda: told in shiftlog(home, "replay", shell["session_id"]).out or None)


@pytest.mark.parametrize("keys", [" q", "q"])
def test_replay_takes_its_time_on_a_terminal_and_obeys_keys(served: Path, keys: str) -> None:
    shiftlog(served, "exec", "--", "echo early; sleep 0.6; echo late")
    with Terminal(served, "replay", "last", "--speed", "0.05", "--idle", "600") as terminal:
        terminal.wait_for("space pauses")
        terminal.wait_for("$ echo early")
        terminal.press(keys)
        assert terminal.end() == 0
    assert "\nlate" not in terminal.plain


def test_replay_goes_on_after_a_pause_and_faster_on_request(served: Path) -> None:
    shiftlog(served, "exec", "--", "echo early; sleep 0.4; echo late")
    with Terminal(served, "replay", "last", "--speed", "1") as terminal:
        terminal.wait_for("$ echo early")
        terminal.press(" ")
        terminal.press(" ++..")
        terminal.wait_for("\nlate")
        assert terminal.end() == 0


def test_replay_of_a_session_without_commands_says_so(home: Path) -> None:
    recorded_session(home)
    assert "No command was run in this session." in shiftlog(home, "replay", "last").out
