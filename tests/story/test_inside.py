"""A program inside a shell that connects to the daemon by itself never gets more than its shell has."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agent import Agent
from tests.daemon.support import environment, eventually
from tests.story import machines
from tests.story.agents import SHIFTLOG
from tests.story.machines import KINDS

INTRUDER = Path(__file__).with_name("intruder.py")
# Notes for each process that loads it the hard limit of file locks, which is the mark of a shell's processes.
_LIBRARY = """
#define _GNU_SOURCE
#include <stdio.h>
#include <errno.h>
#include <sys/resource.h>
__attribute__((constructor)) static void note(void) {
    struct rlimit limit;
    FILE *file = fopen("@", "a");
    getrlimit(RLIMIT_LOCKS, &limit);
    fprintf(file, "%s %llu\\n", program_invocation_name, (unsigned long long)limit.rlim_max);
    fclose(file);
}
"""
ORPHAN = pytest.mark.parametrize("orphan", [False, True], ids=["below its shell", "as an orphan"])


@pytest.fixture
def ground() -> Generator[Path]:
    with machines.ground() as place:
        yield place


def begin(agent: Agent, shell: dict[str, Any], report: Path, home: Path, *words: str, orphan: bool = False) -> None:
    """Run the intruder in a shell."""
    way = ["--orphan"] if orphan else []
    line = " ".join([f"exec {sys.executable} -I {INTRUDER} {report}", *way, str(home), *words])
    assert "shell_id" in shell, shell
    agent.begin("run_command", shell_id=shell["shell_id"], command=f"({line}) & wait")


def ended(report: Path) -> dict[str, Any]:
    """Wait for the intruder's report."""
    return json.loads(eventually(lambda: report.read_text() if report.exists() else None))


def operator(home: Path, *words: str, user: bool) -> dict[str, Any]:
    """Run the command line as the operator."""
    command = [*machines.prefix(bwrap=True, user=user), *SHIFTLOG, *words, "--json"]
    done = subprocess.run(command, env=environment(home), capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)


@KINDS
def test_a_confined_program_opens_no_workspace_that_it_names_itself(ground: Path, bwrap: bool, user: bool) -> None:
    other = machines.give(ground / "other", user=user)
    policy = '[policy]\nsandbox_max = "workspace-write"\n'
    with machines.serving(ground, policy, bwrap=bwrap, user=user) as (agent, home, place):
        shell = agent.call("open_shell", workspace=str(place))
        assert shell.get("sandbox") == "workspace-write", shell
        begin(agent, shell, place / "report", home, "open_beside", str(other))
        said = ended(place / "report")
        assert not (other / "written").exists(), said


@ORPHAN
@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_no_program_inside_answers_its_own_question(ground: Path, user: bool, orphan: bool) -> None:
    with machines.serving(ground, '[policy]\nask = ["touch"]\n', bwrap=True, user=user) as (agent, home, place):
        shell = agent.call("open_shell", cwd=str(place), sandbox="full-access")
        begin(agent, shell, place / "report", home, "answer_myself", str(place), orphan=orphan)
        if not orphan:  # an orphan may not even open a shell to ask from
            [asked] = eventually(lambda: operator(home, "approvals", user=user)["items"])
            operator(home, "approve", asked["approval_id"], "--decline", user=user)
        said = ended(place / "report")
        assert said.get("questions") == 0 or said["error"]["code"] == "sandbox_not_allowed", said
        assert not (place / "written").exists(), said


@ORPHAN
@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_no_program_inside_is_the_operator(ground: Path, user: bool, orphan: bool) -> None:
    with machines.serving(ground, "", bwrap=True, user=user) as (agent, home, place):
        for method in ("approve", "page.open", "exec", "daemon.stop"):
            shell = agent.call("open_shell", cwd=str(place), sandbox="full-access")
            begin(agent, shell, place / method, home, "control", method, orphan=orphan)
            said = ended(place / method)
            assert said["error"]["code"] == "unauthorized", (method, said)


