"""Commands that read a state directory which cannot be written: a copy, a mount, one without permission."""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.daemon.disks import UNPRIVILEGED, needs_root, remount, small_disk
from tests.daemon.support import end_daemon, environment, eventually, lock_holder
from tests.story.agents import SHIFTLOG, Agent, shiftlog, shiftlog_json


@pytest.fixture
def recorded(tmp_path: Path) -> Generator[Path]:
    """Yield a state directory with one session, left by a daemon that was killed."""
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    with Agent(home) as agent:
        agent.call("open_session", agent="Reader", title="kept for later")
        pid = lock_holder(home)
        assert pid is not None
        os.kill(pid, 9)
        eventually(lambda: lock_holder(home) is None or None)
    yield home
    end_daemon(home)


def files(home: Path) -> dict[str, int]:
    return {str(path.relative_to(home)): path.stat().st_size for path in home.rglob("*") if path.is_file()}


def check_readable(home: Path) -> None:
    before = files(home)
    assert shiftlog_json(home, "verify")["sessions_checked"] == 1
    assert "kept for later" in shiftlog(home, "show", "last")
    assert "kept for later" in shiftlog(home, "export", "last", "--format", "md")
    assert "kept for later" in shiftlog(home, "sessions")
    assert "daemon    none  the state directory cannot be written" in shiftlog(home, "status")
    refused = json.loads(shiftlog(home, "rebuild", "--json", status=1))
    assert "reading only" in refused["error"]["message"]
    refused = json.loads(shiftlog(home, "daemon", "start", "--json", status=1))
    assert "cannot be written" in refused["error"]["message"]
    refused = json.loads(shiftlog(home, "gc", "--json", status=1))
    assert "reading only" in refused["error"]["message"]
    assert files(home) == before
    assert lock_holder(home) is None


def test_a_copy_without_the_right_to_write_is_read_without_a_daemon(recorded: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(recorded, copy, ignore=shutil.ignore_patterns("daemon.sock"))
    copy.chmod(0o500)
    try:
        check_readable(copy)
        assert shiftlog(copy, "doctor", status=1)
    finally:
        copy.chmod(0o700)


@needs_root
@pytest.mark.parametrize("left", ["all", "database and log", "database"])
def test_a_read_only_mount_is_read_without_a_daemon(recorded: Path, tmp_path: Path, left: str) -> None:
    if left == "database":
        shiftlog(recorded, "verify")
        shiftlog(recorded, "daemon", "stop")
    with small_disk(tmp_path / "disk") as home:
        names = {"all": ("*",), "database and log": ("shiftlog.db", "shiftlog.db-wal"), "database": ("shiftlog.db",)}
        for pattern in names[left]:
            for path in recorded.glob(pattern):
                if path.is_file():
                    shutil.copy2(path, home / path.name)
        remount(home.parent, "ro")
        check_readable(home)
        checks = json.loads(shiftlog(home, "doctor", "--json", status=1))["checks"]
        assert next(check["state"] for check in checks if check["name"] == "database") == "ok"


@needs_root
def test_doctor_says_what_it_cannot_see_and_never_ends_in_a_traceback(recorded: Path) -> None:
    recorded.chmod(0)
    try:
        done = subprocess.run(
            [*UNPRIVILEGED, *SHIFTLOG, "doctor", "--json"],
            env=environment(recorded),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        recorded.chmod(0o700)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert states["home"] == "fail"
    assert "bash" in states


@needs_root
def test_a_folder_that_cannot_be_read_is_named_by_commands_that_look_into_it(recorded: Path) -> None:
    (recorded / "held").mkdir(exist_ok=True)
    (recorded / "held").chmod(0)
    try:
        done = subprocess.run(
            [*UNPRIVILEGED, *SHIFTLOG, "daemon", "stop", "--json"],
            env=environment(recorded),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        (recorded / "held").chmod(0o700)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["message"] == f"{recorded / 'held'}: Permission denied"
    assert "Traceback" not in done.stderr
