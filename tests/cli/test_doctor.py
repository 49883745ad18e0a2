"""`shiftlog doctor`: what it sees in a sound installation and in several that are not."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shiftlog.cli.connecting import ANSWER_S
from shiftlog.shell.sandbox.detect import detect
from tests.cli.support import recorded_session, shiftlog
from tests.daemon.support import control, eventually, lock_holder


def checks(
    home: Path, *arguments: str, status: int = 0, env: dict[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Return the checks by name; of several with one name, the last."""
    report = shiftlog(home, "doctor", "--json", *arguments, status=status, env=env).json()
    assert report["ok"] == (status == 0)
    return {check["name"]: check for check in report["checks"]}


def test_a_sound_installation_has_no_failure(home: Path) -> None:
    found = checks(home)
    assert not [name for name, check in found.items() if check["state"] == "fail"]
    assert str(lock_holder(home)) in found["daemon"]["message"]
    assert found["lock"]["message"] == f"held by pid {lock_holder(home)}"
    assert found["socket"]["message"] == str(home / "daemon.sock")
    assert "apsw" in found["dependencies"]["message"]
    shown = shiftlog(home, "doctor").out
    assert f"ok    home         {home} (0700)\n" in shown
    assert "fail" not in shown


def test_the_database_is_as_large_as_status_says(home: Path) -> None:
    recorded_session(home)
    said = checks(home)["database"]["message"].rpartition("(")[2].rstrip(")")
    assert f", {said}" in shiftlog(home, "status").out


def test_it_can_look_without_starting_a_daemon(home: Path) -> None:
    found = checks(home, "--no-start")
    assert found["daemon"]["message"] == "does not run; it is started when it is needed"
    assert lock_holder(home) is None


def test_a_state_directory_that_is_not_there_yet_is_fine(home: Path) -> None:
    place = home / "new"
    assert checks(place, "--no-start")["home"]["message"] == f"{place} does not exist yet; the daemon makes it"


def test_files_of_a_wrong_kind_are_named_with_the_way_out(home: Path) -> None:
    for name in ("keys", "outputs"):
        (home / name).write_text("no folder")
    for name in ("spool", "held"):
        (home / name).symlink_to("/nonexistent/folder")
    for name in ("daemon.lock", "start.lock", "config.toml"):
        (home / name).mkdir()
    report = shiftlog(home, "doctor", "--no-start", "--json", status=1).json()
    found = {check["message"]: check for check in report["checks"] if check["name"] == "files"}
    assert list(found) == [
        *(f"{home / name} is not a directory" for name in ("keys", "outputs", "spool", "held")),
        *(f"{home / name} is not a regular file" for name in ("daemon.lock", "start.lock", "config.toml")),
    ]
    assert all("ove it away" in check["hint"] for check in found.values())
    (home / "start.lock").rmdir()


def test_a_folder_in_the_place_of_the_socket_is_named_at_once(home: Path) -> None:
    (home / "daemon.sock").mkdir()
    refused = shiftlog(home, "sessions", status=1)
    assert f"{home / 'daemon.sock'} is a directory" in refused.err
    assert "Move it away" in refused.err
    assert lock_holder(home) is None


def test_a_file_in_the_place_of_the_keys_keeps_the_daemon_from_starting_with_the_reason(home: Path) -> None:
    (home / "keys").write_text("no folder")
    refused = shiftlog(home, "sessions", status=1)
    assert f"{home / 'keys'} is not a directory" in refused.err
    assert "Move it away" in refused.err


def test_a_state_directory_open_to_others_fails_with_the_way_out(home: Path) -> None:
    home.chmod(0o755)
    check = checks(home, "--no-start", status=1)["home"]
    assert check["state"] == "fail"
    assert "0755" in check["message"]
    assert check["hint"] == f"chmod 700 {home}"


