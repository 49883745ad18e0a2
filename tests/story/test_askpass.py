"""An agent's `sudo` asks a person for the password; the agent never sees it and cannot answer for the person."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.support import environment, eventually
from tests.story import machines
from tests.story.agents import SHIFTLOG

PASSWORD = "plain Otter 4471"
# Another account and its right to use sudo, seen by the programs of this test alone.
_WITH_ACCOUNT = 'for name in passwd shadow sudoers; do mount --bind "$0/$name" /etc/$name || exit; done; exec "$@"'

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("sudo") or not shutil.which("openssl"),
    reason="needs root, sudo and openssl to make an account",
)


@pytest.fixture
def ground() -> Generator[Path]:
    with machines.ground() as place:
        yield place


def account(ground: Path) -> list[str]:
    """Describe an account that may use sudo with a password; return the words that start a program where it exists."""
    place = ground / "etc"
    place.mkdir()
    hashed = subprocess.run(["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True).stdout
    line = f"otter:x:{machines.USER}:{machines.USER}::{ground}/login:/bin/bash\n"
    (place / "passwd").write_text(Path("/etc/passwd").read_text() + line)
    (place / "shadow").write_text(Path("/etc/shadow").read_text() + f"otter:{hashed.strip()}:19000:0:99999:7:::\n")
    (place / "sudoers").write_text("Defaults !syslog, !mail_no_user\notter ALL=(ALL) ALL\n")
    (place / "shadow").chmod(0o600)
    (place / "sudoers").chmod(0o440)
    return ["unshare", "-m", "sh", "-c", _WITH_ACCOUNT, str(place)]


def shiftlog(home: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [*machines.prefix(bwrap=True, user=True), *SHIFTLOG, *words]
    return subprocess.run(
        command, env=environment(home), input=typed, capture_output=True, text=True, timeout=60, check=False
    )


def question(home: Path) -> dict[str, Any]:
    items = eventually(lambda: json.loads(shiftlog(home, "approvals", "--json").stdout)["items"] or None)
    return items[0]


@contextmanager
def another_daemon() -> Generator[None]:
    """Keep a shell open below another daemon of the same user; its holder shows its descriptors to no process."""
    with machines.ground() as ground, machines.serving(ground, "", bwrap=True, user=True) as (agent, _, place):
        assert "shell_id" in agent.call("open_shell", cwd=str(place))
        yield


def test_sudo_gets_the_password_from_a_person_and_the_agent_never_sees_it(ground: Path) -> None:
    serving = machines.serving(ground, "", bwrap=True, user=True, around=account(ground))
    with another_daemon(), serving as (agent, home, place):
        shell = agent.call("open_shell", cwd=str(place))["shell_id"]
        number = agent.begin("run_command", shell_id=shell, command="sudo -k; sudo -A id -u")
        asked = question(home)
        assert (asked["kind"], asked["program"], asked["command"]) == ("prompt", "sudo", "sudo -A id -u")
        assert "password for otter" in asked["prompt"]
        shown = shiftlog(home, "approvals").stdout
        assert "sudo -A id -u" in shown
        assert "password for otter" in shown
        done = shiftlog(home, "approve", asked["approval_id"], typed=f"{PASSWORD}\n")
        assert "answered" in done.stdout, done.stderr
        result = agent.answer(number)
        assert (result["stdout"], result["exit_code"]) == ("0", 0), result
        assert f"shiftlog approve {asked['approval_id']}" in result["stderr"]
        told = shiftlog(home, "replay", "last", "--speed", "1000").stdout
        assert "answered by operator" in told
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert PASSWORD.encode() not in kept


def test_a_program_inside_cannot_answer_and_a_declined_prompt_fails(ground: Path) -> None:
    with machines.serving(ground, "", bwrap=True, user=True, around=account(ground)) as (agent, home, place):
        first, second = (agent.call("open_shell", cwd=str(place))["shell_id"] for _ in range(2))
        number = agent.begin("run_command", shell_id=first, command="sudo -k; sudo -A id -u")
        asked = question(home)
        answer = f"echo guess | {shlex.join(SHIFTLOG)} approve {asked['approval_id']}"
        inside = agent.call("run_command", shell_id=second, command=answer)
        assert inside["exit_code"] != 0
        assert "Only an operator" in inside["stderr"], inside
        assert question(home)["state"] == "pending"
        declined = shiftlog(home, "approve", asked["approval_id"], "--decline")
        assert "declined" in declined.stdout
        result = agent.answer(number)
        assert result["exit_code"] == 1
        assert "the question was declined" in result["stderr"]