@pytest.mark.parametrize("policy", ["", '[policy]\nask = ["touch"]\n'], ids=["without lists", "with a list"])
def test_no_program_inside_is_the_operator_of_a_daemon_whose_limit_it_lowers(ground: Path, policy: str) -> None:
    with machines.serving(ground, policy, bwrap=True, user=True) as (agent, home, place):
        shell = agent.call("open_shell", cwd=str(place), sandbox="full-access")
        begin(agent, shell, place / "report", home, "lower", "approve", orphan=True)
        said = ended(place / "report")
        assert said["error"]["code"] == "unauthorized", said
        assert said["lowered"] == (not policy), said


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_no_library_that_an_agent_names_is_loaded_before_the_mark_is_set(ground: Path, user: bool) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    loaded, library = ground / "loaded", ground / "library.so"
    (ground / "library.c").write_text(_LIBRARY.replace("@", str(loaded)))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ground / "library.c"], check=True, timeout=60)
    with machines.serving(ground, "", bwrap=True, user=user) as (agent, _, place):
        loaded.touch()
        loaded.chmod(0o666)
        shell = agent.call("open_shell", cwd=str(place), sandbox="full-access", env={"LD_PRELOAD": str(library)})
        ran = agent.call("run_command", shell_id=shell["shell_id"], command="/bin/true; ulimit -x -H")
    limits = {int(line.split()[-1]) for line in loaded.read_text().splitlines()}
    assert limits == {int(ran["stdout"])}, loaded.read_text()


@pytest.mark.parametrize("user", [False, True], ids=["root", "user"])
def test_no_program_inside_reads_the_daemons_environment(ground: Path, user: bool) -> None:
    policy = '[policy]\nenv_pass = ["SHOWN_TOKEN"]\n'
    given = {"HIDDEN_TOKEN": "hidden-3f9a7c", "SHOWN_TOKEN": "shown-3f9a7c"}
    with machines.serving(ground, policy, bwrap=True, user=user, given=given) as (agent, _, place):
        shell = agent.call("open_shell", cwd=str(place), sandbox="full-access")
        look = "for p in $(pgrep -f shiftlog); do grep -qa hidden-3f9a7c /proc/$p/environ && cat /proc/$p/cmdline; done"
        command = f'({look}) 2>/dev/null | tr "\\0" " "; echo; echo "length ${{#SHOWN_TOKEN}}"'
        ran = agent.call("run_command", shell_id=shell["shell_id"], command=command)
        *found, length = ran["stdout"].splitlines()
        assert length == "length 12", ran
        # The bridge and its client have the environment of the client; nothing of the daemon's has it.
        assert [one for one in found if one and "entry import main" not in one] == []


_FETCH = """
import socket, sys
port, made = int(sys.argv[1]), []
for family, host in ((2, "127.0.0.1"), (2, "0.0.0.0"), (2, "127.1.2.3"), (10, "::ffff:127.0.0.1"), (10, "::1")):
    for fast in (False, True):
        try:
            with socket.socket(family) as line:
                line.settimeout(3)
                head = b"GET /healthz HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n"
                if fast:
                    line.sendto(head, socket.MSG_FASTOPEN, (host, port))
                else:
                    line.connect((host, port))
                    line.send(head)
                if line.recv(9):
                    made.append((host, fast))
        except OSError:
            pass
print(made)
"""


@KINDS
def test_a_confined_program_does_not_reach_the_page(ground: Path, bwrap: bool, user: bool) -> None:
    """It sees the link in the command line of the browser, and tokens in the files of clients."""
    with machines.serving(ground, "", bwrap=bwrap, user=user) as (agent, home, place):
        before = agent.call("open_shell", workspace=str(place))["shell_id"]
        port = operator(home, "open", user=user)["url"].partition("127.0.0.1:")[2].partition("/")[0]
        (place / "fetch.py").write_text(_FETCH)
        fetch = f"{sys.executable} -I fetch.py {port}"
        for shell in (before, agent.call("open_shell", workspace=str(place))["shell_id"]):
            assert agent.call("run_command", shell_id=shell, command=fetch)["stdout"] == "[]"
        free = agent.call("open_shell", cwd=str(place), sandbox="full-access")["shell_id"]
        assert "('127.0.0.1', False)" in agent.call("run_command", shell_id=free, command=fetch)["stdout"]