def test_files_open_to_others_are_named(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    key = home / "keys" / "ed25519"
    key.chmod(0o644)
    check = checks(home, status=1)["permissions"]
    assert check["message"] == "keys/ed25519 has mode 0644; others may read it"
    assert check["hint"] == f"chmod go= {key}"
    key.chmod(0o600)
    (home / "config.toml").write_text("")
    (home / "config.toml").chmod(0o644)
    assert checks(home)["permissions"]["state"] == "warn"


def test_the_rest_is_still_told_when_the_daemon_does_not_start(home: Path) -> None:
    (home / "config.toml").write_text("idle_suspend_minutes = -1\n")
    found = checks(home, status=1)
    assert found["settings"]["state"] == "fail"
    assert "idle_suspend_minutes" in found["settings"]["message"]
    assert found["daemon"]["state"] == "fail"
    assert found["git"]["state"] == "ok"
    shown = shiftlog(home, "doctor", status=1).out
    assert shown.endswith("2 problems found.\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[mcp]\ntoolsets = ['journl']", "'mcp.toolsets[0]': the name of a toolset, such as 'journal', not 'journl'"),
        ("[policy]\nalow = ['ls']", "alow"),
        ("[redaction]\nsilenced = ['nothing']", "no rule 'nothing'"),
    ],
)
def test_what_would_keep_the_next_daemon_from_serving_is_told_while_another_runs(
    home: Path, text: str, says: str
) -> None:
    checks(home)
    (home / "config.toml").write_text(text, encoding="utf-8")
    (home / "config.toml").chmod(0o600)
    check = checks(home, status=1)["settings"]
    assert check["state"] == "fail"
    assert says in check["message"]


def test_an_unknown_variable_is_a_mistake_in_the_settings(home: Path) -> None:
    found = checks(home, "--no-start", status=1, env={"SHIFTLOG_DURABILTY": "full"})
    assert "SHIFTLOG_DURABILITY" in found["settings"]["message"]


