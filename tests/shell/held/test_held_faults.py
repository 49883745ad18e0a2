"""Faults around held shells: the next daemon answers soon and says what is wrong."""

import os
import signal
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from shiftlog.shell.engine.holders import RECORD, ShellHolders
from tests.daemon.disks import UNPRIVILEGED, needs_root
from tests.daemon.support import BRIDGE, REAL, Bridge, end_daemon, environment, eventually, lock_holder
from tests.shell.held.served_home import ServedHome, served_home

FROZEN = 3


@pytest.fixture
def served(tmp_path: Path) -> Generator[ServedHome]:
    with served_home(tmp_path) as served:
        yield served


def holders(served: ServedHome) -> set[int]:
    return {record.pid for record in ShellHolders(served.home / "held", 0).listed()}


def test_frozen_holders_go_on_and_the_next_daemon_takes_their_shells_over(served: ServedHome) -> None:
    shells = [served.open(cwd="/") for _ in range(FROZEN)]
    for shell_id in shells:
        served.run(shell_id, "KEPT=$((6 * 7))")
    frozen = holders(served)
    served.kill()
    try:
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        served.start()
        assert [served.run(shell_id, "echo $KEPT")["stdout"] for shell_id in shells] == ["42"] * FROZEN
    finally:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_named_pipe_in_the_place_of_a_holders_record_keeps_no_daemon_waiting(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    (pid,) = holders(served)
    (record,) = (served.home / "held").glob(f"*/{RECORD}")
    served.kill()
    try:
        record.unlink()
        os.mkfifo(record)
        served.start()
        assert served.call("list_shells")["shells"] == []
        kept = served.call("list_shells", include_ended=True)["shells"]
        assert [(shell["shell_id"], shell["ended_reason"]) for shell in kept] == [(shell_id, "server_stopped")]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_directory_of_held_shells_that_cannot_be_read_is_named_without_a_traceback(tmp_path: Path) -> None:
    home = tmp_path / "home"
    held = home / "held"
    (held / "one").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    held.chmod(0o000)
    try:
        command = [*UNPRIVILEGED, *REAL, "--home", str(home), "--foreground"]
        refused = subprocess.run(
            command, env=environment(home), capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        held.chmod(0o700)
    assert refused.returncode == 1
    assert "The held shells cannot be looked at" in refused.stderr
    assert "Traceback" not in refused.stderr


@needs_root
def test_shells_of_a_root_that_may_not_raise_limits_go_on_as_others_do(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    try:
        with Bridge(home, program=[*UNPRIVILEGED, *BRIDGE]) as bridge:  # as in most containers
            bridge.shake_hands()
            served = ServedHome(home, bridge)
            shell_id = served.open(cwd="/")
            served.run(shell_id, "KEPT=$((6 * 7))")
            pid = lock_holder(home)
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: lock_holder(home) != pid)
            assert served.run(shell_id, "echo $KEPT")["stdout"] == "42"
    finally:
        end_daemon(home)


def test_a_shell_of_a_session_that_rested_for_months_goes_on(served: ServedHome) -> None:
    shell_id = served.open(cwd="/")
    served.run(shell_id, "KEPT=$((6 * 7))")
    served.kill()
    with closing(sqlite3.connect(served.home / "shiftlog.db")) as db, db:  # as if the clock had jumped ahead
        db.execute("UPDATE sessions SET active_ms = active_ms - ?", (90 * 86_400_000,))
    served.start()
    assert served.run(shell_id, "echo $KEPT")["stdout"] == "42"
