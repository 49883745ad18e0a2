"""Local shells outlive their daemon: stopped, killed or replaced, nothing of a running command is lost or repeated."""

import asyncio
import json
import os
import random
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import shiftlog
from shiftlog.app.app import open_app
from shiftlog.link import processes
from shiftlog.model.entry import Entry, Kind
from shiftlog.shell.engine.holders import RECORD, ShellHolders
from shiftlog.shell.engine.reaper import below, process_table
from shiftlog.store.protocol import Filter, Page
from tests.daemon.support import Bridge, control, eventually
from tests.shell.held.served_home import ServedHome, served_home

COUNT = (
    "for i in $(seq 1 3000); do echo line-$i; [ $((i % 100)) = 0 ] && sleep 0.05; done; "
    "exit_with() { return 7; }; exit_with"
)
LINES = "".join(f"line-{number}\n" for number in range(1, 3001))
SHELL_MEMORY_KB = 6 * 1024


@pytest.fixture
def served(tmp_path: Path) -> Generator[ServedHome]:
    with served_home(tmp_path) as served:
        yield served


def begin(served: ServedHome, shell_id: str, command: str) -> str:
    """Begin a command in the foreground that goes on after its answer."""
    begun = served.run(shell_id, command, timeout_s=1, on_timeout="keep_running")
    assert begun["state"] == "running", begun
    return begun["command_id"]


def shell_of(served: ServedHome) -> dict[str, Any]:
    """Return the only shell, as another client sees it."""
    with control(served.home) as client:
        return client.call("shells", {})["shells"][0]


def holder_pids(served: ServedHome) -> list[int]:
    return [record.pid for record in ShellHolders(served.home / "held", 0).listed()]