def test_a_state_directory_that_is_a_file_fails(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    found = checks(place, status=1)
    assert found["home"]["message"] == f"{place} is no directory"
    assert found["daemon"]["state"] == "fail"


def test_a_lock_left_by_a_daemon_that_died_is_no_problem(home: Path) -> None:
    (home / "daemon.lock").write_text("999999999\n/nowhere\n")
    (home / "daemon.lock").chmod(0o600)
    assert "left by a daemon that has ended" in checks(home, "--no-start")["lock"]["message"]
    assert checks(home)["daemon"]["state"] == "ok"


def test_missing_programs_are_told(home: Path) -> None:
    found = checks(home, "--no-start", env={"PATH": "/nonexistent"})
    assert found["git"]["state"] == "warn"
    assert "checkpoints" in found["git"]["hint"]
    assert found["docker"]["state"] == "ok"


def test_podman_stands_in_for_docker(home: Path, tmp_path: Path) -> None:
    podman = tmp_path / "podman"
    podman.write_text("#!/bin/sh\necho podman version 4.3.1\n")
    podman.chmod(0o755)
    found = checks(home, "--no-start", env={"PATH": str(tmp_path)})
    assert found["docker"]["message"] == f"podman version 4.3.1 ({podman})"


def test_what_the_kernel_can_enforce_is_told(home: Path) -> None:
    found = checks(home, "--no-start")
    offered = detect()
    assert found["exec broker"]["state"] == ("ok" if offered.exec_broker else "warn")
    assert (f"version {offered.landlock_abi} " in found["landlock"]["message"]) == (offered.landlock_abi > 0)
    for name, check in found.items():
        if name in ("exec broker", "landlock", "seccomp") and check["state"] == "warn":
            assert "require_kernel" in check["hint"]


def test_it_says_whether_a_program_could_forge_the_end_of_its_command(home: Path) -> None:
    """The program tries to open the memory of its parent for writing, as one in a shell with full access would."""
    attempt = "import os, sys; sys.exit(os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR) < 0)"
    parent = f'import subprocess, sys; sys.exit(subprocess.run([sys.executable, "-c", "{attempt}"]).returncode)'
    can = subprocess.run([sys.executable, "-c", parent], capture_output=True, check=False).returncode == 0
    assert ("in full-access programs may" in checks(home, "--no-start")["exit codes"]["message"]) == can


def test_keys_of_hosts_that_nobody_knows_are_shown_to_the_operator(home: Path) -> None:
    key = f"SHA256:{'A' * 43}"
    at, ours = "2026-01-31T09:00:00.000Z WARNING", "shiftlog.shell.remote.ssh.connect: host key of"
    lines = [
        f"{at} {ours} db.example.org port 2222 is not known: SHA256:{'B' * 43}",
        f"{at} {ours} db.example.org port 2222 is not known: {key}",
        f"{at} {ours} evil is fine port 22 is not known: {key}",
        f"{at} {ours} short port 22 is not known: SHA256:AAAA",
        f"{at} other: host key of forged port 22 is not known: {key}",
    ]
    (home / "daemon.log").write_text("\n".join(lines) + "\n")
    (home / "daemon.log").chmod(0o600)
    report = shiftlog(home, "doctor", "--json", "--no-start").json()
    [check] = [check for check in report["checks"] if check["name"] == "host key"]
    assert check["message"] == f"db.example.org port 2222 presented {key}, which was not known"
    assert check["hint"].endswith(f"add to known_hosts: [db.example.org]:2222 {key}")


def test_http_that_is_switched_on_is_told_with_its_address_or_why_it_is_not_served(home: Path) -> None:
    settings = home / "config.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings.write_text(f"[http]\nenabled = true\nport = {port}\n")
        fault = f"port {port}: Address already in use"
        shiftlog(home, "daemon", "start")
        with control(home) as client:  # on a busy machine it says for a while that HTTP is about to start
            eventually(lambda: client.call("daemon.status")["http_fault"] == fault)
        assert checks(home, status=1)["http"]["message"] == f"not served: {fault}"
        assert f"http      not served  {fault}\n" in shiftlog(home, "status").out
    shiftlog(home, "daemon", "stop")
    settings.write_text("[http]\nenabled = true\nport = 0\n")
    shiftlog(home, "daemon", "start")
    with control(home) as client:
        url: str = eventually(lambda: client.call("daemon.status")["http"])
    assert checks(home)["http"]["message"] == url
    assert url.startswith("http://127.0.0.1:")


def test_a_damaged_database_is_named_with_what_is_wrong_and_what_to_do(home: Path) -> None:
    shiftlog(home, "daemon", "start")
    shiftlog(home, "daemon", "stop")
    database = home / "shiftlog.db"
    database.write_bytes(b"garbage " * 1000)
    check = checks(home, status=1)["daemon"]
    assert check["message"] == f"The daemon cannot start: {database}: file is not a database"
    assert check["hint"].startswith("Keep a copy of the state directory")
    assert check["message"] in shiftlog(home, "status", status=1).err
    refused = shiftlog(home, "mcp", "--in-process", status=1)
    assert f"error: Storage error: {database}: file is not a database" in refused.err


def test_a_damaged_database_is_found_though_the_daemon_starts(home: Path) -> None:
    recorded_session(home)
    shiftlog(home, "daemon", "stop")
    database = home / "shiftlog.db"
    assert str(database) in checks(home, "--no-start")["database"]["message"]
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 4096 // 2 * 4096)
    check = checks(home, "--no-start", status=1)["database"]
    assert check["message"] == f"{database}: database disk image is malformed"
    assert check["hint"].startswith("Keep a copy of the state directory")


@pytest.mark.parametrize("damage", ["cut", "a file in place of the folder", "a folder in place of the log"])
def test_what_is_wrong_in_the_state_directory_is_named_and_no_defect(home: Path, damage: str) -> None:
    shiftlog(home, "daemon", "start")
    shiftlog(home, "daemon", "stop")
    place = {"cut": home / "keys" / "ed25519", "a folder in place of the log": home / "daemon.log"}.get(
        damage, home / "keys"
    )
    if damage == "cut":
        place.write_bytes(b"")
    elif place.is_dir():
        shutil.rmtree(place)
        place.write_bytes(b"")
    else:
        place.unlink()
        place.mkdir()
    error = shiftlog(home, "sessions", "--json", status=1).json()["error"]
    assert error["code"] == "storage_error"
    assert str(place) in error["message"]
    assert "defect" not in error["hint"]


@pytest.mark.parametrize("start", ["--start", "--no-start"])
def test_a_frozen_daemon_is_asked_once_and_the_other_checks_go_on(home: Path, start: str) -> None:
    recorded_session(home)
    pid = lock_holder(home)
    assert pid is not None
    began = time.monotonic()
    checks(home, start)
    usual_s = time.monotonic() - began
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        found = checks(home, start, status=1)
        took_s = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert found["daemon"]["message"] == "The daemon took the connection but did not answer within 5 s"
    assert found["lock"]["message"] == f"held by pid {pid}, which is stopped (SIGSTOP)"
    assert found["database"]["state"] == "ok"
    assert found["spool"]["state"] == "ok"
    assert took_s < 2 * (usual_s + ANSWER_S)
