import json
import subprocess
import sys
from pathlib import Path

from tests.daemon.support import BRIDGE, INITIALIZE, environment, start_daemon

# What is not needed to serve a client well; any of these would cost more than the bridge's own work.
COSTLY = {"socket", "asyncio", "typing", "dataclasses", "pathlib", "subprocess", "threading", "logging", "click"}


def imported(home: Path) -> list[str]:
    """Run a bridge through one `initialize` and return the modules that it imported."""
    command = [BRIDGE[0], "-X", "importtime", *BRIDGE[1:]]
    done = subprocess.run(
        command,
        env=environment(home),
        input=json.dumps(INITIALIZE).encode() + b"\n",
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 0
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("import time:")]
    return [line.rpartition("|")[2].strip() for line in lines[1:]]


def test_the_bridge_imports_nothing_but_the_standard_library(home: Path) -> None:
    start_daemon(home)
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "pass"], capture_output=True, text=True, check=True, timeout=60
    )
    site = {line.rpartition("|")[2].strip() for line in bare.stderr.splitlines()}
    modules = [name for name in imported(home) if name not in site]
    ours = {name for name in modules if name.partition(".")[0] == "shiftlog"}
    names = ("bridge", "build", "files", "limits", "processes", "wire")
    link = {"shiftlog.link", *(f"shiftlog.link.{name}" for name in names)}
    assert ours == {"shiftlog", "shiftlog.entry", *link}
    foreign = {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names} - ours
    assert foreign == set()
    assert COSTLY.isdisjoint(modules)


def test_nothing_is_imported_before_the_first_line_is_passed_on(home: Path) -> None:
    start_daemon(home)
    modules = imported(home)
    assert modules.index("shiftlog.link.wire") < modules.index("json")