def test_a_killed_daemon_leaves_a_running_command_and_its_output(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    served.run(shell_id, "KEPT=before; mkdir -p /tmp/$'\\xff'; cd /tmp/$'\\xff'; rmdir $PWD; cd /usr")
    command_id = begin(served, shell_id, COUNT)
    served.kill()
    served.start()
    assert served.finished(command_id) == (7, LINES)
    after = served.run(shell_id, "echo $KEPT $? $PWD")
    assert (after["stdout"], after["exit_code"]) == ("before 7 /usr", 0)
    assert after["command_id"].endswith("#3")


def test_a_stopped_daemon_leaves_its_shells_and_answers_who_waits(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    number = served.send("run_command", shell_id=shell_id, command=f"echo began; {COUNT}")
    eventually(lambda: ShellHolders(served.home / "held", 0).listed())
    time.sleep(0.5)
    served.stop()
    answer = served.bridge.read(60)
    assert answer["id"] == number
    result = answer["result"]["structuredContent"]
    assert result["state"] == "running"
    assert served.finished(result["command_id"]) == (7, f"began\n{LINES}")


def test_commands_that_end_without_a_daemon_are_recorded_by_the_next(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    command_id = begin(served, shell_id, "sleep 1.5; echo out; echo err >&2; (exit 3)")
    served.kill()
    time.sleep(1.5)
    served.start()
    assert served.finished(command_id) == (3, "out\n")
    last = served.run(shell_id, "(exit 4)")["command_id"]
    served.kill()
    served.start()
    told = shell_of(served)["last_command"]
    assert (told["command_id"], told["state"], told["exit_code"]) == (last, "finished", 4)
    assert served.run(shell_id, "true")["exit_code"] == 0


def test_background_commands_and_what_they_leave_behind_go_on(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    one = served.run(shell_id, "for i in 1 2 3 4 5 6; do echo b$i; sleep 0.4; done; exit 5", background=True)
    two = served.run(shell_id, "(for i in 1 2 3 4 5 6; do echo c$i; sleep 0.4; done) & echo parent")
    three = served.run(shell_id, "sleep 0.3; exit 6", background=True)
    served.kill()
    time.sleep(0.5)
    served.start()
    assert served.finished(one["command_id"]) == (5, "b1\nb2\nb3\nb4\nb5\nb6\n")
    assert served.finished(three["command_id"]) == (6, "")

    def all_lines() -> bool:
        text = served.call("read_output", command_id=two["command_id"])["text"]
        return text == "parent\nc1\nc2\nc3\nc4\nc5\nc6\n" or (text.endswith("c6\n") and text.count("c") == 6)

    eventually(all_lines)


def test_standard_input_stays_open_and_half_sent_input_arrives_whole(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    open_one = served.run(shell_id, "cat; echo end", background=True, stdin="open")["command_id"]
    text = "".join(f"{number:09d}\n" for number in range(30_000))
    fed = served.run(shell_id, "sleep 2; cat", background=True, input=text)["command_id"]
    served.call("send_input", command_id=open_one, text="one\n")
    served.kill()
    served.start()
    served.call("send_input", command_id=open_one, text="two\n", eof=True)
    assert served.finished(open_one) == (0, "one\ntwo\nend\n")
    assert served.finished(fed) == (0, text)


def test_a_command_on_a_terminal_goes_on(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    command = "for i in 1 2 3 4 5; do echo t$i; sleep 0.4; done; read answer; echo got $answer; exit 3"
    command_id = served.run(shell_id, command, pty=True, timeout_s=1, on_timeout="keep_running")["command_id"]
    served.kill()
    served.start()
    served.call("send_input", command_id=command_id, text="yes\n")
    code, text = served.finished(command_id)
    assert code == 3
    assert [line for line in text.split() if line.startswith("t")] == ["t1", "t2", "t3", "t4", "t5"]
    assert "got yes" in text


def test_a_shell_that_exits_without_a_daemon_is_over_with_its_status(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    command_id = begin(served, shell_id, "sleep 1.5; echo last; exit 9")
    served.kill()
    time.sleep(1)
    served.start()
    assert served.finished(command_id) == (9, "last\n")
    listed = served.call("list_shells", include_ended=True)["shells"]
    assert [(one["state"], one["ended_reason"], one["exit_code"]) for one in listed] == [("ended", "exited", 9)]


def test_the_timeout_of_a_command_holds_across_daemons(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    number = served.send("run_command", shell_id=shell_id, command="echo x; sleep 60", timeout_s=3)
    eventually(lambda: shell_of(served)["last_command"])
    served.kill()
    served.start()
    assert served.bridge.read(60)["id"] == number  # the answer to the call was lost with its daemon
    eventually(lambda: shell_of(served)["state"] == "idle")
    last = shell_of(served)["last_command"]
    assert (last["state"], last["exit_code"]) == ("timed_out", 124)


def test_secrets_are_masked_also_if_a_daemon_dies_in_their_middle(served: ServedHome) -> None:
    secret = "ghp_" + "aB3dE6gH9j" * 4
    shell_id = served.open(cwd="/")
    parts = f"printf 'token={secret[:20]}'; sleep 2; printf '{secret[20:]}'; echo; echo done"
    command_id = begin(served, shell_id, parts)
    served.kill()
    served.start()
    code, text = served.finished(command_id)
    assert code == 0
    assert text.endswith("done\n")
    assert secret not in text
    for path in served.home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


@pytest.mark.long
def test_many_kills_in_a_row_lose_and_repeat_nothing(served: ServedHome) -> None:
    kill_often(served, times=6, lines=60_000)


@pytest.mark.soak
def test_very_many_kills_in_a_row_lose_and_repeat_nothing(served: ServedHome) -> None:
    kill_often(served, times=60, lines=600_000)


def kill_often(served: ServedHome, *, times: int, lines: int) -> None:
    """Kill the daemon at random moments while a command writes, and compare every line at the end."""
    chance = random.Random(20)
    shell_id = served.open(cwd="/")
    pause = f"if ((i % {max(1, lines // (times * 20))} == 0)); then sleep 0.04; fi"
    writer = f"for ((i = 1; i <= {lines}; i++)); do echo $i; echo e$i >&2; {pause}; done; (exit 42)"
    command_id = begin(served, shell_id, writer)
    for _ in range(times):
        time.sleep(chance.random() * 0.4)
        served.kill()
        served.start()
    code, text = served.finished(command_id, 300)
    assert code == 42
    assert text == "".join(f"{number}\n" for number in range(1, lines + 1))
    errors = served.call(
        "read_output", command_id=command_id, stream="stderr", budget={"keep": {"mode": "tail", "n": 1}}
    )
    assert errors["lines_total"] == lines
    assert errors["text"].endswith(f"\ne{lines}")


@pytest.mark.soak
def test_a_newer_build_takes_the_shells_of_an_older_one_over(served: ServedHome, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(Path(shiftlog.__file__).parent, newer / "shiftlog")
    version = newer / "shiftlog" / "__init__.py"
    version.write_text(version.read_text().replace(shiftlog.__version__, "99.0.0"))
    shell_id = served.open(cwd="/")
    served.run(shell_id, "KEPT=before")
    command_id = begin(served, shell_id, COUNT)
    with Bridge(served.home, PYTHONPATH=str(newer)) as bridge:
        bridge.shake_hands()
        later = ServedHome(served.home, bridge)
        assert later.finished(command_id) == (7, LINES)
        assert later.run(shell_id, "echo $KEPT")["stdout"] == "before"
    assert "version 99.0.0 serves" in (served.home / "daemon.log").read_text()


def journal(home: Path, kind: Kind) -> list[Entry]:
    """Return the entries of a kind in all sessions."""

    async def read() -> list[Entry]:
        async with open_app(home, read_only=True) as app:
            return await app.store.read(
                lambda reader: [
                    entry
                    for session in reader.find_sessions(Filter(), Page(limit=10))
                    for entry in reader.entries(session.session.id, kinds=(kind,))
                ]
            )

    return asyncio.run(read())


def test_a_sandboxed_shell_stays_confined_and_judged(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with served_home(tmp_path, '[policy]\ndeny = ["curl"]\n') as served:
        shell_id = served.open(workspace=str(place), sandbox="workspace-write")
        served.run(shell_id, "echo first > one")
        loop = f"for i in 1 2 3 4 5 6 7 8; do sleep 0.4; done; touch two; touch {tmp_path}/outside; X=c; ${{X}}url -V"
        command_id = begin(served, shell_id, loop)
        served.kill()
        time.sleep(1)
        served.start()
        code, _ = served.finished(command_id)
        assert code == 126
        assert (place / "two").exists()
        assert not (tmp_path / "outside").exists()
        after = served.run(shell_id, "X=c; ${X}url --version; ls")
        assert after["stdout"].split() == ["one", "two"]
        assert [one["verdict"] for one in after["programs"] if one["verdict"] != "allowed"] == ["denied"]
        assert after["checkpoint_id"]
        ends = [entry.facts for entry in journal(served.home, Kind.COMMAND_FINISHED)]
        (command,) = [facts for facts in ends if facts["command_id"] == command_id]
        assert [one["verdict"] for one in command["programs"]].count("denied") == 1
        assert command["programs_total"] >= 3  # those that were started before the kill are lost with their daemon


@pytest.mark.long
def test_a_shell_of_another_version_or_policy_is_ended(served: ServedHome) -> None:
    one, two = served.open(cwd="/"), served.open(cwd="/")
    served.kill()
    pids = holder_pids(served)
    record = next((served.home / "held").glob(f"*/{RECORD}"))
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": 0}))
    served.start()
    assert len([one for one in served.call("list_shells")["shells"] if one["state"] == "idle"]) == 1
    eventually(lambda: len([pid for pid in pids if processes.alive(pid)]) == 1)
    served.kill()
    (served.home / "config.toml").write_text('[policy]\ndeny = ["curl"]\n')
    served.start()
    assert served.call("list_shells")["shells"] == []
    ended = served.call("list_shells", include_ended=True)["shells"]
    assert {(shell["shell_id"], shell["ended_reason"]) for shell in ended} == {
        (one, "server_stopped"),
        (two, "server_stopped"),
    }
    eventually(lambda: not [pid for pid in pids if processes.alive(pid)])


@pytest.mark.long
def test_stop_with_shells_ends_them_and_so_does_the_time_limit(tmp_path: Path) -> None:
    with served_home(tmp_path, "[daemon]\nhold_shells_minutes = 0.02\n") as served:
        shell_id = served.open(cwd="/")
        served.run(shell_id, "sleep 600 &")
        (pid,) = holder_pids(served)
        tree = [pid, *(process.pid for process in below(pid, process_table()))]
        served.kill()
        eventually(lambda: not any(processes.alive(one) for one in tree))
        assert not list((served.home / "held").iterdir())
        served.start()
        shell_id = served.open(cwd="/")
        (pid,) = holder_pids(served)
        served.stop(shells=True)
        eventually(lambda: not processes.alive(pid))


@pytest.mark.long
def test_a_process_in_a_shell_cannot_claim_it_and_no_daemon_starts_inside(served: ServedHome) -> None:
    shell_id = served.open(cwd="/", sandbox="full-access")
    steal = (
        "import socket, sys, time; time.sleep(2); s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
        f"import glob; s.connect(glob.glob('{served.home}/held/*/door')[0]); s.settimeout(5); print(s.recv(100))"
    )
    python = os.path.realpath("/usr/bin/python3")
    command_id = begin(
        served,
        shell_id,
        f'{python} -c "{steal}"; cd {Path.cwd()}; .venv/bin/python -m shiftlog.daemon --home {served.home}; echo $?',
    )
    served.kill()
    time.sleep(4)
    served.start()
    _, text = served.finished(command_id)
    assert text == "b''\n1\n"


def test_a_held_shell_needs_little_memory(served: ServedHome) -> None:
    for _ in range(8):
        shell_id = served.open(cwd="/")
        served.run(shell_id, "seq 1 200000 | tail -1; seq 1 20000")
    served.kill()
    pids = [one.pid for pid in holder_pids(served) for one in (*below(pid, process_table()), process_table()[pid])]
    used = sum(memory_kb(pid) for pid in pids)
    assert used / 8 <= SHELL_MEMORY_KB, f"{used / 8:.0f} KB per shell"


def memory_kb(pid: int) -> int:
    """Return the memory of a process, with its share of what it shares with others."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.partition("Pss:")[2].split()[0])
